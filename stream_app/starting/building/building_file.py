"""The description of a building: rooms, desks, doors and people as tables in TOML, or in CSV files beside it.

A step is long enough to walk from any room to any other. Who is in a room is at the location of the room, or
of the desk in it that has a sensor of its own. A door counts the moves that cannot be made without it.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Collection, Iterator, Mapping
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError, ValidationInfo, field_validator, model_validator

from models.text import parse_toml
from stream_app.exceptions import InputError
from stream_app.setup.sections import Section
from stream_app.starting.counts.times import check_zone

OUTSIDE = "outside"
"""The location of whoever is not in the building."""
_TABLES = ("rooms", "desks", "doors", "people")
_WEEKDAYS = ("mo", "tu", "we", "th", "fr", "sa", "su")
_SHIFT = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
_DAY_MINUTES = 1440


def _beside(given: Path, info: ValidationInfo) -> Path:
    """A file that the building's own names: from its folder, which is the context."""
    return Path(info.context or "") / given


Beside = Annotated[Path, AfterValidator(_beside)]


class Room(Section):
    """A room; ``x`` and ``y`` are its middle on its floor, in metres."""

    name: str = Field(min_length=1)
    floor: str = ""
    kind: Literal["desks", "meeting", "shared", "other"] = "other"
    sensor: Literal["people", "presence", "none"] = "people"
    x: float | None = None
    y: float | None = None
    width: float | None = Field(default=None, gt=0)
    depth: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _is_placed_or_not(self) -> Room:
        if (self.x is None) != (self.y is None) or (self.width is None) != (self.depth is None):
            raise ValueError("x and y must be given together, and so must width and depth")
        if self.width is not None and self.x is None:
            raise ValueError("a room with a width and a depth must have x and y")
        return self


class Desk(Section):
    """A desk with a sensor of its own, in a room; the room's sensor counts who sits there, too."""

    name: str = Field(min_length=1)
    room: str
    sensor: Literal["presence", "none"] = "presence"


class Door(Section):
    """A door between two rooms, or a room and ``outside``; doors of one name are one counter."""

    name: str = Field(min_length=1)
    leads_from: str = Field(alias="from")
    leads_to: str = Field(alias="to")
    sensor: Literal["in and out", "none"] = "none"


class Person(Section):
    """Somebody who works here, or ``people`` who live alike: a desk (or a room), a shift, days of the week.

    ``shift`` is ``09:00-17:30``, past midnight, too, or a calendar file of the roster. ``away`` is the share
    of a shift that is spent elsewhere. ``calendar`` is a file with this person's own appointments.
    """

    name: str = Field(min_length=1)
    desk: str
    people: float | None = Field(default=None, gt=0)
    shift: str = "09:00-17:00"
    days: str = "mo-fr"
    away: float = Field(default=0.15, ge=0, le=1)
    calendar: Beside | None = None

    @field_validator("shift")
    @classmethod
    def _is_shift(cls, given: str, info: ValidationInfo) -> str:
        if _SHIFT.fullmatch(given):
            return given
        if not given.endswith(".ics"):
            raise ValueError(f"a shift must be like 09:00-17:30, or a calendar file (.ics), not {given!r}")
        return str(_beside(Path(given), info))

    @field_validator("days")
    @classmethod
    def _is_days(cls, given: str) -> str:
        list(_weekdays(given))
        return given

    def hours(self) -> Iterator[tuple[int, int]]:
        """Minutes since Monday, begin and end, of each shift of a week; none where a roster says them."""
        found = _SHIFT.fullmatch(self.shift)
        if found:
            begin, end = (60 * int(found[at]) + int(found[at + 1]) for at in (1, 3))
            for day in _weekdays(self.days):
                yield _DAY_MINUTES * day + begin, _DAY_MINUTES * (day + (end <= begin)) + end


def _weekdays(text: str) -> Iterator[int]:
    """Days of ``mo-fr`` or ``mo we``, Monday is 0; over the end of a week, too."""
    for part in text.replace(",", " ").split():
        ends = part.lower().split("-")
        if len(ends) > 2 or not set(ends) <= set(_WEEKDAYS):
            raise ValueError(f"days must be like mo-fr or mo we fr, not {text!r}")
        first, last = _WEEKDAYS.index(ends[0]), _WEEKDAYS.index(ends[-1])
        yield from (day % 7 for day in range(first, last + 1 + 7 * (last < first)))


