"""Decoding one observed trace of one person, by whichever recursion suits the chain and loses nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    Filtered,
    Observed,
    Recursion,
    filter_steps,
    new_recursion,
    trace_back,
)
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.hmm.log_space import log_filter_steps, log_trace_back
from accounting.hmm.small_chains import LaneWork, filter_small, is_small, new_lane_work
from models.numerics.jit import inline, jit


class DecodeWork(NamedTuple):
    """Scratch of one person's decoding, whatever the number of places."""

    recursion: Recursion
    lanes: LaneWork


@jit
def new_decode_work(steps: int, places: int) -> DecodeWork:
    """Scratch for traces of ``steps`` steps in chains of up to ``places`` places."""
    return DecodeWork(new_recursion(steps, places), new_lane_work(steps))


@inline
def decode_trace(
    person: LocalChain, smallest: float, observed: Observed, work: DecodeWork, path: NDArray[np.int32]
) -> Filtered:
    """Filter and decode one observed trace, in logarithms where scaled arithmetic may have lost a path.

    Arguments as in ``filter_steps``; ``path`` (T,) is left alone when an observation is impossible.
    """
    chain, first_slot = person.chain, person.first_slot
    if is_small(chain):
        found = filter_small(person, smallest, observed, work.lanes)
        scores = work.lanes.scores
    else:
        found = filter_steps(person, smallest, observed, work.recursion)
        scores = work.recursion.scores
    if found.is_exact:
        if found.status == POSSIBLE:
            trace_back(chain, first_slot, scores, path)
        return found
    found = log_filter_steps(person, observed, work.recursion)
    if found.status == POSSIBLE:
        log_trace_back(chain, first_slot, work.recursion.scores, path)
    return found
