"""Which places a counter on a line stands between, by the map where its list does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np

from stream_app.exceptions import InputError, meant
from stream_app.starting.aggregates.zone_files import Points, read_points
from stream_app.starting.counts.deployment_files import ELSEWHERE, SensorPlace
from stream_app.starting.counts.lines import NamedMoves

_NAME_THEM = "fill its columns from and to"


def moves_between(
    where: Path, sensors: Points, zones: Points | None, known: Sequence[str] | None = None
) -> tuple[dict[str, NamedMoves], list[str]]:
    """The moves of each counter on a line, and sentences about those that the map alone places.

    Moves that the file of sensors names are taken as they are; their places must be ``known``, where that is
    given. Any other counter stands between the two zones whose cells meet nearest to it, cells being of the
    points that are nearest to a zone; where there are no zones, between two sensors that stand at a place.
    """
    _check_known(where, sensors.lines, known)
    unknown = [name for name, moves in sensors.lines.items() if not moves]
    if not unknown:
        return dict(sensors.lines), []
    if zones is not None and zones.is_globe != sensors.is_globe:
        raise InputError(
            "zones and sensors must both have degrees, or both metres of one map",
            "one of each",
            "give --zones with the same two columns as --sensors",
        )
    among = sensors if zones is None else zones
    places = among.placed(among.places, among.middle)
    counters = sensors.placed(unknown, among.middle)
    if not counters.is_placed.all() or np.count_nonzero(places.is_placed) < 2:
        first = int(counters.is_placed.argmin())
        is_lost = not counters.is_placed[first]
        raise InputError(
            f"counter {unknown[first]!r} of {where} must have coordinates, and two places to stand between",
            "no coordinates" if is_lost else f"{np.count_nonzero(places.is_placed)} with coordinates",
            _NAME_THEM if is_lost else f"give --zones with their coordinates, or {_NAME_THEM}",
        )
    pair, off_km = counters.between(places)
    beyond = [name for name, found in zip(unknown, pair, strict=True) if found[0] < 0]
    if beyond:
        more = f", as {len(beyond) - 1} more" if len(beyond) > 1 else ""
        raise InputError(
            f"counter {beyond[0]!r} of {where} must lie between two places",
            f"it lies beyond the nearest, as seen from all others{more}",
            f"{_NAME_THEM}, or give --zones with a place on its other side",
        )
    lines, remarks = dict(sensors.lines), []
    for name, ends, off in zip(unknown, pair, off_km, strict=True):
        one, other = sorted(among.places[end] for end in ends)
        lines[name] = (one, other), (other, one)
        remarks.append(
            f"{name} between {one} and {other}, {1000.0 * off:,.0f} m from where both are equally near"
        )
    return lines, remarks


def _check_known(where: Path, lines: Mapping[str, NamedMoves], known: Sequence[str] | None) -> None:
    for name, moves in lines.items():
        unknown = [place for move in moves for place in move if known is not None and place not in known]
        if unknown and unknown[0] != ELSEWHERE:
            raise InputError(
                f"counter {name!r} of {where} must stand between places that zones or sensors name",
                repr(unknown[0]),
                meant(unknown[0], known or (), "correct from or to, or add the place to --zones"),
            )


def places_between(
    path: Path | None, sensors: tuple[SensorPlace, ...], zones: Path | None
) -> tuple[tuple[SensorPlace, ...], tuple[SensorPlace, ...], list[str]]:
    """Sensors of a new deployment with the moves they count, where zones are, and what the map placed."""
    if path is None or all(each.moves is None for each in sensors):
        return sensors, (), []
    points = None if zones is None else read_points(zones)
    at = [(each.latitude, each.longitude) if each.latitude is not None else (nan, nan) for each in sensors]
    named = {each.name: each.moves for each in sensors if each.moves is not None}
    north, east = zip(*at, strict=True)
    own = Points(tuple(each.name for each in sensors), north, east, True, lines=named)
    lines, remarks = moves_between(path, own, points, known_to(own, points))
    found = {} if points is None else points.degrees
    ends = tuple(SensorPlace(name, *where) for name, where in found.items())
    return tuple(replace(each, moves=lines.get(each.name)) for each in sensors), ends, remarks


def known_to(sensors: Points, zones: Points | None) -> tuple[str, ...] | None:
    """The places that a counter may stand between; None where nothing lists them."""
    return None if zones is None else (*sensors.places, *zones.names)
