"""Eight doubles as one value of a kernel: loaded, computed with lane by lane, and stored.

For loops over a person's few places, where the compiler cannot know that two rows do not overlap, and what it
does to find out takes longer than so few places; and for sums over many. A compiler may only use vector
instructions for a sum if it is allowed to reorder it, and then the bits of the result depend on the machine.
Here the order is part of the program; the compiler splits the vectors where the machine's registers are
narrower.

A row is :func:`padded` to whole eights and kept zero beyond the places; indices count doubles from the
array's first. With ``NUMBA_BOUNDSCHECK`` they are checked as others are. All of this becomes part of the
kernels that use it, so :mod:`models.numerics.jit` must know this file when it decides whether compiled
kernels are still good: it looks for its own name.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

import operator
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import Any, ClassVar

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, errors, types
from numba.core.typing.templates import ConcreteTemplate
from numba.extending import models, register_model

from models.numerics.jit import inline, intrinsic
from models.numerics.own_target import OWN_CODE, OWN_TYPES

LANES = 8
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_ZEROS = ir.Constant(_VECTOR, [0.0] * LANES)
_NONE = ir.Constant(ir.IntType(LANES), 0)
_NUMBERS = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))


class _Eight(types.Type):
    """The numba type of such a value."""


_EIGHT = _Eight("eight doubles")


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    """In a vector register, or two."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


@inline
def padded(places: int) -> int:
    """The number of doubles in a row of so many places."""
    return (places + 7) // 8 * 8


# Loaded from arrays and stored to them.


def _whole(number: int) -> Any:
    """An index known when compiling."""
    return ir.Constant(ir.IntType(64), number)


