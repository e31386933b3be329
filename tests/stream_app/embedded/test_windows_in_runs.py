"""Runs with counters as they count: sensors on moves, counts over several steps, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import ZcdpSpend, window_cost
from models.exceptions import ScheduleError, SensorError, TallyguardError
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Raw
from models.releases import (
    CountingWindow,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepInterval,
    StepSchedule,
    in_single_steps,
    window_release,
)
from models.releases.fine_steps import parts_of
from models.releases.publish import CountToPublish, publish_step
from stream_app.analysis.run_lines import released_days
from stream_app.exceptions import RunChangedError
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.sensor_files import load_registry
from stream_app.starting.connect.journal import announced_sensors
from stream_app.wire import Activation, Reading, Reason
from tests.shown_steps import shown_steps
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    NOISE_SECRET,
    activation,
    json_lines,
    lines_of,
    outputs_of,
    population,
    reading,
    run_on,
    settings,
)

STEPS, WINDOW = 12, 4
ROWS: list[dict[str, object]] = [
    {"name": "A", "locations": [0]},
    {"name": "bridge", "moves": [["B", "C"], ["C", "B"]], "counts": "passages", "most_counts": 1},
    {"name": "hall", "locations": ["D"], "window": WINDOW},
    {"name": "door", "moves": [["A", "B"]], "window": WINDOW, "counts": "passages", "most_counts": WINDOW},
]


def deployment(folder: Path, rows: list[dict[str, object]] = ROWS, **changed: object) -> dict[str, object]:
    """Settings with these sensors, the hall's counts raw."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "sensors.json"
    path.write_text(json.dumps({"sensors": rows}))
    release = {"mechanism": "gaussian", "sigma": 6.0, "sensors": {"hall": {"mechanism": "raw"}}}
    return {**LITTLE_WORK, "sensors": path, "release": release, **changed}


def announced(step: int) -> list[str]:
    """The sensors whose windows end with a step that lies within the log."""
    first_of_moves = 2 * WINDOW - 1
    bridge = ["bridge"] if step else []
    hall = ["hall"] if (step + 1) % WINDOW == 0 else []
    return ["A", *bridge, *hall, *(["door"] if hall and step >= first_of_moves else [])]


def whole_day() -> list[Activation | Reading]:
    return [
        message
        for step in range(STEPS)
        for message in (
            activation(step, *announced(step)),
            *(reading(step, name, 3 * step + len(name)) for name in announced(step)),
        )
    ]


def test_a_run_publishes_each_window_once_with_the_noise_of_its_interval(tmp_path: Path) -> None:
    """Drawn anew with the key and the window's interval; the release says which steps it covers."""
    report = run_on(tmp_path / "out", [lines_of(whole_day())], settings=deployment(tmp_path))
    assert not report.rejected
    lines = json_lines(tmp_path / "out" / "releases.jsonl")
    for step, line in enumerate(lines):
        entries = {each["sensor"]: each for each in line["releases"]}  # type: ignore[attr-defined]
        assert list(entries) == announced(step)
        for name, entry in entries.items():
            steps = WINDOW if name in ("hall", "door") else 1
            count = 3 * step + len(name)
            assert entry.get("from_step") == (step - WINDOW + 1 if steps > 1 else None)
            if name == "hall":
                assert entry["value"] == count
                continue
            interval = StepInterval((step - steps + 1) * 60, (step + 1) * 60)
            drawn = publish_step(
                NoiseKey.parse(NOISE_SECRET), "test", interval, [CountToPublish(name, Gaussian(6.0), count)]
            )
            assert entry["value"] == drawn[0]


@pytest.mark.slow
def test_the_account_is_that_of_the_windows_in_single_steps(tmp_path: Path) -> None:
    """In every step, those before a window's end too, it is what the library says of the same windows."""
    rows = [row for row in ROWS if row["name"] in ("bridge", "door")]
    release = {"mechanism": "gaussian", "sigma": 6.0}
    chosen = deployment(tmp_path, rows, release=release, sharpen_operations=10**9)
    day = [
        message
        for step in range(STEPS)
        for names in [[name for name in announced(step) if name in ("bridge", "door")]]
        for message in (activation(step, *names), *(reading(step, name, 5) for name in names))
    ]
    run_on(tmp_path / "out", [lines_of(day)], settings=chosen)
    whole = STEPS + WINDOW
    windows = [
        window_release(SensorRelease(sensor, Gaussian(6.0)), last)
        for sensor in load_registry(tmp_path / "sensors.json", NAMES).sensors
        for last in range(whole)
        if sensor.window is not None and sensor.window.ends_with(last)
    ]
    found, silent = (
        ContinuousAccountant(population(), settings(**chosen).horizon_settings(0)) for _ in range(2)
    )
    lines = json_lines(tmp_path / "out" / "risks.jsonl")
    summaries = [line for line in lines if line["type"] == "risk_summary"]
    for step, summary in zip(shown_steps(whole, windows)[:STEPS], summaries, strict=True):
        found.apply(step)
        silent.apply(StepSchedule(step.step))
        assert summary["mean_risk"] == pytest.approx(float(found.risk().mean()), abs=1e-12)
    assert found.risk().mean() > silent.risk().mean()


