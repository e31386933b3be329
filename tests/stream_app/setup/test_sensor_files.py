"""Sensors files: both formats give the same sensors, and each mistake is named with its place."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest

from models.exceptions import SensorError
from models.releases import Sensor, SensorRegistry
from stream_app.setup.run_folder.run_settings import sensors_fingerprint
from stream_app.setup.sensor_files import load_registry

LOCATIONS = ("harbour", "station", "park")


def write(folder: Path, sensors: object) -> Path:
    """A JSON sensors file."""
    path = folder / "sensors.json"
    path.write_text(json.dumps({"sensors": sensors}))
    return path


def test_json_and_csv_give_the_same_sensors(tmp_path: Path) -> None:
    """Locations by index or name, several to a sensor, the group optional."""
    table = tmp_path / "sensors.csv"
    table.write_text("name,locations,group\nnorth,station;0,centre\nsouth,2,\n")
    document = write(
        tmp_path,
        [
            {"name": "north", "locations": ["station", 0], "group": "centre"},
            {"name": "south", "locations": [2]},
        ],
    )
    registry = load_registry(document, LOCATIONS)
    assert registry.sensors == (Sensor("north", (0, 1), "centre"), Sensor("south", (2,)))
    assert load_registry(table, LOCATIONS).sensors == registry.sensors


def test_positions_are_for_maps_only(tmp_path: Path) -> None:
    """A plane or a globe, north up and unrolled; a sensor is the same sensor wherever it stands."""
    plane = write(
        tmp_path, [{"name": "a", "locations": [0], "x": -1, "y": 2.5}, {"name": "b", "locations": [1]}]
    )
    first, second = load_registry(plane, LOCATIONS).sensors
    assert (first.position, second.position) == ((-1.0, 2.5), None)
    assert first == Sensor("a", (0,))
    table = tmp_path / "sensors.csv"
    table.write_text("name,locations,lat,lon\nsouth,0,47.35,8.5\nnorth,1,47.45,8.5\neast,2,47.35,8.6\n")
    south, north, east = (sensor.position or (0, 0) for sensor in load_registry(table, LOCATIONS).sensors)
    assert south[0] == north[0] == 8.5
    assert east[1] == south[1]
    stretched = (north[1] - south[1]) / (east[0] - south[0])
    assert stretched == pytest.approx(1 / math.cos(math.radians(47.4)), rel=1e-4), "a square stays a square"


def test_without_a_file_each_location_has_a_sensor_of_its_name() -> None:
    """The default of a deployment."""
    assert [sensor.name for sensor in load_registry(None, LOCATIONS).sensors] == list(LOCATIONS)


@pytest.mark.parametrize(
    ("sensors", "message"),
    [
        ([{"name": "a", "locations": ["harbor"]}], "did you mean 'harbour'"),
        ([{"name": "a", "locations": [7]}], r"must lie in 0\.\.2"),
        ([{"name": "a", "locations": [0]}, {"name": "a", "locations": [1]}], "names must be unique"),
        ([{"name": "a", "locations": [0], "grop": "x"}], "sensor 1 of .* grop"),
        ([{"locations": [0]}], "an object with a name"),
        ([{"name": "a", "locations": 0}], "a list of locations"),
        ([{"name": "a", "locations": [0], "x": 1.0}], "numbers x and y, or lat and lon"),
        ([{"name": "a", "locations": [0], "x": 1.0, "lat": 1.0}], "numbers x and y, or lat and lon"),
        ([{"name": "a", "locations": [0], "x": "1", "y": 2}], "numbers x and y"),
        ([{"name": "a", "locations": [0], "lat": 847.0, "lon": 8}], "within 85 degrees"),
        ("a, b", "must hold a list"),
    ],
)
def test_each_mistake_is_named(tmp_path: Path, sensors: object, message: str) -> None:
    """The error says which sensor of which file, and what to write."""
    with pytest.raises(SensorError, match=message):
        load_registry(write(tmp_path, sensors), LOCATIONS)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Missing, or not JSON, or without a header."""
    with pytest.raises(SensorError, match="must be readable"):
        load_registry(tmp_path / "none.json", LOCATIONS)
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(SensorError, match="must be JSON"):
        load_registry(tmp_path / "bad.json", LOCATIONS)
    (tmp_path / "bad.csv").write_text("0,s1,4711\n1,s1,2\n")
    with pytest.raises(SensorError, match="columns name and locations, got 3 others") as caught:
        load_registry(tmp_path / "bad.csv", LOCATIONS)
    assert "4711" not in str(caught.value)
    (tmp_path / "open.csv").write_text('name,locations\n"s1,0\ns2,1\n')
    with pytest.raises(SensorError, match="must be a readable CSV"):
        load_registry(tmp_path / "open.csv", LOCATIONS)


