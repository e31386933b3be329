"""Priors from few data: with evidence, every place shows means over chains that the data could have given."""

from __future__ import annotations

import json
import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.bounds.radius import ceiling_within
from accounting.settings import RiskBudget
from models.exceptions import PriorError
from models.mechanisms import Raw
from models.prior_files import save_evidence, save_population
from models.priors import Evidence, FittedWindows, Lists, Population
from models.releases import SensorRelease, StepSchedule
from stream_app.analysis.accounted_again import account, read_decisions
from stream_app.analysis.alternatives import Alternative
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.report import load_priors, read_run, write_report
from stream_app.analysis.verdict import MayPublish, verdict_on
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import RunChangedError
from stream_app.setup.given_priors import as_set, population_of
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observers
from stream_app.watching.hindsight import PastHorizon, hindsight
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from tests.stream_app.engine_support import REGISTRY, lines_of, messages_of_a_day, population
from tests.stream_app.watching.test_refuted_priors import KAPPA, checked, verdict

DRAWS = 4


def evidence_file(folder: Path, weight: float) -> Path:
    """Every row of everybody rests on so many moves."""
    people = population()
    rows = [people.chain(person).start.size for person in range(len(people))]
    start = np.concatenate(([0], np.cumsum(rows)))
    path = folder / f"evidence-{weight:g}.parquet"
    save_evidence(Evidence(people.people, Lists(start, np.full(start[-1], weight))), path)
    return path


def few(folder: Path, weight: float = 6.0, check: PriorsVerdict | None = None, **changes: Any) -> Settings:
    return checked(check, evidence=evidence_file(folder, weight), posterior_draws=DRAWS, **changes)


def accounted(given: Settings) -> Population:
    return as_set(given, population())


def day(folder: Path, given: Settings, **options: Any) -> tuple[StatusBoard, PeopleBoard]:
    status, people = StatusBoard(), PeopleBoard("token")
    run(
        given,
        RunOptions(folder, **options),
        accounted(given),
        chunks=[lines_of(messages_of_a_day(8, 1))],
        observer=Observers([status, people]),
    )
    return status, people


@pytest.mark.slow
def test_log_page_and_explanations_are_means_over_the_chains(tmp_path: Path) -> None:
    """As runs over the first, second, .. chain of everybody say, put together; raised after that."""
    more = {"attack_draws": 0, "sharpen_operations": 10**13}  # enough for all chains at once
    given = few(tmp_path, check=verdict(), **more)
    status, people = day(tmp_path / "out", given)
    log = read_run(tmp_path / "out")
    drawn = accounted(given).drawn
    assert drawn is not None
    chains, boards = [], []
    for number in range(DRAWS):
        own = drawn.subset(np.arange(number, len(drawn), DRAWS))
        named = replace(own, people=population().people)
        folder, board = tmp_path / str(number), PeopleBoard("token")
        run(
            checked(None, **more),
            RunOptions(folder),
            named,
            chunks=[lines_of(messages_of_a_day(8, 1))],
            observer=Observers([board]),
        )
        chains.append(read_run(folder))
        boards.append(board)
    for step, summary in enumerate(log.summaries):
        assert (summary.draws, summary.within_nats) == (DRAWS, KAPPA)
        assert summary.mean_baseline == pytest.approx(
            np.mean([each.summaries[step].mean_baseline for each in chains])
        )
        assert summary.mean_added == pytest.approx(
            np.mean([each.summaries[step].mean_added for each in chains]), abs=1e-12
        )
    state = json.loads(state_json(status.read(), given, has_people=True))
    assert state["summary"]["mean_risk"] == log.summaries[-1].mean_risk
    rows = people.exposed(0.0)["people"]
    why = people.why(rows[0]["person"])
    own = [board.why(rows[0]["person"]) for board in boards]
    assert why is not None
    for name, raised in (("certified", True), ("baseline", False)):
        mean = float(np.mean([each[name] for each in own if each is not None]))
        assert why[name] == pytest.approx(ceiling_within(KAPPA, mean) if raised else mean, rel=1e-9)


