"""Forward + max-product for many people who share one matrix: people in lanes, the matrix read once a block.

The same recursions as :mod:`accounting.hmm.forward_viterbi`. A block of people is the innermost axis, so
that each entry of the matrix serves the whole block from the cache and nothing has to be reordered: the sums
run over places in increasing order for every person.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import POSSIBLE, SAFE_PRODUCT, likeliest_end, smallest_entry
from accounting.hmm.populations.people_lanes import PeopleScale, condition_people, move_people
from accounting.hmm.populations.population_decoding import DecodedArrays, Observations
from models.numerics.jit import bare_jit, pjit

BLOCK = 64
"""People in one block: their beliefs and scores for 100 places stay in the second-level cache."""


class SharedChain(NamedTuple):
    """One chain without a cycle for everybody: ``columns[y, x]`` moves from ``x`` to ``y``."""

    columns: NDArray[np.float64]  # (K, K)
    start: NDArray[np.float64]  # (K,)


class BlockState(NamedTuple):
    """Scratch of one block of people; ``scores`` keeps every step for tracing back."""

    belief: NDArray[np.float64]  # (K, BLOCK)
    next_belief: NDArray[np.float64]  # (K, BLOCK)
    scores: NDArray[np.float64]  # (T, K, BLOCK)
    weights: NDArray[np.float64]  # (O, BLOCK); of lanes without a person whatever was there
    scale: PeopleScale


@bare_jit
def _trace_back(columns: NDArray[np.float64], scores: NDArray[np.float64], path: NDArray[np.int32]) -> None:
    """The best path of one person from ``scores`` (T, K); ties at the lowest index."""
    last = path.size - 1
    path[last] = likeliest_end(scores, last, columns.shape[0])
    for step in range(last - 1, -1, -1):
        column = columns[path[step + 1]]
        best = -1.0
        for x in range(column.size):
            if scores[step, x] * column[x] > best:
                best = scores[step, x] * column[x]
                path[step] = x


@bare_jit
def _decode_block(
    shared: SharedChain, block: Observations, state: BlockState, decoded: DecodedArrays, first: int
) -> None:
    """Filter and decode the people of one block, of whom ``first`` is the first."""
    labels, likelihood = block.labels, block.likelihood
    people = likelihood.shape[0]
    places = shared.columns.shape[0]
    belief, spare = state.belief, state.next_belief
    decoded.status[first : first + people] = POSSIBLE
    decoded.log_likelihood[first : first + people] = 0.0
    decoded.log_path[first : first + people] = 0.0
    for y in range(places):
        belief[y] = shared.start[y]
        state.scores[0, y] = shared.start[y]
    for step in range(labels.shape[0]):
        score = state.scores[step]
        if step > 0:
            move_people(shared.columns, belief, state.scores[step - 1], spare, score)
            belief, spare = spare, belief
        for i in range(people):
            for outcome in range(likelihood.shape[2]):
                state.weights[outcome, i] = likelihood[i, step, outcome]
        condition_people(labels[step], state.weights, belief, score, state.scale)
        _note(step, people, state, decoded, first)
    for i in range(people):
        if decoded.status[first + i] == POSSIBLE:
            _trace_back(shared.columns, state.scores[:, :, i], decoded.path[first + i])


@bare_jit
def _note(step: int, people: int, state: BlockState, decoded: DecodedArrays, first: int) -> None:
    """Add the step's logarithms, or the step to the status of whom it is impossible for."""
    for i in range(people):
        if decoded.status[first + i] != POSSIBLE:
            continue
        if state.scale.total[i] == 0.0 or state.scale.best[i] == 0.0:
            decoded.status[first + i] = step
            decoded.log_likelihood[first + i] = -np.inf
            decoded.log_path[first + i] = -np.inf
        else:
            decoded.log_likelihood[first + i] += np.log(state.scale.total[i])
            decoded.log_path[first + i] += np.log(state.scale.best[i])


@pjit(lambda _, observations, *__: (observations.likelihood.shape[0] + BLOCK - 1) // BLOCK)
def decode_shared(
    begin: int,
    end: int,
    shared: SharedChain,
    observations: Observations,
    decoded: DecodedArrays,
    is_exact: NDArray[np.bool_],
) -> None:
    """Everybody's whole trace under one matrix without a cycle; ``observations`` over its places.

    ``is_exact`` (N,) becomes False where underflow may have hidden a path.
    """
    labels, likelihood = observations.labels, observations.likelihood
    people, places = likelihood.shape[0], shared.columns.shape[0]
    smallest = smallest_entry(shared.columns.ravel())
    state = BlockState(
        np.empty((places, BLOCK)),
        np.empty((places, BLOCK)),
        np.empty((labels.shape[0], places, BLOCK)),
        np.ones((likelihood.shape[2], BLOCK)),
        PeopleScale(np.empty(BLOCK), np.empty(BLOCK), np.empty(BLOCK)),
    )
    for block in range(begin, end):
        first = block * BLOCK
        last = min(people, first + BLOCK)
        state.scale.lowest[:] = np.inf
        _decode_block(shared, Observations(labels, likelihood[first:last]), state, decoded, first)
        for i in range(last - first):
            is_exact[first + i] = state.scale.lowest[i] * smallest >= SAFE_PRODUCT
