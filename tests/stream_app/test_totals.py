"""Totals of published values: what they add up, what is missing, and the same files after every kill."""

from __future__ import annotations

import csv
import itertools
import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import frictionless
import numpy as np
import pyarrow.parquet as pq
import pytest
from frictionless import system
from pydantic import ValidationError

from models.calendar import Days
from models.mechanisms import Correlated, Designs, Gaussian, half_width, sigma_of_sum
from models.noise import CorrelatedNoise
from models.prior_files import save_population
from models.releases import CountingWindow, Counts, PerDay, Sensor
from stream_app.analysis.export import export_run
from stream_app.analysis.preflight import check_files
from stream_app.exceptions import SettingsError
from stream_app.setup.option_settings import ExportFormat
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.setup.sections import OccupancySettings
from stream_app.setup.total_levels import Level, Occupancy, Whole
from stream_app.starting.connect.sensorthings import observation_of_total
from stream_app.steps import Intervals, Total, Totals, TotalsWithReleases, complete_totals
from stream_app.steps.totals import TOTALS_FILE
from stream_app.wire import SensorValue, StepRelease
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    activation,
    json_lines,
    lines_of,
    population,
    reading,
    run_on,
)

STEPS, LATE, SIGMA = 60, 2, 1.5
LEVELS = ("hour by district", "day by sensor", "day by district", "day by city", "week by city")
DISTRICTS = {name: "north" if number < 2 else "south" for number, name in enumerate(NAMES)}


def counts(step: int, name: str) -> int:
    return 5 * (step % 7) + 3 * NAMES.index(name)


def messages() -> list[Any]:
    """Hours from Friday evening on: one is missing, one comes late, one is corrected, one never reports."""
    found: list[Any] = []
    for step in range(STEPS):
        found.append(activation(step, *NAMES))
        found += [
            reading(step, name, counts(step, name))
            for name in NAMES
            if (step, name) not in ((9, NAMES[0]), (12, NAMES[1]))
        ]
        if step == 13:
            found.append(reading(12, NAMES[1], 41))
        if step == 21:
            found.append(reading(20, NAMES[2], 90).model_copy(update={"version": 2}))
    return found


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("totals")
    rows = [
        {"name": name, "locations": [index], "group": DISTRICTS[name], "corrections": 1}
        for index, name in enumerate(NAMES)
    ]
    (folder / "sensors.json").write_text(json.dumps({"counts": "presence", "sensors": rows}))
    run_on(folder / "out", [lines_of(messages())], settings=chosen(folder))
    return folder / "out"


def chosen(folder: Path) -> dict[str, Any]:
    return {
        **LITTLE_WORK,
        "sharpen": False,
        "sensors": folder / "sensors.json",
        "late": LATE,
        "grace": 0,
        "totals": LEVELS,
        "occupancy": {"hall": {"entered": [NAMES[2]], "left": [NAMES[0]], "drift": 0.05}},
        "origin": "2026-03-27T20:00:00Z",  # clocks go forward on Sunday
        "timezone": "Europe/Vienna",
        "step_seconds": 3600,
        "release": {"mechanism": "gaussian", "sigma": SIGMA},
    }


def last_values(out: Path) -> dict[tuple[int, str], int]:
    """The last value of each count, straight from the logs."""
    found: dict[tuple[int, str], int] = {}
    for name in ("releases.jsonl", "revised.jsonl"):
        for line in json_lines(out / name):
            for entry in line["releases"]:  # type: ignore[attr-defined]
                if "value" in entry:
                    found[line["step"], entry["sensor"]] = entry["value"]  # type: ignore[index]
    return found