def test_past_steps_have_the_mean_over_the_chains_too(tmp_path: Path) -> None:
    people = accounted(few(tmp_path))
    assert people.drawn is not None
    log = [StepSchedule(t, (SensorRelease(REGISTRY.get("A"), Raw()),)) for t in range(6)]
    past = PastHorizon.ending_at(3, 3, 1)
    found = hindsight(people, 2, log, 0, past)
    each = [hindsight(people.drawn, chain, log, 0, past) for chain in range(2 * DRAWS, 3 * DRAWS)]
    assert found is not None
    for name in ("then", "now", "baseline"):
        assert getattr(found, name) == pytest.approx(np.mean([getattr(one, name) for one in each]))
    assert found.baseline <= found.then <= found.now


@pytest.mark.slow
def test_every_place_says_what_the_means_are_and_when_they_hold(tmp_path: Path) -> None:
    for check, short in (
        (None, "on average over what the data leave open"),
        (
            verdict(),
            "if each person is within 0.1 nats of chains drawn for priors refuted on 423 people",
        ),
    ):
        given, folder = few(tmp_path, check=check), tmp_path / str(check is None)
        status, _ = day(folder, given)
        said = f"means over {DRAWS} chains for each person that the same data could have given"
        state = json.loads(state_json(status.read(), given, has_people=True))
        assert said in state["note"]
        assert state["about"]["condition"] == short
        page = render(status.read(), given)
        assert said in page
        assert f"Ceiling, {short}" in page
        write_report(folder, tmp_path / "report.html")
        report = (tmp_path / "report.html").read_text()
        assert said in report
        assert f"Ceiling, {short}" in report
        (tmp_path / "day.json").write_text(json.dumps({"steps": [{"sensors": ["A"], "mechanism": "raw"}]}))
        assert said in (plan_releases(given, tmp_path / "day.json", accounted(given)).note or "")


@pytest.mark.slow
def test_readers_of_a_run_must_have_its_evidence(tmp_path: Path) -> None:
    """Else a report would account other chains beside the run's figures."""
    given, out = few(tmp_path), tmp_path / "out"
    day(out, given)
    registry = load_priors(out, given, accounted(given)).registry
    assert registry.sensors
    with pytest.raises(RunChangedError, match="evidence and posterior_draws must be those of the run"):
        load_priors(out, checked(None), population())
    other = given.model_copy(update={"posterior_draws": DRAWS + 1})
    with pytest.raises(RunChangedError, match="name the run's settings file with --config"):
        load_priors(out, other, accounted(other))
    day(tmp_path / "plain", checked(None))
    with pytest.raises(RunChangedError, match="evidence must be left out: the run had none"):
        load_priors(tmp_path / "plain", given, accounted(given))


@pytest.mark.slow
def test_a_run_takes_evidence_up_when_told_to_and_answers_for_no_step_before(tmp_path: Path) -> None:
    """Accounts are those of the whole log; what was recorded of other chains proves nothing of these."""
    out, given = tmp_path / "out", few(tmp_path)
    half = [each for each in messages_of_a_day(8, 1) if each.step < 4]
    run(checked(None), RunOptions(out, keep_open=True), population(), chunks=[lines_of(half)])
    with pytest.raises(RunChangedError, match="drawn was not set, is"):
        day(out, given)
    day(out, given, accept_changes=True, reason="few data")
    log = read_run(out)
    assert 0 < log.raised_from < len(log.summaries)
    day(tmp_path / "whole", given)
    whole = read_run(tmp_path / "whole")
    assert log.summaries[log.raised_from :] == whole.summaries[log.raised_from :]
    limit = given.release.budget.model_copy(update={"risk": 1.0}).limit
    for found, answer in ((log, MayPublish.OPEN), (whole, MayPublish.YES)):
        assert verdict_on(found.summaries, {}, limit, ceilings=found.ceilings).answer is answer
    write_report(out, tmp_path / "report.html")
    said = f"Ceilings before {log.when(log.raised_from)} were computed before that was known"
    assert said in (report := (tmp_path / "report.html").read_text())
    assert "the answer to the question below leaves them open" in report


