"""Sum and maximum of products in eight lanes of a fixed order.

Entry ``x`` belongs to lane ``x mod 8``, lanes are joined in halves. So a full matrix is read at the speed of
memory and a replay on any machine gives the same bits.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, types
from numpy.typing import NDArray

from accounting.hmm.vectors import LANES, ZEROS, add, data_of, join, larger, load
from models.numerics.jit import bare_jit, intrinsic


def _lane_products(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    column, belief, score = data_of(context, builder, signature.args[:3], args[:3])
    width = ir.Constant(args[3].type, LANES)
    sums = cgutils.alloca_once_value(builder, ZEROS)
    tops = cgutils.alloca_once_value(builder, ZEROS)
    with cgutils.for_range(builder, builder.sdiv(args[3], width)) as loop:
        index = builder.mul(loop.index, width)
        entries = load(builder, column, index)
        term = builder.fmul(load(builder, belief, index), entries)
        builder.store(builder.fadd(builder.load(sums), term), sums)
        candidate = builder.fmul(load(builder, score, index), entries)
        builder.store(larger(builder, candidate, builder.load(tops)), tops)
    total = join(builder, builder.load(sums), add)
    best = join(builder, builder.load(tops), larger)
    return context.make_tuple(builder, signature.return_type, [total, best])


def _fused_products(typing_context: Any, column: Any, belief: Any, score: Any, count: Any) -> Any:
    """Sum of ``belief * column`` and maximum of ``score * column`` over the whole vectors of ``count``."""
    pair = types.UniTuple(types.float64, 2)
    return pair(column, belief, score, types.intp), _lane_products


_products = intrinsic(_fused_products)


@bare_jit
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
