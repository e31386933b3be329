"""Synthetic agents as others publish them: eqasim's activities, and UVA's activity-location assignments."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.fitting.calibration import Flows
from models.fitting.personas import HOME, NO_WORK, WORK, Classes, DayType, grouped
from stream_app.exceptions import InputError
from stream_app.starting.counts.tables import LATITUDES, LONGITUDES, BroughtTable

# Days of synthetic agents, or of people in a survey, as aggregates: no single day leaves this module.

_STUDIES = ("school", "education", "college", "university")
AT_HOME, WORKS, STUDIES = "at home", "works", "studies"


@dataclass(frozen=True, eq=False)
class AgentDays:
    """Where each of n people is in each slot of a day, (n, C), and what they do; ``weights`` (n,)."""

    zone: NDArray[np.int64]
    activity: NDArray[np.int64]
    activities: tuple[str, ...]
    weights: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class AgentAggregates:
    """What the agents add up to: classes, days, visits of zones by activity, and trips by slot."""

    classes: Classes
    days: tuple[DayType, ...]
    visits: dict[str, NDArray[np.float64]]
    trips: Flows


def aggregates_of(
    agents: AgentDays, location: NDArray[np.int64], zones: int, least_people: float
) -> AgentAggregates:
    """Classes and day types, visits and trips between locations (``location`` of each zone).

    A home is where one is at home, work where one works most, or studies where one does not work.
    """
    names = list(agents.activities)
    if HOME not in names:
        raise InputError("agents must be at home at some time", ", ".join(names), "name that activity home")
    home = _most(agents, names.index(HOME), zones)
    if (home < 0).any():
        raise InputError(
            "each agent must be at home at some time", f"{int((home < 0).sum()):,} who are not", "drop them"
        )
    work = _most(agents, names.index(WORK), zones) if WORK in names else np.full(home.size, NO_WORK)
    studies = np.full(home.size, NO_WORK)
    for name in _STUDIES:
        if name in names:
            found = _most(agents, names.index(name), zones)
            studies = np.where(studies < 0, found, studies)
    kind = np.where(work >= 0, 0, np.where(studies >= 0, 1, 2))
    anchor = np.where(work >= 0, work, studies)
    return AgentAggregates(
        *_classes_and_days(agents, home, anchor, kind, least_people),
        _visits(agents, zones),
        _trips(agents, location),
    )


def _most(agents: AgentDays, activity: int, zones: int) -> NDArray[np.int64]:
    """Where each does an activity in most slots, the lowest zone of several; NO_WORK where they never do."""
    person, slot = np.nonzero(agents.activity == activity)
    key = person * zones + agents.zone[person, slot]
    pairs, count = np.unique(key, return_counts=True)
    order = np.lexsort((pairs, -count, pairs // zones))
    people, first = np.unique(pairs[order] // zones, return_index=True)
    found = np.full(len(agents.zone), NO_WORK, dtype=np.int64)
    found[people] = pairs[order][first] % zones
    return found


def _classes_and_days(
    agents: AgentDays,
    home: NDArray[np.int64],
    anchor: NDArray[np.int64],
    kind: NDArray[np.int64],
    least_people: float,
) -> tuple[Classes, tuple[DayType, ...]]:
    """A type of day for who works, who studies and who does neither; at school one is "at work"."""
    names = list(agents.activities)
    renamed = agents.activity.copy()
    if WORK not in names:
        names.append(WORK)
    for name in _STUDIES:
        if name in names:
            is_theirs = (kind == 1)[:, None] & (renamed == names.index(name))
            renamed[is_theirs] = names.index(WORK)
    days: list[DayType] = []
    numbers = np.zeros(3, dtype=np.int64)
    for number, label in enumerate((WORKS, STUDIES, AT_HOME)):
        own = kind == number
        if own.any():
            numbers[number] = len(days)
            days.append(DayType.of_sequences(label, names, renamed[own], agents.weights[own]))
    return grouped(numbers[kind], home, anchor, agents.weights, least_people), tuple(days)


def _visits(agents: AgentDays, zones: int) -> dict[str, NDArray[np.float64]]:
    """People-slots of each activity in each zone: what attracts to it."""
    weight = np.repeat(agents.weights, agents.zone.shape[1])
    found = {}
    for number, name in enumerate(agents.activities):
        chosen = (agents.activity == number).ravel()
        counts = np.bincount(agents.zone.ravel()[chosen], weights=weight[chosen], minlength=zones)
        found[name] = counts.astype(np.float64)
    return found


def _trips(agents: AgentDays, location: NDArray[np.int64]) -> Flows:
    """How many go from one location to another, slot by slot; each day is followed by itself."""
    here = location[agents.zone]
    there = np.roll(here, -1, axis=1)
    person, slot = np.nonzero(here != there)
    return added_up([slot, here[person, slot], there[person, slot]], agents.weights[person])


def added_up(keys: Sequence[NDArray[np.int64]], people: NDArray[np.float64]) -> Flows:
    """Flows of rows of slot, origin and destination (``keys``), each of them once."""
    unique, group = np.unique(np.stack(keys), axis=1, return_inverse=True)
    total = np.bincount(group.ravel(), weights=people, minlength=unique.shape[1])
    return Flows(unique[0], unique[1], unique[2], total.astype(np.float64))


def in_slots(
    person: NDArray[np.int64],
    begin_seconds: NDArray[np.float64],
    value: NDArray[np.int64],
    people: int,
    slots: int,
) -> NDArray[np.int64]:
    """What holds in the middle of each slot of a day, (people, C), of events in force until the next one.

    Before the first of the day, the last is in force: a day is followed by itself.
    """
    middle = (np.arange(slots) + 0.5) * _DAY / slots
    order = np.lexsort((begin_seconds, person))
    first = np.searchsorted(person[order], np.arange(people + 1))
    found = np.empty((people, slots), dtype=np.int64)
    for each in range(people):
        own = order[first[each] : first[each + 1]]
        position = np.searchsorted(begin_seconds[own], middle, side="right") - 1
        found[each] = value[own[position]]  # -1 is the last: the night before
    return found


def numbered(values: Sequence[str]) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names, sorted, and the number of each value."""
    names, index = np.unique(np.array(values, dtype=str), return_inverse=True)
    return tuple(map(str, names)), index.reshape(-1).astype(np.int64)