def test_sensors_are_charged_whether_their_counts_come_or_not(tmp_path: Path) -> None:
    """An activation decides what is published, nothing else: risks are the same to the byte."""
    day = whole_day()
    fewer = [
        each.model_copy(update={"sensors": ("A",)}) if isinstance(each, Activation) else each
        for each in day
        if isinstance(each, Activation) or each.sensor == "A"
    ]
    run_on(tmp_path / "all", [lines_of(day)], settings=deployment(tmp_path))
    run_on(tmp_path / "few", [lines_of(fewer)], settings=deployment(tmp_path))
    risks = [(tmp_path / name / "risks.jsonl").read_bytes() for name in ("all", "few")]
    assert risks[0] == risks[1]


@pytest.mark.parametrize("cut", [9, 17, 23])
def test_a_run_goes_on_in_the_middle_of_a_window(tmp_path: Path, cut: int) -> None:
    """Stopped anywhere and started again it leaves the same bytes, account and snapshot included."""
    day, chosen = whole_day(), deployment(tmp_path, snapshot_seconds=0.01)
    run_on(tmp_path / "whole", [lines_of(day)], settings=chosen)
    run_on(tmp_path / "parts", [lines_of(day[:cut])], settings=chosen, keep_open=True)
    run_on(tmp_path / "parts", [lines_of(day)], settings=chosen)
    assert outputs_of(tmp_path / "parts") == outputs_of(tmp_path / "whole")


def test_the_mechanism_of_a_window_stays_as_long_as_the_run_goes_on(tmp_path: Path) -> None:
    """It was accounted in steps whose windows have not ended: even an operator's word does not change it."""
    run_on(tmp_path / "out", [lines_of(whole_day()[:9])], settings=deployment(tmp_path), keep_open=True)
    other = deployment(tmp_path, release={"mechanism": "gaussian", "sigma": 2.0})
    with pytest.raises(RunChangedError, match="windows"):
        run_on(tmp_path / "out", [lines_of(whole_day())], settings=other, accept_changes=True)


def test_a_count_between_windows_is_a_dead_letter(tmp_path: Path) -> None:
    """So is one of a sensor on moves whose first move lies before the log."""
    day = [activation(0, "A", "bridge"), activation(0, "A"), activation(2, "hall"), activation(3, "door")]
    report = run_on(tmp_path / "out", [lines_of(day)], settings=deployment(tmp_path))
    assert report.rejected == {Reason.NO_WINDOW_ENDS: 3}
    hints = [str(line["hint"]) for line in json_lines(tmp_path / "out" / "rejected.jsonl")]
    assert "with the steps 3, 7 and so on" in hints[1]
    assert "with the steps 7, 11 and so on" in hints[2]


def test_a_schedule_with_another_mechanism_is_refused_before_the_run(tmp_path: Path) -> None:
    schedule = tmp_path / "schedule.json"
    steps = [{"sensors": []}, {"sensors": ["bridge"], "mechanism": "gaussian", "sigma": 1.0}]
    schedule.write_text(json.dumps({"steps": steps}))
    with pytest.raises(ScheduleError, match="mechanism that is accounted in every step"):
        run_on(tmp_path / "out", [b""], settings=deployment(tmp_path), schedule=schedule)


@pytest.mark.parametrize(
    "changed",
    [
        {"release": {"mechanism": "budget", "budget": {"share": 0.5, "added": 0.6}}},
        {"release": {"mechanism": "gaussian", "sigma": 6.0}, "crowd": {"on": True}},
        {"release": {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}},
    ],
)
def test_what_has_no_account_for_windows_is_refused(tmp_path: Path, changed: dict[str, object]) -> None:
    """Risk budgets, the crowd adversary, and noise that several values share."""
    with pytest.raises(TallyguardError, match=r"windows or moves|a window or moves"):
        run_on(tmp_path / "out", [b""], settings={**deployment(tmp_path), **changed})


def test_a_place_that_is_counted_exactly_is_shown_once() -> None:
    """What a move shows of a place is known where an exact count of the step shows it already."""
    place = Sensor("A", (0,))
    window = CountingWindow(1, ((0, 1, 1),))
    door = Sensor("door", (0, 1), window=window)
    registry = SensorRegistry(("a", "b"), (place, door)).with_windows({"door": Gaussian(6.0)})
    for mechanism, shown in ((Raw(), {"A", "at 1"}), (Gaussian(1.0), {"A", "at 0", "at 1"})):
        step = in_single_steps(StepSchedule(3, (SensorRelease(place, mechanism),)), registry)
        assert {each.sensor.name for each in step.releases} == shown
        assert [type(each).__name__ for each in step.revealed or ()] == ["RevealedMove"]


