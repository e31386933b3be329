"""A run with a crowd: both ceilings in its files, sums in its log, and the same after a restart."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accounting.decisions import BudgetReason
from accounting.exposure.crowd import CrowdAdversary
from models.exceptions import SensorError
from models.keys import Pseudonymiser
from models.priors import MovementPrior, Population
from models.releases import SensorRegistry
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.report import read_run
from stream_app.embedded import RunOptions, RunReport, run
from stream_app.exceptions import RunChangedError
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts, crowd_message, summary_message
from stream_app.wire import Activation, RiskSummary, StepDecision, crowds_of, decision_of, schedule_of
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import (
    NAMES,
    PSEUDONYM_SECRET,
    TickingClock,
    json_lines,
    lines_of,
    messages_of_a_day,
    settings,
)

PEOPLE = 30
CROWD: dict[str, object] = {"crowd": {"on": True, "known": 3}, "release": {"mechanism": "raw"}}
BUDGET: dict[str, object] = {
    "adversary": "crowd",
    "release": {"mechanism": "budget", "budget": {"share": 0.1, "added": 0.3}},
    "sharpen_operations": 30_000_000,  # enough for everybody in some steps only
}


def population() -> Population:
    random = np.random.default_rng(7)
    priors = [
        MovementPrior.from_dense(f"person {i}", random.dirichlet(np.full(4, 3.0), size=4))
        for i in range(PEOPLE)
    ]
    return Population.pack(priors, NAMES)


def personas() -> Population:
    """The same priors, each of one or of many people."""
    return replace(population(), weights=np.tile([1.0, 4.0, 0.5, 30.25, 2.0], PEOPLE // 5))


STRANGERS: dict[str, object] = {
    "sensor": NAMES[0],
    **{"from_hour": 2, "until_hour": 6, "people": 60, "least_chance": 0.1, "most_chance": 0.4},
}
BEHIND: dict[str, object] = {
    **{"adversary": "crowd", "sharpen_operations": 30_000_000},
    "crowd": {"known": 1, "least": 0.9, "strangers": {"station at dawn": STRANGERS}},
    "release": {"mechanism": "budget", "budget": {"share": 0.1, "added": 0.3}},
}
"""Personas are behind it, with an interval for how many people each stands for, and strangers."""


def run_in_crowd(
    output: Path,
    steps: int,
    changed: dict[str, object],
    people: Population | None = None,
    *,
    accept: bool = False,
) -> RunReport:
    """The first steps of a day."""
    lines = lines_of(messages_of_a_day(steps, 5))
    options = RunOptions(output, keep_open=True, accept_changes=accept, reason="a test" if accept else None)
    return run(settings(**changed), options, people or population(), clock=TickingClock(), chunks=[lines])


def accounts_of(given: Settings, folder: Path, people: Population | None = None) -> Accounts:
    """Everybody's accounts after the decisions of a folder."""
    people = people or population()
    names = Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(people.people)
    accounts = Accounts.of(given, given.horizon_settings(0), people, names)
    registry = SensorRegistry.one_per_location(NAMES)
    for line in (folder / "decisions.jsonl").read_bytes().splitlines():
        decision = StepDecision.model_validate_json(line)
        schedule = schedule_of(decision, registry)
        assert accounts.crowd is not None
        if decision.decisions and decision.decisions[0].crowd is not None:
            assert crowds_of(decision, registry) == accounts.crowd.ask(schedule)
        accounts.apply(schedule, crowds_of(decision, registry))
    return accounts


def last_summary(folder: Path) -> RiskSummary:
    lines = (folder / "risks.jsonl").read_text().splitlines()
    return [RiskSummary.model_validate_json(line) for line in lines if '"risk_summary"' in line][-1]


