"""Decoding one observed trace of one person, by whichever recursion suits the chain and loses nothing."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    SAFE_PRODUCT,
    Filtered,
    Observed,
    Recursion,
    Scale,
    filter_steps,
    new_recursion,
    trace_back,
)
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.log_space import log_filter_steps, log_trace_back
from accounting.hmm.place_lanes import WIDTH, begin_lanes, move_lanes
from accounting.hmm.propagation import predict, retreat
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

# Both recursions for people of at most sixteen places: the matrix spread out in the first-level cache.
#
# The same as :mod:`accounting.hmm.forward_viterbi`, in the lanes of :mod:`accounting.hmm.place_lanes`. A
# chain's entries are spread once a visit; every step then runs without a branch or an index.


class LaneWork(NamedTuple):
    """Scratch of one person's recursions on at most sixteen places; lanes beyond the places are zero."""

    matrix: NDArray[np.float64]  # (256,)
    turns: NDArray[np.int32]  # (257,) how many columns begin at each entry
    weights: NDArray[np.float64]  # (T, 16)
    start: NDArray[np.float64]  # (16,)
    belief: NDArray[np.float64]  # (16,)
    scores: NDArray[np.float64]  # (T, 16), every step's scaled scores, for tracing back
    lowest: NDArray[np.float64]  # (16,)


@jit
def new_lane_work(steps: int) -> LaneWork:
    """Scratch for traces of ``steps`` steps."""
    return LaneWork(
        np.zeros(WIDTH * WIDTH),
        np.zeros(WIDTH * WIDTH + 1, np.int32),
        np.zeros((steps, WIDTH)),
        np.zeros(WIDTH),
        np.zeros(WIDTH),
        np.zeros((steps, WIDTH)),
        np.zeros(WIDTH),
    )


@inline
def is_small(chain: ChainView) -> bool:
    """Whether the chain fits the lanes."""
    return bool(chain.places.size <= WIDTH)


@inline
def _spread(chain: ChainView, slot: int, work: LaneWork) -> None:
    """Lay the matrix of ``slot`` out in full.

    One loop over all entries: loops over columns of a few entries each would be mispredicted at every end.
    """
    places = chain.places.size
    first = chain.column_start[slot, 0]
    entries = chain.column_start[slot, places] - first
    for j in range(places * WIDTH):
        work.matrix[j] = 0.0
    for j in range(entries + 1):
        work.turns[j] = 0
    for y in range(1, places):
        work.turns[chain.column_start[slot, y] - first] += 1
    y = 0
    for j in range(entries):
        y += work.turns[j]
        work.matrix[chain.row[first + j] * WIDTH + y] = chain.value[first + j]


@inline
def _weigh_places(places: NDArray[np.int32], observed: Observed, work: LaneWork) -> None:
    """How likely each step's observation is at each place."""
    labels, likelihood = observed.labels, observed.likelihood
    for step in range(labels.shape[0]):
        for y in range(places.size):
            work.weights[step, y] = likelihood[step, labels[step, places[y]]]
        for y in range(places.size, WIDTH):
            work.weights[step, y] = 0.0


@inline
def _lowest(work: LaneWork) -> float:
    """The smallest number there was at any place."""
    lowest = np.inf
    for y in range(WIDTH):
        lowest = min(lowest, work.lowest[y])
    return lowest


@inline
def _is_exact(work: LaneWork, smallest: float) -> bool:
    """Whether no product of what was left with the matrix's smallest entry can have underflowed."""
    return bool(_lowest(work) * smallest >= SAFE_PRODUCT)


@inline
def filter_small(person: LocalChain, smallest: float, observed: Observed, work: LaneWork) -> Filtered:
    """All steps of one observed trace of one person; arguments and result as in ``filter_steps``."""
    chain = person.chain
    places = chain.places.size
    slots = chain.start.shape[0]
    _weigh_places(chain.places, observed, work)
    for y in range(WIDTH):
        work.lowest[y] = np.inf
        work.start[y] = person.start[y] if y < places else 0.0
    total, best = begin_lanes(work.start, work.weights[0], work.belief, work.scores[0], work.lowest)
    if total == 0.0 or best == 0.0:
        return Filtered(0, -np.inf, -np.inf, _is_exact(work, smallest))
    log_likelihood, log_path = np.log(total), np.log(best)
    for step in range(1, observed.labels.shape[0]):
        if step == 1 or slots > 1:
            _spread(chain, slot_of(person, step - 1), work)
        score, new_score = work.scores[step - 1], work.scores[step]
        total, best = move_lanes(
            work.matrix, work.belief, score, work.weights[step], new_score, work.lowest, places
        )
        if total == 0.0 or best == 0.0:
            return Filtered(step, -np.inf, -np.inf, _is_exact(work, smallest))
        log_likelihood += np.log(total)
        log_path += np.log(best)
    return Filtered(POSSIBLE, log_likelihood, log_path, _is_exact(work, smallest))


@inline
def filter_small_step(chain: ChainView, slot: int, observed: Observed, work: LaneWork) -> Scale:
    """One step on ``work.belief`` and ``work.scores[0]``, moved by the matrix of ``slot``; -1 does not move.

    ``observed`` has this step only. A total of zero means that the observation is impossible.
    """
    _weigh_places(chain.places, observed, work)
    for y in range(WIDTH):
        work.lowest[y] = np.inf
    weight, score = work.weights[0], work.scores[0]
    if slot < 0:
        for y in range(WIDTH):
            work.start[y] = work.belief[y]
        total, best = begin_lanes(work.start, weight, work.belief, score, work.lowest)
    else:
        _spread(chain, slot, work)
        total, best = move_lanes(
            work.matrix, work.belief, score, weight, score, work.lowest, chain.places.size
        )
    if total == 0.0 or best == 0.0:
        return Scale(0.0, 0.0, _lowest(work))
    return Scale(total, best, _lowest(work))


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


# Where the person most likely was at each step, given everything observed: forward-backward, one argmax a
# step.
#
# Maximises the expected number of right steps, so it is often the stronger attack when mistakes are
# allowed.


@bare_jit
def _weigh(observed: Observed, step: int, vector: NDArray[np.float64]) -> float:
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
def likeliest_places(
    person: LocalChain, observed: Observed, forward: NDArray[np.float64], guess: NDArray[np.int32]
) -> bool:
    """Posterior argmax of every step into ``guess`` (T,); ties at the lowest index.

    ``observed`` is over the own places, ``forward`` (T, K) scratch. False, with ``guess`` left alone, when
    the observations are impossible (or underflow made them so).
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
        guess[step] = np.argmax(forward[step] * behind)
        if step > 0:
            _weigh(observed, step, behind)
            retreat(person.chain, slot_of(person, step - 1), behind, moved)
            behind, moved = moved, behind
    return True
