"""The page of file formats says what the parsers read: each example goes through its own."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from models.exceptions import TallyguardError
from models.prior_files import load_population
from models.releases import PerDay, SensorRegistry
from stream_app.setup.given_priors import location_names
from stream_app.setup.priors_verdict import load_priors_check
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.counts.deployment_files import sensor_places
from stream_app.starting.counts.doubts import NOT_COUNTED
from stream_app.wire.inputs import load_activations, reading_parser
from stream_app.wire.messages import Activation, PlaceReport, Reading, Readings, StepRelease
from stream_app.wire.parsing import parse
from tests import ROOT

PAGE = ROOT / "docs" / "reference" / "file-formats.md"
LOCATIONS = ("mill", "port", "gate", "hall", "roof")


def examples(heading: str) -> list[tuple[str, str]]:
    """Kind and text of each example of a section, in their order."""
    sections = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", PAGE.read_text(), re.DOTALL | re.MULTILINE))
    found = re.findall(r"^```(\w+)\n(.*?)^```", sections[heading], re.DOTALL | re.MULTILINE)
    assert found, heading
    return found


def fields(heading: str) -> set[str]:
    """The names in the first column of a section's table."""
    text = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    return set(re.findall(r"`(\w+)`", " ".join(re.findall(r"^\| (`[^|]*) \|", text, re.MULTILINE))))


