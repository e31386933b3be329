"""Runs, plans and readers of a run through a night in which clocks are changed."""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from models.exceptions import ScheduleError
from models.mechanisms import Raw
from models.prior_files import save_population
from models.priors import MovementPrior, Population
from stream_app.analysis.run_log import read_run
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.kafka.deployment.deployment import accounts_basis
from stream_app.setup.combinations import Runner, refusals
from stream_app.setup.run_folder.run_settings import load_run, settings_of_run
from stream_app.setup.schedule_files import parse_schedule
from stream_app.setup.settings import Settings
from stream_app.steps.plan import make_plan
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    NOISE_SECRET,
    PSEUDONYM_SECRET,
    REGISTRY,
    TickingClock,
    activation,
    everything_in,
    json_lines,
    lines_of,
    reading,
)

ORIGIN = "2026-03-28T23:00:00Z"  # midnight in Vienna; two hours later clocks are put forward
STEPS = 7
BUDGET = {"mechanism": "budget", "budget": {"risk": 0.99, "share": 0.2}}
CLOCK = {"timezone": "Europe/Vienna", "origin": ORIGIN, "step_seconds": 3600}


@cache
def daily() -> Population:
    rng = np.random.default_rng(3)
    priors = [
        MovementPrior.from_dense(f"p{k}", rng.dirichlet(np.ones(4) * 0.4, size=(24, 4))) for k in range(5)
    ]
    return Population.pack(priors, NAMES)


def settings(**chosen: object) -> Settings:
    keys = {"noise_key_secret": NOISE_SECRET, "pseudonym_key_secret": PSEUDONYM_SECRET}
    given = {**LITTLE_WORK, **keys, "horizon": 4, "risk_every": 1, "release": {"mechanism": "raw"}, **CLOCK}
    return Settings(**{**given, **chosen})


def counts(steps: int = STEPS) -> bytes:
    messages = []
    for step in range(steps):
        messages += [activation(step, "A", "C"), reading(step, "A", step), reading(step, "C", 1)]
    return lines_of(messages)


def run_at(folder: Path, **chosen: object) -> None:
    run(settings(**chosen), RunOptions(folder), daily(), clock=TickingClock(), chunks=[counts()])


def test_a_run_has_the_ceilings_of_the_hours_on_the_wall(tmp_path: Path) -> None:
    """Those of an accountant with the calendar; without a time zone they are others from the change on."""
    fast = {"sharpen": False}
    run_at(tmp_path / "wall", **fast)
    run_at(tmp_path / "counted", timezone=None, **fast)
    wall, counted = (summaries(tmp_path / name) for name in ("wall", "counted"))
    horizon = read_run(tmp_path / "wall").horizon()
    assert horizon.calendar == settings(**fast).calendar(0)
    plan, accountant, differs = (
        make_plan(settings(), None, daily(), Runner.RUN),
        ContinuousAccountant(daily(), horizon),
        [],
    )
    for step in range(STEPS):
        accountant.apply(plan.policy.decide(step, ("A", "C")).schedule)
        assert wall[step]["most_risk"] == accountant.risk().max()
        assert wall[step]["baseline"]["1.0"] == accountant.baseline().max()
        differs.append(wall[step]["mean_baseline"] != counted[step]["mean_baseline"])
    assert differs[-1]


def summaries(folder: Path) -> list[dict[str, Any]]:
    return [line for line in json_lines(folder / "risks.jsonl") if line["type"] == "risk_summary"]


@pytest.mark.slow
@pytest.mark.parametrize("release", [{"mechanism": "raw"}, BUDGET], ids=["raw", "budget"])
def test_a_crash_in_the_night_of_change_leads_to_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, release: dict[str, Any]
) -> None:
    """At every ninth write, half done; snapshots are taken all the time."""
    chosen = {"snapshot_seconds": 1e-9, "release": release}
    disk = Disk(monkeypatch)
    run_at(tmp_path / "whole", **chosen)
    expected, operations = everything_in(tmp_path / "whole"), disk.operations
    assert operations > 50
    for folder in disk.mended(range(5, operations, 9), partial(run_at, **chosen), tmp_path):
        assert everything_in(folder) == expected, folder


