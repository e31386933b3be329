"""A building as a table becomes a checked deployment: doors, shifts and timetables as what they are."""

from __future__ import annotations

import json
from itertools import combinations, product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from models.prior_files import load_population
from stream_app.analysis.preflight import check_files
from stream_app.exceptions import InputError
from stream_app.setup.sensor_files import load_registry
from stream_app.starting.building import Building, load_building, people_of
from stream_app.starting.building.habits import kept_moves, read_calendar
from stream_app.starting.building.office import build_office
from stream_app.starting.demo import SEED, run_demo
from tests.stream_app.command_line import invoked

BUILDING = """
name = "office"
timezone = "Europe/Vienna"
first_day = 2026-03-23
weeks = 2
timetable = ["meetings.ics"]
people = "people.csv"
rooms = [
  {name = "hall", floor = "ground", kind = "shared", x = 5, y = 5, width = 10, depth = 8},
  {name = "west", floor = "first", kind = "desks", x = 5, y = 5, width = 10, depth = 8},
  {name = "board", floor = "first", kind = "meeting", x = 15, y = 5, width = 10, depth = 8},
  {name = "corner", floor = "first", sensor = "presence"},
]
desks = [{name = "desk 1", room = "west"}]
doors = [
  {name = "main", from = "outside", to = "hall", sensor = "in and out"},
  {name = "main", from = "outside", to = "west", sensor = "in and out"},
  {name = "stairs", from = "hall", to = "west"},
  {name = "glass", from = "west", to = "board", sensor = "in and out"},
  {name = "wood", from = "west", to = "corner"},
]
"""
PEOPLE = """name,desk,people,shift,days,calendar
ann,desk 1,,09:00-17:00,mo-fr,ann.ics
bea,corner,,roster.ics,,
editors,west,12,08:00-16:00,mo we,
guard,hall,,22:00-06:00,su,
"""


def event(start: str, end: str, *lines: str) -> str:
    times = f"DTSTAMP:20260101T000000Z\nDTSTART{start}\nDTEND{end}"
    return "\n".join(["BEGIN:VEVENT", "UID:" + str(hash((start, lines))), times, *lines, "END:VEVENT"])


def calendar(*events: str) -> str:
    return "\n".join(["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//t//EN", *events, "END:VCALENDAR", ""])