@pytest.mark.slow
def test_ceilings_of_other_chains_prove_nothing_of_these(tmp_path: Path) -> None:
    """As many chains from other evidence: an earlier yes is none, nor an earlier no where nothing bounds."""
    out = tmp_path / "out"
    much, little = few(tmp_path, 1000.0), few(tmp_path, 0.5)
    half = [each for each in messages_of_a_day(8, 1) if each.step < 4]
    run(much, RunOptions(out, keep_open=True), accounted(much), chunks=[lines_of(half)])
    before = read_run(out)
    run(
        little,
        RunOptions(out, keep_open=True, accept_changes=True, reason="less data"),
        accounted(little),
        chunks=[],
    )
    log = read_run(out)
    assert log.summaries == before.summaries
    assert log.draws == before.draws == DRAWS
    assert log.raised_from == len(log.summaries)
    highest = max(each.risk["1.0"] for each in log.summaries)
    limit = RiskBudget(risk=highest)
    assert verdict_on(before.summaries, {}, limit, ceilings=before.ceilings).answer is MayPublish.YES
    assert verdict_on(log.summaries, {}, limit, ceilings=log.ceilings).answer is MayPublish.OPEN
    both = RiskBudget(risk=highest / 2, added=0.5)
    refuted = verdict_on(log.summaries, {}, both, is_refuted=True, ceilings=log.ceilings)
    assert refuted.answer is MayPublish.OPEN


def test_alternatives_say_what_they_leave_out(tmp_path: Path) -> None:
    given = few(tmp_path)
    people = accounted(given)
    row = Alternative.given(people, people.people, given)
    assert "within 0.2 nats of what few data leave open" in row.varied("far=0.2").rests_on
    others = replace(population(3), people=("x", "y", "z"))
    save_population(others, tmp_path / "others.json")
    assert "as if few data left nothing open" in row.varied(f"o={tmp_path / 'others.json'}").rests_on


@pytest.mark.slow
def test_a_budget_is_decided_on_the_means(tmp_path: Path) -> None:
    """Nobody's mean is over it after any step, some chains' ceilings are, and something is released."""
    budget = checked(None).release.budget.model_copy(update={"risk": 0.8, "share": 0.0})
    release = checked(None).release.model_copy(update={"mechanism": "budget", "budget": budget})
    given, out = few(tmp_path, 2.0, release=release), tmp_path / "out"
    day(out, given)
    log = read_run(out)
    assert all(each.risk["1.0"] <= 0.8 for each in log.summaries)
    assert sum(log.releases.values()) > log.releases.get("suppressed", 0)
    drawn = accounted(given).drawn
    assert drawn is not None
    steps = read_decisions(out / "decisions.jsonl", REGISTRY)
    chains = account(replace(drawn, people=tuple(map(str, range(len(drawn))))), steps, log.horizon())
    assert chains.worst.most_risk > 0.8


def test_what_cannot_be_is_refused_with_what_to_do(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = few(tmp_path)
    others = tuple(f"other {number}" for number in range(len(population())))
    save_population(replace(population(), people=others), tmp_path / "others.json")
    with pytest.raises(PriorError, match="write it with the priors it belongs to"):
        population_of(given, tmp_path / "others.json")
    fitted = replace(population(), fitted=FittedWindows(3600, 0, "most", "elsewhere", "Z", 10**9))
    with caplog.at_level(logging.WARNING):
        run(checked(verdict()), RunOptions(tmp_path / "out"), fitted, chunks=[])
    assert "perhaps partly because the data are few" in caplog.text
