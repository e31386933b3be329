"""Forward + max-product for many people who share one matrix: people in lanes, the matrix read once a block.

The same recursions as :mod:`accounting.hmm.forward_viterbi`. A block of people is the innermost axis, so
that each entry of the matrix serves the whole block from the cache and nothing has to be reordered: the sums
run over places in increasing order for every person.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import POSSIBLE, SAFE_PRODUCT, likeliest_end, smallest_entry
from accounting.hmm.trace_decoding import DecodedArrays, Observations
from accounting.hmm.vectors import (
    INFINITIES,
    LANES,
    ZEROS,
    data_of,
    larger,
    load,
    smaller,
    spread,
    store,
    whole,
)
from models.numerics.jit import bare_jit, intrinsic, pjit

# Both recursions under a shared matrix for eight people at once, a person to a lane.
#
# Four columns are done at a time: what is loaded of the people serves all four, and the eight sums and
# maxima stay in registers. Nothing runs across lanes, so the bits of one person do not depend on the others.

# mypy: allow-untyped-calls


COLUMNS = 4
"""Columns of a shared matrix done at a time."""

OWN_COLUMNS = 2
"""Columns of people's own matrices done at a time: what is loaded of them serves nobody else."""


class PeopleScale(NamedTuple):
    """What one step's conditioning divided each person's numbers by, and the smallest number there was."""

    total: NDArray[np.float64]  # (people,)
    best: NDArray[np.float64]  # (people,)
    lowest: NDArray[np.float64]  # (people,), 0 after an underflow


def _registers(builder: Any, count: int, first: Any = ZEROS) -> list[Any]:
    """Accumulators. Set here, too: they are allocated at the function's entry, and this may be in a loop."""
    registers = [cgutils.alloca_once_value(builder, first) for _ in range(count)]
    for register in registers:
        builder.store(first, register)
    return registers


def _accumulate(builder: Any, register: Any, combine: Any, vector: Any) -> None:
    builder.store(combine(builder, vector, builder.load(register)), register)


def _pointers(context: Any, builder: Any, signature: Any, args: Any) -> list[Any]:
    """Pointers to the first entries of the arrays that the first argument is a tuple of."""
    arrays = cgutils.unpack_tuple(builder, args[0])
    return data_of(context, builder, list(signature.args[0].types), arrays)


def _move_code(columns_at_once: int, is_shared: bool) -> Any:
    """Code for that many columns from ``first_column`` on and eight people from ``first_person`` on.

    Without one matrix for all, each entry is followed by those of the other people.
    """

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        matrix, belief, score, new_belief, new_score = _pointers(context, builder, signature, args)
        first_column, first_person, places, people = cgutils.unpack_tuple(builder, args[1])
        columns = [builder.add(first_column, whole(k)) for k in range(columns_at_once)]
        sums, tops = _registers(builder, columns_at_once), _registers(builder, columns_at_once)
        with cgutils.for_range(builder, places) as loop:
            person = builder.add(builder.mul(loop.index, people), first_person)
            beliefs, scores = load(builder, belief, person), load(builder, score, person)
            for column, total, top in zip(columns, sums, tops, strict=True):
                entry = builder.add(builder.mul(column, places), loop.index)
                if is_shared:
                    entries = spread(builder, builder.load(builder.gep(matrix, [entry])))
                else:
                    entries = load(builder, matrix, builder.add(builder.mul(entry, people), first_person))
                term = builder.fmul(beliefs, entries)
                builder.store(builder.fadd(builder.load(total), term), total)
                _accumulate(builder, top, larger, builder.fmul(scores, entries))
        for column, total, top in zip(columns, sums, tops, strict=True):
            place = builder.add(builder.mul(column, people), first_person)
            store(builder, builder.load(total), new_belief, place)
            store(builder, builder.load(top), new_score, place)
        return context.get_dummy_value()

    return generate


def _move_intrinsic(columns_at_once: int, is_shared: bool = True) -> Any:
    generate = _move_code(columns_at_once, is_shared)

    def move(typing_context: Any, arrays: Any, where: Any) -> Any:
        return types.void(arrays, where), generate

    return intrinsic(move)


_move_columns = _move_intrinsic(COLUMNS)
_move_column = _move_intrinsic(1)
_move_own_columns = _move_intrinsic(OWN_COLUMNS, is_shared=False)


def _note_least(builder: Any, lowest: Any, is_possible: Any, vectors: Sequence[Any]) -> None:
    """Take the smaller of two vectors into ``lowest`` where possible; what is no number is passed over."""
    least = builder.select(is_possible, smaller(builder, *vectors), INFINITIES)
    _accumulate(builder, lowest, smaller, least)


