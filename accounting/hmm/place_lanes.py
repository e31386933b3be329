"""One step of both recursions for a chain of at most sixteen places, a place to a lane.

The matrix is laid out in full, row ``x`` from ``16 x`` on, with zeros where one cannot go: adding a product
with zero changes no bit, and sixteen lanes without a branch are faster than a few entries with many.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any, NamedTuple

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types

from accounting.hmm.vectors import (
    INFINITIES,
    LANES,
    ZEROS,
    add,
    data_of,
    join,
    larger,
    load,
    smaller,
    spread,
    store,
    whole,
)
from models.numerics.jit import intrinsic

WIDTH = 2 * LANES
"""Places a chain may have here."""

_HALVES = (whole(0), whole(LANES))


class _Predicted(NamedTuple):
    """Belief and score before the observation, in halves of eight places."""

    belief: list[Any]
    score: list[Any]


def _predict(builder: Any, matrix: Any, belief: Any, score: Any, places: Any) -> _Predicted:
    """``sum_x belief[x] P(x, y)`` and ``max_x score[x] P(x, y)`` for all ``y``, in registers."""
    sums = [cgutils.alloca_once_value(builder, ZEROS) for _ in _HALVES]
    tops = [cgutils.alloca_once_value(builder, ZEROS) for _ in _HALVES]
    for register in sums + tops:  # once is at the function's entry, this may stand in a loop
        builder.store(ZEROS, register)
    with cgutils.for_range(builder, places) as loop:
        row = builder.mul(loop.index, whole(WIDTH))
        belief_here = spread(builder, builder.load(builder.gep(belief, [loop.index])))
        score_here = spread(builder, builder.load(builder.gep(score, [loop.index])))
        for half, total, top in zip(_HALVES, sums, tops, strict=True):
            entries = load(builder, matrix, builder.add(row, half))
            term = builder.fmul(belief_here, entries)
            builder.store(builder.fadd(builder.load(total), term), total)
            candidate = builder.fmul(score_here, entries)
            builder.store(larger(builder, candidate, builder.load(top)), top)
    return _Predicted([builder.load(total) for total in sums], [builder.load(top) for top in tops])


def _condition(builder: Any, found: _Predicted, weight: Any, belief: Any, score: Any, lowest: Any) -> Any:
    """Weigh and rescale what was predicted into ``belief`` and ``score``; the total and the largest score."""
    weights = [load(builder, weight, half) for half in _HALVES]
    beliefs = [builder.fmul(*pair) for pair in zip(found.belief, weights, strict=True)]
    scores = [builder.fmul(*pair) for pair in zip(found.score, weights, strict=True)]
    total = join(builder, builder.fadd(*beliefs), add)
    best = join(builder, larger(builder, *scores), larger)
    inverse = builder.fdiv(ir.Constant(ir.DoubleType(), 1.0), total)
    for k, half in enumerate(_HALVES):
        new_belief = builder.fmul(beliefs[k], spread(builder, inverse))
        new_score = builder.fdiv(scores[k], spread(builder, best))
        store(builder, new_belief, belief, half)
        store(builder, new_score, score, half)
        # Looked at before and after rescaling: digits lost before would not show after it. What was divided
        # by zero is no number, and `smaller` then takes its right side.
        least = smaller(
            builder, smaller(builder, new_belief, new_score), smaller(builder, beliefs[k], scores[k])
        )
        is_possible = builder.and_(
            builder.fcmp_ordered(">", found.belief[k], ZEROS), builder.fcmp_ordered(">", weights[k], ZEROS)
        )
        least = smaller(builder, builder.select(is_possible, least, INFINITIES), load(builder, lowest, half))
        store(builder, least, lowest, half)
    return total, best


def _begin_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    start, weight, belief, score, lowest = data_of(context, builder, signature.args, args)
    first = [load(builder, start, half) for half in _HALVES]
    found = _condition(builder, _Predicted(first, first), weight, belief, score, lowest)
    return context.make_tuple(builder, signature.return_type, found)


def _move_code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    arrays = data_of(context, builder, signature.args[:-1], args[:-1])
    matrix, belief, score, weight, new_score, lowest = arrays
    predicted = _predict(builder, matrix, belief, score, args[-1])
    found = _condition(builder, predicted, weight, belief, new_score, lowest)
    return context.make_tuple(builder, signature.return_type, found)


def _begin_lanes(typing_context: Any, start: Any, weight: Any, belief: Any, score: Any, lowest: Any) -> Any:
    """The first step: ``start`` (16,) weighed with ``weight`` (16,) and rescaled.

    Into ``belief`` and ``score`` (16,); gives the total and the largest score it divided by. ``lowest`` (16,)
    becomes the smallest number there was at each place that is possible, 0 after an underflow.
    """
    return types.UniTuple(types.float64, 2)(start, weight, belief, score, lowest), _begin_code


def _move_lanes(
    typing_context: Any,
    matrix: Any,
    belief: Any,
    score: Any,
    weight: Any,
    new_score: Any,
    lowest: Any,
    places: Any,
) -> Any:
    """One move by ``matrix`` (256,) and one observation; ``belief`` changes in place, scores do not."""
    arrays = (matrix, belief, score, weight, new_score, lowest)
    return types.UniTuple(types.float64, 2)(*arrays, types.intp), _move_code


begin_lanes = intrinsic(_begin_lanes)
move_lanes = intrinsic(_move_lanes)
