"""An office of 120 people and 40 rooms on four floors, for the demo: its files, and a week of its people."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from numpy.typing import NDArray

from models.releases import SensorRegistry
from stream_app.city import City, CityMap, CityOptions
from stream_app.setup.sensor_files import registry_of
from stream_app.starting.building.building_file import Building, load_building
from stream_app.starting.building.deployment import sensor_rows
from stream_app.starting.building.habits import people_of

WEEK = 168
PEOPLE, FLOORS, TEAMS_A_FLOOR = 120, 4, 3
_GROUPS = 24  # of people from all teams who meet once a week
_MONDAY = datetime(2026, 3, 2)
#: A floor, 49 by 22 metres with a corridor: name, kind, middle (x, y), width and depth.
_FLOOR = (
    *((f"{team + 1}", "desks", 7 + 14 * team, 17, 14, 10) for team in range(3)),
    *((f"{number + 4}", "meeting", 3.75 + 7.5 * number, 4, 7.5, 8) for number in range(3)),
    ("7", "shared", 26.25, 4, 7.5, 8),
    ("8", "desks", 33, 4, 6, 8),
    ("9", "meeting", 39, 4, 6, 8),
    ("0", "shared", 45.5, 11, 7, 22),
)
#: Ways of living: shift, days, share of the people.
_WAYS = {
    "office hours": ("09:00-17:30", "mo-fr", 0.5),
    "early": ("07:00-15:30", "mo-fr", 0.2),
    "part time": ("09:00-15:00", "mo-we", 0.15),
    "support, late": ("12:00-20:30", "mo-fr", 0.15),
}
_HEAD = "head of team"


@dataclass(frozen=True)
class Office(City):
    """A simulated building, to be used as a city is; ``files`` describe it, for ``tallyguard init``."""

    building: Building = field(kw_only=True)
    files: dict[str, str] = field(kw_only=True)


def build_office(seed: int) -> Office:
    """The office of a seed: always the same rooms, other people and meetings."""
    random = np.random.default_rng((seed, 2))
    ways = (*_WAYS, _HEAD)
    drawn = random.choice(len(_WAYS), size=PEOPLE, p=[share for _, _, share in _WAYS.values()])
    team = np.arange(PEOPLE) % (FLOORS * TEAMS_A_FLOOR)
    habits = np.where(np.arange(PEOPLE) < FLOORS, len(_WAYS), drawn)  # one head a floor, in room 8
    files = {
        "building.toml": _DESCRIPTION,
        "rooms.csv": _rooms(),
        "people.csv": _people(habits, team),
        "meetings.ics": _meetings(team, random),
    }
    with TemporaryDirectory() as folder:
        for name, text in files.items():
            (Path(folder) / name).write_text(text)
        building = load_building(Path(folder) / "building.toml")
        population, _ = people_of(building)
    registry: SensorRegistry = registry_of({"sensors": list(sensor_rows(building))}, building.locations)
    places = CityMap(building.locations, (), np.empty((0, 2)))
    options = CityOptions(PEOPLE, len(registry.sensors), len(registry.sensors), seed=seed)
    return Office(options, places, population, registry, habits, ways, building=building, files=files)


_DESCRIPTION = """# The demo's office, to try: tallyguard init building.toml --output office
name = "demo"
timezone = "Europe/Vienna"
first_day = 2026-03-02
step_minutes = 60
sigma = 2.0
rooms = "rooms.csv"
people = "people.csv"
timetable = ["meetings.ics"]
"""


def _table(header: str, rows: list[tuple[object, ...]]) -> str:
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows([header.split(","), *rows])
    return text.getvalue()


def _rooms() -> str:
    rows = [
        (f"{floor + 1}.0{name}", f"floor {floor + 1}", *rest)
        for floor in range(FLOORS)
        for name, *rest in _FLOOR
    ]
    return _table("name,floor,kind,x,y,width,depth", rows)


def _name(person: int) -> str:
    return f"employee-{person + 1:03d}"


def _people(
    habits: np.ndarray[tuple[int], np.dtype[np.int64]], team: np.ndarray[tuple[int], np.dtype[np.int64]]
) -> str:
    rows: list[tuple[object, ...]] = []
    for person in range(PEOPLE):
        floor, room = divmod(int(team[person]), TEAMS_A_FLOOR)
        if habits[person] == len(_WAYS):
            rows.append((_name(person), f"{person + 1}.08", "08:00-18:00", "mo-fr", 0.25))
        else:
            shift, days, _ = list(_WAYS.values())[habits[person]]
            rows.append((_name(person), f"{floor + 1}.0{room + 1}", shift, days, 0.15))
    return _table("name,desk,shift,days,away", rows)


def _meetings(team: NDArray[np.int64], random: np.random.Generator) -> str:
    """Each team on Tuesday mornings, the heads on Mondays, and groups of three to eight from all teams."""
    import icalendar

    rooms = [
        f"{floor + 1}.0{name}" for floor in range(FLOORS) for name, kind, *_ in _FLOOR if kind == "meeting"
    ]
    planned = [
        (24 + 9 + each % 3, rooms[each], np.flatnonzero(team == each)) for each in range(team.max() + 1)
    ]
    planned.append((14, rooms[0], np.arange(FLOORS)))
    for _ in range(_GROUPS):
        hour = 24 * random.integers(5) + random.integers(9, 17)
        who = random.choice(PEOPLE, size=random.integers(3, 9), replace=False)
        planned.append((int(hour), str(random.choice(rooms)), who))
    calendar = icalendar.Calendar(version="2.0", prodid="-//tallyguard//demo//EN")
    for number, (hour, room, who) in enumerate(planned):
        event = icalendar.Event(uid=f"{number}@demo", location=room, summary=f"Meeting {number}")
        event.add("dtstamp", _MONDAY)
        event.add("dtstart", _MONDAY + timedelta(hours=hour))
        event.add("dtend", _MONDAY + timedelta(hours=hour + 1))
        event.add("rrule", {"freq": "weekly"})
        for person in who:
            event.add("attendee", f"mailto:{_name(person)}@example.org")
        calendar.add_component(event)
    return calendar.to_ical().decode()
