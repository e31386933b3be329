"""Counts and nothing else: each shape of file becomes a deployment that checks and runs."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from accounting.ledgers import epsilon_from_zcdp
from stream_app.exceptions import InputError
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.counts.deployment_files import (
    ALTERNATIVES,
    TABLE_STEPS,
    assumed_population,
    sensor_places,
    table_steps,
)
from stream_app.starting.counts.doubts import NOT_COUNTED
from tests.shared_files import shared
from tests.stream_app.command_line import called, invoked

WIDE = "date,north,south\n" + "".join(
    f"2026-03-02 {hour:02d}:00,{hour},{'' if hour == 2 else hour + 1}\n" for hour in range(6)
)
LONG = "sensor_id;local;date_time;hourly_counts\n" + "".join(
    f"{sensor};x;03/14/2026 {hour:02d}:00:00 PM;{hour * sensor}\n"
    for hour in range(1, 6)
    for sensor in (7, 8)
)
SENSORS = (
    "Sensor ID,Description,Latitude,Longitude\n8,Mill,-37.81,144.96\n7,Port,-37.82,144.95\n9,Old,-37,144\n"
)


def written(folder: Path, text: str, name: str = "counts.csv") -> Path:
    path = folder / name
    path.write_text(text)
    return path


def test_what_is_to_be_typed_next_can_be_typed(tmp_path: Path) -> None:
    """Whatever the folder is called, a shell takes the proposed commands apart as they are meant."""
    city = tmp_path / "Linz & Wels's"
    options = ("--timezone", "Europe/Vienna", "--sigma", "3")
    status, said = invoked("init", written(tmp_path, WIDE), *options, "--output", city)
    assert status == 0, said
    proposed = re.search(r"tallyguard (check .+?) tallyguard (run .+?) tallyguard (ledger .+?) tally", said)
    assert proposed
    check, run, ledger = map(shlex.split, proposed.groups())
    assert invoked(*check)[0] == 0
    assert str(city / "messages.jsonl") in run
    assert ledger == ["ledger", str(city / "out"), "--config", str(city / "tallyguard.toml")]


POINTS = [("north", 48.2, 16.3), ("south", 48.1, 16.4)]
LISTS = {
    "s.csv": "Name;Breitengrad;Längengrad\nnorth;48,2;16,3\nsouth;48,1;16,4\nplanned;;\nold;n/a;n/a\n",
    "s.geojson": json.dumps(
        {
            "type": "FeatureCollection",
            "features": [
                {
                    "type": "Feature",
                    "properties": {"name": name},
                    "geometry": {"type": "Point", "coordinates": [lon, lat, 170.0]},
                }
                for name, lat, lon in POINTS
            ],
        }
    ),
    "s.json": json.dumps([{"name": name, "at": {"lat": lat, "lng": lon}} for name, lat, lon in POINTS]),
}


@pytest.mark.parametrize("name", LISTS)
def test_sensors_stand_where_lists_of_cities_say(tmp_path: Path, name: str) -> None:
    """Points of GeoJSON, and degrees with a comma; rows of no sensor of the counts may have none."""
    places = sensor_places(written(tmp_path, LISTS[name], name), ("north", "south"))
    assert [(each.name, each.latitude, each.longitude) for each in places] == POINTS


def test_a_sensor_without_coordinates_is_named_and_a_list_without_any_said(tmp_path: Path) -> None:
    path = written(tmp_path, LISTS["s.csv"], "s.csv")
    with pytest.raises(InputError, match=r"sensor 'old' of .* must have coordinates, .* got none"):
        sensor_places(path, ("north", "old"))
    path = written(tmp_path, "name,x,y\nnorth,3,4\nsouth,5,6\n", "s.csv")
    options = ("--sensors", path, "--timezone", "UTC", "--output", tmp_path / "city")
    status, said = invoked("init", written(tmp_path, WIDE), *options)
    assert status == 0, said
    assert "s.csv says no lat and lon of them: the page draws no map" in said


@pytest.mark.slow
@pytest.mark.parametrize("shape", ["wide", "long"])
def test_a_file_of_either_shape_checks_and_runs(tmp_path: Path, shape: str) -> None:
    counts = written(tmp_path, WIDE if shape == "wide" else LONG)
    city, options = tmp_path / "city", ["--timezone", "Europe/Vienna"]
    if shape == "long":
        options += ["--sensors", str(written(tmp_path, SENSORS, "sensors.csv"))]
    status, said = invoked("init", counts, *options, "--output", city)
    assert status == 0, said
    assert "No risk of persons is computed" in said
    config = city / "tallyguard.toml"
    assert tomllib.loads(config.read_text())["timezone"] == "Europe/Vienna"
    assert invoked("check", "--config", config, "--schedule", city / "schedule.json")[0] == 0
    status, said = invoked(
        *("run", "--config", config, "--listen", "", "--input", city / "messages.jsonl"),
        *("--output", city / "out", "--create-keys"),
    )
    assert status == 0, said
    assert "0 messages rejected" in said
    released = [json.loads(line) for line in (city / "out" / "releases.jsonl").read_text().splitlines()]
    values = [entry.get("value") for step in released for entry in step["releases"]]
    assert sum(value is not None for value in values) == (11 if shape == "wide" else 10)


@pytest.mark.slow
def test_assumed_habits_are_called_so_and_shown_beside_others(tmp_path: Path) -> None:
    counts = written(tmp_path, WIDE)
    city = tmp_path / "city"
    status, said = invoked("init", counts, "--timezone", "UTC", "--habits", "assumed", "--output", city)
    assert status == 0, said
    for words in ("stays longer", "moves more", "evening economy", "These people are invented"):
        assert words in said
    assert "assumed" in json.loads((city / "assumed-priors.json").read_text())
    assert "evening economy" in (city / "assumed-habits.md").read_text()


def test_an_empty_cell_is_not_counted_and_never_zero(tmp_path: Path) -> None:
    counts = read_counts(written(tmp_path, WIDE), timezone="UTC")
    assert counts.table[:, 1].tolist() == [1, 2, NOT_COUNTED, 4, 5, 6]


def test_sensors_that_counted_before_the_last_days_only_are_named(tmp_path: Path) -> None:
    rows = "".join(f"2026-03-{day:02},{day % 5},{day if day < 9 else ''}\n" for day in range(1, 20))
    read = read_counts(written(tmp_path, "time,port,fair\n" + rows), timezone="UTC")
    assert read.last_days(0) is read
    assert read.last_days(15).remarks == read.remarks
    last = read.last_days(7)
    assert last.sensors == ("port",)
    assert last.remarks == (*read.remarks, "1 sensor without a count in these days left out: 'fair'.")


def test_the_hour_that_comes_twice_and_the_one_that_never_comes(tmp_path: Path) -> None:
    autumn = "time,a\n" + "".join(
        f"2026-10-25 {t},{n}\n" for n, t in enumerate(("01:00", "02:00", "02:00", "03:00"))
    )
    counts = read_counts(written(tmp_path, autumn), timezone="Europe/Vienna")
    assert counts.table[:, 0].tolist() == [0, 1, 2, 3]
    assert counts.origin.hour == 23  # 01:00 in summer time
    newest_first = "time,a\n" + "\n".join(reversed(autumn.splitlines()[1:])) + "\n"
    turned = read_counts(written(tmp_path, newest_first), timezone="Europe/Vienna")
    assert np.array_equal(turned.table, counts.table)
    spring = written(tmp_path, "time,a\n2026-03-29 01:00,1\n2026-03-29 02:00,2\n2026-03-29 03:00,3\n")
    with pytest.raises(InputError, match="that it skips in spring"):
        read_counts(spring, timezone="Europe/Vienna")
    skipped = read_counts(spring, timezone="Europe/Vienna", nonexistent="drop")
    assert skipped.table[:, 0].tolist() == [1, 3]


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        (WIDE.replace(",4,", ",4.5,"), ["--timezone", "UTC"], "must hold whole counts"),
        (
            WIDE.replace(",", ";").replace(";4;", ";4,0;"),
            ["--timezone", "UTC"],
            "if a comma is the decimal mark",
        ),
        (WIDE, ["--timezone", "UTC", "--time-column", "dat"], "did you mean 'date'?"),
        (WIDE, [], "the time zone of column 'date' must be known"),
        (WIDE, ["--timezone", "Europe/Wien"], "--timezone must be a name of the IANA database"),
        (WIDE.replace("2026-", "day "), ["--timezone", "UTC"], "say how with --time-format"),
        (
            WIDE.replace("date", "n").replace("2026-", "day "),
            ["--timezone", "UTC"],
            "name it with --time-column",
        ),
        (WIDE + "2026-03-02 05:00,1,1\n", ["--timezone", "UTC"], "--drop-repeated"),
        (WIDE + "2026-03-02 06:30,1,1\n", ["--timezone", "UTC"], "must come at one interval"),
        (WIDE.replace("2026-", "0000-"), ["--timezone", "UTC"], "must be of the years 1000 to 8999"),
    ],
)
def test_what_cannot_be_read_is_refused_and_nothing_is_created(
    tmp_path: Path, text: str, options: list[str], words: str
) -> None:
    counts, city = written(tmp_path, text), tmp_path / "city"
    status, said = invoked("init", counts, *options, "--output", city)
    assert status == 1
    assert words in said
    assert not city.exists()


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    counts = written(tmp_path, WIDE)
    status, said = invoked("init", counts, "--timezone", "UTC", "--output", tmp_path)
    assert status == 1
    assert "must be a new or empty folder" in said
    assert sorted(path.name for path in tmp_path.iterdir()) == ["counts.csv"]


@pytest.mark.slow
def test_melbournes_counts_become_a_deployment(tmp_path: Path) -> None:
    counts, sensors = shared("data/melbourne_pedestrian_hourly.parquet"), "melbourne_sensor_locations.csv"
    status, said = invoked(
        *("init", counts, "--sensors", counts.parent / sensors, "--timezone", "Australia/Melbourne"),
        *("--drop-repeated", "--days", "1", "--output", tmp_path / "city"),
    )
    assert status == 0, said
    assert len((tmp_path / "city" / "schedule.json").read_text().splitlines()) == 26


@pytest.mark.parametrize("a_day", [None, 2])
def test_the_noise_is_the_least_that_keeps_what_is_to_be_promised(tmp_path: Path, a_day: int | None) -> None:
    """The command states the epsilon that the ledger then computes; a bound over the day pays."""
    counts, city = written(tmp_path, WIDE), tmp_path / "city"
    bound = () if a_day is None else ("--most-counts-per-day", str(a_day))
    status, said = invoked("init", counts, "--timezone", "UTC", "--epsilon", "1", *bound, "--output", city)
    assert status == 0, said
    stated = re.search(r"cost epsilon ([\d.]+) at delta 1e-06", said)
    assert stated is not None
    document = json.loads(
        called(
            "ledger", str(city / "schedule.json"), "--config", str(city / "tallyguard.toml"), "--json"
        ).stdout
    )
    epsilon = document["differential_privacy"][0]["epsilon"]
    assert epsilon == pytest.approx(float(stated[1]), rel=5e-3)
    assert epsilon <= 1.0
    (sigma,) = re.findall(r"^sigma = (\d+)", (city / "tallyguard.toml").read_text(), re.MULTILINE)
    assert epsilon_from_zcdp((a_day or 6) / (2.0 * (int(sigma) - 1) ** 2), 1e-6) > 1.0


def test_the_noise_may_be_chosen_by_how_far_off_a_total_is(tmp_path: Path) -> None:
    counts = written(tmp_path, WIDE)
    city = tmp_path / "city"
    status, said = invoked("init", counts, "--timezone", "UTC", "--within", "5", "--output", city)
    assert status == 0, said
    assert "each value is within 5 people, 95 times in 100" in said
    assert "sigma = 2.82 " in (city / "tallyguard.toml").read_text()
    status, said = invoked(
        "init", counts, "--timezone", "UTC", "--within", "10%", "--output", tmp_path / "no"
    )
    assert status == 1
    assert "must be in people" in " ".join(said.split())


def test_noise_that_protects_nobody_is_called_so(tmp_path: Path) -> None:
    counts = written(tmp_path, WIDE)
    options = ["--timezone", "UTC", "--sigma", "0.3", "--output", tmp_path / "city"]
    status, said = invoked("init", counts, *options)
    assert status == 0, said
    assert "which protects nobody: fewer days or more noise (--days, --epsilon)" in said


def test_slots_are_those_of_the_local_day_also_after_the_clocks_have_changed(tmp_path: Path) -> None:
    """And a change of the clocks within the counts is told."""
    rows = [(day, hour) for day in range(22, 31) for hour in range(24) if (day, hour) != (29, 2)]
    text = "time,a\n" + "".join(f"2026-03-{day} {hour:02d}:00,{hour}\n" for day, hour in rows)
    counts = read_counts(written(tmp_path, text), timezone="Europe/Vienna")
    assert counts.first_slot == 0
    assert counts.last_days(1).first_slot == 0
    assert counts.clock_change is not None
    assert f"{counts.clock_change:%m-%d %H:%M}" == "03-29 03:00"
    assert counts.last_days(1).clock_change is None
    options = ["--timezone", "Europe/Vienna", "--output", tmp_path / "city"]
    said = invoked("init", tmp_path / "counts.csv", *options)[1]
    assert "The clocks change on 2026-03-29. Habits by the hour follow them" in " ".join(said.split())
    assert 'timezone = "Europe/Vienna"' in (tmp_path / "city" / "tallyguard.toml").read_text()


def test_numbers_may_be_instants_or_the_clock_on_the_wall_and_that_is_told(tmp_path: Path) -> None:
    text = "time,a\n" + "".join(f"{1349136000 + 3600 * hour},{hour}\n" for hour in range(5))
    counts = written(tmp_path, text)
    said = invoked("init", counts, "--timezone", "America/Los_Angeles", "--output", tmp_path / "one")[1]
    assert "if they show the clock on the wall, add --wall-clock" in said
    options = ["--wall-clock", "--timezone", "America/Los_Angeles", "--output", tmp_path / "two"]
    assert "--wall-clock" not in invoked("init", counts, *options)[1]
    text += "1349150400,7\n"
    assert "add --wall-clock" in invoked("init", written(tmp_path, text), "--output", tmp_path / "three")[1]


@pytest.mark.parametrize("step_seconds", [60, 300, 3600, 86_400])
def test_the_work_for_assumed_habits_does_not_grow_with_the_steps_of_a_day(step_seconds: int) -> None:
    places = sensor_places(None, tuple("abcdefgh"))
    people = assumed_population(ALTERNATIVES[0], places, step_seconds)
    matrices = len(people) * max(1, 86_400 // step_seconds)
    assert matrices <= 28_800
    assert len(people) >= 20
    assert len(table_steps(10_000, 0, step_seconds)) == TABLE_STEPS


def test_the_table_of_habits_begins_in_the_morning() -> None:
    assert table_steps(100, 22, 3600) == range(10, 34)
    assert table_steps(30, 9, 3600) == range(6, 30)  # no whole day is left
    with pytest.raises(InputError, match="steps that fill a day"):
        table_steps(100, 0, 7000)


@pytest.mark.parametrize("name", ["counts.csv", "counts.csv.gz"])
@pytest.mark.parametrize("is_packed", [False, True])
def test_what_is_packed_shows_in_the_file_and_not_in_its_name(
    tmp_path: Path, name: str, is_packed: bool
) -> None:
    path = tmp_path / name
    path.write_bytes(gzip.compress(WIDE.encode()) if is_packed else WIDE.encode())
    plain = read_counts(written(tmp_path, WIDE), timezone="UTC")
    assert np.array_equal(read_counts(path, timezone="UTC").table, plain.table)


def test_a_file_without_a_header_prints_no_count(tmp_path: Path) -> None:
    """Its first row is taken for names: what looks like a number is told by its place alone."""
    bare = written(tmp_path, "2026-01-01 00:00,4810397,2\n2026-01-01 01:00,3,4\n")
    options: tuple[dict[str, Any], ...] = ({}, {"start": "4810396"}, {"ignore": ("48",)})
    for given in options:
        with pytest.raises(InputError) as raised:
            read_counts(bare, **given)
        assert "3 columns" in str(raised.value)
        assert "4810397" not in str(raised.value)
    torn = written(tmp_path, "time,4810397\n2026-01-01 00:00,many\n")
    with pytest.raises(InputError, match="column 2 must hold whole counts"):
        read_counts(torn, timezone="UTC")


def test_one_wrong_year_does_not_fill_the_memory(tmp_path: Path) -> None:
    minutes = "".join(f"2026-01-01 00:{minute:02d},1\n" for minute in range(9))
    odd = written(tmp_path, f"time,north\n1826-01-01 00:00,1\n{minutes}")
    with pytest.raises(InputError, match=r"close together in time.*of another year"):
        read_counts(odd, timezone="UTC")


def test_columns_that_are_neither_text_nor_number_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "counts.parquet"
    for columns in ({"A": [[1]], "time": ["2026-01-01 00:00"]}, {"A": [1], "time": [["now"]]}):
        pq.write_table(pa.table(columns), path)
        with pytest.raises(InputError, match="must hold texts or numbers"):
            read_counts(path, timezone="UTC")