def test_totals_are_sums_of_the_last_published_values(out: Path) -> None:
    values = last_values(out)
    assert len(values) == STEPS * len(NAMES) - 1
    assert len(json_lines(out / "revised.jsonl")) == 2
    unknown = dict.fromkeys(("people", "sigma", "high", "value"))
    every = [Total(**{**unknown, **_fields(line)}) for line in json_lines(out / TOTALS_FILE)]
    assert every == complete_totals(out)
    found = [each for each in every if each.level != "occupancy"]
    assert {each.level for each in found} == set(LEVELS)
    for each in found:
        of_place = [name for name in NAMES if each.place in (name, DISTRICTS[name], "all")]
        own = [
            values[step, name]
            for step in range(each.first_step, each.last_step + 1)
            for name in of_place
            if (step, name) in values
        ]
        assert (each.value, each.cells) == (sum(own), len(own))
        assert each.of == (each.last_step + 1 - each.first_step) * len(of_place)
        assert each.sigma == pytest.approx(SIGMA * len(own) ** 0.5, rel=1e-9)
        width = half_width([Gaussian(SIGMA)] * len(own), 0.95)
        assert each.low == max(0, sum(own) - width)
        assert each.high == (max(0, sum(own) + width) if each.cells == each.of else None)
        assert each.people == max(0, sum(own))
    # Local days: four hours of Friday, Saturday, and the 23 hours of Sunday.
    days = [(each.first_step, each.last_step) for each in found if each.level == "day by city"]
    assert days == [(0, 2), (3, 26), (27, 49)]
    assert [(each.first_step, each.last_step) for each in found if each.level == "week by city"] == [(0, 49)]
    missing = [each for each in found if each.cells < each.of]
    assert {each.level for each in missing} == set(LEVELS)
    assert all(each.first_step <= 9 <= each.last_step for each in missing)


def _fields(line: dict[str, object]) -> dict[str, Any]:
    return {name: value for name, value in line.items() if name not in ("v", "type")}


def test_how_many_are_inside_is_the_difference_of_what_was_published_since_nobody_was(out: Path) -> None:
    """From four in the morning on, in winter and in summer time; after a missing count nobody knows."""
    values = last_values(out)
    found = {each.last_step: each for each in complete_totals(out) if each.level == "occupancy"}
    assert list(found) == list(range(7, STEPS - LATE)), "and not before the first time when nobody was inside"
    for step, total in found.items():
        since = 7 if step < 30 else 30 if step < 54 else 54  # 04:00 of Saturday, Sunday and Monday
        of = 2 * (step + 1 - since)
        assert (total.first_step, total.of) == (step, of)
        if since <= 9 <= step:
            assert (total.value, total.high, total.cells) == (None, None, of - 1)
            continue
        came, went = (sum(values[at, NAMES[k]] for at in range(since, step + 1)) for k in (2, 0))
        assert (total.value, total.people, total.cells) == (came - went, max(0, came - went), of)
        assert total.sigma == pytest.approx(SIGMA * of**0.5)
        width = half_width([Gaussian(SIGMA)] * of, 0.975)
        off = width + math.ceil(0.05 / 0.95 * max(0, came + went + width))
        assert (total.low, total.high) == (max(0, came - went - off), max(0, came - went + off))


def test_whoever_is_missed_or_counted_twice_stays_within_the_declared_drift() -> None:
    """Every course of four exact steps with a share of up to a fifth of the passages missed or doubled."""
    place = Occupancy("hall", ("in",), ("out",), 0, 0.2)
    sensors = {name: Sensor(name, (0,)) for name in ("in", "out")}
    wrong = (0, 0), (1, 0), (-1, 0), (0, 1), (0, -1)
    for course in itertools.product(itertools.product(((2, 0), (1, 1), (3, 2)), wrong), repeat=3):
        totals = Totals([place], Days(0, 3600), 0, sensors, Intervals())
        inside = passages = errors = 0
        for step, ((came, went), (more_in, more_out)) in enumerate(course):
            inside, passages = inside + came - went, passages + came + went
            errors += abs(more_in) + abs(more_out)
            counted = {"in": came + more_in, "out": went + more_out}
            if inside < 0 or errors > place.drift * passages or min(counted.values()) < 0:
                break
            own = [SensorValue(sensor=name, mechanism="raw", value=count) for name, count in counted.items()]
            totals.take(StepRelease(v=1, step=step, releases=tuple(own)))
            (total,) = totals.closed(step)
            assert total.low is not None
            assert total.high is not None
            assert total.low <= inside <= total.high


