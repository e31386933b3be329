"""Sums of partitions by question and answers: those of one process; nobody where an answer is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import KnownStep, WhatIf
from accounting.exposure.crowd import SensorCrowd, StepCrowd
from models.mechanisms import Raw
from models.priors import Population
from models.releases import (
    CountingWindow,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
)
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import person_records
from stream_app.kafka.release.deciding_worker import RemoteAccounts
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts, PeopleAccounts
from stream_app.steps.policy import BudgetPolicy, policy_from, settled, steps_asked
from stream_app.steps.policy.proposals import (
    Answer,
    CrowdAnswer,
    CrowdQuestion,
    CrowdSurvey,
    Negotiation,
    Proposal,
    Respondent,
)
from stream_app.wire import CROWD_SUMS, RiskSummary, SensorDecision, StepDecision, crowds_of, decision_of
from tests.accounting.decisions import deciding
from tests.stream_app.engine_support import NAMES, lines_of, messages_of_a_day, population, run_on, settings
from tests.stream_app.kafka.deployments import parse_person
from tests.stream_app.partitions import partition_of
from tests.stream_app.steps.test_attack import PEOPLE, Shown, Uncounted
from tests.stream_app.steps.test_proposals import LOCATIONS, REGISTRY, SOURCE, negotiate

BUDGET = {"share": 0.3, "added": 0.2, "exact_up_to": 20}
SETTINGS = Settings.model_validate(
    {
        "horizon": 4,
        "adversary": "crowd",
        "crowd": {"known": 2},
        "release": {"mechanism": "budget", "budget": BUDGET},
        "kafka": {"partitions": 3},
    }
)


@dataclass
class Answered:
    """The sums that all partitions together answered."""

    crowds: StepCrowd
    partitions: int = 3
    source: str = SOURCE

    def survey(self, survey: CrowdSurvey) -> tuple[StepCrowd, ...]:
        assert survey.proposal is not None
        return (self.crowds,)


def announced(step: int, names: tuple[str, ...]) -> StepSchedule:
    return StepSchedule(step, tuple(SensorRelease(REGISTRY.get(name), Raw()) for name in names))


STRANGERS = {
    "sensor": "1",
    **{"from_hour": 0, "until_hour": 24, "people": 30, "least_chance": 0.2, "most_chance": 0.4},
}
IN_DOUBT = Settings.model_validate(
    {
        **SETTINGS.model_dump(exclude={"crowd"}, exclude_unset=True),
        "crowd": {"known": 2, "least": 0.8, "strangers": {"at 1": STRANGERS}},
    }
)


@pytest.mark.slow
def test_partitions_of_people_decide_over_windows_in_the_crowd_as_one_process() -> None:
    """With what windows count in each step among the sums, also in the decisions that are kept."""
    rng = np.random.default_rng(4)
    sensors = (
        *REGISTRY.sensors[:2],
        Sensor("hall", (2,), most_counts=2, window=CountingWindow(2)),
        Sensor("door", (1, 3), most_counts=2, window=CountingWindow(2, ((1, 3, 1),))),
    )
    registry = SensorRegistry(REGISTRY.location_names, sensors)
    people = deciding.people(rng, 30, LOCATIONS)
    horizon = SETTINGS.horizon_settings(0)
    coming = {
        t: tuple(each.name for each in sensors if each.window is None or each.window.ends_with(t))
        for t in range(5)
    }
    embedded, elsewhere = (policy_from(SETTINGS.release, registry, coming) for _ in range(2))
    assert isinstance(embedded, BudgetPolicy) and isinstance(elsewhere, BudgetPolicy)
    whole, *parts = (Accounts.of(SETTINGS, horizon, each, each.people) for each in (people, *people.split(2)))
    PeopleAccounts(SETTINGS, whole, has_windows=True).bind(embedded)
    respondents = [
        Respondent(k, WhatIf(part.informed, elsewhere.limit, part.deciding, has_windows=True), registry, "d")
        for k, part in enumerate(parts)
    ]
    elsewhere.bind(partial(settled, respondents[0]._what_if), in_crowd=True)
    hidden = ahead = 0
    for t, names in coming.items():
        asked = steps_asked(elsewhere, t, names, registry)
        survey = CrowdSurvey(asked, 2, SOURCE)
        assert survey.proposal is not None
        question = CrowdQuestion.model_validate_json(survey.proposal.line())
        for k, part in enumerate(parts):
            assert part.crowd is not None
            own = part.crowd.others.ask_ahead(question.schedules(registry))
            survey.take(CrowdAnswer.model_validate_json(CrowdAnswer.of(question, k, own).line()))
        known = whole.ask(asked)
        assert survey.crowds == tuple(each.crowds for each in known)
        ahead += len(known) - 1
        negotiation = Negotiation(elsewhere.decider(t, names), elsewhere.limit, 2, source=SOURCE, known=known)
        decided = negotiate(negotiation, respondents).schedule
        assert decided == embedded.decide(t, names, known).schedule
        crowds = known[0].crowds
        kept = StepDecision.model_validate_json(decision_of(decided, crowds=crowds).line())
        assert crowds_of(kept, registry) == crowds
        hidden += any(SensorCrowd(each).units[0] > 0 for each in kept.crowd_in_windows or ())
        for policy in (embedded, elsewhere):
            policy.note(decided)
        for each in (whole, *parts):
            each.apply(in_single_steps(decided, registry), crowds)
        risks = np.concatenate([part.crowd.risk() for part in parts if part.crowd is not None])
        assert whole.crowd is not None and risks.tolist() == whole.crowd.risk().tolist()
    assert hidden and ahead


@pytest.mark.slow
@pytest.mark.parametrize(("chosen", "most"), [(SETTINGS, None), (IN_DOUBT, 8.0)])
def test_partitions_decide_and_account_in_the_crowd_as_one_process(
    chosen: Settings, most: float | None
) -> None:
    """Sums, decisions, cleared people and risks, bit for bit, by their messages; of people and personas."""
    rng = np.random.default_rng(3)
    population = deciding.people(rng, 15, LOCATIONS)
    if most is not None:
        population = replace(population, weights=rng.uniform(0.2, most, 15).round(1))
    horizon = chosen.horizon_settings(0)
    whole = Accounts.of(chosen, horizon, population, population.people)
    nobody = ContinuousAccountant(Population.pack((), population.location_names), horizon)
    embedded, elsewhere = (policy_from(SETTINGS.release, REGISTRY) for _ in range(2))
    assert isinstance(embedded, BudgetPolicy) and isinstance(elsewhere, BudgetPolicy)
    PeopleAccounts(chosen, whole).bind(embedded)
    partition = np.array([partition_of(name, 3) for name in population.people])
    where = [np.flatnonzero(partition == k)[::-1] for k in range(3)]
    held = [population.subset(each) for each in where]
    parts = [Accounts.of(chosen, horizon, each, each.people) for each in held]
    respondents = [
        Respondent(k, WhatIf(part.informed, elsewhere.limit, part.deciding), REGISTRY, "d")
        for k, part in enumerate(parts)
    ]
    published = 0
    for t in range(5):
        names = tuple(sensor.name[1:] for sensor in deciding.random_sensors(rng, LOCATIONS, most=4))
        survey = CrowdSurvey((announced(t, names),), 3, SOURCE)
        assert survey.proposal is not None
        question = CrowdQuestion.model_validate_json(survey.proposal.line())
        for k, part in enumerate(parts):
            assert part.crowd is not None
            answer = CrowdAnswer.of(question, k, part.crowd.others.ask_ahead(question.schedules(REGISTRY)))
            for _ in range(2):
                survey.take(CrowdAnswer.model_validate_json(answer.line()))
        assert survey.proposal is None
        assert whole.crowd is not None
        crowds = whole.crowd.ask(announced(t, names))
        asked = RemoteAccounts(nobody, chosen, Answered(*survey.crowds))  # type: ignore[arg-type]
        known = asked.ask((announced(t, names),))
        assert [each.crowds for each in known] == [crowds]
        negotiation = Negotiation(elsewhere.decider(t, names), elsewhere.limit, 3, source=SOURCE, known=known)
        decided = negotiate(negotiation, respondents)
        assert decided == embedded.decide(t, names, known)
        published += sum(release.mechanism.is_released for release in decided.schedule.releases)
        for each in (whole, *parts):
            each.apply(decided.schedule, crowds)
        for each, part in zip(where, parts, strict=True):
            assert part.crowd is not None
            assert part.crowd.risk().tolist() == whole.crowd.risk()[each].tolist()
            assert part.informed.risk().tolist() == whole.informed.risk()[each].tolist()
    assert published > 3


@pytest.mark.parametrize("columns", [0, CROWD_SUMS - 1, CROWD_SUMS + 1])
def test_sums_of_another_shape_are_no_record(columns: int) -> None:
    """Neither answer nor decision has them: every account would make something else of it."""
    assert len(SensorCrowd().units) == CROWD_SUMS
    row = (0,) * columns
    with pytest.raises(ValidationError, match=rf"at (least|most) {CROWD_SUMS} items"):
        CrowdAnswer(question="q", step=4, partition=1, sums=(row,))
    with pytest.raises(ValidationError, match=rf"at (least|most) {CROWD_SUMS} items"):
        SensorDecision(sensor="A", mechanism="raw", crowd=row)


def test_who_does_not_answer_hides_nobody() -> None:
    """Sums of those who have; other questions, partitions, shapes and repetitions change nothing."""
    survey = CrowdSurvey((announced(4, ("1", "2")),), 3, SOURCE)
    question = survey.proposal
    assert question is not None
    row, other = tuple(range(CROWD_SUMS)), tuple(range(5, 5 + CROWD_SUMS))
    answer = CrowdAnswer(question=question.identity, step=4, partition=1, sums=(row, other))
    assert survey.crowds == ((SensorCrowd(), SensorCrowd()),)
    for wrong in (
        answer.model_copy(update={"question": "another"}),
        answer.model_copy(update={"partition": 3}),
        answer.model_copy(update={"sums": (row,)}),
        Answer(
            proposal=question.identity,
            step=4,
            round=0,
            partition=1,
            people=1,
            natural_now=0,
            natural=(0,),
            over=(),
            cleared=(),
        ),
    ):
        survey.take(wrong)
        assert survey.waiting_for == {0, 1, 2}
    survey.take(answer)
    survey.take(answer.model_copy(update={"sums": (other, other)}))
    assert survey.crowds == ((SensorCrowd(row), SensorCrowd(other)),)
    assert survey.waiting_for == {0, 2}
    assert survey.proposal is question


def test_a_proposal_names_as_many_crowds_as_sensors() -> None:
    policy = policy_from(SETTINGS.release, REGISTRY)
    assert isinstance(policy, BudgetPolicy)
    known = [KnownStep(announced(0, ("1",)), (SensorCrowd(),))]
    with pytest.raises(ValueError, match="as many sensors"):
        Negotiation(policy.decider(0, ("1", "2")), policy.limit, 1, source=SOURCE, known=known)
    negotiation = Negotiation(policy.decider(0, ("1",)), policy.limit, 1, source=SOURCE, known=known)
    assert negotiation.proposal is not None
    assert Proposal.model_validate_json(negotiation.proposal.line()).crowds == (SensorCrowd(),)


@pytest.mark.slow
def test_an_account_worker_shows_the_ceilings_of_all_its_partitions(tmp_path: Path) -> None:
    """Those that one process writes, from the sums in its decisions; what it owns is everybody."""
    changed = {"crowd": {"on": True}, "release": {"mechanism": "raw"}, "attack_draws": 0}
    run_on(tmp_path / "out", [lines_of(messages_of_a_day(8, 3))], settings=changed)
    embedded = [
        RiskSummary.model_validate_json(line)
        for line in (tmp_path / "out" / "risks.jsonl").read_text().splitlines()
        if '"risk_summary"' in line
    ]
    (tmp_path / "locations.txt").write_text("\n".join(NAMES) + "\n")
    kafka = {"servers": ("nowhere:9092",), "partitions": 4}
    deployment = Deployment.of(settings(**changed, locations=tmp_path / "locations.txt", kafka=kafka))
    records = dict(person_records(population(), PEOPLE, 0, deployment.digest))
    owned = [PartitionAccounts(partition, deployment) for partition in range(4)]
    for accounts in owned:
        own = {
            name: parse_person(name.encode(), records[name], deployment.digest)
            for name in PEOPLE
            if partition_of(name, 4) == accounts.partition
        }
        accounts.change(accounts.newcomers(own))
    shown = Shown()
    ticks = iter(range(10**6)).__next__
    watch = AccountWatch(shown, Uncounted(), now_seconds=ticks)  # type: ignore[arg-type]
    watch.owns(owned)
    for line in (tmp_path / "out" / "decisions.jsonl").read_bytes().splitlines():
        decided = deployment.decided(StepDecision.model_validate_json(line))
        assert decided.crowds is not None
        for accounts in owned:
            accounts.apply(decided)
        watch.accounted(owned[-1], decided)
    assert len(shown.summaries) == len(embedded) == 8
    for together, single in zip(shown.summaries, embedded, strict=True):
        assert together.crowd is not None and single.crowd is not None
        assert together.crowd.at_risk == single.crowd.at_risk
        assert together.crowd.risk == single.crowd.risk
        assert together.crowd.most_added == single.crowd.most_added
        assert together.crowd.mean_risk == pytest.approx(single.crowd.mean_risk, rel=1e-12)
        assert together.risk == single.risk