def test_what_windows_show_is_found_once_however_many_sensors_there_are() -> None:
    """Not anew in every step, which took seconds with a thousand sensors."""
    window = CountingWindow(WINDOW, ())
    sensors = tuple(
        Sensor(f"sensor {place}", (place,), window=window, most_counts=WINDOW) for place in range(300)
    )
    places = tuple(str(place) for place in range(300))
    noised = {sensor.name: Gaussian(6.0) for sensor in sensors}
    registry = SensorRegistry(places, sensors).with_windows(noised)
    in_single_steps(StepSchedule(0), registry)
    before = parts_of.cache_info()
    for step in range(1, 4):
        in_single_steps(StepSchedule(step), registry)
    after = parts_of.cache_info()
    assert (after.misses, after.hits - before.hits) == (before.misses, 3 * len(sensors))


def test_commands_without_an_account_of_windows_say_so(tmp_path: Path) -> None:
    """Connectors refuse the sensors file before they begin."""
    chosen = settings(**deployment(tmp_path), locations=tmp_path / "locations.txt")
    (tmp_path / "locations.txt").write_text("\n".join(NAMES))
    with pytest.raises(SensorError, match="connected"):
        announced_sensors(chosen, PayloadSettings.model_construct(), "connect.http.map")


def test_differential_privacy_charges_a_window_by_what_is_declared(tmp_path: Path) -> None:
    """Of windows that end with a step, as many as can count one person, each by its most_counts squared."""
    path = tmp_path / "sensors.json"
    for most_sensors in (None, 1, 2):
        beside = {} if most_sensors is None else {"most_sensors": most_sensors}
        path.write_text(json.dumps({**beside, "sensors": ROWS}))
        registry = load_registry(path, NAMES)
        noised = [SensorRelease(registry.get(name), Gaussian(6.0)) for name in ("hall", "door")]
        spend = ZcdpSpend()
        spend.add(noised)
        charged = window_cost([window_release(each, 7) for each in noised], most_sensors or 2)
        assert (spend.rho, spend.truncated_mass) == (charged.rho, charged.truncated_mass)


def test_an_exported_value_has_the_interval_of_its_window(tmp_path: Path) -> None:
    run_on(tmp_path / "out", [lines_of(whole_day())], settings=deployment(tmp_path))
    rows = [row for _, day in released_days(tmp_path / "out") for row in day]
    lengths = {row.sensor: (row.end - row.start).total_seconds() for row in rows}
    assert lengths == {"A": 60.0, "bridge": 60.0, "hall": 60.0 * WINDOW, "door": 60.0 * WINDOW}


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"moves": [[0, 1]]}, "must declare most_counts"),
        ({"moves": [[0, 1]], "most_counts": 1, "counts": "presence"}, "must count passages"),
        ({"moves": [[0, 1]], "most_counts": 1, "locations": [0]}, "either locations or moves"),
        ({"moves": [[0]], "most_counts": 1}, "from and to"),
        ({"moves": [[0, 1], [0, 1]], "most_counts": 1}, "each move once"),
        ({"moves": [[0, 1, 0]], "most_counts": 1}, "once or more"),
        ({"moves": [["A", "nowhere"]], "most_counts": 1}, "known to the priors"),
        ({"moves": [], "most_counts": 1}, "at least one move"),
        ({"locations": [0], "window": 0}, "1 to 48 steps"),
        ({"locations": [0], "window": 0.5}, "1 to 48 steps"),
        ({"locations": [0], "window": 4, "most_counts": 5}, "each person once a step"),
        ({"locations": [0], "window": 4, "corrections": 1}, "no corrections"),
        ({"locations": [0], "window": 4, "miscounts": 1}, "true or false"),
    ],
)
def test_a_declaration_that_means_nothing_is_refused(
    tmp_path: Path, row: dict[str, object], message: str
) -> None:
    path = tmp_path / "sensors.json"
    path.write_text(json.dumps([{"name": "a", **row}]))
    with pytest.raises(SensorError, match=message):
        load_registry(path, NAMES)


def test_a_device_with_a_limit_is_accounted_as_one(tmp_path: Path) -> None:
    """Places with passages may count anybody up to most_counts times; moves as many as there are."""
    path = tmp_path / "sensors.json"
    rows = [
        {"name": "a", "locations": [0], "window": 4},
        {"name": "b", "locations": [0], "window": 4, "counts": "passages", "most_counts": 2},
        {"name": "c", "moves": [[0, 1]], "window": 4, "most_counts": 2},
    ]
    path.write_text(json.dumps(rows))
    sensors = load_registry(path, NAMES).sensors
    assert [each.most_counts for each in sensors] == [4, 2, 2]
    assert [each.window.miscounts for each in sensors if each.window] == [False, True, False]
    assert sensors[2].locations == (0, 1)
    assert np.isfinite([window_release(SensorRelease(each, Gaussian(6.0)), 7).last for each in sensors]).all()