def test_an_occupancy_is_of_sensors_that_there_are_and_of_whole_windows(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"\[occupancy.hall\] must name sensors, got 'gate'"):
        Totals([Occupancy("hall", ("gate",), ("out",), 0)], Days(0, 3600), 0, {}, Intervals())
    for given in ({"left": ["a"]}, {"empty_at": "04:00:30"}, {"left": []}, {"drift": 1}):
        with pytest.raises(ValidationError):
            OccupancySettings.model_validate({"entered": ["a"], "left": ["b"], "drift": 0, **given})
    windows = {name: Sensor(name, (0,), window=CountingWindow(3)) for name in ("in", "out")}
    for minute, expected in ((0, [2, 5, 8]), (60, [])):  # windows over the time when nobody is inside
        totals = Totals(
            [Occupancy("hall", ("in",), ("out",), minute)], Days(0, 3600), 0, windows, Intervals()
        )
        found = []
        for step in range(9):
            own = [
                SensorValue(sensor=name, mechanism="raw", value=5 + number, from_step=step - 2)
                for number, name in enumerate(("out", "in"))
                if step % 3 == 2
            ]
            totals.take(StepRelease(v=1, step=step, releases=tuple(own)))
            found += list(totals.closed(step))
        assert [(each.last_step, each.value) for each in found] == [
            (step, step // 3 + 1) for step in expected
        ]


def test_totals_of_parts_add_up_to_those_of_the_whole(out: Path) -> None:
    found = {(each.level, each.place, each.first_step): each for each in complete_totals(out)}
    for (level, _, first), whole in found.items():
        if level == "day by city":
            parts = [each for key, each in found.items() if key[0] == "day by district" and key[2] == first]
            assert whole.value == sum(each.value or 0 for each in parts)
            assert whole.sigma == pytest.approx(sum((each.sigma or 0.0) ** 2 for each in parts) ** 0.5)
        if level == "day by district":
            hours = [
                each
                for key, each in found.items()
                if key[:2] == ("hour by district", whole.place)
                and whole.first_step <= key[2] <= whole.last_step
            ]
            assert whole.value == sum(each.value or 0 for each in hours)
            assert (whole.cells, whole.of) == (sum(e.cells for e in hours), sum(e.of for e in hours))


@pytest.mark.slow
def test_the_file_is_the_same_after_a_kill_at_any_step(out: Path, tmp_path: Path) -> None:
    """Input in pieces, each by a process of its own, and a file cut anywhere between them."""
    lines = lines_of(messages()).splitlines(keepends=True)
    folder = tmp_path / "again"
    shutil.copy(out.parent / "sensors.json", tmp_path)
    bounds = [0, 41, 97, 200, len(lines)]
    for number, until in enumerate(bounds[1:]):
        run_on(folder, [b"".join(lines[:until])], settings=chosen(tmp_path), keep_open=until < len(lines))
        path = folder / TOTALS_FILE
        if number % 2:
            path.write_bytes(path.read_bytes()[: len(path.read_bytes()) // 2])
        else:
            path.write_bytes(path.read_bytes() + b"never committed")
    run_on(folder, [b"".join(lines)], settings=chosen(tmp_path))
    assert (folder / TOTALS_FILE).read_bytes() == (out / TOTALS_FILE).read_bytes()


def test_totals_go_with_the_steps_that_complete_them_also_after_a_restart(out: Path) -> None:
    whole = complete_totals(out)
    for begin in (0, 26, 31, 55):
        sent: list[Total] = []
        totals = TotalsWithReleases(out)
        for step in range(begin, STEPS):
            sent += totals.with_step(step)
        earlier = TotalsWithReleases(out)
        before = [each for step in range(begin) for each in earlier.with_step(step)]
        assert before + sent == [each for each in whole if each.last_step + LATE < STEPS - 1]


@pytest.mark.slow
def test_an_export_describes_its_totals(out: Path, tmp_path: Path) -> None:
    exported = export_run(out, tmp_path, [ExportFormat.CSV], {}, {}, 0.8, [])
    package = json.loads((tmp_path / "datapackage.json").read_text())
    assert exported.totals == len(complete_totals(out))
    with system.use_context(trusted=True):
        report = frictionless.validate(str(tmp_path / "datapackage.json"))
    assert report.valid, report.flatten(["title", "note"])
    assert "totals.csv" in {each["path"] for each in package["resources"]}
    export_run(out, tmp_path, [ExportFormat.PARQUET], {}, {}, 0.8, [])
    with (tmp_path / "totals.csv").open() as file:
        rows = list(csv.DictReader(file))
    shown = ["" if each.value is None else str(each.value) for each in complete_totals(out)]
    assert [row["value"] for row in rows] == shown
    assert {row["high"] for row in rows if int(row["cells"]) < int(row["of"])} == {""}
    narrower = complete_totals(out, level=0.8)
    assert pq.read_table(tmp_path / "totals.parquet")["low"].to_pylist() == [each.low for each in narrower]
    assert all(a.low >= b.low for a, b in zip(narrower, complete_totals(out), strict=True))  # type: ignore[operator]
    asked = complete_totals(out, [Level.of("week by district")])
    assert {each.place for each in asked} == {"north", "south"}
    sent = observation_of_total(RunTimes(out), asked[0], 0.95)
    assert sent["result"] == asked[0].value
    assert sent["resultQuality"]["cells"] == asked[0].cells
    assert ("high" in sent["resultQuality"]) == (asked[0].cells == asked[0].of)


def test_a_suppressed_cell_leaves_no_upper_end_and_noise_of_a_window_is_summed_together() -> None:
    noise = CorrelatedNoise.of_covariance(np.full((4, 4), 2.0) + np.eye(4))
    values = [
        SensorValue(sensor="a", mechanism="correlated", design=noise.design, position=step % 4, value=10)
        for step in range(24)
    ]
    totals = Totals(
        [Level.of("day by sensor")],
        Days(0, 3600),
        0,
        {"a": Sensor("a", (0,))},
        Intervals(0.95, Designs((noise,))),
    )
    for step, entry in enumerate(values):
        totals.take(StepRelease(v=1, step=step, releases=(entry,)))
    (found,) = [total for step in range(24) for total in totals.closed(step)]
    windows = [[Correlated.of(noise, step) for step in range(4)]] * 6
    assert found.sigma == pytest.approx(sigma_of_sum([], windows)) == pytest.approx((6 * 36.0) ** 0.5)
    assert (found.value, found.cells, found.of) == (240, 24, 24)
    assert found.high == 240 + half_width([], 0.95, windows)
    parts = {name: Sensor(name, (0,), part_of="gate") for name in ("in", "out")}
    device = Totals([Level.of("hour by device")], Days(0, 1800), 0, parts, Intervals())
    for step in range(2):
        own = (SensorValue(sensor=name, mechanism="gaussian", sigma=3.0, value=4) for name in parts)
        device.take(StepRelease(v=1, step=step, releases=tuple(own)))
    (hour,) = [total for step in range(2) for total in device.closed(step)]
    assert (hour.place, hour.value, hour.cells, hour.sigma) == ("gate", 16, 4, pytest.approx(6.0))
    silent = Totals([Level.of("day by city")], Days(0, 3600), 0, {}, Intervals())
    for step in range(24):
        silent.take(StepRelease(v=1, step=step, releases=(SensorValue(sensor="a", mechanism="suppressed"),)))
    (nothing,) = [total for step in range(24) for total in silent.closed(step)]
    assert (nothing.value, nothing.people, nothing.low, nothing.high) == (None, None, 0, None)
    assert "value" not in json.loads(nothing.line())


def test_a_level_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="hour, day or week by sensor, device, district or city"):
        Level.of("month by city")


# A window's own value and the counts of its parts: estimates of both.


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three windows of four hours: one is whole, in one an hour is missing, and one has a corrected hour."""
    folder = tmp_path_factory.mktemp("both")
    rows: list[dict[str, Any]] = [
        {"name": name, "locations": [index], "corrections": 1} for index, name in enumerate("AB")
    ]
    rows.append({"name": "AB day", "locations": [0, 1], "window": 4})
    (folder / "sensors.json").write_text(json.dumps({"sensors": rows}))
    sent: list[Any] = []
    for step in range(16):
        ends = step % 4 == 3
        sent.append(activation(step, "A", "B", *(["AB day"] if ends else [])))
        sent += [reading(step, name, 5 + step) for name in "AB" if (step, name) != (5, "B")]
        if step == 10:
            sent.append(reading(9, "A", 31).model_copy(update={"version": 2}))
        if ends:
            sent.append(reading(step, "AB day", 50))
    chosen = {
        **LITTLE_WORK,
        "sharpen": False,
        "sensors": folder / "sensors.json",
        "late": LATE,
        "grace": 0,
        "totals": ("hour by city", "hour by sensor"),
        "total_of": {"AB day": ("A", "B")},
        "step_seconds": 3600,
        "release": {"mechanism": "gaussian", "sigma": SIGMA},
    }
    run_on(folder / "out", [lines_of(sent)], settings=chosen)
    return folder / "out"


def test_estimates_of_a_window_and_its_parts_are_least_squares(both: Path, tmp_path: Path) -> None:
    values = last_values(both)
    every = complete_totals(both)
    assert (both / TOTALS_FILE).read_bytes() == b"".join(each.line() for each in every), "live, too"
    wholes = {each.first_step: each for each in every if each.level == "whole"}
    assert list(wholes) == [0, 4, 8]
    of_city = [each for each in every if each.level == "hour by city"]
    assert [each.of for each in of_city] == [2] * len(of_city), "a window counts nobody anew"
    of_all = {each.place for each in every if each.level == "hour by sensor"}
    assert of_all == {"A", "B", "AB day"}
    for first, whole in wholes.items():
        cells = [(step, name) for step in range(first, first + 4) for name in "AB"]
        parts = [each for each in every if each.level == "part" and first <= each.first_step < first + 4]
        day = values[first + 3, "AB day"]
        assert (whole.value, whole.of) == (day, 8)
        if first == 4:  # the day's own value stands alone, and says so
            width = half_width([Gaussian(SIGMA)], 0.95)
            assert (whole.cells, whole.estimate, parts) == (7, None, [])
            assert (whole.low, whole.high, whole.sigma) == (
                max(0, day - width),
                day + width,
                pytest.approx(SIGMA),
            )
            assert "estimate" not in json.loads(whole.line())
            continue
        design = np.vstack([np.eye(8), np.ones(8)])
        weights = np.array([SIGMA**-2] * 8 + [SIGMA**-2])
        seen = np.array([values[cell] for cell in cells] + [day])
        covariance = np.linalg.inv(design.T @ (weights[:, None] * design))
        best = covariance @ design.T @ (weights * seen)
        assert [(each.first_step, each.place, each.value) for each in parts] == [
            (*cell, values[cell]) for cell in cells
        ]
        assert [each.estimate for each in parts] == pytest.approx(best.tolist(), abs=1e-6)
        assert whole.estimate == pytest.approx(best.sum(), abs=1e-6)
        assert [each.sigma for each in parts] == pytest.approx(
            np.sqrt(np.diag(covariance)).tolist(), abs=1e-6
        )
        assert whole.sigma == pytest.approx(SIGMA * (8 / 9) ** 0.5, abs=1e-6)
        assert whole.people == sum(each.people or 0 for each in parts) == round(whole.estimate or 0)
        assert (whole.low or 0) <= (whole.estimate or 0) <= (whole.high or 0)
    asked = complete_totals(both, [Level.of("hour by district")])
    assert {each.of for each in asked if each.level == "hour by district"} == {2}, "nor for others' totals"
    export_run(both, tmp_path, [ExportFormat.CSV], {}, {}, None, [])
    with system.use_context(trusted=True):
        report = frictionless.validate(str(tmp_path / "datapackage.json"))
    assert report.valid, report.flatten(["title", "note"])
    export_run(both, tmp_path, [ExportFormat.PARQUET], {}, {}, None, [])
    assert pq.read_table(tmp_path / "totals.parquet")["estimate"].to_pylist() == [
        each.estimate for each in every
    ]
    sent = observation_of_total(RunTimes(both), wholes[0], 0.95)
    assert sent["resultQuality"]["estimate"] == wholes[0].estimate


def whole_of(day: Sensor, *parts: Sensor, days: Days = Days(0, 3600)) -> Totals:  # noqa: B008
    sensors = {each.name: each for each in (day, *parts)}
    levels = [Level.of("hour by city"), Whole(day.name, tuple(each.name for each in parts))]
    return Totals(levels, days, 0, sensors, Intervals(0.8))


@pytest.mark.slow
def test_estimates_are_right_on_average_and_intervals_hold_the_count() -> None:
    """Over 2,000 draws of the noise; sums of the city leave the window's own value out."""
    day, hour = Sensor("day", (0,), window=CountingWindow(4), most_counts=4), Sensor("hour", (0,))
    rng = np.random.default_rng(7)
    off, inside = [], 0
    law = {sigma: Gaussian(sigma).noise_law() for sigma in (2.0, 3.0)}
    drawn = {
        sigma: each.first
        + rng.choice(each.probabilities.size, (2_000, 4), p=each.probabilities / each.probabilities.sum())
        for sigma, each in law.items()
        if each is not None
    }
    for trial in range(2_000):
        totals = whole_of(day, hour)
        for step in range(4):
            own = [("hour", 2.0, 30)] + ([("day", 3.0, 120)] if step == 3 else [])
            entries = tuple(
                SensorValue(
                    sensor=name,
                    mechanism="gaussian",
                    sigma=sigma,
                    value=count + int(drawn[sigma][trial, step]),
                )
                for name, sigma, count in own
            )
            totals.take(StepRelease(v=1, step=step, releases=entries))
        city, whole, *parts = totals.closed(3)
        assert (city.level, city.of, len(parts)) == ("hour by city", 1, 4)
        off.append((whole.estimate or 0) - 120)
        inside += (whole.low or 0) <= 120 <= (whole.high or 0)
        assert sum(each.estimate or 0 for each in parts) == pytest.approx(whole.estimate)
    sigma = (16 * 9 / (16 + 9)) ** 0.5
    assert whole.sigma == pytest.approx(sigma)
    assert abs(np.mean(off)) < 4 * sigma / 2_000**0.5
    assert np.std(off) == pytest.approx(sigma, rel=0.07)
    assert 0.8 - 0.03 < inside / 2_000 < 0.9  # of whole numbers, so a little more than promised


def test_total_of_is_of_one_count_alone() -> None:
    day = Sensor("day", (0, 1), window=CountingWindow(24), most_counts=24)
    a, b = Sensor("a", (0,)), Sensor("b", (1,))
    whole_of(day, a, b)
    with pytest.raises(SettingsError, match="must name sensors, got 'b'"):
        Totals([Whole("day", ("b",))], Days(0, 3600), 0, {"day": day}, Intervals())
    for parts, must in (
        ((a,), "at the same places"),
        ((a, b, Sensor("c", (1,))), "at the same places"),
        ((replace(a, window=CountingWindow(5)), replace(b, window=CountingWindow(5))), "one shorter window"),
        ((replace(a, window=CountingWindow(2)), b), "one shorter window"),
        ((replace(a, most_counts=2), b), "count one person 48 times"),
        ((replace(a, window=CountingWindow(1, ((0, 1, 1),))), b), "at the same places"),
    ):
        with pytest.raises(SettingsError, match=must):
            whole_of(day, *parts)
    with pytest.raises(SettingsError, match="one shorter window"):
        whole_of(replace(day, window=None), a, b)
    with pytest.raises(SettingsError, match="must count the same"):
        whole_of(replace(day, counts=Counts.PRESENCE), replace(a, counts=Counts.PASSAGES), b)
    # A device that counts nobody twice a day: its bound is of a date, so a window over two has no estimate.
    once = Sensor("day", (0,), window=CountingWindow(24), most_counts=1)
    hour = replace(a, per_day=PerDay(own=1))
    with pytest.raises(SettingsError, match="so the whole must, too"):
        whole_of(once, a)
    for origin, has_estimate in ((0, True), (3600, False)):
        totals = whole_of(once, hour, days=Days(origin, 3600))
        for step in range(24):
            names = ("a", "day") if step == 23 else ("a",)
            own = (SensorValue(sensor=name, mechanism="gaussian", sigma=2.0, value=1) for name in names)
            totals.take(StepRelease(v=1, step=step, releases=tuple(own)))
        found = [each for each in totals.closed(23) if each.level == "whole"]
        assert [each.estimate is not None for each in found] == [has_estimate]


def test_check_refuses_a_whole_of_other_places(both: Path, tmp_path: Path) -> None:
    save_population(population(), tmp_path / "priors.json")
    for parts, refused in ((("A", "B"), 0), (("A",), 1)):
        (tmp_path / "t.toml").write_text(
            f'step_seconds = 3600\nsensors = "{both.parent / "sensors.json"}"\n'
            f'listen = ""\n[total_of]\n"AB day" = {json.dumps(parts)}\n'
        )
        found = check_files(config=tmp_path / "t.toml", priors=tmp_path / "priors.json")
        said = [each for each in found if "total_of names for 'AB day'" in str(each)]
        assert len(said) == refused