@pytest.mark.parametrize("location", ["7" * 5000, "x" * 200_000], ids=["long number", "long name"])
def test_a_location_of_any_length_is_refused_in_a_short_sentence(tmp_path: Path, location: str) -> None:
    """Neither the interpreter's limit on digits nor the CSV reader's on fields ends in a traceback."""
    path = tmp_path / "sensors.csv"
    path.write_text(f"name,locations\ns1,{location}\n")
    with pytest.raises(SensorError) as error:
        load_registry(path, ("A", "B"))
    assert len(str(error.value)) < 2000


def declared(folder: Path, text: str) -> Path:
    path = folder / "sensors.json"
    path.write_text(text)
    return path


def test_what_sensors_count_is_declared_for_all_or_for_each(tmp_path: Path) -> None:
    """A file that says nothing declares nothing; a sensor's own declaration replaces that for all."""
    registry = load_registry(
        declared(
            tmp_path,
            """{"counts": "passages", "most_counts": 4, "most_sensors": 1, "sensors": [
            {"name": "door", "locations": [0]}, {"name": "hall", "locations": [1], "counts": "presence"}]}""",
        ),
        LOCATIONS,
    )
    assert [(each.counts, each.most_counts) for each in registry.sensors] == [
        ("passages", 4),
        ("presence", 1),
    ]
    table = tmp_path / "sensors.csv"
    table.write_text("name,locations,counts,most_counts\ndoor,0,passages,4\nhall,1,presence,\nyard,2,,\n")
    door, hall, yard = load_registry(table, LOCATIONS).sensors
    assert (door, hall) == registry.sensors
    assert (yard.counts, yard.most_counts) == (None, 1)


@pytest.mark.parametrize(
    ("beside", "message"),
    [
        ('"counts": "passages"', "must declare most_counts"),
        ('"counts": "footfall", "most_counts": 2', '"occupied" or "passages"'),
        ('"counts": "passages", "most_counts": 0', "1 or more"),
        ('"counts": "passages", "most_counts": 1.5', "1 or more"),
        ('"counts": "presence", "most_counts": 2', "each person once"),
        ('"most_counts": 2', '"occupied" or "passages"'),
        ('"counts": "passages", "most_counts": 2, "most_sensors": 2', "by at most 1 of them"),
        ('"counts": "passages", "most_counts": 2, "most_sensors": true', "by at most 1 of them"),
        ('"window": 49', "1 to 48 steps"),
        ('"window": "4"', "1 to 48 steps"),
        ('"moves": [[0, 1]]', "must be those of one sensor"),
    ],
)
def test_a_declaration_without_an_account_is_refused(tmp_path: Path, beside: str, message: str) -> None:
    """Before anything runs, with what to do instead."""
    path = declared(tmp_path, f'{{{beside}, "sensors": [{{"name": "a", "locations": [0]}}]}}')
    with pytest.raises(SensorError, match=message):
        load_registry(path, LOCATIONS)


def test_a_run_knows_another_declaration_for_other_sensors() -> None:
    """It goes on with the declaration it began with; files from before there was one are known again."""
    once, again = (SensorRegistry(("a",), (Sensor("a", (0,), most_counts=most),)) for most in (1, 4))
    assert once.accounted_facts() == [["a", [0], "default"]]
    assert again.accounted_facts() == [["a", [0], "default", 4]]
    assert sensors_fingerprint(once) != sensors_fingerprint(again)
