"""Forward + max-product for many people who share one matrix: people in lanes, the matrix read once a block.

The same recursions as :mod:`accounting.hmm.forward_viterbi`. A block of people is the innermost axis, so
that each entry of the matrix serves the whole block from the cache and nothing has to be reordered: the sums
run over places in increasing order for every person.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from accounting.hmm.eight import LANES, larger_of, load, smaller_of, spread_out, store, where_positive
from accounting.hmm.forward_viterbi import POSSIBLE, SAFE_PRODUCT, likeliest_end, smallest_entry, times
from accounting.hmm.trace_decoding import DecodedArrays, Observations
from models.numerics.arrays import Flags, Floats, Integers32
from models.numerics.jit import bare_jit, inline, jit, pjit

# Both recursions under a shared matrix for eight people at once, a person to a lane.
#
# Two columns are done at a time: what is loaded of the people serves both, and sums and maxima stay in
# registers. Nothing runs across lanes, so the bits of one person do not depend on the others.

COLUMNS = 2
"""Columns of a matrix done at a time."""


class PeopleScale(NamedTuple):
    """What one step's conditioning divided each person's numbers by, and the smallest number there was."""

    total: Floats  # (people,)
    best: Floats  # (people,)
    lowest: Floats  # (people,), 0 after an underflow
    likelihood: Floats  # (people,) product of the totals of which no logarithm was taken yet
    path: Floats  # (people,) the same of the largest scores


@jit
def new_scale(people: int) -> PeopleScale:
    """Scratch for so many people at once."""
    ones = np.ones(people)
    return PeopleScale(ones, ones.copy(), ones.copy(), ones.copy(), ones.copy())


@bare_jit
def begin_trace(person: int, lane: int, scale: PeopleScale, decoded: DecodedArrays) -> None:
    """Nothing is observed yet of the person in this lane."""
    scale.lowest[lane] = np.inf
    scale.likelihood[lane] = scale.path[lane] = 1.0
    decoded.status[person] = POSSIBLE
    decoded.log_likelihood[person] = decoded.log_path[person] = 0.0


@bare_jit
def note_step(person: int, lane: int, step: int, scale: PeopleScale, decoded: DecodedArrays) -> None:
    """What conditioning on ``step`` divided by goes into a person's logarithms, unless it was impossible."""
    if decoded.status[person] != POSSIBLE:
        return
    if scale.total[lane] == 0.0 or scale.best[lane] == 0.0:
        decoded.status[person] = step
        decoded.log_likelihood[person] = decoded.log_path[person] = -np.inf
        return
    decoded.log_likelihood[person], scale.likelihood[lane] = times(
        decoded.log_likelihood[person], scale.likelihood[lane], scale.total[lane]
    )
    decoded.log_path[person], scale.path[lane] = times(
        decoded.log_path[person], scale.path[lane], scale.best[lane]
    )


@bare_jit
def end_trace(person: int, lane: int, scale: PeopleScale, decoded: DecodedArrays) -> None:
    """A person's logarithms are complete."""
    decoded.log_likelihood[person] += np.log(scale.likelihood[lane])
    decoded.log_path[person] += np.log(scale.path[lane])


@bare_jit
def move_people(
    columns: Floats, belief: Floats, score: Floats, new_belief: Floats, new_score: Floats
) -> None:
    """``sum_x columns[y, x] belief[x, i]`` and ``max_x columns[y, x] score[x, i]`` for all ``y``, ``i``.

    ``columns`` (K, K), the others (K, people), all contiguous, people a multiple of eight. Sums run over
    increasing ``x`` for everybody.
    """
    places, people = belief.shape
    for i in range(0, people, LANES):  # the beliefs of eight people stay in the first-level cache
        for y in range(0, places, COLUMNS):  # of an odd number the last column is done again
            z = min(y + 1, places - 1)
            a, b = spread_out(0.0), spread_out(0.0)
            e, f = spread_out(0.0), spread_out(0.0)
            for x in range(np.uint64(places)):
                at = int(x) * people + i
                beliefs, scores = load(belief, at), load(score, at)
                entry = spread_out(columns[np.uint64(y), x])
                a, e = a + beliefs * entry, larger_of(scores * entry, e)
                entry = spread_out(columns[np.uint64(z), x])
                b, f = b + beliefs * entry, larger_of(scores * entry, f)
            _store_both(a, e, y * people + i, new_belief, new_score)
            _store_both(b, f, z * people + i, new_belief, new_score)


@inline
def _store_both(total: Any, top: Any, at: int, new_belief: Floats, new_score: Floats) -> None:
    store(total, new_belief, at)
    store(top, new_score, at)


