"""Decoding one observed trace of one person, by whichever recursion suits the chain and loses nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    Filtered,
    Observed,
    Recursion,
    filter_steps,
    times,
    trace_back,
)
from accounting.hmm.log_space import log_filter_steps, log_trace_back
from accounting.hmm.propagation import predict, retreat
from models.numerics.arrays import Flags, Floats, Integers32
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, PopulationArrays, slot_of


class People(NamedTuple):
    """Who was observed: their chains, each one's smallest probability, and the slot of the first step."""

    arrays: PopulationArrays
    smallest: Floats  # (N,)
    first_slot: int


class Observations(NamedTuple):
    """What was observed of everybody: outcomes are the same for all, their likelihoods each person's own."""

    labels: Integers32  # (T, M) outcome of each location
    likelihood: Floats  # (N, T, O)


class DecodedArrays(NamedTuple):
    """What decoding found, filled by the kernels; natural logarithms.

    ``status`` is POSSIBLE or the first impossible step; ``path`` holds indices of the person's own places.
    """

    status: Integers32  # (N,)
    log_likelihood: Floats  # (N,)
    log_path: Floats  # (N,)
    path: Integers32  # (N, T)


class FilterArrays(NamedTuple):
    """State of one-visit-per-step filtering; person ``i`` owns ``[places_start[i], places_start[i + 1])``."""

    belief: Floats  # (sum of K,)
    score: Floats  # (sum of K,)
    log_likelihood: Floats  # (N,)
    log_path: Floats  # (N,)
    likelihood: Floats  # (N,) product of the totals of which no logarithm was taken yet
    path: Floats  # (N,) the same of the largest scores
    status: Integers32  # (N,) POSSIBLE or the first impossible step
    is_exact: Flags  # (N,) False once underflow may have hidden a path: decode anew


@inline
def note_scale(person: int, total: float, best: float, state: FilterArrays) -> None:
    """What conditioning divided a person's numbers by goes into their logarithms."""
    state.log_likelihood[person], state.likelihood[person] = times(
        state.log_likelihood[person], state.likelihood[person], total
    )
    state.log_path[person], state.path[person] = times(state.log_path[person], state.path[person], best)


@inline
def decode_trace(
    person: LocalChain, smallest: float, observed: Observed, work: Recursion, path: Integers32
) -> Filtered:
    """Filter and decode one observed trace, in logarithms where scaled arithmetic may have lost a path.

    Arguments as in ``filter_steps``; ``path`` (T,) is left alone when an observation is impossible.
    """
    chain, first_slot = person.chain, person.first_slot
    found = filter_steps(person, smallest, observed, work)
    if found.is_exact:
        if found.status == POSSIBLE:
            trace_back(chain, first_slot, work.scores, path)
        return found
    found = log_filter_steps(person, observed, work)
    if found.status == POSSIBLE:
        log_trace_back(chain, first_slot, work.scores, path)
    return found


# Where the person most likely was at each step, given everything observed: forward-backward (Rabiner 1989,
# eq. 27), one argmax a step. Maximises the expected number of right steps, so it is often the stronger attack
# when mistakes are allowed.


@bare_jit
def _weigh(observed: Observed, step: int, vector: Floats) -> float:
    """Weigh a vector (K,) with what was observed in ``step``, scale its maximum to 1, return what it was."""
    top = 0.0
    for x in range(vector.size):
        vector[x] *= observed.likelihood[step, observed.labels[step, x]]
        top = max(top, vector[x])
    if top > 0.0:
        for x in range(vector.size):
            vector[x] /= top
    return top


@jit
def posterior(person: LocalChain, observed: Observed, forward: Floats) -> bool:
    """Fill ``forward`` (T, K) with every step's posterior law, up to a factor a step.

    ``observed`` is over the own places. False when the observations are impossible (or underflow made them
    so).
    """
    steps, places = observed.labels.shape
    forward[0] = person.start
    for step in range(steps):
        if step > 0:
            predict(person.chain, slot_of(person, step - 1), forward[step - 1], forward[step])
        if _weigh(observed, step, forward[step]) == 0.0:
            return False
    behind = np.ones(places)
    moved = np.empty(places)
    for step in range(steps - 1, -1, -1):
        for x in range(places):
            forward[step, x] *= behind[x]
        if step > 0:
            _weigh(observed, step, behind)
            retreat(person.chain, slot_of(person, step - 1), behind, moved)
            behind, moved = moved, behind
    return True


@jit
def likeliest_places(person: LocalChain, observed: Observed, forward: Floats, guess: Integers32) -> bool:
    """Argmax of every step's :func:`posterior` into ``guess`` (T,); ties at the lowest index.

    ``forward`` (T, K) is scratch. False, with ``guess`` left alone, where there is no posterior.
    """
    is_possible = posterior(person, observed, forward)
    for step in range(guess.size if is_possible else 0):
        guess[step] = np.argmax(forward[step])
    return is_possible
