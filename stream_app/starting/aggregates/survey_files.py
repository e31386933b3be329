"""What people do in each slot of a day, from a survey: a row a person, a column a slot; and hourly flows."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from models.fitting.calibration import Flows
from models.fitting.personas import HOME, WORK, Activity, DayType
from stream_app.exceptions import InputError
from stream_app.starting.aggregates.agent_files import AT_HOME, WORKS, added_up, numbered
from stream_app.starting.counts.tables import BroughtTable

# Days that are assumed where no survey says what people do, hour by hour.
#
# The weights say what people want to do in each hour. Who does not stay draws from those of the next hour.

HOURS = 24
WEEK = (5, 2)
"""Weekdays and days of a weekend."""
MEAL, OUT = "meal", "out"
#: Where one goes for them, and how far: a meal near work, everything else near home.
ASSUMED_ACTIVITIES = {MEAL: Activity(MEAL, WORK, 0.6), OUT: Activity(OUT, HOME, 2.0)}
LINGER = 0.7
_WORKS = (HOME, WORK, MEAL, OUT)
_WORK_DAY = (
    (0, (0.99, 0.0, 0.0, 0.01)),
    (7, (0.5, 0.45, 0.0, 0.05)),
    (9, (0.08, 0.87, 0.02, 0.03)),
    (12, (0.06, 0.54, 0.35, 0.05)),
    (14, (0.08, 0.87, 0.02, 0.03)),
    (17, (0.45, 0.3, 0.0, 0.25)),
    (19, (0.72, 0.03, 0.0, 0.25)),
    (22, (0.93, 0.0, 0.0, 0.07)),
)
_FREE_DAY = ((0, (0.99, 0.01)), (9, (0.65, 0.35)), (18, (0.75, 0.25)), (22, (0.93, 0.07)))


def assumed_days(slots: int, week: bool = False) -> tuple[DayType, ...]:
    """A day with work and one without; of a week the work is on five days of seven."""
    free = _day("at home", (HOME, OUT), _FREE_DAY, slots)
    works = _day("works", _WORKS, _WORK_DAY, slots)
    if not week:
        return works, free
    return works.then(free, WEEK), free.then(free, WEEK)


def _day(
    name: str, activities: tuple[str, ...], blocks: tuple[tuple[int, tuple[float, ...]], ...], slots: int
) -> DayType:
    if slots < 1 or (slots % HOURS and HOURS % slots):
        raise InputError(
            "slots of assumed days must be hours, or parts or groups of hours", slots, "24 a day is usual"
        )
    hour = np.arange(slots) * HOURS / slots
    block = np.searchsorted([begin for begin, _ in blocks], hour, side="right") - 1
    weights = np.array([weights for _, weights in blocks])[block]
    return DayType.of_weights(name, activities, weights, LINGER ** (HOURS / slots))


_MOST_SLOTS = 1_000_000
_WEEKDAY = {"weekday", "monday", "tuesday", "wednesday", "thursday", "friday", *"12345"}
_WEEKEND = {"weekend", "saturday", "sunday", *"67"}


def read_days(path: Path, week: bool = False) -> tuple[DayType, ...]:
    """A type of day for people who work on it, and one for people who do not.

    Columns 0, 1, ... name what each person does in that slot; ``weight`` may say how many people the row
    stands for. For a ``week`` the column ``day`` says which day the row is of: five weekdays are then
    followed by two days of a weekend. People who work on weekdays have any of the weekends, others those
    without work.
    """
    table = BroughtTable(path)
    names = table.table.column_names
    slots = sum(name.strip().isdecimal() for name in names)
    columns = [str(slot) for slot in range(slots)]
    if not slots or not set(columns) <= set(names) or not len(table):
        raise InputError(
            f"{path} must have a column for each slot of a day, named 0, 1, 2, ..., and a row a person",
            f"{slots} such columns, {len(table)} rows",
            "write what each person does in each hour: home, work, shop, ...",
        )
    cells = [table.texts(name) for name in columns]
    activities, index = numbered([cell for column in cells for cell in column])
    if "" in activities or HOME not in activities:
        raise InputError(
            f"{path} must say what people do in each slot, and call being at home {HOME!r}",
            "an empty cell" if "" in activities else f"{len(activities)} other names",
            "fill it, or leave the person out",
        )
    sequences = index.reshape(slots, -1).T
    weight = table.usual(("weight",))
    weights = np.ones(len(sequences)) if weight is None else table.numbers(weight)
    if not (weights > 0.0).all():
        raise InputError(f"weights of {path} must be above 0", "another", "leave such people out")
    works = np.zeros(len(sequences), dtype=np.bool_)
    if WORK in activities:
        works = (sequences == activities.index(WORK)).any(axis=1)
    free = _weekend(table, week)

    def day(name: str, rows: NDArray[np.bool_]) -> DayType:
        return DayType.of_sequences(name, activities, sequences[rows], weights[rows])

    found = []
    for name, own, off in ((WORKS, works, free), (AT_HOME, ~works, free & ~works)):
        if (own & ~free).any():
            if week and not off.any():
                raise InputError(
                    f"{path} must have days of a weekend without work, for who does not work",
                    "none",
                    "add such rows, or leave out --cycle week",
                )
            found.append(day(name, own & ~free).then(day(name, off), WEEK) if week else day(name, own))
    return tuple(found)


def _weekend(table: BroughtTable, week: bool) -> NDArray[np.bool_]:
    """Which rows are of a weekend; :class:`InputError` where the file and the cycle do not fit each other."""
    path, column = table.path, table.usual(("day", "weekday", "day_of_week"))
    if column is None and not week:
        return np.zeros(len(table), dtype=np.bool_)
    if column is None or not week:
        raise InputError(
            f"{path} must have a column day for a cycle of a week, and none for one of a day",
            "none" if column is None else f"a column {column!r}",
            "say weekday or weekend, or monday to sunday, in each row" if week else "give --cycle week",
        )
    days = [cell.lower() for cell in table.texts(column)]
    wrong = next((row for row, name in enumerate(days) if name not in _WEEKDAY | _WEEKEND), None)
    if wrong is not None:
        raise InputError(
            f"column {column!r} of {path} must hold weekday or weekend, monday to sunday, or 1 (monday) to 7",
            f"something else in row {wrong + 1}",
            "correct it",
        )
    free = np.array([name in _WEEKEND for name in days], dtype=np.bool_)
    if free.all() or not free.any():
        raise InputError(
            f"{path} must have weekdays and days of a weekend for a cycle of a week",
            "weekends alone" if free.any() else "weekdays alone",
            "leave out the column and --cycle week",
        )
    return free


def read_flows(path: Path, names: Sequence[str], location: NDArray[np.int64], outside: int) -> Flows:
    """People who go from zone to zone in each slot, added up by location; other zones are outside."""
    table = BroughtTable(path)
    slot = table.numbers(("slot", "hour", "t"), "of slots")
    origin = table.texts(("origin", "from", "o"), "of origins")
    destination = table.texts(("destination", "to", "d"), "of destinations")
    people = table.numbers(("people", "flow", "trips", "count"), "of people")
    wrong = np.flatnonzero((slot != np.floor(slot)) | (np.abs(slot) > _MOST_SLOTS))
    if wrong.size:
        raise InputError(f"slots of {path} must be whole numbers from 0 on", slot[wrong[0]], "correct it")
    if (people < 0.0).any():
        raise InputError(f"people in {path} must be 0 or more", people.min(), "correct it")
    index = {name: int(location[number]) for number, name in enumerate(names)}
    far = int(location[outside])
    here = np.array([index.get(name, far) for name in origin], dtype=np.int64)
    there = np.array([index.get(name, far) for name in destination], dtype=np.int64)
    return added_up([slot.astype(np.int64), here, there], people)