def _condition_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    labels, weights, belief, score, total, best, lowest = _pointers(context, builder, signature, args)
    first_person, places, people = cgutils.unpack_tuple(builder, args[1])
    sums, tops = _registers(builder, 2)
    (least,) = _registers(builder, 1, INFINITIES)
    with cgutils.for_range(builder, places) as loop:
        outcome = builder.sext(builder.load(builder.gep(labels, [loop.index])), ir.IntType(64))
        weight = load(builder, weights, builder.add(builder.mul(outcome, people), first_person))
        place = builder.add(builder.mul(loop.index, people), first_person)
        before = load(builder, belief, place)
        beliefs = builder.fmul(before, weight)
        scores = builder.fmul(load(builder, score, place), weight)
        store(builder, beliefs, belief, place)
        store(builder, scores, score, place)
        builder.store(builder.fadd(builder.load(sums), beliefs), sums)
        _accumulate(builder, tops, larger, scores)
        is_possible = builder.and_(
            builder.fcmp_ordered(">", before, ZEROS), builder.fcmp_ordered(">", weight, ZEROS)
        )
        _note_least(builder, least, is_possible, (beliefs, scores))
    divisor, top = builder.load(sums), builder.load(tops)
    inverse = builder.fdiv(ir.Constant(ZEROS.type, [1.0] * LANES), divisor)
    with cgutils.for_range(builder, places) as loop:
        place = builder.add(builder.mul(loop.index, people), first_person)
        beliefs = builder.fmul(load(builder, belief, place), inverse)
        scores = builder.fdiv(load(builder, score, place), top)
        store(builder, beliefs, belief, place)
        store(builder, scores, score, place)
        _note_least(builder, least, builder.fcmp_ordered(">", beliefs, ZEROS), (beliefs, scores))
    _accumulate(builder, least, smaller, load(builder, lowest, first_person))
    for vector, array in ((divisor, total), (top, best), (builder.load(least), lowest)):
        store(builder, vector, array, first_person)
    return context.get_dummy_value()


def _condition(typing_context: Any, arrays: Any, where: Any) -> Any:
    return types.void(arrays, where), _condition_code


_condition_eight = intrinsic(_condition)


@bare_jit
def move_people(
    columns: NDArray[np.float64],
    belief: NDArray[np.float64],
    score: NDArray[np.float64],
    new_belief: NDArray[np.float64],
    new_score: NDArray[np.float64],
) -> None:
    """``sum_x columns[y, x] belief[x, i]`` and ``max_x columns[y, x] score[x, i]`` for all ``y``, ``i``.

    ``columns`` (K, K), the others (K, people), all contiguous, people a multiple of eight. Sums run over
    increasing ``x`` for everybody.
    """
    places, people = belief.shape
    whole_columns = places - places % COLUMNS
    arrays = (columns, belief, score, new_belief, new_score)
    for i in range(0, people, LANES):  # the beliefs of eight people stay in the first-level cache
        for y in range(0, whole_columns, COLUMNS):
            _move_columns(arrays, (y, i, places, people))
        for y in range(whole_columns, places):
            _move_column(arrays, (y, i, places, people))


@bare_jit
def move_own(
    columns: NDArray[np.float64],
    belief: NDArray[np.float64],
    score: NDArray[np.float64],
    new_belief: NDArray[np.float64],
    new_score: NDArray[np.float64],
) -> None:
    """:func:`move_people` of eight people by matrices of their own, ``columns`` (K, K, 8), with an even K.

    The shape of ``belief`` counts, the others may be longer.
    """
    places, people = belief.shape
    arrays = (columns, belief, score, new_belief, new_score)
    for y in range(0, places, OWN_COLUMNS):
        _move_own_columns(arrays, (y, 0, places, people))


@bare_jit
def condition_people(
    labels: NDArray[np.int32],
    weights: NDArray[np.float64],
    belief: NDArray[np.float64],
    score: NDArray[np.float64],
    scale: PeopleScale,
) -> None:
    """Weigh ``belief`` and ``score`` (K, people) and divide them by their total and best.

    ``labels`` (K,) is the outcome of each place, ``weights`` (O, people) the likelihood of each outcome.
    Where total or best is zero the observation is impossible, and what is left of that person is NaN.
    """
    places, people = belief.shape
    arrays = (labels, weights, belief, score, scale.total, scale.best, scale.lowest)
    for i in range(0, people, LANES):
        _condition_eight(arrays, (i, places, people))


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
    """Filter and decode the people of one block, which begins with person ``first``."""
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
    for i in range(people):
        if decoded.status[first + i] == POSSIBLE:
            _trace_back(shared.columns, state.scores[:, :, i], decoded.path[first + i])


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