@pytest.mark.slow
@pytest.mark.usefixtures("all_the_work")
def test_both_ceilings_stand_in_the_files_of_a_run(tmp_path: Path) -> None:
    """Those of the accounts, of everybody, with what is presumed; nothing of it without the setting."""
    crowd = {**CROWD, "sharpen_operations": 500_000_000}
    run_in_crowd(tmp_path / "out", 6, crowd)
    accounts = accounts_of(settings(**crowd), tmp_path / "out")
    assert accounts.crowd is not None
    last = last_summary(tmp_path / "out")
    assert last.crowd is not None
    assert last.crowd.mean_risk == accounts.crowd.summary().mean_risk < last.mean_risk
    assert (last.crowd.known, last.crowd.companions, last.crowd.alone) == (3, 0, 1.0)
    people = [each for each in json_lines(tmp_path / "out" / "risks.jsonl") if each["type"] == "risk"]
    names = Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(population().people)
    lines = {each["person"]: each for each in people if each["step"] == 5}
    for person, name in enumerate(names):
        assert lines[name]["crowd"] == accounts.crowd.risk()[person] <= lines[name]["risk"]
        assert lines[name]["crowd_by"] == accounts.crowd.decided_by(person)
    run_in_crowd(tmp_path / "plain", 6, {"release": {"mechanism": "raw"}})
    assert b"crowd" not in (tmp_path / "plain" / "risks.jsonl").read_bytes()
    assert b"crowd" not in (tmp_path / "plain" / "decisions.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "people"), [(CROWD, population()), (BUDGET, population()), (BEHIND, personas())]
)
def test_a_run_goes_on_after_a_restart_and_from_a_snapshot(
    tmp_path: Path, changed: dict[str, object], people: Population
) -> None:
    """The same bytes, however it stops in between; of people, of personas, and beside strangers."""
    run_in_crowd(tmp_path / "whole", 8, changed, people)
    for name, every in (("log", 0.0), ("snapshot", 0.001)):
        for steps in (4, 8):
            run_again(tmp_path / name, steps, {**changed, "snapshot_seconds": every}, people)
        for file in ("risks.jsonl", "decisions.jsonl", "releases.jsonl"):
            assert (tmp_path / name / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()
    assert (tmp_path / "snapshot" / "accountant.snapshot").exists()


def run_again(output: Path, steps: int, changed: dict[str, object], people: Population) -> None:
    """From where it stopped, on a longer input."""
    messages = lines_of(messages_of_a_day(8, 5)).splitlines(keepends=True)
    source = output.with_suffix(".jsonl")
    source.write_bytes(b"".join(line for line in messages if json.loads(line)["step"] < steps))
    run(settings(**changed), RunOptions(output, source, keep_open=True), people, clock=TickingClock())


@pytest.mark.slow
def test_personas_and_strangers_are_the_crowd_of_a_run(tmp_path: Path) -> None:
    """Ceilings, budget and files count the people behind personas; what is presumed stands beside them."""
    run_in_crowd(tmp_path / "out", 8, BEHIND, personas())
    accounts = accounts_of(settings(**BEHIND), tmp_path / "out", personas())
    assert accounts.crowd is not None
    last = last_summary(tmp_path / "out")
    assert last.crowd is not None and last.people == personas().everybody > 7 * PEOPLE
    assert last.crowd.mean_risk == accounts.crowd.summary().mean_risk < last.mean_risk
    assert (last.crowd.known, last.crowd.least, last.crowd.strangers) == (1, 0.9, 60)
    over = (accounts.crowd.added() > 0.3) @ personas().people_each
    assert last.over_limit is not None and last.over_limit.adversary == "crowd"
    assert last.over_limit.now == over <= 0.1 * personas().everybody
    record = json.loads((tmp_path / "out" / "run.json").read_text())
    assert record["crowd"]["personas"] is True and record["crowd"]["least"] == 0.9
    assert list(record["crowd"]["strangers"]) == ["station at dawn"]
    log = read_run(tmp_path / "out")
    said = log.condition_against(settings(**BEHIND).crowd_adversary)
    assert "as their personas say, of each at least 90 % of the people that it stands for" in said
    assert f"60 at {NAMES[0]} from 2 to 6 h" in said
    assert all(each.crowd is not None for each in log.judged_against(settings(**BEHIND).crowd_adversary))
    assert not any(each.crowd for each in log.judged_against(CrowdAdversary(known=1, least=0.9)))
    with pytest.raises(RunChangedError, match="crowd"):
        changed = {**BEHIND, "crowd": {"known": 1, "least": 0.8}}
        run_in_crowd(tmp_path / "out", 8, changed, personas())
    elsewhere = {"station": {**STRANGERS, "sensor": "nowhere"}}
    with pytest.raises(SensorError, match="nowhere"):
        run_in_crowd(tmp_path / "other", 2, {**BEHIND, "crowd": {"strangers": elsewhere}})


@pytest.mark.slow
def test_a_crowd_may_be_taken_in_later_when_its_operator_says_so(tmp_path: Path) -> None:
    """Steps before hide nobody; those after do, and the account says the least of both."""
    work = {"sharpen_operations": 500_000_000}
    plain: dict[str, object] = {"release": {"mechanism": "raw"}, **work}
    crowd = {**CROWD, **work}
    source = tmp_path / "out.jsonl"
    messages = lines_of(messages_of_a_day(12, 5)).splitlines(keepends=True)
    source.write_bytes(b"".join(line for line in messages if json.loads(line)["step"] < 3))
    options = RunOptions(tmp_path / "out", source, keep_open=True)
    run(settings(**plain), options, population(), clock=TickingClock())
    source.write_bytes(b"".join(messages))
    with pytest.raises(RunChangedError, match="crowd"):
        run(settings(**crowd), options, population(), clock=TickingClock())
    accepting = RunOptions(
        tmp_path / "out", source, keep_open=True, accept_changes=True, reason="a crowd hides people"
    )
    run(settings(**crowd), accepting, population(), clock=TickingClock())
    accounts = accounts_of(settings(**crowd), tmp_path / "out")
    assert accounts.crowd is not None
    last = last_summary(tmp_path / "out")
    assert last.crowd is not None
    assert last.crowd.mean_risk == accounts.crowd.summary().mean_risk < last.mean_risk
    decisions = (tmp_path / "out" / "decisions.jsonl").read_text().splitlines()
    has_sums = ['"crowd"' in line for line in decisions if '"sensor"' in line]
    assert has_sums == sorted(has_sums) and 0 < sum(has_sums) < len(has_sums)


@pytest.mark.slow
@pytest.mark.parametrize("adversary", ["informed", "crowd"])
def test_a_plan_decides_as_a_run_with_a_crowd_does(tmp_path: Path, adversary: str) -> None:
    """The same mechanisms for the same reasons, and both ceilings after each step; with its key only."""
    messages = messages_of_a_day(10, 5)
    announced = {each.step: list(each.sensors) for each in messages if isinstance(each, Activation)}
    steps = [
        {"sensors": announced[step], "mechanism": "raw"} if announced.get(step) else {"sensors": []}
        for step in range(max(announced) + 1)
    ]
    file = tmp_path / "day.json"
    file.write_text(json.dumps({"steps": steps}))
    given = settings(**BUDGET, crowd={"on": True, "known": 3}, most_exposed=0, attack_draws=0)
    given = given.model_copy(update={"adversary": adversary})
    planned = plan_releases(given, file, population())
    options = RunOptions(tmp_path / "out", schedule=file)
    run(given, options, population(), clock=TickingClock(), chunks=[lines_of(messages)])
    lines = (tmp_path / "out" / "decisions.jsonl").read_bytes().splitlines()
    found = [each.decided for each in planned.steps]
    assert [
        decision_of(each.schedule, each.why, crowds=each.crowds).line().rstrip() for each in found
    ] == lines
    assert {each.why.reason for each in found if each.why is not None} >= {BudgetReason.BUDGET}
    lines = (tmp_path / "out" / "risks.jsonl").read_bytes().splitlines()
    summaries = [RiskSummary.model_validate_json(line) for line in lines if b'"risk_summary"' in line]
    assert planned.crowd is not None
    for step, crowd, summary in zip(planned.steps, planned.crowd.steps, summaries, strict=True):
        in_crowd = crowd_message(crowd, given.crowd_adversary)
        figures = summary.model_copy(update={"over_limit": None})  # a run counts them, a plan forecasts
        assert summary_message(step.risks, crowd=in_crowd).line() == figures.line()
    without = given.model_copy(update={"pseudonym_key_secret": None})
    assert planned.as_run and not plan_releases(without, file, population()).as_run


@pytest.mark.slow
def test_a_budget_is_kept_by_the_adversary_that_the_settings_name(tmp_path: Path) -> None:
    """Other decisions than against whoever knows all, and as few over the limit in the crowd as may be."""
    run_in_crowd(tmp_path / "crowd", 8, BUDGET)
    run_in_crowd(tmp_path / "informed", 8, {**BUDGET, "adversary": "informed"})
    decided = {
        name: [
            (line["decisions"], line.get("why", {}).get("adversary"))
            for line in json_lines(tmp_path / name / "decisions.jsonl")
        ]
        for name in ("crowd", "informed")
    }
    assert {adversary for decisions, adversary in decided["crowd"] if decisions} == {"crowd"}
    assert {adversary for decisions, adversary in decided["informed"] if decisions} == {None}
    mechanisms = {
        name: [[each["mechanism"] for each in decisions] for decisions, _ in found]
        for name, found in decided.items()
    }
    assert mechanisms["crowd"] != mechanisms["informed"]
    accounts = accounts_of(settings(**BUDGET), tmp_path / "crowd")
    assert accounts.crowd is not None
    assert (accounts.crowd.added() > 0.3).sum() <= 0.1 * PEOPLE
    run_in_crowd(tmp_path / "scarce", 8, {**BUDGET, "pseudonym_key_secret": hex_key("46")})
    lines = json_lines(tmp_path / "scarce" / "risks.jsonl")  # by this key not everybody comes to their turn
    assert {line["not_reached"] > 0 for line in lines if line["type"] == "risk_summary"} == {True, False}