INVITED = "ATTENDEE;CN=Ann:mailto:a@example.org\nATTENDEE:mailto:editors@example.org"
FILES = {
    "building.toml": BUILDING,
    "people.csv": PEOPLE,
    "meetings.ics": calendar(
        # Mondays at 9 by the clock on the wall, before and after the change of clocks on 29 March
        event(";TZID=Europe/Vienna:20260105T090000", ";TZID=Europe/Vienna:20260105T100000",
              "RRULE:FREQ=WEEKLY", "LOCATION:Board; online", INVITED),
        event(":20260324T130000Z", ":20260324T140000Z", "LOCATION:board", "STATUS:CANCELLED", INVITED),
        event(":20260325T130000Z", ":20260325T140000Z", "LOCATION:elsewhere", INVITED),
        event(":20260326T130000Z", ":20260326T140000Z", "LOCATION:board", "ATTENDEE:mailto:zoe@example.org"),
        event(";VALUE=DATE:20260324", ";VALUE=DATE:20260325", "LOCATION:board", INVITED),
        event(":20260327T130000Z", ":20260327T140000Z", "LOCATION:board",
              "ATTENDEE;CN=ann;PARTSTAT=DECLINED:mailto:ann@example.org", "ATTENDEE;CN=editors:mailto:e@e"),
    ),
    "ann.ics": calendar(
        event(";VALUE=DATE:20260331", ";VALUE=DATE:20260401", "X-MICROSOFT-CDO-BUSYSTATUS:OOF")
    ),
    "roster.ics": calendar(event(":20260325T050000", ":20260325T130000", "SUMMARY:early")),
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description's files, and the deployment that `init` makes of it in ``office``."""
    folder = tmp_path_factory.mktemp("building")
    for name, text in FILES.items():
        (folder / name).write_text(text)
    status, said = invoked("init", folder / "building.toml", "--output", folder / "office", "--sigma", "1.5")
    (folder / "said").write_text(said)
    assert status == 0, said
    return folder


@pytest.fixture(scope="module")
def building(folder: Path) -> Building:
    return load_building(folder / "building.toml")


def at(building: Building, day: int, hour: float) -> int:
    return int((24 * day + hour) * 60 / building.step_minutes)


@pytest.mark.slow
def test_a_building_becomes_a_deployment_that_checks(folder: Path) -> None:
    """With its noise, questions and a plan; what fewer than three people use is not released."""
    office, said = folder / "office", (folder / "said").read_text()
    findings = check_files(config=office / "tallyguard.toml", priors=office / "priors.parquet")
    assert not [each for each in findings if each.level == "problem"]
    assert "Appointments at no room of the building, left out: 1." in said
    assert "Appointments without anybody of the people, left out: 1." in said
    assert "use what they count: hall, corner, desk 1." in said
    text = (office / "tallyguard.toml").read_text()
    assert "sigma = 1.5" in text and "origin = 2026-03-22T23:00:00Z" in text
    assert '[release.sensors."desk 1"]  # 1 people use it\nmechanism = "suppressed"' in text
    for question in ("desk", "meeting", "present"):
        asked = text.replace('question = "place"', f'question = "{question}"')
        (office / f"{question}.toml").write_text(asked)
        findings = check_files(config=office / f"{question}.toml", priors=office / "priors.parquet")
        assert not [each for each in findings if each.level == "problem"]


def test_floors_are_beside_each_other_on_the_plan(folder: Path) -> None:
    office = folder / "office"
    registry = load_registry(office / "sensors.json", (office / "locations.txt").read_text().splitlines())
    rooms = {sensor.name: sensor for sensor in registry.sensors}
    assert rooms["hall"].size == rooms["west"].size == (10.0, 8.0)
    (hall_x, hall_y), (west_x, west_y) = rooms["hall"].position or (), rooms["west"].position or ()
    assert hall_y == west_y and west_x - hall_x > 20.0  # as wide as the widest floor
    assert rooms["corner"].position is None
    assert rooms["west"].locations == (1, 4) and rooms["desk 1"].locations == (4,)


def test_a_door_counts_the_moves_that_cannot_be_made_without_it(building: Building, folder: Path) -> None:
    """For each two places: is there a way when the door is shut? Two doors are one sensor."""
    counted = {(name, way): set(moves) for name, way, moves in building.counted_doors()}
    assert counted.keys() == set(product(("main", "glass"), ("in", "out")))
    inside = {("hall", "west"), ("west", "corner")}
    ways = {
        "main": {("west", "board"), *inside},
        "glass": {("outside", "hall"), ("outside", "west"), *inside},
    }
    for name, open_doors in ways.items():
        shut = {
            (one, other)
            for one, other in product(building.locations, repeat=2)
            if one != other and not _is_way(building.room_of(one), building.room_of(other), open_doors)
        }
        assert counted[name, "in"] | counted[name, "out"] == shut
        assert {(end, begin) for begin, end in counted[name, "in"]} == counted[name, "out"]
    assert ("outside", "desk 1") in counted["main", "in"] and ("west", "board") in counted["glass", "in"]
    document = json.loads((folder / "office" / "sensors.json").read_text())
    assert document["most_sensors"] == 2  # from outside to the board room through both


def _is_way(one: str, other: str, doors: set[tuple[str, str]]) -> bool:
    reached = {one}
    for _ in doors:
        reached |= {end for pair in doors if reached & set(pair) for end in pair}
    return other in reached


def test_priors_are_the_shifts_and_the_timetable(building: Building, folder: Path) -> None:
    """Slot by slot, by the clock on the wall; who is invited comes with the declared chance."""
    people = load_population(folder / "office" / "priors.parquet")
    assert people.weights is not None and people.weights.tolist() == [1, 1, 12, 1]
    assert people.assumed == "15 people by their desks, shifts and timetables"

    laws = {
        prior.person: ([building.locations[each] for each in prior.places], prior.chain().start)
        for prior in people.priors()
    }

    def chance(who: str, day: int, hour: float, place: str) -> float:
        own, law = laws[who]
        return float(law[at(building, day, hour), own.index(place)]) if place in own else 0.0

    for monday in (0, 7):  # after the change of clocks, too
        assert chance("ann", monday, 9.0, "board") == pytest.approx(0.9)
        assert chance("ann", monday, 8.5, "board") == chance("ann", monday, 10.0, "board") == 0.0
    assert chance("editors", 0, 9.5, "board") == pytest.approx(0.9)  # known by the address
    assert chance("ann", 1, 14.0, "board") == 0.0  # cancelled, or a whole day
    assert chance("ann", 4, 14.0, "board") == 0.0 < chance("editors", 4, 14.0, "board")  # declined
    assert chance("ann", 1, 14.0, "desk 1") == pytest.approx(0.85)  # no shared room on this floor
    assert chance("ann", 8, 14.0, "outside") == 1.0  # out of the office
    assert chance("bea", 2, 5.5, "corner") == pytest.approx(0.85)  # by the roster, not at 9 to 5
    assert [chance("bea", *when, "corner") for when in ((2, 13.0), (3, 9.0))] == pytest.approx([0.02] * 2)
    assert chance("guard", 0, 3.0, "hall") == pytest.approx(0.85)  # Sunday's night, at the cycle's start
    assert chance("guard", 1, 3.0, "hall") == pytest.approx(0.02)
    assert chance("editors", 1, 9.0, "west") == pytest.approx(0.02)  # Mondays and Wednesdays


def test_personas_of_a_building_are_those_of_init(folder: Path) -> None:
    output = folder / "personas.parquet"
    status, said = invoked("priors", "personas", folder / "building.toml", "--output", output)
    assert status == 0 and "left out: 1." in said
    assert output.read_bytes() == (folder / "office" / "priors.parquet").read_bytes()


LAWS = st.integers(1, 4).flatmap(
    lambda places: st.lists(
        st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0, 3.0]), min_size=places, max_size=places).filter(any),
        min_size=1,
        max_size=4,
    )
)