def saved(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    path.write_text(text)
    return path


def registry(folder: Path) -> SensorRegistry:
    """The sensors of the page, and one that alone counts the location of index 3."""
    ((_, text), _) = examples("Sensors")
    document = json.loads(text)
    document["sensors"].append({"name": "hall", "locations": [3]})
    return load_registry(saved(folder, "all.json", json.dumps(document)), LOCATIONS)


def test_counts_wide_and_long_and_their_sensors(tmp_path: Path) -> None:
    (_, wide), (_, long), (_, sensors) = examples("Counts")
    read = [
        read_counts(saved(tmp_path, name, text), timezone="UTC")
        for name, text in (("wide.csv", wide), ("long.csv", long + "2026-03-02 09:00,north,38\n"))
    ]
    for counts in read:
        assert counts.sensors == ("north", "south")
        assert np.array_equal(counts.table, [[41, 17], [38, NOT_COUNTED]])
    places = sensor_places(saved(tmp_path, "sensors.csv", sensors), read[0].sensors)
    assert [place.latitude for place in places] == [-37.811, -37.818]


def test_sensors_in_both_forms_have_the_fields_of_the_table(tmp_path: Path) -> None:
    (_, as_json), (_, as_csv) = examples("Sensors")
    (one,) = load_registry(saved(tmp_path, "sensors.json", as_json), LOCATIONS).sensors
    (other,) = load_registry(saved(tmp_path, "sensors.csv", as_csv), LOCATIONS).sensors
    for sensor in (one, other):
        assert (sensor.name, sensor.locations, sensor.group) == ("mill street", (0, 4), "centre")
        assert sensor.position is not None
    declared = {"moves", "window", "miscounts", "counts", "most_counts", "corrections"}
    declared |= {"first_step", "most_counts_per_day", "part_of", "width", "depth"}
    assert fields("Sensors") == {"name", "locations", "group", "x", "y", "lat", "lon", *declared}


def test_parts_of_a_device_and_what_it_counts_in_a_day_are_read_from_both_forms(tmp_path: Path) -> None:
    """Left empty in CSV, nothing is declared, as where JSON has no such field."""
    declared = {"part_of": "the bridge", "most_counts_per_day": 3}
    rows = [{"name": name, "locations": ["mill"], **declared} for name in ("in", "out")]
    as_json = json.dumps({"sensors": [*rows, {"name": "port", "locations": ["port"]}]})
    as_csv = "name,locations,part_of,most_counts_per_day\n"
    as_csv += "in,mill,the bridge,3\nout,mill,the bridge,3\nport,port,,\n"
    for name, text in (("sensors.json", as_json), ("sensors.csv", as_csv)):
        sensors = load_registry(saved(tmp_path, name, text), LOCATIONS).sensors
        assert [each.part_of for each in sensors] == ["the bridge", "the bridge", None]
        assert [each.per_day for each in sensors] == [PerDay(3), PerDay(3), None]
    for wrong in ("name,locations,most_counts_per_day\nin,mill,often\n", as_csv.replace(",3", ",0")):
        with pytest.raises(TallyguardError, match="whole number of 1 or more"):
            load_registry(saved(tmp_path, "wrong.csv", wrong), LOCATIONS)


@pytest.mark.parametrize(
    "change",
    [
        {"colour": "red"},
        {"locations": ["nowhere"]},
        {"lon": None},
        {"x": 1.0, "y": 2.0},
        {"lat": 86.0},
    ],
)
def test_what_the_page_says_of_sensors_is_refused(tmp_path: Path, change: dict[str, object]) -> None:
    (row,) = json.loads(examples("Sensors")[0][1])["sensors"]
    changed = {key: value for key, value in {**row, **change}.items() if value is not None}
    for rows in ([changed], [row, row]):
        with pytest.raises(TallyguardError):
            load_registry(saved(tmp_path, "sensors.json", json.dumps({"sensors": rows})), LOCATIONS)


def test_volunteers_places_and_a_check_of_priors_are_read(tmp_path: Path) -> None:
    """As the page has them."""
    ((_, text),) = examples("Volunteers' places")
    report = PlaceReport.model_validate_json(text)
    assert (report.step, report.person, report.location) == (12, "ann", "mill")
    ((_, text),) = examples("Priors check")
    found = load_priors_check(saved(tmp_path, "check.json", text))
    assert (found.people, found.within_nats, found.everybody.realised) == (423, 0.14, 0.42)


def test_locations_are_read_in_their_order(tmp_path: Path) -> None:
    ((_, text),) = examples("Locations")
    settings = Settings(locations=saved(tmp_path, "locations.txt", text))
    assert location_names(settings, "", "") == ("mill", "port")
    for wrong in (text + "\n", text + "mill\n"):
        settings = Settings(locations=saved(tmp_path, "locations.txt", wrong))
        with pytest.raises(TallyguardError):
            location_names(settings, "", "")


def test_a_schedule_in_both_forms_and_announcements_as_csv(tmp_path: Path) -> None:
    (_, text), (_, activations) = examples("Schedule")
    schedule = load_schedule(saved(tmp_path, "schedule.json", text), registry(tmp_path))
    released = [
        [(each.sensor.name, each.mechanism.name) for each in step.releases] for step in schedule.steps
    ]
    assert released == [
        [("mill street", "gaussian"), ("hall", "gaussian")],
        [("hall", "raw"), ("mill street", "suppressed")],
        [],
    ]
    assert schedule.first_slot == 8
    announced = load_activations(saved(tmp_path, "activations.csv", activations), registry(tmp_path))
    assert announced == {12: ("mill street",)}
    assert fields("Schedule") == {"first_slot", "steps", "calendar", "sensors", "mechanism", "releases"}


@pytest.mark.parametrize(
    "step",
    [
        {"sensors": [3], "mechanism": "raw", "why": "so"},
        {"sensors": [3], "mechanism": "raw", "releases": []},
        {"sensors": [3, "hall"], "mechanism": "raw"},
        {"sensors": ["nowhere"], "mechanism": "raw"},
        {"sensors": [3], "mechanism": "loud"},
        {"sensors": [3], "mechanism": "gaussian"},
        {"sensors": [3], "mechanism": "gaussian", "sigma": -1.0},
    ],
)
def test_what_the_page_says_of_schedules_is_refused(tmp_path: Path, step: dict[str, object]) -> None:
    path = saved(tmp_path, "schedule.json", json.dumps({"steps": [step]}))
    with pytest.raises(TallyguardError):
        load_schedule(path, registry(tmp_path))


def test_messages_in_and_out(tmp_path: Path) -> None:
    (_, lines), (_, batch), (_, as_csv), (_, release) = examples("Messages")
    activation, reading = (parse(line.encode(), "page") for line in lines.splitlines())
    readings = parse(batch.strip().encode(), "page")
    assert readings == Readings(v=1, step=12, counts={"mill street": 41, "port": 7})
    assert activation == Activation(v=1, step=12, sensors=("mill street",))
    assert reading == Reading(v=1, step=12, sensor="mill street", count=41)
    header, line = as_csv.splitlines()
    assert reading_parser(header.encode())(line.encode(), "page") == reading
    published = StepRelease.model_validate_json(release)
    assert published.line().decode() == release


def test_priors_are_read_as_shown(tmp_path: Path) -> None:
    ((_, text),) = examples("Priors")
    population = load_population(saved(tmp_path, "priors.json", text))
    assert population.people == ("ann",)
    assert population.location_names == ("mill", "port")
