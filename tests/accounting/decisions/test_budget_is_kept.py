"""No decision ever puts more people over the limit than the budget allows, by the certified bound."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant
from accounting.decisions import BudgetReason, SearchSettings
from accounting.decisions.what_if import AnnouncedStep, WhatIf, questions
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw
from models.priors import Question
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.decisions import deciding
from tests.volume import PARTS, some

LOCATIONS = 12
SEEDS = st.integers(0, 2**32 - 1)
CLEARING = (65, 95, 103, 133)
"""Random runs in which the refined bounds clear many people; in most they have nobody to clear."""


def check_run(
    seed: int, *, in_hindsight: bool, steps: int, look_ahead: int = 0, question: Question | None = None
) -> Counter[str]:
    """One random run, and silence after it; counts what settled the decisions, and people cleared."""
    rng = np.random.default_rng(seed)
    people = deciding.people(rng, 40, LOCATIONS, own_starts=0.1 if rng.random() < 0.2 else 0.0)
    horizon = deciding.random_settings(rng, sharpen=rng.random() < 0.5, question=question)
    limit = deciding.random_limit(rng, in_hindsight=in_hindsight, habits_apart=rng.random() < 0.3)
    work = int(rng.integers(1, 200)) * 10**6 if rng.random() < 0.7 else 0
    accountant = ContinuousAccountant(people, replace(horizon, operations=work, decided=limit))
    search = SearchSettings(exact_up_to=int(rng.choice([1, 64])), rounds=int(rng.integers(1, 5)))
    schedule = [deciding.random_sensors(rng, LOCATIONS) for _ in range(steps)]
    schedule += [[]] * (accountant.settings.horizon + 8)
    settled: Counter[str] = Counter()
    for done in deciding.run(accountant, limit, schedule, search, look_ahead):
        decision = done.decision
        assert decision.natural > decision.allowed or done.over.sum() <= decision.allowed
        settled[decision.reason] += bool(decision.schedule.releases)
        settled["cleared"] += decision.cleared
    return settled


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=8)
@given(SEEDS, st.booleans(), st.integers(0, 4))
def test_no_run_exceeds_its_budget_nor_does_the_silence_after_it(seed, in_hindsight, look_ahead):
    check_run(seed, in_hindsight=in_hindsight, steps=15, look_ahead=look_ahead)


@pytest.mark.thorough
@pytest.mark.slow
def test_no_run_exceeds_its_budget_in_many_runs_of_every_kind():
    settled: Counter[str] = Counter()
    for seed in (*some(50), *CLEARING):
        settled += check_run(seed, in_hindsight=seed % 3 == 0, steps=30, look_ahead=seed % 4)
    often = (BudgetReason.FREE, BudgetReason.BUDGET, BudgetReason.SPENT)
    assert min(settled[reason] for reason in often) > 15 / PARTS
    assert settled["cleared"] > 100


@pytest.mark.thorough
@pytest.mark.slow
def test_no_run_exceeds_its_budget_where_a_group_of_places_is_asked_for():
    """Then exact counts leave open where in the group a person is, and are looked at like noised ones."""
    north = Question("north", {"north": [str(place) for place in range(5)], "east": ["5", "6"]})
    cleared = 0
    for seed in some(24):
        cleared += check_run(seed, in_hindsight=False, steps=12, question=north)["cleared"]
    assert cleared > 10


@pytest.mark.slow
@pytest.mark.indices
def test_what_is_said_of_a_candidate_holds_once_it_is_accounted():
    """Whoever is not over by the answer is not over by the certified risk, now or in the silence after."""
    rng = np.random.default_rng(5)
    checked = 0
    for _ in range(12):
        accountant = ContinuousAccountant(deciding.people(rng, 60, LOCATIONS), deciding.random_settings(rng))
        limit = RiskBudget(added=float(rng.uniform(0.1, 0.5)))
        what_if = WhatIf(accountant, limit)
        for t in range(6):
            sensors = deciding.random_sensors(rng, LOCATIONS)
            choices = deciding.choices_of(sensors)
            pick = StepSchedule(t, deciding.schedule_of_random(rng, choices))
            whose = accountant.by_account
            over = whose.each(what_if.next_step(AnnouncedStep(sensors)).is_over(pick))
            accountant.apply(pick)
            now = deciding.over_limit(accountant, limit)
            natural = now & ~over
            # Only habits may put someone over whom the answer did not name.
            assert (whose.each(accountant.view().accounts.state.guess)[natural] > limit.added).all()
            checked += int((~over).sum())
    assert checked > 1000


def test_asking_changes_nothing():
    rng = np.random.default_rng(6)
    accountant = ContinuousAccountant(deciding.people(rng, 30, LOCATIONS), deciding.random_settings(rng))
    limit = RiskBudget(0.1, added=0.2)
    steps = [deciding.random_sensors(rng, LOCATIONS) for _ in range(8)]
    list(deciding.run(accountant, limit, steps))
    before = accountant.snapshot()
    sensors = [Sensor(f"s{k}", (k,)) for k in range(LOCATIONS)]
    next_step = WhatIf(accountant, limit).next_step(AnnouncedStep(sensors))
    choices = deciding.choices_of(sensors)
    next_step.count_over([StepSchedule(8, deciding.schedule_of_random(rng, choices)) for _ in range(5)])
    assert accountant.snapshot() == before


def test_partitions_answer_together_what_one_answers_for_all():
    rng = np.random.default_rng(7)
    population = deciding.people(rng, 90, LOCATIONS)
    settings_ = deciding.random_settings(rng)
    limit = RiskBudget(0.1, added=0.3)
    whole = ContinuousAccountant(population, settings_)
    parts = [ContinuousAccountant(part, settings_) for part in population.split(4)]
    what_ifs = [WhatIf(each, limit) for each in [whole, *parts]]
    for t in range(8):
        sensors = deciding.random_sensors(rng, LOCATIONS)
        choices = deciding.choices_of(sensors)
        candidates = [StepSchedule(t, deciding.schedule_of_random(rng, choices)) for _ in range(6)]
        first, *others = (
            what_if.next_step(AnnouncedStep(sensors)).count_over(candidates) for what_if in what_ifs
        )
        together = others[0]
        for counts in others[1:]:
            together += counts
        assert together == first
        for each in [whole, *parts]:
            each.apply(candidates[0])


def test_habits_alone_over_the_limit_lead_to_silence_and_are_said_so():
    rng = np.random.default_rng(8)
    accountant = ContinuousAccountant(deciding.people(rng, 30, LOCATIONS), deciding.random_settings(rng))
    limit = RiskBudget(0.0, risk=1e-6)
    sensors = [Sensor("s0", (0,)), Sensor("s1", (1,))]
    (done,) = deciding.run(accountant, limit, [sensors])
    assert done.decision.reason is BudgetReason.HABITS
    assert done.decision.natural > done.decision.allowed
    assert not any(release.mechanism.is_released for release in done.decision.schedule.releases)


def test_a_share_is_taken_as_it_is_written():
    assert RiskBudget(0.29, risk=0.5).allowed(100) == 29  # 0.29 * 100 is 28.999999999999996
    assert RiskBudget(0.0, risk=0.5).allowed(10**6) == 0
    assert RiskBudget(1.0, risk=0.5).allowed(7) == 7


@pytest.mark.slow
def test_work_that_runs_out_puts_no_cleared_person_over_the_limit(monkeypatch):
    """Decisions get far more work than accounting: people whom they cleared must be refined first."""
    monkeypatch.setattr(questions, "DECIDING_PART", 1e-4)
    settled: Counter[str] = Counter()
    for seed in range(24):
        rng = np.random.default_rng(seed)
        horizon = HorizonSettings(4, 1, operations=200_000, decided=RiskBudget(0.3, risk=0.7))
        accountant = ContinuousAccountant(deciding.people(rng, 40, LOCATIONS, cycles=(1,)), horizon)
        assert horizon.decided is not None
        schedule = [deciding.random_sensors(rng, LOCATIONS) for _ in range(12)] + [[]] * 6
        ways = (Raw(),) if seed % 2 else (Raw(), Gaussian(1.0))
        for done in deciding.run(accountant, horizon.decided, schedule, released=ways):
            assert done.decision.natural > done.decision.allowed or done.over.sum() <= done.decision.allowed
            settled["cleared"] += done.decision.cleared
            settled["not reached"] += accountant.summary().not_reached
    assert settled["cleared"] > 50
    assert settled["not reached"] > 200


@pytest.mark.slow
def test_decisions_count_on_refined_bounds_only_where_the_accounts_are_bound_to_their_limit():
    limit = RiskBudget(0.2, risk=0.9)
    rng = np.random.default_rng(4)
    population = deciding.people(rng, 40, LOCATIONS, cycles=(1,))
    sensors = [deciding.random_sensors(rng, LOCATIONS) for _ in range(12)]
    cleared = []
    for decided in (limit, RiskBudget(0.3, risk=0.8), None):
        accountant = ContinuousAccountant(
            population, HorizonSettings(4, 0, operations=10**12, decided=decided)
        )
        cleared.append(sum(d.decision.cleared for d in deciding.run(accountant, limit, sensors)))
    assert cleared[0] > 0
    assert cleared[1:] == [0, 0]


@pytest.mark.slow
@pytest.mark.indices
def test_noise_clears_people_whom_neither_exact_counts_nor_information_do():
    """Of the same people more noise leaves fewer over the limit; exact counts and the fast bound more."""
    rng = np.random.default_rng(12)
    population = deciding.people(rng, 40, LOCATIONS, cycles=(1,))
    limit = RiskBudget(0.2, added=0.1)
    over: dict[bool, list[int]] = {}
    for sharpen in (True, False):
        settings = HorizonSettings(4, 1, sharpen=sharpen, sharpen_above=0.0, operations=10**12, decided=limit)
        accountant = ContinuousAccountant(population, settings)
        sensors = [Sensor(f"s{place}", (place,)) for place in range(4)]
        steps = [
            StepSchedule(t, tuple(SensorRelease(each, Gaussian(3.0)) for each in sensors)) for t in range(4)
        ]
        accountant.apply_all(steps[:3])
        ways = (Raw(), Gaussian(1.0), Gaussian(3.0))
        candidates = [StepSchedule(3, tuple(SensorRelease(each, way) for each in sensors)) for way in ways]
        question = WhatIf(accountant, limit).next_step(AnnouncedStep(sensors))
        over[sharpen] = list(question.count_over(candidates).over)
        if sharpen:
            accountant.apply(candidates[2])
            assert deciding.over_limit(accountant, limit).sum() <= over[True][2]
    assert over[True][2] < over[True][1] < over[True][0]
    assert over[True][2] < over[False][2]
