"""Checks the arguments of public functions against their annotations; one sentence says what must hold.

:func:`checked` reads a function's annotations and compares every argument with them when it is called; of a
dataclass it checks the constructor. What is clearly meant is converted: a numpy number to a number, a list to
a tuple, the text of an enumeration's member to that member. All else is refused: 1.5 or ``True`` for a count,
NaN for an amount, a word that is none of the choices. Each function checks ranges and combinations itself.

pydantic's ``validate_call`` would not do: it takes ``"3"`` and ``True`` for a whole number or, if strict,
refuses numpy's numbers and lists for tuples, and its errors have no remedy.
"""

from __future__ import annotations

import math
import operator
import os
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from enum import Enum
from functools import wraps
from importlib import import_module
from inspect import Parameter, isclass, signature
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar, Union, cast, get_args, get_origin

from models.exceptions import TallyguardError
from models.text import CloseNames

if TYPE_CHECKING:
    import numpy as np
else:

    class _Numpy:
        """numpy, imported by the first argument that needs it: a command's `--help` does not wait for it."""

        def __getattr__(self, name: str) -> Any:
            vars(self)[name] = found = getattr(import_module("numpy"), name)
            return found

    np = _Numpy()

Checked = TypeVar("Checked", bound=Callable[..., Any])

_WHOLE_NUMBERS = range(-(2**63), 2**63)
_LISTS = frozenset((tuple, list))


class _Kind(NamedTuple):
    """What an argument must be, in words; what to do otherwise; and ``take``, which converts it.

    ``take`` raises :class:`TypeError` or :class:`ValueError` for anything else.
    """

    words: str
    remedy: str
    take: Callable[[Any], Any]


def checked(
    error: type[TallyguardError], infinite: Iterable[str] = (), leave: Iterable[str] = ()
) -> Callable[[Checked], Checked]:
    """Decorator of a function or a class: raises ``error`` for an argument that is not as annotated.

    Numbers must be finite, except those named in ``infinite``, which may also be NaN. Arguments named in
    ``leave`` and those whose annotation says nothing are not checked.
    """

    def decorate(function: Checked) -> Checked:
        rules = error, frozenset(infinite), frozenset(leave)
        if isclass(function):
            setattr(function, "__init__", _guarded(function.__init__, *rules))  # noqa: B010 - of any class
            return function
        return cast(Checked, _guarded(function, *rules))

    return decorate


def whole(value: object, name: str, error: type[TallyguardError]) -> int:
    """A whole number; ``error`` for anything else."""
    return int(_taken(error, _WHOLE, name, value))


def _guarded(
    function: Any, error: type[TallyguardError], infinite: frozenset[str], leave: frozenset[str]
) -> Any:
    kinds: dict[str, _Kind] | None = None
    names: list[str] = []
    takes: list[Callable[[Any], Any] | None] = []
    rules = signature(function)
    known = rules.parameters.keys()

    @wraps(function)
    def guarded(*args: Any, **keywords: Any) -> Any:
        nonlocal kinds, names, takes
        if kinds is None:
            names = [
                name for name, each in rules.parameters.items() if each.kind is not Parameter.VAR_POSITIONAL
            ]
            found = _kinds_of(function, infinite)
            kinds = {name: kind for name, kind in found.items() if name not in leave}
            takes = [kinds[name].take if name in kinds else None for name in names]
        if len(args) > len(names) or (keywords and not keywords.keys() <= known):
            _refuse_call(function, rules, error, args, keywords)
        try:
            given = [each if take is None else take(each) for take, each in zip(takes, args, strict=False)]
            for name, each in keywords.items():
                if name in kinds:
                    keywords[name] = kinds[name].take(each)
        except (TypeError, ValueError, OverflowError):
            for name, each in (*zip(names, args, strict=False), *keywords.items()):
                _taken(error, kinds.get(name), name, each)
            raise
        try:
            return function(*given, **keywords)
        except TypeError:
            _refuse_call(function, rules, error, args, keywords)
            raise

    return guarded


def _refuse_call(function: Any, rules: Any, error: type[TallyguardError], args: Any, keywords: Any) -> None:
    """Raise ``error`` for an argument that is missing, or that the function does not have."""
    try:
        rules.bind(*args, **keywords)
    except TypeError as found:
        known = [name for name in rules.parameters if name not in ("self", "cls")]
        unknown = next((each for each in keywords if each not in known), None)
        close = () if unknown is None else CloseNames(known).like(unknown)
        remedy = f"did you mean {close[0]!r}?" if close else f"its arguments are {', '.join(known)}"
        name = function.__qualname__.removesuffix(".__init__")
        got = str(found).removeprefix("got ")
        raise error(f"{name} must be called with the arguments it has", got, remedy) from None


