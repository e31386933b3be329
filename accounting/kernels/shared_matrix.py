"""Forward + max-product for many people who share one matrix: people in lanes, the matrix read once a block.

The same recursions as :mod:`accounting.kernels.forward_viterbi`. A block of people is the innermost axis, so
that each entry of the matrix serves the whole block from the cache and nothing has to be reordered: the sums
run over places in increasing order for every person.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.forward_viterbi import POSSIBLE, SAFE_PRODUCT, smallest_entry
from accounting.kernels.population_decoding import DecodedArrays
from models.jit import jit, pjit, prange

BLOCK = 64
"""People in one block: their beliefs and scores for 100 places stay in the second-level cache."""


class BlockState(NamedTuple):
    """Scratch of one block of people; ``scores`` keeps every step for tracing back."""

    belief: NDArray[np.float64]  # (K, BLOCK)
    next_belief: NDArray[np.float64]  # (K, BLOCK)
    scores: NDArray[np.float64]  # (T, K, BLOCK)
    total: NDArray[np.float64]  # (BLOCK,)
    best: NDArray[np.float64]  # (BLOCK,)
    lowest: NDArray[np.float64]  # (BLOCK,)


@jit
def _sum_products(column: NDArray[np.float64], belief: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """``out[i] = sum_x column[x] belief[x, i]``, four places a pass to spare loads of ``out``."""
    out[:] = 0.0
    places = column.size
    whole = places - places % 4
    for x in range(0, whole, 4):
        p0, p1, p2, p3 = column[x], column[x + 1], column[x + 2], column[x + 3]
        b0, b1, b2, b3 = belief[x], belief[x + 1], belief[x + 2], belief[x + 3]
        for i in range(BLOCK):
            out[i] = out[i] + b0[i] * p0 + b1[i] * p1 + b2[i] * p2 + b3[i] * p3
    for x in range(whole, places):
        for i in range(BLOCK):
            out[i] += belief[x, i] * column[x]


@jit
def _max_products(column: NDArray[np.float64], score: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """``out[i] = max_x column[x] score[x, i]``."""
    out[:] = 0.0
    places = column.size
    whole = places - places % 4
    for x in range(0, whole, 4):
        p0, p1, p2, p3 = column[x], column[x + 1], column[x + 2], column[x + 3]
        s0, s1, s2, s3 = score[x], score[x + 1], score[x + 2], score[x + 3]
        for i in range(BLOCK):
            out[i] = max(out[i], s0[i] * p0, s1[i] * p1, s2[i] * p2, s3[i] * p3)
    for x in range(whole, places):
        for i in range(BLOCK):
            out[i] = max(out[i], score[x, i] * column[x])


@jit
def _weigh(
    labels: NDArray[np.int32], likelihood: NDArray[np.float64], score: NDArray[np.float64], state: BlockState
) -> None:
    """Multiply by the likelihood (people, O) of each place's outcome; ``labels`` (K,)."""
    for y in range(labels.size):
        for i in range(likelihood.shape[0]):
            weight = likelihood[i, labels[y]]
            least = min(state.belief[y, i], score[y, i])
            if weight > 0.0 and state.belief[y, i] > 0.0 and least * weight < SAFE_PRODUCT:
                state.lowest[i] = 0.0
            state.belief[y, i] *= weight
            score[y, i] *= weight


@jit
def _rescale(score: NDArray[np.float64], state: BlockState) -> None:
    """Divide everybody's belief by its total and score by its maximum, noting both."""
    state.total[:] = 0.0
    state.best[:] = 0.0
    places = score.shape[0]
    for y in range(places):
        for i in range(BLOCK):
            state.total[i] += state.belief[y, i]
            state.best[i] = max(state.best[i], score[y, i])
    for i in range(BLOCK):
        if state.total[i] == 0.0 or state.best[i] == 0.0:  # impossible: nothing is divided
            state.total[i] = 0.0
    for y in range(places):
        for i in range(BLOCK):
            if state.total[i] > 0.0:
                state.belief[y, i] /= state.total[i]
                score[y, i] /= state.best[i]
                if state.belief[y, i] > 0.0:
                    state.lowest[i] = min(state.lowest[i], state.belief[y, i], score[y, i])


