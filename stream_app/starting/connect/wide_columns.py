"""Wide files: which sensor and channel a column counts."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.sections.connect_settings import FilesMap

_EXAMPLE = 'set columns = {north = "bridge", south = "bridge"} or column_pattern in [connect.files]'


class WideColumn(NamedTuple):
    """A column of counts of one sensor and channel."""

    name: str
    sensor: str
    channel: str


def wide_columns(path: Path, names: Sequence[str], mapping: FilesMap) -> tuple[WideColumn, ...]:
    """The columns of counts; :class:`InputError` for one that is neither mapped nor ignored."""
    others = [name for name in names if name not in mapping.ignore]
    if mapping.columns:
        found = [WideColumn(name, mapping.columns[name], name) for name in others if name in mapping.columns]
    elif mapping.column_pattern is not None:
        found = _matching(others, mapping.column_pattern)
    else:
        raise InputError(
            "a mapping must say where the counts stand",
            "neither `sensor` and `count` nor `columns` nor `column_pattern`",
            f"for a wide file, {_EXAMPLE}; for a long one, set sensor and count",
        )
    totals = {each.sensor for each in found if each.channel} & {each.name for each in found}
    if mapping.columns:
        totals = set()
    unknown = len(set(others) - {each.name for each in found})
    if unknown or not found:
        raise InputError(
            f"each column of {path} must be mapped or ignored",
            f"{unknown} that are neither, of {len(names)}" if found else "none that is mapped",
            "add them to columns or to ignore in [connect.files]; a total counts people a second time",
        )
    return tuple(each for each in found if each.name not in totals)


def _matching(names: Sequence[str], pattern: str) -> list[WideColumn]:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise SettingsError(
            "connect.files.column_pattern must be a regular expression", error, _EXAMPLE
        ) from None
    if not {"sensor", "channel"} >= compiled.groupindex.keys() or "sensor" not in compiled.groupindex:
        raise SettingsError(
            "connect.files.column_pattern must have a group `sensor`, and may have one `channel`",
            "other groups",
            "write it like (?P<sensor>.+) (?P<channel>IN|OUT)",
        )
    matches = [(name, compiled.fullmatch(name)) for name in names]
    return [
        WideColumn(name, match["sensor"], match.groupdict().get("channel") or "")
        for name, match in matches
        if match is not None
    ]