def test_the_clock_is_recorded_and_cannot_change_under_a_run(tmp_path: Path) -> None:
    """And a run without one has nothing new in its record."""
    run_at(tmp_path / "wall", holidays=["2026-04-06"])
    stored = load_run(tmp_path / "wall")
    assert (stored["timezone"], stored["holidays"]) == ("Europe/Vienna", ["2026-04-06"])
    assert settings_of_run(tmp_path / "wall", Settings()).calendar(0) is not None
    run_at(tmp_path / "counted", timezone=None)
    assert not {"timezone", "holidays"} & load_run(tmp_path / "counted").keys()
    with pytest.raises(RunChangedError, match="timezone"):
        settings_of_run(tmp_path / "counted", Settings(timezone="Europe/Vienna"))
    with pytest.raises(RunChangedError, match="timezone"):
        run_at(tmp_path / "counted")


@cache
def weekly() -> Population:
    rng = np.random.default_rng(4)
    priors = [MovementPrior.from_dense(f"p{k}", rng.dirichlet(np.ones(4), size=(168, 4))) for k in range(3)]
    return Population.pack(priors, NAMES)


def run_weekly(folder: Path, steps: int, holidays: list[str], **chosen: object) -> None:
    given = settings(holidays=holidays, **chosen)
    run(given, RunOptions(folder), weekly(), clock=TickingClock(), chunks=[counts(steps)])