@given(LAWS, st.sampled_from([0.0, 0.6, 1.0]))
def test_a_chain_has_the_laws_it_was_made_of(weights: list[list[float]], linger: float) -> None:
    """Zeros included; and with ``linger`` 1 nobody moves who need not."""
    law = np.array(weights)
    law /= law.sum(axis=1, keepdims=True)
    moves, later = kept_moves(law, linger), np.roll(law, -1, axis=0)
    assert moves.min() >= 0.0 and moves.sum(axis=2) == pytest.approx(1.0)
    assert (law[:, :, None] * moves).sum(axis=1) == pytest.approx(later)
    if linger == 1.0:
        stay = (law * np.diagonal(moves, axis1=1, axis2=2)).sum(axis=1)
        assert stay == pytest.approx(np.minimum(law, later).sum(axis=1))


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("2026-03-23", "2026-03-24", "first_day must be a Monday, not Tuesday"),
        ("weeks = 2", "step_minutes = 50", "steps of 50 minutes must fill a day"),
        ('room = "west"', 'room = "wset"', "the room of desk 'desk 1' must be .* did you mean 'west'"),
        ('to = "corner"', 'to = "nowhere"', "each end of door 'wood'"),
        ('name = "board"', 'name = "west"', "names of their own, not twice 'west'"),
        ('"west", sensor = "in and out"}', '"west"}', "each of 'main' must count, or none"),
        (
            '{name = "main", from = "outside", to = "west"',
            '{name = "side", from = "outside", to = "west"',
            "door 'main' must be the only way between what it parts",
        ),
        ('from = "west", to = "corner"', 'from = "hall", to = "hall"', "to each room.*'corner'"),
        ("y = 5, width = 10", "width = 10", "x and y must be given together"),
        ("Europe/Vienna", "Europe/Wien", "did you mean"),
        ('"people.csv"', '"nobody.csv"', "must be a table"),
        ("weeks = 2", "week = 2", "week: Extra inputs"),
    ],
)
def test_a_wrong_description_is_refused_in_words(tmp_path: Path, old: str, new: str, words: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace(old, new, 1) if name == "building.toml" else text)
    with pytest.raises(InputError, match=words):
        load_building(tmp_path / "building.toml")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("roster.ics", "9 to 5", "a shift must be like 09:00-17:30"),
        ("mo we", "mo mi", "days must be like mo-fr"),
        ("desk 1", "desk 9", "the desk of each person.*'desk 9'"),
        ("guard", "ann", "people must have names of their own"),
    ],
)
def test_wrong_people_are_refused_in_words(tmp_path: Path, old: str, new: str, words: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text.replace(old, new, 1) if name == "people.csv" else text)
    with pytest.raises(InputError, match=words):
        load_building(tmp_path / "building.toml")


def test_what_is_no_calendar_and_a_building_without_people_are_refused(
    folder: Path, building: Building
) -> None:
    with pytest.raises(InputError, match="must be a calendar"):
        read_calendar(folder / "people.csv", building)
    with pytest.raises(InputError, match="must say who works there"):
        people_of(building.model_copy(update={"people": ()}))
    status, said = invoked("init", folder / "building.toml", "--output", folder / "b", "--epsilon", "3")
    assert status == 2 and "leave out --epsilon" in said


@pytest.mark.slow
def test_the_demo_of_a_building_is_what_init_makes_of_its_files(tmp_path: Path) -> None:
    """An office of 120 people in 40 rooms on four floors; the same seed is the same office, to the letter."""
    report = run_demo(
        output=tmp_path / "demo", steps=6, building=True, seconds_per_step=0.0, listen="", announce=len
    )
    folder = report.scenario.folder
    assert (report.people, report.steps) == (120, 6)
    assert {row.name for row in report.ways_of_life} == set(build_office(SEED).ways)
    status, said = invoked("init", folder / "building.toml", "--output", tmp_path / "again")
    assert status == 0, said
    for name in ("sensors.json", "locations.txt", "priors.parquet"):
        assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()
    sensors = json.loads((folder / "sensors.json").read_text())["sensors"]
    assert len(sensors) == 40 and len({row["group"] for row in sensors}) == 4
    drawn = [(row["x"], row["y"], row["width"], row["depth"]) for row in sensors]
    for one, other in combinations(drawn, 2):  # no room lies in another
        apart = [abs(one[axis] - other[axis]) - (one[axis + 2] + other[axis + 2]) / 2 for axis in (0, 1)]
        assert max(apart) > -1e-9
    silent = {name for name, what in _released(folder).items() if what == {"suppressed"}}
    assert {f"{floor}.08" for floor in (1, 2, 3, 4)} <= silent  # a head of team alone
    assert report.releases == 6 * (40 - len(silent))


def _released(folder: Path) -> dict[str, set[str]]:
    """By which mechanisms each sensor was released."""
    found: dict[str, set[str]] = {}
    for line in (folder / "output" / "decisions.jsonl").read_text().splitlines():
        for release in json.loads(line).get("decisions", ()):
            found.setdefault(release["sensor"], set()).add(release["mechanism"])
    return found
