"""Decisions by proposals and answers: the same as in one process, and silence without answers."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason
from accounting.decisions.what_if import WhatIf
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, Decided, policy_from
from stream_app.steps.policy.people_shards import partitions_of, people_shares
from stream_app.steps.policy.proposals import Answer, Negotiation, Proposal, Respondent, Source
from stream_app.watching.wording import decision_in_words
from tests.accounting.decisions import deciding
from tests.accounting.test_clock_changes import calendar_of, spring
from tests.stream_app.partitions import partition_of

LOCATIONS = 8
TIMELESS = tuple(f"t{k}" for k in range(10))
SOURCE = Source(deployment="d", session="s")
REGISTRY = SensorRegistry.one_per_location([str(k) for k in range(LOCATIONS)])


def budget_policy(announced: dict[int, tuple[str, ...]] | None = None, **budget: object) -> BudgetPolicy:
    release = {"mechanism": "budget", "budget": {"share": 0.4, "added": 0.3, "exact_up_to": 20, **budget}}
    policy = policy_from(Settings.model_validate({"release": release}).release, REGISTRY, announced)
    assert isinstance(policy, BudgetPolicy)
    return policy


def negotiate(negotiation: Negotiation, respondents: list[Respondent]) -> Decided:
    """Every message by its JSON, answers in any order and twice."""
    rng = np.random.default_rng(1)
    while negotiation.decided is None:
        assert negotiation.proposal is not None
        proposal = Proposal.model_validate_json(negotiation.proposal.line())
        answers = [respondent.answer(proposal) for respondent in respondents]
        for k in rng.permutation([*range(len(answers))] * 2):
            answer = answers[k]
            assert answer is not None
            negotiation.take(Answer.model_validate_json(answer.line()))
    return negotiation.decided


def parts_of(population: Population, count: int) -> list[ContinuousAccountant]:
    return [ContinuousAccountant(part, HorizonSettings(4, 1)) for part in population.split(count)]


def accounted(population: Population, horizon: HorizonSettings) -> ContinuousAccountant:
    """One of three partitions, or all of them."""
    return ContinuousAccountant(population, horizon, shares=people_shares(population.people, 3))


@pytest.mark.slow
@pytest.mark.parametrize(("look_ahead", "work"), [(0, 0), (3, 0), (0, 10**11), (0, None)])
def test_distributed_decisions_are_those_of_one_process(look_ahead, work):
    """Refined bounds included, as far as the work goes: for all, for some, for nobody."""
    rng = np.random.default_rng(3)
    population = deciding.people(rng, 70, LOCATIONS)
    steps = {t: tuple(s.name[1:] for s in deciding.random_sensors(rng, LOCATIONS, most=4)) for t in range(12)}
    policy, elsewhere = (budget_policy(steps, look_ahead=look_ahead) for _ in range(2))
    horizon = HorizonSettings(4, 1, operations=work, decided=policy.limit)
    whole = accounted(population, horizon)
    deciding.bound(policy, whole)
    partition = np.array([partition_of(name, 3) for name in population.people])
    held = [population.subset(np.flatnonzero(partition == k)[::-1]) for k in range(3)]
    parts = [accounted(part, horizon) for part in held]
    respondents = [
        Respondent(k, WhatIf(part, elsewhere.limit), REGISTRY, "d") for k, part in enumerate(parts)
    ]
    reasons, cleared = set(), 0
    for t, sensors in steps.items():
        expected = policy.decide(t, sensors)
        negotiation = Negotiation(
            elsewhere.decider(t, sensors), elsewhere.limit, len(parts), elsewhere.coming(t), source=SOURCE
        )
        together = negotiate(negotiation, respondents)
        assert together == expected
        assert expected.why is not None
        reasons.add(expected.why.reason)
        cleared += expected.why.cleared
        for accountant in [whole, *parts]:
            accountant.apply(expected.schedule)
    assert BudgetReason.BUDGET in reasons
    assert (cleared > 0) == (work != 0)


@pytest.mark.slow
def test_distributed_decisions_in_a_night_of_change_are_those_of_one_process():
    """A partition of people who know no clock, and one without people, count the same hours."""
    rng = np.random.default_rng(3)
    given = spring(rng)
    calendar, first = calendar_of(given.origin), given.first - 3
    daily = deciding.people(rng, 20, LOCATIONS, cycles=(24,))
    timeless = deciding.people(rng, 10, LOCATIONS, cycles=(1,)).renamed(TIMELESS)
    steps = dict.fromkeys(range(first, first + 8), ("0", "1", "2"))
    policy, elsewhere = (budget_policy(steps, risk=0.9, added=None, look_ahead=1) for _ in range(2))
    horizon = HorizonSettings(4, 1, first_slot=calendar.first_slot, first_step=first, calendar=calendar)
    everybody = Population.concatenate([daily, timeless])
    nobody = Population.pack([], [str(k) for k in range(LOCATIONS)])
    whole, *parts = (ContinuousAccountant(each, horizon) for each in (everybody, daily, timeless, nobody))
    deciding.bound(policy, whole)
    respondents = [
        Respondent(k, WhatIf(part, elsewhere.limit), REGISTRY, "d") for k, part in enumerate(parts)
    ]
    released = 0
    for t, sensors in steps.items():
        expected = policy.decide(t, sensors)
        negotiation = Negotiation(
            elsewhere.decider(t, sensors), elsewhere.limit, len(parts), elsewhere.coming(t), source=SOURCE
        )
        assert negotiate(negotiation, respondents) == expected
        released += any(each.mechanism.is_released for each in expected.schedule.releases)
        for accountant in [whole, *parts]:
            accountant.apply(expected.schedule)
    assert released


def test_people_are_split_as_the_brokers_clients_split_them():
    from aiokafka.partitioner import murmur2 as reference

    rng = np.random.default_rng(1)
    keys = ["".join(rng.choice(list("0123456789abcdef"), rng.integers(0, 40))) for _ in range(200)]
    expected = [(reference(key.encode()) & 0x7FFFFFFF) % 5 for key in keys]
    assert partitions_of(keys, 5).tolist() == expected
    assert [partition_of(key, 5) for key in keys] == expected
    assert set(expected) == set(range(5))
    assert partitions_of([], 5).size == 0


def test_without_all_answers_nothing_is_released():
    policy = budget_policy()
    parts = parts_of(deciding.people(np.random.default_rng(4), 20, LOCATIONS), 2)
    negotiation = Negotiation(policy.decider(0, ("0", "1")), policy.limit, 2, source=SOURCE)
    assert negotiation.proposal is not None
    answer = Respondent(0, WhatIf(parts[0], policy.limit), REGISTRY, "d").answer(negotiation.proposal)
    assert answer is not None
    negotiation.take(answer)
    assert negotiation.waiting_for == {1}
    decided = negotiation.give_up()
    assert decided.why is not None
    assert decided.why.reason is BudgetReason.NO_ANSWER
    assert [release.mechanism.name for release in decided.schedule.releases] == ["suppressed"] * 2
    negotiation.take(answer.model_copy(update={"partition": 1}))  # too late
    assert negotiation.decided == decided


def test_with_nobody_accounted_nothing_is_released():
    """Everything would keep a budget that has nobody to protect."""
    policy = budget_policy()
    nobody = Population.pack([], [str(k) for k in range(LOCATIONS)])
    respondents = [
        Respondent(
            k, WhatIf(ContinuousAccountant(nobody, HorizonSettings(4, 1)), policy.limit), REGISTRY, "d"
        )
        for k in range(2)
    ]
    negotiation = Negotiation(policy.decider(0, ("0", "1")), policy.limit, 2, source=SOURCE)
    decided = negotiate(negotiation, respondents)
    assert [release.mechanism.name for release in decided.schedule.releases] == ["suppressed"] * 2
    assert decided.why is not None
    assert "no people are accounted" in decision_in_words(decided.why)


def test_an_answer_is_about_the_next_step_and_the_own_limit():
    policy = budget_policy()
    (part,) = parts_of(deciding.people(np.random.default_rng(5), 10, LOCATIONS), 1)
    respondent = Respondent(0, WhatIf(part, policy.limit), REGISTRY, "d")
    later = Negotiation(policy.decider(1, ("0",)), policy.limit, 1, source=SOURCE).proposal
    assert later is not None
    assert respondent.answer(later) is None
    other = budget_policy(added=0.5)
    unknown = Negotiation(other.decider(0, ("0",)), other.limit, 1, source=SOURCE).proposal
    assert unknown is not None
    with pytest.raises(SettingsError, match="risk budget of this worker"):
        respondent.answer(unknown)


def test_only_an_answer_to_the_very_proposal_counts():
    """The same step and round asked by an earlier worker, or about other candidates, is another question."""
    policy, other = budget_policy(), budget_policy(sigmas=(3.0,))
    (part,) = parts_of(deciding.people(np.random.default_rng(6), 10, LOCATIONS), 1)
    respondent = Respondent(0, WhatIf(part, policy.limit), REGISTRY, "d")
    earlier = Negotiation(
        policy.decider(0, ("0",)), policy.limit, 1, source=Source(deployment="d", session="earlier")
    )
    changed = Negotiation(other.decider(0, ("0",)), policy.limit, 1, source=SOURCE)
    negotiation = Negotiation(policy.decider(0, ("0",)), policy.limit, 1, source=SOURCE)
    proposal = negotiation.proposal
    for late in (earlier.proposal, changed.proposal):
        assert late is not None
        answer = respondent.answer(late)
        assert answer is not None
        negotiation.take(answer)
        assert negotiation.waiting_for == {0}
        assert negotiation.proposal is proposal
    assert proposal is not None
    answer = respondent.answer(proposal)
    assert answer is not None
    negotiation.take(answer)
    assert negotiation.decided is not None or negotiation.proposal is not proposal


def test_nobody_answers_for_another_deployment():
    policy = budget_policy()
    (part,) = parts_of(deciding.people(np.random.default_rng(7), 10, LOCATIONS), 1)
    negotiation = Negotiation(policy.decider(0, ("0",)), policy.limit, 1, source=SOURCE)
    assert negotiation.proposal is not None
    assert Respondent(0, WhatIf(part, policy.limit), REGISTRY, "other").answer(negotiation.proposal) is None
