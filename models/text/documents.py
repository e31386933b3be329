"""JSON and TOML from outside. Whatever the text is, it becomes a value or a :class:`DocumentError`."""

from __future__ import annotations

import json
import tomllib
from typing import Any

_MOST_DIGITS = 20  # of a 64-bit integer with its sign; no document here has a use for more
_FAR = 10**_MOST_DIGITS


class DocumentError(ValueError):
    """Text that is not the JSON or TOML it should be; says what was expected where, never the text itself."""


def parse_json(text: str | bytes) -> Any:
    """The value of a JSON document; of two members of one name readers differ in which counts."""
    try:
        return json.loads(text, parse_int=integer, object_pairs_hook=distinct_members)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """The tables of a TOML document."""
    try:
        tables = tomllib.loads(text)
        _check_integers(tables)
    except RecursionError:
        raise DocumentError("nested too deeply") from None
    except ValueError as error:
        raise DocumentError(str(error)) from None
    return tables


def distinct_members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object whose members have names of their own."""
    members = dict(pairs)
    if len(members) < len(pairs):
        raise DocumentError("a member of an object is named twice")
    return members


def integer(digits: str) -> int:
    """An integer that fits in 64 bits, or almost: what is far beyond would overflow somewhere else."""
    if len(digits) > _MOST_DIGITS:
        raise DocumentError(f"an integer of {len(digits)} digits does not fit in 64 bits")
    return int(digits)


def _check_integers(value: object) -> None:
    """The same of a document that is already read."""
    if isinstance(value, int) and abs(value) > _FAR:
        raise DocumentError("an integer does not fit in 64 bits")
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            _check_integers(item)
