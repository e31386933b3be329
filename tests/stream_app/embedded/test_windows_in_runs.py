"""Runs with counters as they count: sensors on moves, counts over several steps, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import ZcdpSpend, window_cost
from models.exceptions import ScheduleError, SensorError
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Raw
from models.prior_files import save_population
from models.releases import (
    CountingWindow,
    OpenWindow,
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
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.ledger_document import ledger_document, load_log
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.report import load_priors, make_report, read_run
from stream_app.analysis.report.lowering import lowering
from stream_app.analysis.run_lines import released_days
from stream_app.exceptions import InputError, RunChangedError
from stream_app.setup.sections import FilesMap, PayloadSettings
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.starting.connect import ArchiveSteps, read_archive, write_counts
from stream_app.starting.connect.journal import (
    MESSAGES,
    StepCount,
    StepFold,
    StepRules,
    announced_sensors,
    journal_of,
    windows_of,
)
from stream_app.starting.connect.payloads import SensorCount
from stream_app.wire import Activation, Reading, Reason
from tests.shown_steps import shown_steps
from tests.stream_app.command_line import Tallyguard
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
    chosen = deployment(tmp_path, rows, release=release, sharpen_operations=10**11)
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


def test_windows_with_noise_that_several_steps_share_go_on_after_a_stop(tmp_path: Path) -> None:
    """Each count by the mechanism of the step that it is published with."""
    np.save(tmp_path / "covariance.npy", np.array([[4.0, 1.0], [1.0, 4.0]]))
    release = {"mechanism": "correlated", "covariance": tmp_path / "covariance.npy"}
    chosen, day = deployment(tmp_path, release=release), whole_day()
    report = run_on(tmp_path / "once", [lines_of(day)], settings=chosen)
    assert not report.rejected
    for later in (False, True):  # within windows of the hall and of the door
        part = [each for each in day if (each.step >= 6) == later]
        run_on(tmp_path / "twice", [lines_of(part)], settings=chosen)
    for name in ("decisions.jsonl", "releases.jsonl"):
        assert (tmp_path / "twice" / name).read_bytes() == (tmp_path / "once" / name).read_bytes()
    steps = json_lines(tmp_path / "once" / "releases.jsonl")
    positions = {(each["position"], line["step"] % 2) for line in steps for each in line["releases"]}
    assert positions and all(position == step for position, step in positions)


def test_tiers_have_each_window_once_with_one_chain_of_noise(tmp_path: Path) -> None:
    """Accounted as the best-informed tier's value; each tier's file says which steps a value covers."""
    release = {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}}
    chosen = deployment(tmp_path, release=release)
    report = run_on(tmp_path / "out", [lines_of(whole_day())], settings=chosen)
    assert not report.rejected
    best = {each["sensor"]: each for each in json_lines(tmp_path / "out" / "releases.jsonl")[7]["releases"]}  # type: ignore[attr-defined]
    assert set(best["door"]["tiers"]) == {"public", "partner"}
    assert best["door"]["from_step"] == 4
    alone = deployment(tmp_path / "alone", release={**release, "tiers": {"partner": 1.0}})
    run_on(tmp_path / "one", [lines_of(whole_day())], settings=alone)
    risks = [(tmp_path / each / "risks.jsonl").read_bytes() for each in ("out", "one")]
    assert risks[0] == risks[1]


BUDGET: dict[str, object] = {"share": 0.5, "added": 0.3, "sigmas": [1.0, 4.0, 16.0]}


@pytest.mark.slow
@pytest.mark.parametrize("in_hindsight", [False, True])
def test_a_budget_decides_windows_when_they_begin_as_planned_and_after_kills(
    tmp_path: Path, in_hindsight: bool
) -> None:
    """Each is published as was decided with its first step; a run in pieces writes the same bytes."""
    budget = {**BUDGET, "hindsight": in_hindsight, "look_ahead": 2}
    if in_hindsight:
        budget |= {"added": 0.7, "sigmas": [16.0, 64.0, 256.0], "look_ahead": 0}
    release = {"mechanism": "budget", "budget": budget}
    chosen = deployment(tmp_path, release=release, snapshot_seconds=1e-9)
    schedule = tmp_path / "day.json"
    steps = [{"sensors": announced(step), "mechanism": "raw"} for step in range(STEPS)]
    schedule.write_text(json.dumps({"steps": steps}))
    readings = [each for each in whole_day() if isinstance(each, Reading)]
    run_on(tmp_path / "whole", [lines_of(readings)], settings=chosen, schedule=schedule)
    for piece in (5, 9, 14, len(readings)):
        chunk = [lines_of(readings[:piece])]
        is_last = piece == len(readings)
        run_on(tmp_path / "pieces", chunk, settings=chosen, schedule=schedule, keep_open=not is_last)
    for name in ("decisions.jsonl", "releases.jsonl", "risks.jsonl"):
        assert (tmp_path / "pieces" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    registry = load_registry(tmp_path / "sensors.json", NAMES)
    decided = read_decisions(tmp_path / "whole" / "decisions.jsonl", registry)
    published = 0
    for step in decided:
        for each in step.releases:
            window = each.sensor.window
            if window is None or not each.mechanism.is_released:
                continue
            charged_from = window.first_of(step.step) - bool(window.moves)
            for open_in in decided[charged_from : step.step + 1]:
                assert OpenWindow(each, step.step) in (open_in.windows or ())
            published += 1
    assert published > 3
    with pytest.raises(RunChangedError, match="windows"):  # what is open would be published otherwise
        run_on(tmp_path / "pieces", [], settings=deployment(tmp_path), accept_changes=True, reason="a test")
    plan = plan_releases(settings(**chosen), schedule, population())
    assert [each.decided.schedule for each in plan.steps] == decided
    log, horizon = load_log(tmp_path / "whole", registry), settings(**chosen).horizon_settings(0)
    ledger = ledger_document(log, population(), horizon, 1e-6, sensors=registry)
    assert "refused" not in ledger["reconstruction"]  # type: ignore[operator]
    priors = load_priors(tmp_path / "whole", settings(**chosen), population())
    found = lowering(read_run(tmp_path / "whole"), priors, decided, people=1)
    assert found is not None
    assert sum(each.share for each in found.shares) == pytest.approx(1.0)
    assert all(each.added <= found.changes[0].added + 1e-12 for each in found.changes)


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


HOUR_ROWS: list[dict[str, object]] = [
    {"name": "A", "locations": [0]},
    {"name": "hall", "locations": ["D"], "window": WINDOW},
    {"name": "door", "moves": [["A", "B"]], "window": WINDOW, "counts": "passages", "most_counts": WINDOW},
]


def connected(folder: Path) -> Settings:
    (folder / "locations.txt").write_text("\n".join(NAMES))
    chosen = deployment(folder, HOUR_ROWS, locations=folder / "locations.txt", origin=0)
    return settings(**chosen)


def test_a_connector_places_counts_of_windows_at_their_ends(tmp_path: Path) -> None:
    """Whole ones, or parts that add up; again after a kill; the first of moves, which none publishes, not."""
    chosen = connected(tmp_path)
    mapping = PayloadSettings.model_construct(shorter="sum", ends="exclusive")
    sensors = announced_sensors(chosen, mapping, "connect.http.map")
    length = WINDOW * 60
    counts = [
        *(SensorCount("A", step * 60, step * 60 + 60, step) for step in range(8)),
        *(SensorCount("door", k * length, (k + 1) * length, 7 + k) for k in range(2)),
        *(SensorCount("hall", k * length // 2, (k + 1) * length // 2, 1 + k) for k in range(4)),
    ]
    for each in sorted(counts, key=lambda count: count.end):  # opened anew for each count, as after a kill
        with journal_of(tmp_path / "taken", chosen, mapping, sensors) as journal:
            journal.take([each])
            journal.commit()
    messages = (tmp_path / "taken" / MESSAGES).read_bytes()
    made = [json.loads(line) for line in messages.splitlines()]
    readings = [(each["step"], each["sensor"], each["count"]) for each in made if each["type"] == "reading"]
    assert [each for each in readings if each[1] != "A"] == [(3, "hall", 3), (7, "door", 8), (7, "hall", 7)]
    announcing = {each["step"]: each["sensors"] for each in made if each["type"] == "activation"}
    assert [step for step, names in announcing.items() if "hall" in names] == [3, 7]
    assert [step for step, names in announcing.items() if "door" in names] == [7]
    report = run_on(tmp_path / "out", [messages], settings=chosen.model_dump())
    assert not report.rejected
    values = {each["sensor"]: each for each in json_lines(tmp_path / "out" / "releases.jsonl")[7]["releases"]}  # type: ignore[attr-defined]
    assert (values["hall"]["from_step"], values["hall"]["value"]) == (4, 7)


def test_a_count_that_is_no_window_is_refused_with_its_length(tmp_path: Path) -> None:
    fold = StepFold(StepRules(0, 60, windows={"hall": CountingWindow(WINDOW)}))
    with pytest.raises(InputError, match="must be a window of 240 s"):
        fold.take([SensorCount("hall", 60, 120, 1)])
    assert fold.take([SensorCount("hall", 240, 480, 5), SensorCount("A", 0, 60, 1)]).whole == [
        StepCount(0, "A", 1),
        StepCount(7, "hall", 5),
    ]


def test_an_older_connector_goes_on_with_the_bytes_it_wrote(tmp_path: Path) -> None:
    """Without windows nothing of the journal changes; other windows are another deployment."""
    plain = StepRules(0, 60)
    assert "windows" not in plain.document() and StepRules.read(plain.document()) == plain
    hourly = StepRules(0, 60, windows={"hall": CountingWindow(WINDOW)})
    assert StepRules.read(json.loads(json.dumps(hourly.document()))) == hourly


@pytest.mark.parametrize("minutes", [1, WINDOW])
def test_an_archive_of_hours_becomes_messages_of_windows(tmp_path: Path, minutes: int) -> None:
    """Hours as they are, where only windows are counted; or finer rows that add up beside single steps."""
    chosen = connected(tmp_path)
    names = ["hall", "door", *(["A"] if minutes == 1 else [])]
    rows = [
        f"1970-01-01T00:{minutes * row:02d}:00Z,{name},{row + 1}"
        for row in range(3 * WINDOW // minutes)
        for name in names
    ]
    (tmp_path / "day.csv").write_text("\n".join(["t,s,c", *rows]))
    mapping = FilesMap.model_validate(
        {"sensor": "s", "start": "t", "count": "c", "shorter": "sum", "interval_seconds": 60 * minutes}
    )
    grid = ArchiveSteps(0, 60, windows_of(chosen))
    found = read_archive([tmp_path / "day.csv"], mapping, grid)
    write_counts(tmp_path / "day.jsonl", found, grid.windows)
    messages = (tmp_path / "day.jsonl").read_bytes()
    made = [json.loads(line) for line in messages.splitlines()]
    sums = [10, 26, 42] if minutes == 1 else [1, 2, 3]
    counts = {(each["step"], each["sensor"]): each["count"] for each in made if each["type"] == "reading"}
    assert {key: people for key, people in counts.items() if key[1] == "hall"} == {
        (WINDOW * (k + 1) - 1, "hall"): each for k, each in enumerate(sums)
    }
    assert {key for key in counts if key[1] == "door"} == {(7, "door"), (11, "door")}
    report = run_on(tmp_path / "out", [messages], settings=chosen.model_dump())
    assert not report.rejected


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


@pytest.mark.slow
def test_a_report_with_priors_names_what_windows_revealed_and_what_less_would_do(tmp_path: Path) -> None:
    """The run's own account: as it was is what the run's risks say, and silence of all is the guess."""
    chosen = settings(**deployment(tmp_path, sharpen_operations=10**11))
    run_on(tmp_path / "out", [lines_of(whole_day())], settings=chosen.model_dump())
    log = read_run(tmp_path / "out")
    priors = load_priors(tmp_path / "out", chosen, population())
    assert set(priors.registry.in_windows) == {"bridge", "hall", "door"}
    decisions = read_decisions(tmp_path / "out" / "decisions.jsonl", priors.registry)
    found = lowering(log, priors, decisions)
    assert found is not None
    assert sum(each.share for each in found.shares) == pytest.approx(1.0)
    assert {each.sensor for each in found.shares} == {"A", "bridge", "hall", "door"}
    assert found.shares[0].sensor == "hall"  # the only one that is exact
    as_it_was = found.changes[0]
    added = [each.added for each in log.exposed]
    assert as_it_was.most_added == pytest.approx(max(added), abs=1e-9)
    hall = next(each for each in found.changes if each.name == "hall suppressed")
    assert hall.added < as_it_was.added
    html = make_report(tmp_path / "out", priors=priors)
    assert "hall suppressed" in html and "door" in html


@pytest.mark.slow
def test_an_audit_from_the_command_line_takes_windows(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """Ceiling, attacks, shares and hindsight; in the crowd no ceiling is above the informed one."""
    deployment(tmp_path)
    save_population(population(), tmp_path / "priors.json")
    steps = [
        {"sensors": announced(step), "mechanism": "gaussian", "sigma": 1.0}
        if announced(step)
        else {"sensors": []}
        for step in range(2 * WINDOW)
    ]
    (tmp_path / "day.json").write_text(json.dumps({"steps": steps}))
    command = ["audit", str(tmp_path / "priors.json"), "--schedule", str(tmp_path / "day.json")]
    command += ["--sensors", str(tmp_path / "sensors.json"), "--person", population().people[0]]
    result = tallyguard(
        *(*command, "--mistakes", "2", "--hindsight", "0:3", "--why", "--json", "--draws", "100"),
        *("--effort", "4"),
    )
    assert result.code == 0, result.err
    (found,) = json.loads(result.out)
    attacks = [each["success"] for each in found["attacks"].values() if each is not None]
    assert found["attacks"]["map"] is not None and max(attacks) <= found["certified"]
    assert found["baseline"] < found["certified"]
    assert found["hindsight"]["then"] <= found["hindsight"]["now"]
    assert {"hall", "door"} <= {each["sensor"] for each in found["why"]["releases"]}
    crowd = tallyguard(*command, "--mistakes", "2", "--json", "--effort", "4", "--adversary", "crowd")
    assert crowd.code == 0, crowd.err
    (among,) = json.loads(crowd.out)
    assert found["baseline"] <= among["certified"] <= found["certified"]
