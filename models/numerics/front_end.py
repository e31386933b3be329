"""numba's front end, from Python code to LLVM's, without work that changes nothing.

Most of the time of compiling is Python's own: inferring types, copying code into callers, writing LLVM's
code down. What is compiled stays the same, instruction by instruction. These are numba's inner parts, with no
public way in, so each is replaced only while a kernel of ours is compiled, and versions of numba that this
was not tried with compile as they come.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any
from weakref import WeakKeyDictionary

import llvmlite.binding as llvm  # type: ignore[import-untyped]
import numba
from numba.core import errors, ir
from numba.core.targetconfig import TargetConfig
from numba.core.types.functions import BaseFunction
from numba.extending import overload
from numba.np import arrayobj

_TRIED: tuple[str, ...] = ("0.68.",)
_NAMING = (ir.Var, ir.Inst, list, tuple, dict)
_resolve: Any = BaseFunction.get_call_type
_resolved: WeakKeyDictionary[Any, dict[Any, Any]] = WeakKeyDictionary()


@contextmanager
def shortened_front_end() -> Iterator[None]:
    """While a kernel of ours is compiled, under numba's lock: other people's find numba as it came."""
    with ExitStack() as until_done:

        def replace(owner: Any, **parts: Any) -> None:
            until_done.enter_context(replaced(owner, parts))

        # numba puts both shapes into the words of the error of ``target[:] = source``, with code for texts in
        # each kernel that copies an array: an eighth of everything
        replace(arrayobj, raise_with_shape_context=_refuse_shape)
        if numba.__version__.startswith(_TRIED):
            replace(TargetConfig, __hash__=_hash_of_flags, __eq__=_equal_flags)
            replace(BaseFunction, get_call_type=_resolve_once)
            replace(errors, _termcolor_inst=_Plain())
            replace(ir.Inst, _rec_list_vars=_variables)
            replace(ir.Loc, __deepcopy__=_itself)
            with _llvm_lock():  # who is inside has both of its events announced, or none
                until_done.callback(_listen, llvm.ffi.lib._lock._cblist)
                _listen([])  # an event at each call of LLVM
        yield


@contextmanager
def replaced(owner: Any, parts: Mapping[str, Any]) -> Iterator[None]:
    """Parts of a module or class of numba's, under its lock, and back again whatever happens."""
    before = {name: vars(owner)[name] for name in parts if name in vars(owner)}
    for name, part in parts.items():
        setattr(owner, name, part)
    try:
        yield
    finally:
        for name in parts:
            if name in before:
                setattr(owner, name, before[name])
            else:
                delattr(owner, name)


def _llvm_lock() -> Any:
    """LLVM's lock without those who listen to it."""
    return llvm.ffi.lib._lock._lock


def _listen(listeners: list[Any]) -> None:
    with _llvm_lock():
        llvm.ffi.lib._lock._cblist = listeners


def _refuse_shape(source: tuple[int, ...], target: tuple[int, ...]) -> None:
    """What numba looks up to be compiled."""


@overload(_refuse_shape)
def _refuse(source: Any, target: Any) -> Any:
    def implementation(source: Any, target: Any) -> None:
        raise ValueError("cannot assign an array to a slice of another shape")

    return implementation


def untyped(of_numba: Any) -> Any:
    """Without types, as numba comes without those of its inner parts."""
    return of_numba


def _hash_of_flags(flags: Any) -> int:
    """Of the names of those that are not as by default: numba reads and sorts dozens at each look-up."""
    options = flags.options
    return hash(frozenset(name for name, value in flags._values.items() if value != options[name].default))


def _equal_flags(flags: Any, other: Any) -> Any:
    if not isinstance(other, TargetConfig):
        return NotImplemented
    return flags._values == untyped(other)._values or flags.values() == untyped(other).values()


def _resolve_once(function: Any, context: Any, args: Any, kws: Mapping[str, Any]) -> Any:
    """The signature of an operator or a built-in function for some arguments, kept.

    numba asks for it at each place and in each round of its inference; each time it tries, and words the
    failure of, all forms before the one that fits. Functions that are compiled for their arguments are asked
    for again: there the last answer counts, which depends on the flags of who asks.
    """
    known = _resolved.setdefault(function, {})
    key = context, tuple(args), tuple(kws.items())
    if key not in known:
        signature = _resolve(function, context, args, kws)
        if function._impl_keys[signature.args] is not function.typing_key:
            return signature
        known[key] = signature
    signature = known[key]
    function._impl_keys[signature.args] = function.typing_key
    return signature


def _variables(instruction: Any, value: Any) -> list[Any]:
    """Those that a part of an instruction names, in order."""
    kind = type(value)
    if kind is ir.Var:
        return [value]
    if not issubclass(kind, _NAMING):
        return []
    if isinstance(value, ir.Inst):
        return list(value.list_vars())  # type: ignore[no-untyped-call]
    parts = value.values() if isinstance(value, dict) else value
    return [each for part in parts for each in _variables(instruction, part)]


def _itself(place: Any, _: object) -> Any:
    """A line of the source stays what it is in every copy of the code that came of it."""
    return place


class _Plain:
    """Errors without colours: most of them are of forms that do not fit, and nobody sees them."""

    def _as_it_is(self, text: str) -> str:
        return text

    code = errmsg = filename = indicate = highlight = reset = _as_it_is
