"""Past steps in hindsight: never below what the best observer can do, and the same wherever it is shown."""

from __future__ import annotations

import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pytest

from accounting.bounds import horizon_risk
from accounting.exposure import Exposure
from models.mechanisms import Correlated, Raw
from models.noise import CorrelatedNoise
from models.prior_files import save_population
from models.priors import MovementPrior, Population
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.report import load_priors, read_run, write_report
from stream_app.analysis.report.sections import exposed_in_hindsight
from stream_app.cli import main
from stream_app.watching import hindsight as hindsight_module
from stream_app.watching.hindsight import Hindsight, PastHorizon, covers, hindsight
from stream_app.watching.people import FORGOTTEN
from stream_app.watching.web import status
from stream_app.watching.web.status import PeopleBoard, RecentSteps
from stream_app.watching.wording import ceiling_in_words, in_a_hundred
from tests.accounting.enumeration import optimum_success
from tests.stream_app.engine_support import (
    NAMES,
    REGISTRY,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)
from tests.watching.page_text import text_of_page

STEPS, MISTAKES = 16, 1
LITTLE_EFFORT = (
    "--no-attacks",
    "--order",
    "1",
    "--effort",
    "0",
)  # for the audit itself; hindsight has its own


def raw(*active: str, step: int = 0) -> StepSchedule:
    return StepSchedule(step, tuple(SensorRelease(REGISTRY.get(name), Raw()) for name in active))


def test_within_reach_it_is_the_risk_of_the_whole_log() -> None:
    """Then without what came later, now with it."""
    people = population()
    log = [raw(*active, step=step) for step, active in enumerate(["A", "", "B", "AC", "D", "B"])]
    exposure = Exposure.of(people.chain(2), Schedule(tuple(log)), len(NAMES), people.initial(2))
    found = hindsight(people, 2, log, 0, PastHorizon(1, 3, 1))
    now = horizon_risk(exposure, 1, 3, 1, in_hindsight=True)
    then = horizon_risk(exposure, 1, 3, 1)
    assert found is not None
    assert (found.now, found.now_by, found.baseline) == (now.certified, now.by, now.baseline)
    assert (found.then, found.until_step) == (min(then.certified, now.certified), 5)
    assert found.baseline < found.then < found.now