def _address(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> Any:
    """Where eight begin; leaves the kernel with an :class:`IndexError` unless all are inside, where indices
    are checked.
    """
    made = context.make_array(kind)(context, builder, array)
    if context.enable_boundscheck:
        for position in (index, builder.add(index, _whole(LANES - 1))):
            cgutils.do_boundscheck(context, builder, position, made.nitems)
    return builder.bitcast(builder.gep(made.data, [index]), _VECTOR.as_pointer())


def _require_contiguous(array: Any) -> None:
    """:class:`~numba.errors.TypingError` for a view with gaps, whose doubles do not follow each other."""
    if array.layout != "C":
        raise errors.TypingError("eight doubles are loaded from and stored to contiguous arrays only")


def _load(typing_context: Any, array: Any, index: Any) -> Any:
    """Eight from ``array``, whatever its dimensions."""
    _require_contiguous(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(_address(context, builder, array, *args), align=8)

    return _EIGHT(array, types.intp), code


def _store(typing_context: Any, value: Any, array: Any, index: Any) -> Any:
    """Eight into ``array``."""
    _require_contiguous(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[0], _address(context, builder, array, *args[1:]), align=8)
        return context.get_dummy_value()

    return types.void(value, array, types.intp), code


load, store = intrinsic(_load), intrinsic(_store)


# Computed with: what each does in LLVM's instructions.


def _spread(builder: Any, number: Any) -> Any:
    nothing = ir.Constant(ir.VectorType(number.type, LANES), ir.Undefined)
    first = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, nothing, _positions([0] * LANES))


def _larger(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", left, right), left, right)


def _smaller(builder: Any, left: Any, right: Any) -> Any:
    return builder.select(builder.fcmp_ordered("<", left, right), left, right)


def _join(builder: Any, vector: Any, combine: Callable[[Any, Any, Any], Any]) -> Any:
    """Lanes 0..3 with 4..7, then in halves again, down to one number."""
    width = LANES
    while width > 1:
        nothing, half = ir.Constant(vector.type, ir.Undefined), width // 2
        low = builder.shuffle_vector(vector, nothing, _positions(range(half)))
        high = builder.shuffle_vector(vector, nothing, _positions(range(half, width)))
        vector, width = combine(builder, low, high), half
    return builder.extract_element(vector, ir.Constant(ir.IntType(32), 0))


def _positions(lanes: Any) -> Any:
    """Which lanes a shuffle takes."""
    return ir.Constant(ir.VectorType(ir.IntType(32), len(lanes)), list(lanes))


def _bits(builder: Any, comparison: str, left: Any, right: Any) -> Any:
    """A bit for each of the eight for which it is true, the first one lowest."""
    return builder.bitcast(builder.fcmp_ordered(comparison, left, right), ir.IntType(LANES))


def _first_equal(builder: Any, value: Any, number: Any) -> Any:
    found = builder.zext(_bits(builder, "==", value, _spread(builder, number)), ir.IntType(64))
    behind = builder.or_(found, _whole(1 << LANES))
    return builder.cttz(behind, ir.Constant(ir.IntType(1), 1))


def _replaced(builder: Any, value: Any, which: Any, other: Any) -> Any:
    is_there = builder.icmp_signed("==", _spread(builder, which), _NUMBERS)
    return builder.select(is_there, other, value)


def _first_ones(builder: Any, value: Any, count: Any) -> Any:
    return builder.select(builder.icmp_signed("<", _NUMBERS, _spread(builder, count)), value, _ZEROS)


def _made(compute: Callable[..., Any], result: Any, *kinds: Any) -> Any:
    """The kernel's function of arguments of these kinds that is computed so."""

    def typed(typing_context: Any, *given: Any) -> Any:
        def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return compute(builder, *args)

        return result(*kinds), code

    names = ("typing_context", "first", "second", "third")[: len(kinds) + 1]
    parameters = [Parameter(name, Parameter.POSITIONAL_OR_KEYWORD) for name in names]
    vars(typed)["__signature__"] = Signature(parameters)  # numba folds arguments by it
    return intrinsic(typed)


spread_out = _made(_spread, _EIGHT, types.float64)
"""The same number eight times."""
largest = _made(lambda builder, value: _join(builder, value, _larger), types.float64, _EIGHT)
"""The largest of the eight."""
total_of = _made(
    lambda builder, value: _join(builder, value, lambda builder, *halves: builder.fadd(*halves)),
    *(types.float64, _EIGHT),
)
"""The sum of the eight."""
larger_of = _made(_larger, _EIGHT, _EIGHT, _EIGHT)
"""The larger of each two, the second where one of them is no number."""
smaller_of = _made(_smaller, _EIGHT, _EIGHT, _EIGHT)
"""The smaller of each two, the second where one of them is no number."""
is_any_above = _made(
    lambda builder, left, right: builder.icmp_unsigned("!=", _bits(builder, ">", left, right), _NONE),
    *(types.boolean, _EIGHT, _EIGHT),
)
"""Whether one of the first is above its counterpart."""
first_equal = _made(_first_equal, types.intp, _EIGHT, types.float64)
"""The index of the first of the eight that equals a number; 8 if none does."""
replaced = _made(_replaced, _EIGHT, _EIGHT, types.intp, _EIGHT)
"""The first value but for one number, taken from the last; as it is if there is no such number."""
first_ones = _made(_first_ones, _EIGHT, _EIGHT, types.intp)
"""So many of the eight from the first on, then zeros."""
moved_on = _made(
    lambda builder, before, value: builder.shuffle_vector(before, value, _positions(range(7, 15))),
    *(_EIGHT, _EIGHT, _EIGHT),
)
"""The last of the first eight, then all but the last of the second."""
where_positive = _made(
    lambda builder, value, of, other: builder.select(builder.fcmp_ordered(">", of, _ZEROS), value, other),
    *(_EIGHT, _EIGHT, _EIGHT, _EIGHT),
)
"""The first value where the second is above zero, else the third."""


class _Arithmetic(ConcreteTemplate):
    """``+``, ``-``, ``*`` and ``/``, lane by lane."""

    cases: ClassVar = [_EIGHT(_EIGHT, _EIGHT)]


def _make_one_instruction(operation: Callable[..., Any], instruction: str) -> None:
    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return getattr(builder, instruction)(*args)

    OWN_TYPES.register_global(operation)(_Arithmetic)
    OWN_CODE.lower(operation, _Eight, _Eight)(code)


_make_one_instruction(operator.add, "fadd")
_make_one_instruction(operator.sub, "fsub")
_make_one_instruction(operator.mul, "fmul")
_make_one_instruction(operator.truediv, "fdiv")
