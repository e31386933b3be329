"""What a priors file says of the windows its priors were fitted to."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from models.exceptions import PriorFileError
from models.priors import FittedWindows

_LATEST_SECONDS = 10**11  # year 5138
_KINDS = {"int": "a whole number of seconds", "str": "a text", "int | str": "whole seconds or a word"}


def check_fitted(where: str, value: Any) -> FittedWindows:
    """The member ``fitted``, checked; :class:`PriorFileError` says what it must be."""
    kinds = {field.name: str(field.type) for field in fields(FittedWindows)}
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise PriorFileError(
            f"'fitted' in {where} must have the members {', '.join(kinds)}",
            ", ".join(sorted(map(str, value))) if isinstance(value, dict) else type(value).__name__,
            "copy it from what priors fit wrote, or leave it out",
        )
    for name, kind in kinds.items():
        found = value[name]
        is_whole = isinstance(found, int) and not isinstance(found, bool) and abs(found) < _LATEST_SECONDS
        if not (is_whole and kind != "str") and not (isinstance(found, str) and kind != "int"):
            raise PriorFileError(
                f"member {name!r} of 'fitted' in {where} must be {_KINDS[kind]}",
                f"{found}" if isinstance(found, int) else type(found).__name__,
                "copy it from what priors fit wrote",
            )
    return FittedWindows(**value)