class Building(Section):
    """Everything the file says. ``first_day``, a Monday, begins with step 0 and with the timetable's cycle.

    ``timetable`` are calendar files; ``weeks`` is after how many weeks they begin again. ``attendance`` is
    the chance that somebody invited comes, ``around`` the share of desk time in shared rooms of the floor.
    """

    name: str = Field(min_length=1)
    timezone: str
    first_day: date
    step_minutes: int = Field(default=30, ge=1, le=_DAY_MINUTES)
    weeks: int = Field(default=1, ge=1, le=8)
    sigma: float = Field(default=2.0, ge=0.05)
    least_people: float = Field(default=3.0, ge=0)
    attendance: float = Field(default=0.9, ge=0, le=1)
    around: float = Field(default=0.1, ge=0, le=1)
    timetable: tuple[Beside, ...] = ()
    rooms: tuple[Room, ...]
    desks: tuple[Desk, ...] = ()
    doors: tuple[Door, ...] = ()
    people: tuple[Person, ...] = ()

    @model_validator(mode="after")
    def _fits_together(self) -> Building:
        check_zone(self.timezone)
        if self.first_day.weekday():
            raise ValueError(f"first_day must be a Monday, not {self.first_day:%A}, {self.first_day}")
        if _DAY_MINUTES % self.step_minutes:
            raise ValueError(f"steps of {self.step_minutes} minutes must fill a day")
        names = self.locations
        twice = {name for name in names if names.count(name) > 1}
        if twice:
            raise ValueError(f"rooms and desks must have names of their own, not twice {min(twice)!r}")
        rooms = {room.name for room in self.rooms}
        for desk in self.desks:
            _require(desk.room, rooms, f"the room of desk {desk.name!r}")
        for door in self.doors:
            for end in (door.leads_from, door.leads_to):
                _require(end, {*rooms, OUTSIDE}, f"each end of door {door.name!r}")
        for person in self.people:
            _require(person.desk, set(names) - {OUTSIDE}, "the desk of each person")
        who = [person.name for person in self.people]
        if len(set(who)) < len(who):
            raise ValueError("people must have names of their own")
        list(self.counted_doors())
        return self

    @property
    def locations(self) -> tuple[str, ...]:
        """Rooms, desks, and outside."""
        return (*(room.name for room in self.rooms), *(desk.name for desk in self.desks), OUTSIDE)

    def in_room(self, room: str) -> tuple[str, ...]:
        """The locations of a room: itself, and its desks; outside is one of its own."""
        return (room, *(desk.name for desk in self.desks if desk.room == room))

    def room_of(self, place: str) -> str:
        """The room of a desk, or the room itself."""
        return next((desk.room for desk in self.desks if desk.name == place), place)

    @property
    def slots(self) -> int:
        """Steps of a cycle."""
        return self.weeks * 7 * _DAY_MINUTES // self.step_minutes

    def counted_doors(self) -> Iterator[tuple[str, str, list[tuple[str, str]]]]:
        """Door, direction (in, out), and the moves (from, to) between locations that lead through it."""
        for name in dict.fromkeys(door.name for door in self.doors if door.sensor == "in and out"):
            own = [door for door in self.doors if door.name == name]
            others = [(door.leads_from, door.leads_to) for door in self.doors if door.name != name]
            here = _joined(others, {door.leads_from for door in own})
            there = _joined(others, {door.leads_to for door in own})
            if any(door.sensor == "none" for door in own):
                raise ValueError(f"doors of one name are one counter: each of {name!r} must count, or none")
            if here & there:
                raise ValueError(
                    f"door {name!r} must be the only way between what it parts: give one name to all doors "
                    "that lead there, with one sensor"
                )
            missing = {room.name for room in self.rooms} - here - there
            if missing:
                raise ValueError(f"doors must lead to each room, where one counts, also to {min(missing)!r}")
            sides = [
                [place for room in sorted(side) for place in self.in_room(room)] for side in (here, there)
            ]
            for direction, (begin, end) in (("in", sides), ("out", sides[::-1])):
                yield name, direction, [(one, other) for one in begin for other in end]


def _joined(doors: Collection[tuple[str, str]], begin: set[str]) -> set[str]:
    """What can be reached through these doors."""
    found = set(begin)
    while more := {end for pair in doors if found & set(pair) for end in pair} - found:
        found |= more
    return found


def _require(name: str, known: set[str], what: str) -> None:
    if name not in known:
        close = get_close_matches(name, known, n=1)
        hint = f": did you mean {close[0]!r}?" if close else ""
        raise ValueError(f"{what} must be a room or desk of the building, not {name!r}{hint}")


def load_building(path: Path) -> Building:
    """The building of a file; :class:`InputError` names what is wrong. Files it names lie beside it."""
    try:
        document = parse_toml(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path} must be a TOML file", error, "check path and content") from None
    try:
        for table in _TABLES:
            if isinstance(document.get(table), str):
                document[table] = list(_csv_rows(path.parent / document[table]))
        return Building.model_validate(document, context=path.parent)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part + 1) if isinstance(part, int) else part for part in first["loc"])
        raise InputError(
            f"{path} must describe a building",
            f"{where + ': ' if where else ''}{first['msg'].removeprefix('Value error, ')}",
            "correct it; docs/how-to/rooms.md has an example",
        ) from None


def _csv_rows(path: Path) -> Iterator[Mapping[str, Any]]:
    """The rows of a table; an empty cell is as if its column were not there."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            for row in csv.DictReader(file, strict=True):
                yield {str(key): value for key, value in row.items() if value}
    except (OSError, ValueError, csv.Error) as error:
        raise InputError(f"{path} must be a table (CSV, UTF-8)", error, "check path and content") from None
