"""Totals of published values: what they add up, what is missing, and the same files after every kill."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import frictionless
import numpy as np
import pyarrow.parquet as pq
import pytest
from frictionless import system

from models.calendar import Days
from models.mechanisms import Correlated, Designs, Gaussian, half_width, sigma_of_sum
from models.noise import CorrelatedNoise
from models.releases import Sensor
from stream_app.analysis.export import ExportFormat, export_run
from stream_app.embedded.totals_file import TOTALS_FILE
from stream_app.setup.total_levels import Level
from stream_app.starting.connect.released import StepTimes
from stream_app.starting.connect.sensorthings import observation_of_total
from stream_app.steps import Intervals, Total, Totals, TotalsWithReleases, complete_totals
from stream_app.wire import SensorValue, StepRelease
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    activation,
    json_lines,
    lines_of,
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
    found = [Total(**{**unknown, **_fields(line)}) for line in json_lines(out / TOTALS_FILE)]
    assert found == complete_totals(out)
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


def test_the_file_is_the_same_after_a_kill_at_any_step(out: Path, tmp_path: Path) -> None:
    """Input in pieces, each by a process of its own, and a file cut anywhere between them."""
    lines = lines_of(messages()).splitlines(keepends=True)
    folder = tmp_path / "again"
    shutil.copy(out.parent / "sensors.json", tmp_path)
    bounds = [0, 40, 41, 97, 200, len(lines)]
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
    assert [int(row["value"]) for row in rows] == [each.value for each in complete_totals(out)]
    assert [row["high"] for row in rows if int(row["cells"]) < int(row["of"])] == [""] * 5
    narrower = complete_totals(out, level=0.8)
    assert pq.read_table(tmp_path / "totals.parquet")["low"].to_pylist() == [each.low for each in narrower]
    assert all(a.low >= b.low for a, b in zip(narrower, complete_totals(out), strict=True))  # type: ignore[operator]
    asked = complete_totals(out, [Level.of("week by district")])
    assert {each.place for each in asked} == {"north", "south"}
    sent = observation_of_total(StepTimes(out), asked[0], 0.95)
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
    silent = Totals([Level.of("day by city")], Days(0, 3600), 0, {}, Intervals())
    for step in range(24):
        silent.take(StepRelease(v=1, step=step, releases=(SensorValue(sensor="a", mechanism="suppressed"),)))
    (nothing,) = [total for step in range(24) for total in silent.closed(step)]
    assert (nothing.value, nothing.people, nothing.low, nothing.high) == (None, None, 0, None)
    assert "value" not in json.loads(nothing.line())


def test_a_level_that_there_is_not_is_refused_with_those_that_there_are() -> None:
    with pytest.raises(ValueError, match="hour, day or week by sensor, district or city"):
        Level.of("month by city")