@bare_jit
def move_own(columns: Floats, belief: Floats, score: Floats, new_belief: Floats, new_score: Floats) -> None:
    """:func:`move_people` of eight people by matrices of their own, ``columns`` (K, K, 8), with an even K.

    The shape of ``belief`` counts, the others may be longer.
    """
    places = belief.shape[0]
    for y in range(0, places, COLUMNS):
        a, b = spread_out(0.0), spread_out(0.0)
        e, f = spread_out(0.0), spread_out(0.0)
        for x in range(places):
            beliefs, scores = load(belief, x * LANES), load(score, x * LANES)
            entries = load(columns, (y * places + x) * LANES)
            a, e = a + beliefs * entries, larger_of(scores * entries, e)
            entries = load(columns, ((y + 1) * places + x) * LANES)
            b, f = b + beliefs * entries, larger_of(scores * entries, f)
        _store_both(a, e, y * LANES, new_belief, new_score)
        _store_both(b, f, (y + 1) * LANES, new_belief, new_score)


@bare_jit
def condition_people(
    labels: Integers32, weights: Floats, belief: Floats, score: Floats, scale: PeopleScale
) -> None:
    """Weigh ``belief`` and ``score`` (K, people) and divide them by their total and best.

    ``labels`` (K,) is the outcome of each place, ``weights`` (O, people) the likelihood of each outcome.
    Where total or best is zero the observation is impossible, and what is left of that person is NaN.
    """
    places, people = belief.shape
    infinite = spread_out(np.inf)
    for i in range(0, people, LANES):
        total, best, lowest = spread_out(0.0), spread_out(0.0), infinite
        for y in range(places):
            at = y * people + i
            before, weight = load(belief, at), load(weights, labels[y] * people + i)
            beliefs, scores = before * weight, load(score, at) * weight
            _store_both(beliefs, scores, at, belief, score)
            total, best = total + beliefs, larger_of(scores, best)
            least = where_positive(smaller_of(beliefs, scores), before, infinite)
            lowest = smaller_of(where_positive(least, weight, infinite), lowest)
        inverse = spread_out(1.0) / total
        for y in range(places):
            at = y * people + i
            beliefs, scores = load(belief, at) * inverse, load(score, at) / best
            _store_both(beliefs, scores, at, belief, score)
            lowest = smaller_of(where_positive(smaller_of(beliefs, scores), beliefs, infinite), lowest)
        store(total, scale.total, i)
        store(best, scale.best, i)
        store(smaller_of(load(scale.lowest, i), lowest), scale.lowest, i)


BLOCK = 64
"""People in one block: their beliefs and scores for 100 places stay in the second-level cache."""


class SharedChain(NamedTuple):
    """One chain without a cycle for everybody: ``columns[y, x]`` moves from ``x`` to ``y``."""

    columns: Floats  # (K, K)
    start: Floats  # (K,)


class BlockState(NamedTuple):
    """Scratch of one block of people; ``scores`` keeps every step for tracing back."""

    belief: Floats  # (K, BLOCK)
    next_belief: Floats  # (K, BLOCK)
    scores: Floats  # (T, K, BLOCK)
    weights: Floats  # (O, BLOCK); of lanes without a person whatever was there
    scale: PeopleScale


@bare_jit
def _trace_back(columns: Floats, scores: Floats, path: Integers32) -> None:
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
    """Filter and decode the people of one block, which begins with person ``first``."""
    labels, likelihood = block.labels, block.likelihood
    people = likelihood.shape[0]
    places = shared.columns.shape[0]
    belief, spare = state.belief, state.next_belief
    for i in range(people):
        begin_trace(first + i, i, state.scale, decoded)
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
        for i in range(people):
            note_step(first + i, i, step, state.scale, decoded)
    for i in range(people):
        end_trace(first + i, i, state.scale, decoded)
        if decoded.status[first + i] == POSSIBLE:
            _trace_back(shared.columns, state.scores[:, :, i], decoded.path[first + i])


@pjit(lambda _, observations, *__: (observations.likelihood.shape[0] + BLOCK - 1) // BLOCK)
def decode_shared(
    begin: int,
    end: int,
    shared: SharedChain,
    observations: Observations,
    decoded: DecodedArrays,
    is_exact: Flags,
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
        new_scale(BLOCK),
    )
    for block in range(begin, end):
        first = block * BLOCK
        last = min(people, first + BLOCK)
        _decode_block(shared, Observations(labels, likelihood[first:last]), state, decoded, first)
        for i in range(last - first):
            is_exact[first + i] = state.scale.lowest[i] * smallest >= SAFE_PRODUCT
