"""Counters that stand on a line between places and count who crosses it: which moves they count."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from stream_app.exceptions import InputError
from stream_app.starting.counts.tables import BroughtTable

NamedMoves = tuple[tuple[str, str], ...]
"""From which place to which; none of a counter of which it is not known yet what it stands between."""

_COLUMNS = ("from", "to", "direction", "kind")
_BOTH, _ONE, _LINE, _PLACE = "both", "one", "line", "place"
_DATE = re.compile(r"\d{1,4}[-./]\d{1,2}[-./]\d{1,4}\b")


def lines_of(table: BroughtTable, names: Sequence[str]) -> dict[str, NamedMoves]:
    """The moves of the counters that are no counters of a place; ``names`` are those of the table's rows.

    Columns ``from`` and ``to`` name the places on either side, several with ``;`` between. Both directions
    are counted unless ``direction`` is one. A counter of ``kind`` line without them has no moves yet.
    """
    found: dict[str, NamedMoves] = {}
    cells = {key: _cells(table, key) for key in _COLUMNS}
    if not {_LINE, _PLACE} & set(cells["kind"]):
        cells["kind"] = [""] * len(names)  # a column of something else
    for name, *row in zip(names, *cells.values(), strict=True):
        start, end = (tuple(filter(None, map(str.strip, side.split(";")))) for side in row[:2])
        direction, kind = row[2:]
        where = f"counter {name!r} of {table.path}"
        if kind not in ("", _LINE, _PLACE):
            raise InputError(f"kind of {where} must be {_LINE} or {_PLACE}", repr(kind), "correct it")
        if not start and not end:
            if kind == _LINE and direction == _ONE:
                raise InputError(
                    f"{where} must say which direction it counts", "direction one alone", "fill from and to"
                )
            if kind == _LINE:
                found[name] = ()
            continue
        _check(where, start, end, direction, kind)
        moves = list(product(start, end))
        if direction != _ONE:
            moves += [(end, start) for start, end in moves]
        found[name] = tuple(dict.fromkeys(moves))
    return found


def _cells(table: BroughtTable, key: str) -> list[str]:
    """A column's cells, empty without it; words that we know in small letters.

    Columns ``from`` and ``to`` of dates say when a device was there, and nothing of places.
    """
    column = table.usual((key,))
    cells = [""] * len(table) if column is None else table.texts(column)
    if key not in ("from", "to"):
        return [cell.lower() for cell in cells]
    return [""] * len(cells) if all(_DATE.match(cell) for cell in cells if cell) else cells


def _check(where: str, start: tuple[str, ...], end: tuple[str, ...], direction: str, kind: str) -> None:
    """:class:`InputError` unless there are two sides, and a direction that we know."""
    if kind == _PLACE:
        raise InputError(
            f"{where} must stand at a place or on a line", f"kind {_PLACE} beside from and to", "drop one"
        )
    if not start or not end:
        raise InputError(
            f"{where} must have both from and to",
            f"{'to' if end else 'from'} alone",
            "name the places on either side of the line, several with ; between",
        )
    if both := set(start) & set(end):
        raise InputError(
            f"{where} must stand between two places",
            f"{min(both)!r} on both sides",
            "name two places; a counter at one place has neither from nor to",
        )
    if direction not in ("", _BOTH, _ONE):
        raise InputError(
            f"direction of {where} must be {_BOTH} or {_ONE} (from `from` to `to`)",
            repr(direction),
            "correct it; a device that counts both directions apart is two counters",
        )


def ends_of(lines: Sequence[NamedMoves], but: Sequence[str]) -> tuple[str, ...]:
    """The places that moves leave or reach, in the order they are named, without those in ``but``."""
    named = dict.fromkeys(place for moves in lines for move in moves for place in move)
    return tuple(place for place in named if place not in but)
