"""Which places a counter on a line stands between, by the map where its list does not say."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import nan
from pathlib import Path

import numpy as np

from models.fitting.personas import Between
from models.text import number_of
from stream_app.exceptions import InputError, meant
from stream_app.starting.aggregates.zone_files import Points, read_points
from stream_app.starting.counts.deployment_files import ELSEWHERE, SensorPlace
from stream_app.starting.counts.lines import NamedMoves, ends_of

WITHIN_KM = 1.0
_ALIKE = 1.5  # times as far: another line that a counter may as well stand on
_NAME_THEM = "fill its columns from and to"


def moves_between(
    where: Path,
    sensors: Points,
    zones: Points | None,
    known: Sequence[str] | None = None,
    within_km: float = WITHIN_KM,
) -> tuple[dict[str, NamedMoves], list[str]]:
    """The moves of each counter on a line, and sentences about those that the map alone places.

    Moves that the file of sensors names are taken as they are; their places must be ``known``, where that is
    given. Any other counter stands between the two zones whose cells meet nearest to it, cells being of the
    points that are nearest to a zone; where there are no zones, between two sensors that stand at a place.
    A zone that a sensor stands in, within reach, is where this sensor counts. A deployment's own file
    (``.json``) has all that already.
    """
    _check_known(where, sensors.lines, known)
    lines, remarks = _with_unknown(where, sensors, zones)
    is_settled = where.suffix.lower() == ".json"
    if zones is None or not lines or is_settled or zones.is_globe != sensors.is_globe:
        return lines, remarks
    counted = _counted_by(lines, sensors, zones, within_km)
    moved = {
        name: tuple((counted.get(start, start), counted.get(end, end)) for start, end in moves)
        for name, moves in lines.items()
    }
    return moved, [*remarks, *(f"{zone} is where {sensor} counts." for zone, sensor in counted.items())]


def _with_unknown(
    where: Path, sensors: Points, zones: Points | None
) -> tuple[dict[str, NamedMoves], list[str]]:
    """The moves of all counters on a line, and a sentence about each that the map places."""
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
    spots = len(np.unique(places.position_km[places.is_placed], axis=0))
    if not counters.is_placed.all() or spots < 2:
        first = int(counters.is_placed.argmin())
        is_lost = not counters.is_placed[first]
        raise InputError(
            f"counter {unknown[first]!r} of {where} must have coordinates, and two places to stand between",
            "no coordinates" if is_lost else f"{number_of(spots, 'place')} with coordinates",
            _NAME_THEM if is_lost else f"give --zones with their coordinates, or {_NAME_THEM}",
        )
    found = counters.between(places)
    if not found.is_between.all():
        outside = np.flatnonzero(~found.is_between)
        near, beyond = (places.names[place] for place in found.pair[outside[0]])
        more = f" ({number_of(outside.size - 1, 'other counter')} likewise)" if outside.size > 1 else ""
        raise InputError(
            f"counter {unknown[outside[0]]!r} of {where} must lie between two places",
            f"it lies at {near!r}, or on its far side as seen from {beyond!r}{more}",
            f"say that it stands at a place (kind place), {_NAME_THEM}, or give --zones with a place on its "
            "other side",
        )
    lines, remarks = dict(sensors.lines), []
    for number, name in enumerate(unknown):
        one, other = sorted(places.names[place] for place in found.pair[number])
        lines[name] = (one, other), (other, one)
        remarks.append(_placed_by_map(name, one, other, found, number, places.names))
    return lines, remarks


def _placed_by_map(
    name: str, one: str, other: str, found: Between, number: int, places: Sequence[str]
) -> str:
    """What was assumed of a counter, and what else is as likely."""
    nearest, off, next_off = found.pair[number, 0], found.off_km[number], found.other_off_km[number]
    sentence = (
        f"{name} stands between {one} and {other}, whose surroundings meet {1000.0 * off:,.0f} m from it, by "
        "the map alone (no street is known)."
    )
    if next_off > _ALIKE * off:
        return sentence
    return (
        f"{sentence} It may as well stand between {places[nearest]} and {places[found.other[number]]} "
        f"({1000.0 * next_off:,.0f} m): if so, {_NAME_THEM}."
    )


def _counted_by(
    lines: Mapping[str, NamedMoves], sensors: Points, zones: Points, within_km: float
) -> dict[str, str]:
    """The sensor nearest to each zone that moves leave or reach; of several zones the nearest has it.

    A sensor whose own place moves name has no other.
    """
    ends = ends_of(list(lines.values()), ())
    at = zones.placed([end for end in ends if end not in sensors.places], zones.middle)
    stands = sensors.placed([name for name in sensors.places if name not in ends], zones.middle)
    near = at.nearest(stands, within_km)
    found: dict[str, tuple[float, str]] = {}
    for zone, position, number in zip(at.names, at.position_km, near, strict=True):
        if number < len(stands.names):
            apart = float(((position - stands.position_km[number]) ** 2).sum())
            sensor = stands.names[number]
            found[sensor] = min((apart, zone), found.get(sensor, (apart, zone)))
    return {zone: sensor for sensor, (_, zone) in found.items()}


def _check_known(where: Path, lines: Mapping[str, NamedMoves], known: Sequence[str] | None) -> None:
    for name, moves in lines.items():
        named = ends_of([moves], (ELSEWHERE,))
        unknown = [place for place in named if known is not None and place not in known]
        if unknown:
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
