"""Vectors of eight doubles inside a kernel, for arithmetic whose order is part of the program.

A compiler may only use vector instructions for a sum if it is allowed to reorder it, and then the bits of the
result depend on the machine. These helpers write the vector instructions themselves; the compiler splits
them where the machine's registers are narrower. They become part of the kernels that use them, so
:mod:`models.numerics.jit` must know this file when it decides whether compiled kernels are still good: it
looks for its own name.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]

LANES = 8
VECTOR = ir.VectorType(ir.DoubleType(), LANES)
ZEROS = ir.Constant(VECTOR, [0.0] * LANES)
INFINITIES = ir.Constant(VECTOR, [float("inf")] * LANES)


def data_of(context: Any, builder: Any, kinds: Sequence[Any], arrays: Sequence[Any]) -> list[Any]:
    """Pointers to the first entries of contiguous arrays."""
    return [
        context.make_array(kind)(context, builder, array).data
        for kind, array in zip(kinds, arrays, strict=True)
    ]


def whole(number: int) -> Any:
    """An index known when compiling."""
    return ir.Constant(ir.IntType(64), number)


def load(builder: Any, pointer: Any, index: Any) -> Any:
    """Eight consecutive doubles from ``pointer[index]``."""
    address = builder.bitcast(builder.gep(pointer, [index]), VECTOR.as_pointer())
    return builder.load(address, align=8)


def store(builder: Any, vector: Any, pointer: Any, index: Any) -> None:
    """Eight consecutive doubles to ``pointer[index]``."""
    address = builder.bitcast(builder.gep(pointer, [index]), VECTOR.as_pointer())
    builder.store(vector, address, align=8)


def spread(builder: Any, number: Any) -> Any:
    """One number in all eight lanes."""
    nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, _positions(range(LANES), same=0))


def larger(builder: Any, left: Any, right: Any) -> Any:
    """The larger of two vectors or numbers, lane by lane."""
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def smaller(builder: Any, left: Any, right: Any) -> Any:
    """The smaller of two vectors or numbers, lane by lane."""
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


def join(builder: Any, vector: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Lanes 0..3 with 4..7, then in halves again, down to one number."""
    width = LANES
    while width > 1:
        nothing = ir.Constant(vector.type, ir.Undefined)
        low = builder.shuffle_vector(vector, nothing, _positions(range(width // 2)))
        high = builder.shuffle_vector(vector, nothing, _positions(range(width // 2, width)))
        vector = combine(builder, low, high)
        width //= 2
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def add(builder: Any, left: Any, right: Any) -> Any:
    """The sum of two vectors or numbers, lane by lane."""
    return builder.fadd(left, right)


def _positions(lanes: range, same: int | None = None) -> Any:
    """Which lanes a shuffle takes."""
    chosen = list(lanes) if same is None else [same] * len(lanes)
    return ir.Constant(ir.VectorType(ir.IntType(32), len(chosen)), chosen)
