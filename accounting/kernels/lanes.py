"""Sum and maximum of products in eight lanes of a fixed order.

A compiler may only use vector instructions for a sum if it is allowed to reorder it, and then the bits of the
result depend on the machine. Here the order is part of the program: entry ``x`` belongs to lane ``x mod 8``,
lanes are joined in halves. So a full matrix is read at the speed of memory and a replay on any machine
gives the same bits.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numba.extending import intrinsic
from numpy.typing import NDArray

from models.jit import jit

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)


def _load(builder: Any, pointer: Any, index: Any) -> Any:
    """Eight consecutive doubles from ``pointer[index]``."""
    address = builder.bitcast(builder.gep(pointer, [index]), _VECTOR.as_pointer())
    return builder.load(address, align=8)


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _join(builder: Any, vector: Any, combine: Any) -> Any:
    """Lanes 0..3 with 4..7, then in halves again, down to one number."""
    lanes = [builder.extract_element(vector, ir.Constant(ir.IntType(32), k)) for k in range(LANES)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [combine(lanes[k], lanes[k + half]) for k in range(half)]
    return lanes[0]


def _lane_products(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    column, belief, score = (
        context.make_array(kind)(context, builder, value).data
        for kind, value in zip(signature.args[:3], args[:3], strict=True)
    )
    width = ir.Constant(args[3].type, LANES)
    sums = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
    tops = cgutils.alloca_once_value(builder, ir.Constant(_VECTOR, [0.0] * LANES))
    with cgutils.for_range(builder, builder.sdiv(args[3], width)) as loop:
        index = builder.mul(loop.index, width)
        entries = _load(builder, column, index)
        term = builder.fmul(_load(builder, belief, index), entries)
        builder.store(builder.fadd(builder.load(sums), term), sums)
        candidate = builder.fmul(_load(builder, score, index), entries)
        builder.store(_larger(builder, candidate, builder.load(tops)), tops)
    total = _join(builder, builder.load(sums), builder.fadd)
    best = _join(builder, builder.load(tops), lambda a, b: _larger(builder, a, b))
    return context.make_tuple(builder, signature.return_type, [total, best])


def _fused_products(typing_context: Any, column: Any, belief: Any, score: Any, count: Any) -> Any:
    """Sum of ``belief * column`` and maximum of ``score * column`` over the whole vectors of ``count``."""
    pair = types.UniTuple(types.float64, 2)
    return pair(column, belief, score, types.intp), _lane_products


_products: Any = intrinsic(_fused_products)


@jit
def sum_and_max_of_products(
    column: NDArray[np.float64], belief: NDArray[np.float64], score: NDArray[np.float64]
) -> tuple[float, float]:
    """``sum_x belief[x] column[x]`` and ``max_x score[x] column[x]``; contiguous, none negative.

    ``belief`` and ``score`` may be longer than ``column``.
    """
    size = column.size
    total, best = _products(column, belief, score, size)
    for x in range(size - size % LANES, size):
        total += belief[x] * column[x]
        best = max(best, score[x] * column[x])
    return total, best