@pytest.mark.slow
def test_holidays_of_days_to_come_may_change_while_a_run_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next Monday becomes one after two steps; a kill at every ninth write leads to the same files."""
    before, after = ["2026-12-25"], ["2026-03-30", "2026-12-25"]
    everyone = {"snapshot_seconds": 1e-9, "origin": "2026-03-29T20:00:00Z"}  # two hours before Monday
    whole = tmp_path / "whole"
    run_weekly(whole, 2, before, **everyone)
    run_weekly(whole, STEPS, after, **everyone)
    assert load_run(whole)["holidays"] == after
    entries = [json.loads(line) for line in (whole / "record.jsonl").read_text().splitlines()]
    held = [each["facts"]["holidays"] for each in entries if "holidays" in each.get("facts", {})]
    assert held == [before, after]
    run_weekly(tmp_path / "never", STEPS, before, **everyone)
    assert summaries(whole)[:2] == summaries(tmp_path / "never")[:2]
    assert summaries(whole)[-1]["mean_baseline"] != summaries(tmp_path / "never")[-1]["mean_baseline"]
    begun = tmp_path / "begun"
    run_weekly(begun, 2, before, **everyone)
    disk = Disk(monkeypatch)
    run_weekly(shutil.copytree(begun, tmp_path / "counted"), STEPS, after, **everyone)
    on = partial(run_weekly, steps=STEPS, holidays=after, **everyone)
    for folder in disk.mended(range(1, disk.operations, 9), on, tmp_path, begun):
        assert everything_in(folder) == everything_in(whole), folder
    with pytest.raises(RunChangedError, match="2026-03-30 was one and is none now; put these days back"):
        run_weekly(whole, STEPS, before, **everyone)
    with pytest.raises(RunChangedError, match="2026-03-29 was none and is one now"):
        run_weekly(whole, STEPS, ["2026-03-29", *after], **everyone)


def test_every_process_of_a_deployment_on_kafka_must_have_the_same_clock() -> None:
    """And the record of one without a clock is what it was."""
    with_clock, without = (
        accounts_basis(settings(), REGISTRY),
        accounts_basis(settings(timezone=None), REGISTRY),
    )
    assert with_clock == {**without, "timezone": "Europe/Vienna", "holidays": []}
    assert not {"timezone", "holidays"} & without.keys()


def test_the_work_of_a_step_is_in_the_record_where_only_sampling_takes_any() -> None:
    """A copy of the deployment would look at others otherwise."""
    given = {"sharpen": False, "sharpen_operations": 7}
    assert "sharpen_operations" not in accounts_basis(settings(**given), REGISTRY)
    assert accounts_basis(settings(**given, sampled_above=0.1), REGISTRY)["sharpen_operations"] == 7


def test_a_budget_a_crowd_and_a_panel_follow_the_clock_but_hindsight_no_holidays(tmp_path: Path) -> None:
    """What cannot is refused by every runner, in one sentence."""
    own = {"adversary": "crowd", "release": BUDGET, "panel": tmp_path / "panel.jsonl"}
    holidays = {"holidays": ["2026-05-01"]}
    assert not list(refusals(Runner.RUN, settings(**own, **holidays)))
    later = {"mechanism": "budget", "budget": {"risk": 0.99, "hindsight": True}}
    assert not list(refusals(Runner.RUN, settings(release=later)))
    for runner in Runner:
        [refused] = refusals(runner, settings(release=later, **holidays))
        assert str(refused).startswith("a risk budget in hindsight must have no holidays, got 1 dates")


def test_a_clock_that_there_is_not_is_refused_with_the_settings(tmp_path: Path) -> None:
    for chosen, what in (
        ({"timezone": "Europe/Wien"}, "IANA database"),
        ({"timezone": None, "holidays": ["2026-05-01"]}, "holidays must be dates of a timezone"),
        ({"step_seconds": 7 * 3600, "holidays": ["2026-05-01"]}, "must divide a day"),
        ({"holidays_file": tmp_path / "none.txt"}, "must be a readable text file"),
    ):
        with pytest.raises(ValueError, match=what):
            settings(**chosen)
    assert settings(timezone="UTC").calendar(0) is None


def test_holidays_may_come_from_a_file_with_comments(tmp_path: Path) -> None:
    (tmp_path / "holidays.txt").write_text("# Austria\n2026-05-01  # Labour Day\n\n2026-01-06\n")
    found = settings(holidays_file=tmp_path / "holidays.txt", holidays=["2026-12-25"])
    assert [each.isoformat() for each in found.holidays] == ["2026-01-06", "2026-05-01", "2026-12-25"]
    calendar = found.calendar(0)
    assert calendar is not None and calendar.holidays == found.holidays


def test_a_schedule_for_an_audit_may_have_a_calendar_and_a_plan_takes_it_from_the_settings(
    tmp_path: Path,
) -> None:
    clock = {**CLOCK, "holidays": ["2026-04-06"]}
    document = {"first_slot": 0, "steps": [{"sensors": [0], "mechanism": "raw"}], "calendar": clock}
    found = parse_schedule(document, REGISTRY)
    assert found.calendar is not None
    assert found.calendar.origin == int(datetime(2026, 3, 28, 23, tzinfo=UTC).timestamp())
    assert found.steps[0].releases[0].mechanism == Raw()
    (tmp_path / "schedule.json").write_text(json.dumps(document))
    save_population(daily(), tmp_path / "priors.json")
    with pytest.raises(SettingsError, match="the clock of a plan or run must be in its settings"):
        make_plan(settings(), tmp_path / "schedule.json", daily(), Runner.PLAN)
    for wrong, what in (
        ({**clock, "zone": 1}, "did you mean"),
        ({**clock, "origin": "2026-03-28T23:00:00"}, "a time with its offset"),
        ({"timezone": "Europe/Vienna"}, "must have timezone, origin and step_seconds"),
        ({**clock, "holidays": "2026-04-06"}, "a list of dates"),
    ):
        with pytest.raises(ScheduleError, match=what):
            parse_schedule({**document, "calendar": wrong}, REGISTRY)