@pytest.mark.parametrize("seed", range(4))
def test_a_log_that_is_cut_still_bounds_the_best_observer_of_all_of_it(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against enumeration, with a reach of one step only: before, after and on both sides."""
    monkeypatch.setattr(hindsight_module, "REACH", 1)
    random = np.random.default_rng(seed)
    matrix, initial = random.dirichlet(np.ones(2), size=2), random.dirichlet(np.ones(2))
    prior = MovementPrior.from_dense("p", matrix, initial=initial)
    people = Population.pack([prior], ("A", "B"))
    active = [random.choice(["", "A", "B"]) for _ in range(7)]
    log = [raw(*names, step=step) for step, names in enumerate(active)]
    labels = np.array([[int("A" in names), 2 * int("B" in names)] for names in active])
    for first, last in ((0, 2), (2, 4), (4, 6)):
        for mistakes in (0, 1):
            past = PastHorizon(first, last, mistakes)
            for known in (log, log[first - 1 :] if first else log):
                assert covers(known, past)
                found = hindsight(people, 0, known, 0, past)
                assert found is not None
                window = first, last
                now = optimum_success(initial, matrix[None], labels, window, mistakes)
                then = optimum_success(initial, matrix[None], labels[: last + 1], window, mistakes)
                assert found.now >= now - 1e-10
                assert found.then >= then - 1e-10
                assert found.now >= found.then >= found.baseline


def test_no_bound_is_shown_where_noise_is_shared_between_steps() -> None:
    noise = CorrelatedNoise.of_covariance(np.full((2, 2), 4.0) + np.eye(2))
    log = [
        StepSchedule(step, (SensorRelease(REGISTRY.get("A"), Correlated.of(noise, step)),))
        for step in range(2)
    ]
    assert hindsight(population(), 0, log, 0, PastHorizon(0, 0, 0)) is None


@pytest.fixture(scope="module")
def watched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, PeopleBoard]:
    """A finished run and the page behind the token as it stood at the end."""
    folder, board = tmp_path_factory.mktemp("run"), PeopleBoard("token")
    run_on(folder, [lines_of(messages_of_a_day(STEPS, 8))], observer=board)
    return folder, board


@pytest.mark.slow
def test_the_page_the_report_and_the_audit_say_the_same(
    watched: tuple[Path, PeopleBoard],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Of each exposed person's worst moment, to the last digit; in the report's words too."""
    folder, board = watched
    log, priors = read_run(folder), load_priors(folder, settings(), population())
    steps = read_decisions(folder / "decisions.jsonl", REGISTRY)
    report = exposed_in_hindsight(log, priors, steps)
    assert len(report) == len(population())
    _write_schedule(tmp_path / "schedule.json", steps)
    save_population(population(), tmp_path / "priors.json")
    write_report(folder, tmp_path / "report.html", priors=priors)
    page = text_of_page((tmp_path / "report.html").read_text())
    for record, found in zip(log.exposed[:3], report, strict=False):
        assert found is not None
        answer = board.why(record.person)
        assert answer is not None
        assert answer["hindsight"] == asdict(found)
        assert found.last_step == record.step
        person = population().people[list(priors.pseudonyms).index(record.person)]
        past = f"{found.first_step}:{found.last_step}"
        arguments = [
            "--schedule",
            str(tmp_path / "schedule.json"),
            "--person",
            person,
            "--hindsight",
            past,
            *LITTLE_EFFORT,
        ]
        (audit,) = json.loads(
            _printed([str(tmp_path / "priors.json"), *arguments, "--json"], monkeypatch, capsys)
        )
        assert audit["hindsight"] == asdict(found)
        assert " ".join(said_of(found)) in page
    assert any(found.now > found.then + 0.01 for found in report if found is not None)


def said_of(found: Hindsight) -> list[str]:
    """Guess, ceiling then and ceiling now, in words."""
    return [in_a_hundred(found.baseline), *map(ceiling_in_words, (found.then, found.now))]


@pytest.mark.slow
def test_the_terminal_says_both_ceilings_and_their_condition(
    watched: tuple[Path, PeopleBoard],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    steps = read_decisions(watched[0] / "decisions.jsonl", REGISTRY)[:6]
    _write_schedule(tmp_path / "schedule.json", steps)
    save_population(population(), tmp_path / "priors.json")
    arguments = [str(tmp_path / "priors.json"), "--schedule", str(tmp_path / "schedule.json"), *LITTLE_EFFORT]
    printed = _printed([*arguments, "--hindsight", "1:3"], monkeypatch, capsys)
    found = hindsight(population(), 0, steps, 0, PastHorizon(1, 3, MISTAKES))
    assert found is not None
    assert "Steps 1 to 3 in hindsight" in printed
    assert "hold if habits are as the prior says" in printed
    table = printed.split("in hindsight")[1].splitlines()
    row = next(line for line in table if line.strip().startswith("person 0"))
    assert re.findall(r"[0-9.]+ in 100", row) == said_of(found)
    drawn = _printed([*arguments, "--hindsight", "1:3", "--draws", "2000"], monkeypatch, capsys)
    assert "from draws: with 95% confidence each" in drawn
    assert "from draws" not in printed
    for wrong in ("3:1", "0:6", "1-3", "2:2"):
        assert "--hindsight" in _printed([*arguments, "--hindsight", wrong], monkeypatch, capsys, code=2)


def test_without_priors_the_report_says_that_it_was_not_computed(
    watched: tuple[Path, PeopleBoard], tmp_path: Path
) -> None:
    write_report(watched[0], tmp_path / "report.html")
    assert "Not computed: what was released later can also reveal" in (tmp_path / "report.html").read_text()


@pytest.mark.slow
def test_the_page_says_why_it_has_no_figure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Once the steps are out of memory: never zero, never silence."""
    monkeypatch.setattr(status, "_MOST_RELEASES", 0)
    board = PeopleBoard("token")
    run_on(tmp_path, [lines_of(messages_of_a_day(STEPS, 8))], observer=board)
    forgotten = [
        answer
        for row in board.exposed(0.0)["people"]
        if (answer := board.why(row["person"])) is not None and answer["hindsight"] is None
    ]
    assert forgotten
    assert {answer["no_hindsight"] for answer in forgotten} == {FORGOTTEN}


def test_memory_is_bounded_but_never_below_the_horizon(monkeypatch: pytest.MonkeyPatch) -> None:
    """By steps and by releases; a gap begins anew."""
    monkeypatch.setattr(status, "_MOST_STEPS", 6)
    monkeypatch.setattr(status, "_MOST_RELEASES", 8)
    recent = RecentSteps()
    recent.horizon = 3
    for step in range(20):
        recent.append(raw("A", step=step))
    assert [step.step for step in recent.steps] == list(range(14, 20))
    for step in range(20, 24):
        recent.append(raw("A", "B", "C", "D", step=step))
    assert [step.step for step in recent.steps] == [21, 22, 23]
    recent.append(raw(step=30))
    assert [step.step for step in recent.steps] == [30]


def _write_schedule(path: Path, steps: list[StepSchedule]) -> None:
    """A run's decisions as a schedule file."""
    rows = [
        {
            "releases": [
                {"sensor": each.sensor.name, "mechanism": each.mechanism.name, **each.mechanism.parameters}
                for each in step.releases
            ]
        }
        for step in steps
    ]
    path.write_text(json.dumps({"first_slot": 0, "steps": rows}))


def _printed(
    arguments: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    code: int = 0,
) -> str:
    """What ``tallyguard audit`` prints with these arguments."""
    monkeypatch.setattr(sys, "argv", ["tallyguard", "audit", *arguments])
    capsys.readouterr()
    with pytest.raises(SystemExit) as stop:
        main()
    assert int(stop.value.code or 0) == code
    captured = capsys.readouterr()
    return captured.out if code == 0 else captured.err