def _taken(error: type[TallyguardError], kind: _Kind | None, name: str, value: Any) -> Any:
    if kind is None:
        return value
    try:
        return kind.take(value)
    except (TypeError, ValueError, OverflowError):
        raise error(f"{name} must be {kind.words}", _shown(value), kind.remedy) from None


def _kinds_of(function: Any, infinite: frozenset[str]) -> dict[str, _Kind]:
    found = {}
    for name, written in function.__annotations__.items():
        with suppress(NameError):  # known to type checkers only
            annotation = eval(written, function.__globals__) if isinstance(written, str) else written
            kind = None if name == "return" else _kind(annotation, name in infinite)
            if kind is not None:
                found[name] = kind
    return found


def _is_array(annotation: Any) -> bool:
    """One of numpy's names of types, which since numpy 2.5 are types of their own."""
    return getattr(get_origin(annotation) or annotation, "__name__", "") in ("ArrayLike", "NDArray")


def _kind(annotation: Any, is_infinite: bool = False) -> _Kind | None:
    """What an annotation asks for; None where it leaves that open."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if annotation in (Any, object):
        return None
    named = [get_origin(each) or each for each in inner if not _is_array(each)]
    parts = any(getattr(each, "__module__", "").startswith("numpy._typing") for each in named)
    if _is_array(annotation) or origin is np.ndarray or parts:
        return _union([_NUMBERS, _NONE]) if type(None) in inner else _NUMBERS
    if annotation in _PLAIN:
        return _INFINITE if annotation is float and is_infinite else _PLAIN[annotation]
    if origin is Literal:
        return _literal(inner)
    if origin in (Union, types.UnionType):
        return _union([_kind(each, is_infinite) for each in inner])
    if origin is tuple and len(inner) == 2 and inner[1] is Ellipsis:
        return _several(_kind(inner[0], is_infinite))
    if origin is tuple:
        return _fixed([_kind(each, is_infinite) for each in inner])
    if origin is not None and isclass(origin):
        if issubclass(origin, Mapping):
            return _mapping(*(_kind(each, is_infinite) for each in inner))
        if issubclass(origin, Iterable):
            return _several(_kind(inner[0], is_infinite))
        return _instance(origin)
    if isclass(annotation) and issubclass(annotation, Enum):
        return _enumeration(annotation)
    if isclass(annotation):
        return _instance(annotation)
    return None


# What is as it should be already is seen by its type: most calls come from the engine itself, and these
# checks, by abstract classes, take ten times as long.


def _take_numbers(value: Any) -> Any:
    if type(value) is np.ndarray and value.dtype.kind in "biuf":
        return value
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        raise TypeError  # numpy would take the numbers below the mask
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        return value
    found = np.asarray(value)
    if found.dtype.kind not in "biuf":
        raise TypeError
    return value


def _take_whole(value: Any) -> int:
    if type(value) is int and value in _WHOLE_NUMBERS:
        return value
    if isinstance(value, bool | np.bool_):
        raise TypeError
    if isinstance(value, float | np.floating) and float(value).is_integer():
        value = int(value)
    found = operator.index(value)
    if found not in _WHOLE_NUMBERS:
        raise ValueError
    return found


def _take_real(value: Any) -> float:
    if type(value) is not float:
        if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
            raise TypeError
        value = float(value)
    return value  # type: ignore[no-any-return]


def _take_finite(value: Any) -> float:
    found = _take_real(value)
    if not math.isfinite(found):
        raise ValueError
    return found


def _take_flag(value: Any) -> bool:
    if value is True or value is False:
        return value
    if not isinstance(value, np.bool_):
        raise TypeError
    return bool(value)


def _take_text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _take_none(value: Any) -> None:
    if value is not None:
        raise TypeError


def _take_path(value: Any) -> Any:
    if not isinstance(value, str | os.PathLike) or not str(value) or "\0" in str(value):
        raise TypeError
    return value


_WHOLE = _Kind("a whole number", "give one such as 1", _take_whole)
_INFINITE = _Kind("a number", "give one such as 0.5", _take_real)
_NONE = _Kind("None", "leave it out", _take_none)
_PLAIN: Mapping[Any, _Kind] = {
    int: _WHOLE,
    float: _Kind("a finite number", "give one such as 0.5", _take_finite),
    bool: _Kind("True or False", "write one of them", _take_flag),
    str: _Kind("a text", "write it in quotes", _take_text),
    type(None): _NONE,
    None: _NONE,
}


_NUMBERS = _Kind("numbers in rows of one length", "give an array or lists of numbers", _take_numbers)


def _literal(choices: Sequence[Any]) -> _Kind:
    def take(value: Any) -> Any:
        for each in choices:
            if type(value) is type(each) and value == each:
                return each
        raise ValueError

    return _Kind(f"one of {', '.join(map(str, choices))}", "write one of these", take)


def _enumeration(choices: type[Enum]) -> _Kind:
    def take(value: Any) -> Any:
        if isinstance(value, choices):
            return value
        if isinstance(value, str):
            for each in choices:
                if value in (each.value, each.name):
                    return each
        raise ValueError

    words = ", ".join(repr(each.value) for each in choices)
    return _Kind(f"one of {words}", f"write one of these, or a member of {choices.__name__}", take)


def _union(kinds: Sequence[_Kind | None]) -> _Kind | None:
    if any(each is None for each in kinds):
        return None
    known = [each for each in kinds if each is not None]

    def take(value: Any) -> Any:
        if value is None and _NONE in known:
            return None
        for each in known:
            try:
                return each.take(value)
            except (TypeError, ValueError, OverflowError):
                continue
        raise TypeError

    words = [each.words for each in known if each is not _NONE]
    is_optional = len(words) < len(known)
    remedy = next(each.remedy for each in known if each is not _NONE or len(known) == 1)
    return _Kind(" or ".join([*words, *(["None"] if is_optional else [])]), remedy, take)


def _several(kind: _Kind | None) -> _Kind:
    def take(value: Any) -> Any:
        if type(value) not in _LISTS:
            if isinstance(value, str | bytes | Mapping) or not isinstance(value, Iterable):
                raise TypeError
            if isinstance(value, np.ndarray):
                value = list(value)  # numbers, or rows
        return tuple(value if kind is None else map(kind.take, value))

    return _Kind("a list" if kind is None else f"a list, each {kind.words}", "write it in brackets", take)


def _fixed(kinds: Sequence[_Kind | None]) -> _Kind:
    def take(value: Any) -> Any:
        if type(value) not in _LISTS and (
            isinstance(value, str | bytes | Mapping) or not isinstance(value, Sequence | np.ndarray)
        ):
            raise TypeError
        if len(value) != len(kinds):
            raise ValueError
        return tuple(
            each if kind is None else kind.take(each) for kind, each in zip(kinds, value, strict=True)
        )

    words = ", ".join("anything" if each is None else each.words for each in kinds)
    return _Kind(f"{len(kinds)} values ({words})", "write them in parentheses", take)


def _mapping(key: _Kind | None, value: _Kind | None) -> _Kind:
    def take(found: Any) -> Any:
        if type(found) is not dict and not isinstance(found, Mapping):
            raise TypeError
        if key is None and value is None:
            return found
        return {
            (each if key is None else key.take(each)): (other if value is None else value.take(other))
            for each, other in found.items()
        }

    kinds = [("anything" if each is None else each.words) for each in (key, value)]
    return _Kind(f"a mapping from {kinds[0]} to {kinds[1]}", "write it in braces", take)


def _instance(kind: type) -> _Kind:
    if issubclass(kind, os.PathLike):
        return _Kind("the path of a file", "write it in quotes", _take_path)
    needed: list[str] = sorted(getattr(kind, "__protocol_attrs__", ()))  # Python 3.12 and later
    if not needed and getattr(kind, "_is_protocol", False):
        own = {
            each
            for base in kind.__mro__[:-1]
            for each in (*vars(base), *vars(base).get("__annotations__", ()))
        }
        needed = sorted(each for each in own if not each.startswith("_"))

    known: set[type] = set()  # classes whose objects are all of this kind

    def take(value: Any) -> Any:
        of = type(value)
        if of in known:
            return value
        if needed:
            if isclass(value) or not all(hasattr(value, each) for each in needed):
                raise TypeError
            if not all(hasattr(of, each) for each in needed):
                return value
        elif not isinstance(value, kind):
            raise TypeError
        elif not issubclass(of, kind):  # a stand-in, which says so by itself
            return value
        known.add(of)
        return value

    return _Kind(f"a {kind.__name__}", f"make a {kind.__name__} first", take)


def _shown(value: object) -> str:
    """What was found, in short: a data frame or a population is not written out."""
    if isclass(value):
        return f"the class {value.__name__} itself"
    if isinstance(value, np.generic):
        return f"{value.item()!r} of numpy's {type(value).__name__}"
    plain = value is None or isinstance(value, bool | int | float | complex | str | bytes | Enum)
    if plain or (isinstance(value, list | tuple) and len(value) <= 4):
        return repr(value)
    kind = f" of {value.dtype}" if isinstance(value, np.ndarray) else ""
    return f"a {type(value).__name__}{kind}"