@jit
def _trace_back(columns: NDArray[np.float64], scores: NDArray[np.float64], path: NDArray[np.int32]) -> None:
    """The best path of one person from ``scores`` (T, K); ties at the lowest index."""
    last = path.size - 1
    path[last] = np.argmax(scores[last])
    for step in range(last - 1, -1, -1):
        column = columns[path[step + 1]]
        best = -1.0
        for x in range(column.size):
            if scores[step, x] * column[x] > best:
                best = scores[step, x] * column[x]
                path[step] = x


@jit
def _decode_block(
    columns: NDArray[np.float64],
    start: NDArray[np.float64],
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    state: BlockState,
    decoded: DecodedArrays,
    first: int,
) -> None:
    """Filter and decode the people ``first..first + likelihood.shape[0] - 1``, all in one block."""
    people = likelihood.shape[0]
    places = columns.shape[0]
    belief, spare = state.belief, state.next_belief
    decoded.status[first : first + people] = POSSIBLE
    decoded.log_likelihood[first : first + people] = 0.0
    decoded.log_path[first : first + people] = 0.0
    for y in range(places):
        belief[y] = start[y]
        state.scores[0, y] = start[y]
    for step in range(labels.shape[0]):
        score = state.scores[step]
        if step > 0:
            for y in range(places):
                _sum_products(columns[y], belief, spare[y])
                _max_products(columns[y], state.scores[step - 1], score[y])
            belief, spare = spare, belief
        now = BlockState(belief, spare, state.scores, state.total, state.best, state.lowest)
        _weigh(labels[step], likelihood[:, step], score, now)
        _rescale(score, now)
        _note(step, people, now, decoded, first)
    for i in range(people):
        if decoded.status[first + i] == POSSIBLE:
            _trace_back(columns, state.scores[:, :, i], decoded.path[first + i])


@jit
def _note(step: int, people: int, state: BlockState, decoded: DecodedArrays, first: int) -> None:
    """Add the step's logarithms, or the step to the status of whom it is impossible for."""
    for i in range(people):
        if decoded.status[first + i] != POSSIBLE:
            continue
        if state.total[i] == 0.0:
            decoded.status[first + i] = step
            decoded.log_likelihood[first + i] = -np.inf
            decoded.log_path[first + i] = -np.inf
        else:
            decoded.log_likelihood[first + i] += np.log(state.total[i])
            decoded.log_path[first + i] += np.log(state.best[i])


@pjit
def decode_shared(
    columns: NDArray[np.float64],
    start: NDArray[np.float64],
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    decoded: DecodedArrays,
    is_exact: NDArray[np.bool_],
) -> None:
    """Everybody's whole trace under one matrix without a cycle.

    ``columns`` (K, K): ``columns[y, x]`` moves from ``x`` to ``y``; ``start`` (K,); ``labels`` (T, K): the
    outcome of each place; ``likelihood`` (N, T, O). ``is_exact`` (N,) becomes False where underflow may have
    hidden a path.
    """
    people = likelihood.shape[0]
    places = columns.shape[0]
    smallest = smallest_entry(columns.ravel())
    for block in prange((people + BLOCK - 1) // BLOCK):
        first = block * BLOCK
        last = min(people, first + BLOCK)
        state = BlockState(
            np.empty((places, BLOCK)),
            np.empty((places, BLOCK)),
            np.empty((labels.shape[0], places, BLOCK)),
            np.empty(BLOCK),
            np.empty(BLOCK),
            np.ones(BLOCK),
        )
        _decode_block(columns, start, labels, likelihood[first:last], state, decoded, first)
        for i in range(last - first):
            is_exact[first + i] = state.lowest[i] * smallest >= SAFE_PRODUCT