ZoneOf: TypeAlias = Callable[[NDArray[np.float64], NDArray[np.float64]], NDArray[np.int64]]
"""Numbers of zones from north and east."""
_Places: TypeAlias = tuple[NDArray[np.float64], NDArray[np.float64], bool]
_DAY = 86_400
_WEEKDAYS, _LONGEST_DAYS = 5, 7
_UVA_TYPES = ("trip", "home", "work", "shop", "other", "school", "college", "religion")
_UVA_FILE, _UVA_PLACES = "activity_location_assignment", ("activity_locations", "residence_locations")
_ENVELOPE_BYTES = (0, 32, 48, 48, 64)
_POINT = 1
_GEOMETRY = ("geometry", "geom")


@dataclass(frozen=True, eq=False)
class AgentEvents:
    """What agents do from when on, and where: north and east in degrees (``is_globe``) or metres."""

    person: Sequence[str]
    begin_seconds: NDArray[np.float64]
    activity: Sequence[str]
    north: NDArray[np.float64]
    east: NDArray[np.float64]
    is_globe: bool

    def days(self, slots: int, zone_of: ZoneOf, outside: int) -> AgentDays:
        """The day of each agent in slots; ``zone_of`` gives zones up to the number ``outside``.

        Of a week, the five weekdays are five days of which each counts a fifth.
        """
        points, index = np.unique(np.stack([self.north, self.east]), axis=1, return_inverse=True)
        near = zone_of(points[0], points[1])
        day = (self.begin_seconds // _DAY).astype(np.int64)
        is_week = bool((day[day >= 0] > 1).any())
        kept = (day >= 0) & (day < _WEEKDAYS) if is_week else np.ones(day.size, dtype=np.bool_)
        if not kept.any():
            raise InputError("agents' weeks must have a weekday", "weekends alone", "give the whole week")
        names = [f"{person} {each if is_week else 0}" for person, each in zip(self.person, day, strict=True)]
        people, number = numbered([name for name, keep in zip(names, kept, strict=True) if keep])
        activities, activity = numbered(self.activity)
        state = activity * (outside + 1) + near[index.reshape(-1)]
        seconds = self.begin_seconds[kept] - (_DAY * day[kept] if is_week else 0.0)
        found = in_slots(number, seconds, state[kept], len(people), slots)
        weight = np.full(len(people), 1.0 / _WEEKDAYS if is_week else 1.0)
        return AgentDays(found % (outside + 1), found // (outside + 1), activities, weight)


def is_agents(table: BroughtTable) -> bool:
    """Whether a table is of synthetic agents, eqasim's or UVA's; a folder or GeoPackage always is."""
    return table.usual(("pid", "purpose")) is not None


def read_agents(path: Path) -> AgentEvents:
    """The events of a folder or file; :class:`InputError` says what is missing."""
    if path.is_dir():
        found = [
            each
            for end in (".gpkg", ".parquet", ".csv", ".csv.gz")
            for each in sorted(path.glob(f"*activities{end}"))
        ]
        if not found:
            raise InputError(
                f"{path} must hold eqasim's activities (.gpkg, .parquet or .csv)",
                "none",
                "give the output folder",
            )
        path = found[0]
    if path.suffix.lower() == ".gpkg":
        return _of_eqasim(BroughtTable(path, _geopackage(path)))
    table = BroughtTable(path)
    return _of_uva(table) if table.usual(("pid",)) else _of_eqasim(table)


def _starts(table: BroughtTable, otherwise: float | None = None) -> NDArray[np.float64]:
    """When activities begin, in seconds of a day or of a week."""
    begin = table.numbers(("start_time",), "of starts in seconds", otherwise)
    wrong = np.flatnonzero((begin < 0.0) | (begin >= _LONGEST_DAYS * _DAY))
    if wrong.size or not begin.size:
        raise InputError(
            f"activities of {table.path} must begin 0 to {_LONGEST_DAYS * _DAY:,} seconds after midnight or "
            "Monday's",
            f"{begin[wrong[0]]:g} in row {wrong[0] + 1}" if wrong.size else "no activities",
            "correct start_time, or leave such rows out",
        )
    return begin


def _of_eqasim(table: BroughtTable) -> AgentEvents:
    """Activities of eqasim: ``person_id``, ``purpose``, ``start_time``; the first of a day has no start."""
    person = table.texts(("person_id",), "of persons")
    purpose = table.texts(("purpose",), "of purposes")
    return AgentEvents(person, _starts(table, 0.0), purpose, *_places(table))


def _of_uva(assigned: BroughtTable) -> AgentEvents:
    """UVA's assignments: ``pid``, ``activity_type``, ``start_time`` in seconds of a day or since Monday."""
    kind = assigned.numbers(("activity_type",), "of types of activity")
    wrong = np.flatnonzero((kind < 0) | (kind >= len(_UVA_TYPES)) | (kind != np.floor(kind)))
    if wrong.size:
        raise InputError(
            f"activity_type of {assigned.path} must be 0 to {len(_UVA_TYPES) - 1}",
            kind[wrong[0]],
            "see its data dictionary",
        )
    table = BroughtTable(assigned.path, assigned.table.take(np.flatnonzero(kind > 0)))  # without trips
    types = [_UVA_TYPES[int(each)] for each in kind[kind > 0]]
    person, begin = table.texts(("pid",), "of persons"), _starts(table)
    at = _places(table) if table.usual(LATITUDES) else _uva_places(table, types)
    return AgentEvents(person, begin, types, *at)


def _uva_places(table: BroughtTable, types: Sequence[str]) -> _Places:
    """Coordinates from the two files of locations beside the assignments, by ``lid``."""
    path, lid = table.path, table.texts(("lid",), "of locations, or of latitudes")
    at: list[dict[str, tuple[float, float]]] = []
    for name, key in zip(_UVA_PLACES, ("alid", "rlid"), strict=True):
        beside = path.with_name(path.name.replace(_UVA_FILE, name))
        if beside == path or not beside.is_file():
            raise InputError(
                f"{path} must have coordinates, or the files of locations beside it",
                f"no {beside.name}",
                "add them",
            )
        places = BroughtTable(beside)
        names = places.texts((key, "lid"), "of locations")
        north, east, _ = _places(places)
        at.append(dict(zip(names, zip(north, east, strict=True), strict=True)))
    activity_places, residences = at
    found = [
        (residences if each == "home" else activity_places).get(name)
        for name, each in zip(lid, types, strict=True)
    ]
    if None in found:
        raise InputError(
            f"each location of {path} must be in the files beside it",
            f"{lid[found.index(None)]!r}",
            "take files of one version",
        )
    pairs = np.array([pair for pair in found if pair is not None]).reshape(-1, 2)
    return pairs[:, 0], pairs[:, 1], True


def _places(table: BroughtTable) -> _Places:
    """North, east, and whether they are degrees."""
    geometry = table.usual(_GEOMETRY)
    if geometry is not None and not pa.types.is_string(table.table[geometry].type):
        points = [_point(table.path, blob) for blob in table.table[geometry].to_pylist()]
        at = np.array(points, dtype=np.float64).reshape(-1, 2)
        return at[:, 1], at[:, 0], False
    is_globe = table.usual(LATITUDES) is not None
    north = table.needed(LATITUDES if is_globe else ("y",), "of places (lat and lon, x and y, or geometry)")
    east = table.needed(LONGITUDES if is_globe else ("x",), "of places")
    return table.numbers(north), table.numbers(east), is_globe


def _geopackage(path: Path) -> pa.Table:
    """The one table of features of a GeoPackage."""
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as base:
            layers = [
                row[0]
                for row in base.execute("SELECT table_name FROM gpkg_contents WHERE data_type = 'features'")
            ]
            if len(layers) != 1:
                raise InputError(
                    f"{path} must hold one layer", f"{len(layers)}", "export the activities alone"
                )
            quoted = layers[0].replace('"', '""')
            cursor = base.execute(f'SELECT * FROM "{quoted}"')
            names = [column[0] for column in cursor.description]
            rows = cursor.fetchall()
    except sqlite3.Error as error:
        raise InputError(f"{path} must be a GeoPackage", error, "export it again") from None
    columns = {}
    for name, cells in zip(names, zip(*rows, strict=True) if rows else [()] * len(names), strict=True):
        is_blob = any(isinstance(cell, bytes) for cell in cells)
        columns[name] = (
            pa.array(cells, pa.binary())
            if is_blob
            else pa.array([None if c is None else str(c) for c in cells], pa.string())
        )
    return pa.table(columns)


def _point(path: Path, blob: object) -> tuple[float, float]:
    """East and north of a point in WKB, with a GeoPackage's header or without."""
    try:
        assert isinstance(blob, bytes)
        if blob[:2] == b"GP":
            blob = blob[8 + _ENVELOPE_BYTES[(blob[3] >> 1) & 7] :]
        order = "<" if blob[0] == 1 else ">"
        kind, east, north = struct.unpack_from(f"{order}Idd", blob, 1)
        if kind % 1000 != _POINT or not (np.isfinite(east) and np.isfinite(north)):
            raise ValueError(kind)
    except (AssertionError, IndexError, struct.error, ValueError):
        raise InputError(
            f"each geometry of {path} must be a point", "another", "give points of activities"
        ) from None
    return east, north
