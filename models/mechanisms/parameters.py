"""Reading a mechanism's parameters as messages and schedules give them: numbers by name, nothing unknown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from models.exceptions import MechanismError


def suggest(word: str, known: Iterable[str]) -> str:
    """The closest of the known words, or all of them, as a remedy."""
    known = sorted(known)
    close = get_close_matches(word.lower(), known, n=1)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"choose one of {', '.join(known)}" if known else "leave it out"


def refuse_unknown(mechanism: str, parameters: Mapping[str, object], known: tuple[str, ...] = ()) -> None:
    """:class:`MechanismError` for a parameter the mechanism does not have."""
    for key in parameters:
        if key not in known:
            must = f"mechanism {mechanism!r} must have no parameters"
            if known:
                must = f"parameters of mechanism {mechanism!r} must be {', '.join(known)}"
            raise MechanismError(must, repr(key), suggest(key, known))


def number(mechanism: str, parameters: Mapping[str, object], key: str) -> float:
    """The parameter ``key`` as a float; :class:`MechanismError` when it is missing or no number."""
    value = parameters.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float):
        got = "nothing" if value is None else repr(value)
        raise MechanismError(
            f"mechanism {mechanism!r} must have a number {key!r}", got, f'write "{key}": 1.0 beside it'
        )
    return float(value)
