"""Eight doubles as one value of a kernel: loaded, computed with lane by lane, and stored.

For loops over a person's few places. Written place by place, the compiler cannot know that two rows do not
overlap, and what it does to find out takes longer than so few places. A row is :func:`padded` to whole
eights and kept zero beyond the places; indices count doubles from the array's first. With
``NUMBA_BOUNDSCHECK`` they are checked as others are.
"""
# mypy: allow-untyped-calls

from __future__ import annotations

import operator
from typing import Any, ClassVar

from llvmlite import ir  # type: ignore[import-untyped]
from numba.core import cgutils, errors, types
from numba.core.typing.templates import ConcreteTemplate
from numba.extending import models, register_model

from accounting.hmm import vectors
from accounting.hmm.vectors import LANES, VECTOR, ZEROS, data_of, join, larger, spread
from models.numerics.jit import inline, intrinsic
from models.numerics.own_target import OWN_CODE, OWN_TYPES


class _Eight(types.Type):
    """The numba type of such a value."""


_EIGHT = _Eight("eight doubles")
_NONE = ir.Constant(ir.IntType(LANES), 0)
_NUMBERS = ir.Constant(ir.VectorType(ir.IntType(64), LANES), list(range(LANES)))


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    """In a vector register, or two."""

    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


@inline
def padded(places: int) -> int:
    """The number of doubles in a row of so many places."""
    return (places + 7) // 8 * 8


def _check(context: Any, builder: Any, kind: Any, array: Any, index: Any) -> None:
    """Leave the kernel with an :class:`IndexError` unless all eight are inside, where indices are checked."""
    if context.enable_boundscheck:
        size = context.make_array(kind)(context, builder, array).nitems
        cgutils.do_boundscheck(context, builder, index, size)
        cgutils.do_boundscheck(context, builder, builder.add(index, vectors.whole(LANES - 1)), size)


def _require_contiguous(array: Any) -> None:
    """:class:`~numba.errors.TypingError` for a view with gaps, whose doubles do not follow each other."""
    if array.layout != "C":
        raise errors.TypingError("eight doubles are loaded from and stored to contiguous arrays only")


def _load(typing_context: Any, array: Any, index: Any) -> Any:
    """Eight from ``array``, whatever its dimensions."""
    _require_contiguous(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _check(context, builder, array, *args)
        (data,) = data_of(context, builder, [array], args[:1])
        return vectors.load(builder, data, args[1])

    return _EIGHT(array, types.intp), code


def _store(typing_context: Any, value: Any, array: Any, index: Any) -> Any:
    """Eight into ``array``."""
    _require_contiguous(array)

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _check(context, builder, array, *args[1:])
        (data,) = data_of(context, builder, [array], args[1:2])
        vectors.store(builder, args[0], data, args[2])
        return context.get_dummy_value()

    return types.void(value, array, types.intp), code


def _spread(typing_context: Any, number: Any) -> Any:
    """The same number eight times."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return spread(builder, args[0])

    return _EIGHT(types.float64), code


def _largest(typing_context: Any, value: Any) -> Any:
    """The largest of the eight."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return join(builder, args[0], larger)

    return types.float64(_EIGHT), code


def _larger_of(typing_context: Any, left: Any, right: Any) -> Any:
    """The larger of each two."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return larger(builder, *args)

    return _EIGHT(_EIGHT, _EIGHT), code


def _is_any_above(typing_context: Any, left: Any, right: Any) -> Any:
    """Whether one of ``left`` is above its counterpart."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.icmp_unsigned("!=", _bits(builder, ">", *args), _NONE)

    return types.boolean(_EIGHT, _EIGHT), code


def _first_equal(typing_context: Any, value: Any, number: Any) -> Any:
    """The index of the first of the eight that equals ``number``; 8 if none does."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        found = builder.zext(_bits(builder, "==", args[0], spread(builder, args[1])), ir.IntType(64))
        behind = builder.or_(found, vectors.whole(1 << LANES))
        return builder.cttz(behind, ir.Constant(ir.IntType(1), 1))

    return types.intp(_EIGHT, types.float64), code


def _replaced(typing_context: Any, value: Any, which: Any, other: Any) -> Any:
    """``value`` but for number ``which``, taken from ``other``; ``value`` if there is no such number."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        is_there = builder.icmp_signed("==", spread(builder, args[1]), _NUMBERS)
        return builder.select(is_there, args[2], args[0])

    return _EIGHT(_EIGHT, types.intp, _EIGHT), code


def _where_positive(typing_context: Any, value: Any, of: Any) -> Any:
    """``value`` where ``of`` is above zero, else zero."""

    def code(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.select(builder.fcmp_ordered(">", args[1], ZEROS), args[0], ZEROS)

    return _EIGHT(_EIGHT, _EIGHT), code


def _bits(builder: Any, comparison: str, left: Any, right: Any) -> Any:
    """A bit for each of the eight for which it is true, the first one lowest."""
    return builder.bitcast(builder.fcmp_ordered(comparison, left, right), ir.IntType(LANES))


load, store, spread_out = intrinsic(_load), intrinsic(_store), intrinsic(_spread)
largest, larger_of = intrinsic(_largest), intrinsic(_larger_of)
is_any_above, first_equal = intrinsic(_is_any_above), intrinsic(_first_equal)
where_positive, replaced = intrinsic(_where_positive), intrinsic(_replaced)


@OWN_TYPES.register_global(operator.add)
@OWN_TYPES.register_global(operator.sub)
@OWN_TYPES.register_global(operator.mul)
class _Arithmetic(ConcreteTemplate):
    """``+``, ``-`` and ``*``, lane by lane."""

    cases: ClassVar = [_EIGHT(_EIGHT, _EIGHT)]


def _add(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fadd(*args)


def _subtract(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fsub(*args)


def _multiply(context: Any, builder: Any, signature: Any, args: Any) -> Any:
    return builder.fmul(*args)


OWN_CODE.lower(operator.add, _Eight, _Eight)(_add)
OWN_CODE.lower(operator.sub, _Eight, _Eight)(_subtract)
OWN_CODE.lower(operator.mul, _Eight, _Eight)(_multiply)
