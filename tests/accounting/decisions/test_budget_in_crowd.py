"""A budget kept by risks in the crowd: never over it, looser than the informed one, alike in partitions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from accounting.continuous.crowd import CrowdAccount
from accounting.decisions import Decision, SearchSettings, StepDecider, decide
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure.crowd import CrowdAdversary, SensorCrowd
from accounting.settings import RiskBudget
from models.mechanisms import Raw
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.crowd.both import BothAccounts
from tests.accounting.decisions import deciding
from tests.volume import PARTS, some

LOCATIONS = 6


def decided_in_crowd(
    account: CrowdAccount, limit: RiskBudget, steps: Sequence[Sequence[Sensor]], search: SearchSettings
) -> list[tuple[Decision, np.ndarray]]:
    """Decide and account step after step; who is over after each."""
    what_if = WhatIf(account.informed, limit, account)
    found = []
    for t, sensors in enumerate(steps):
        crowds = account.ask(announced(t, sensors))
        next_step = what_if.next_step(AnnouncedStep(sensors, crowds))
        decision = decide(StepDecider(t, deciding.choices_of(sensors), limit, search), next_step.count_over)
        what_if.note(decision.schedule, crowds)
        assert account.apply(decision.schedule, crowds) == crowds
        found.append((decision, deciding.over_limit(account, limit)))
    return found


def announced(step: int, sensors: Sequence[Sensor]) -> StepSchedule:
    return StepSchedule(step, tuple(SensorRelease(sensor, Raw()) for sensor in sensors))


def check_run(seed: int, *, in_hindsight: bool, steps: int, of_personas: bool = False) -> Counter[str]:
    """One random run, and silence after it; counts reasons, and people cleared by the bound at levels."""
    rng = np.random.default_rng(seed)
    own = 0.1 if rng.random() < 0.2 else 0.0
    people = deciding.people(rng, int(rng.choice([20, 60])), LOCATIONS, own_starts=own)
    horizon = deciding.random_settings(rng, sharpen=rng.random() < 0.7, sharpen_above=0.0)
    limit = deciding.random_limit(rng, in_hindsight=in_hindsight, habits_apart=rng.random() < 0.3)
    work = int(rng.integers(1, 200)) * 10**6 if rng.random() < 0.7 else 0
    adversary = CrowdAdversary(known=int(rng.choice([0, 5])), companions=int(rng.random() < 0.2))
    if of_personas:
        people = replace(
            people, weights=np.random.default_rng(seed).choice([0.7, 1.0, 2.5, 6.0], len(people))
        )
        adversary = replace(adversary, least=0.8)
    # Only with this limit does the informed account refine whom its own questions clear.
    owed = limit if not limit.in_hindsight and rng.random() < 0.7 else None
    settings = replace(horizon, operations=work, decided=owed)
    account = BothAccounts(people, adversary, settings, decided=limit)
    search = SearchSettings(exact_up_to=int(rng.choice([1, 64])), rounds=int(rng.integers(1, 5)))
    schedule = [deciding.random_sensors(rng, LOCATIONS, 4) for _ in range(steps)]
    schedule += [[]] * (horizon.horizon + 4)
    settled: Counter[str] = Counter()
    for decision, over in decided_in_crowd(account, limit, schedule, search):
        assert decision.natural > decision.allowed or over @ account.people_each <= decision.allowed
        settled[decision.reason] += bool(decision.schedule.releases)
        settled["cleared"] += decision.cleared
    return settled


@pytest.mark.slow
def test_no_run_exceeds_its_budget_nor_does_the_silence_after_it() -> None:
    """All kinds of limits, adversaries and searches."""
    settled: Counter[str] = Counter()
    for seed in range(24):
        settled += check_run(seed, in_hindsight=seed % 4 == 0, steps=8)
    assert settled["cleared"] > 100


@pytest.mark.slow
def test_no_run_of_personas_exceeds_its_budget_among_the_people_behind_them() -> None:
    """As many may be over it as are behind personas, of whom four in five are sure to be there."""
    settled: Counter[str] = Counter()
    for seed in range(40, 46):
        settled += check_run(seed, in_hindsight=seed % 4 == 0, steps=6, of_personas=True)
    assert settled.total() > 10


@pytest.mark.thorough
@pytest.mark.slow
def test_no_run_exceeds_its_budget_in_many_runs() -> None:
    """The same, longer; three of eight runs of personas."""
    settled: Counter[str] = Counter()
    for seed in some(60):
        settled += check_run(100 + seed, in_hindsight=seed % 4 == 0, steps=8, of_personas=seed % 8 > 4)
    assert settled["cleared"] > 100 // PARTS


@pytest.mark.slow
def test_among_many_a_budget_lets_more_be_released_than_against_who_knows_all() -> None:
    """The same people, sensors and limit."""
    rng = np.random.default_rng(3)
    people = deciding.people(rng, 150, LOCATIONS, cycles=(1,))
    settings = deciding.HorizonSettings(4, 1, sharpen_above=0.0)
    limit = RiskBudget(0.2, added=0.15)
    steps = [[Sensor(f"s{place}", (place,)) for place in range(2)]] * 2
    search = SearchSettings()
    informed = deciding.ContinuousAccountant(people, replace(settings, decided=limit))
    account = BothAccounts(people, CrowdAdversary(), informed.settings, decided=limit)
    in_crowd = sum(decision.cost for decision, _ in decided_in_crowd(account, limit, steps, search))
    knowing = sum(done.decision.cost for done in deciding.run(informed, limit, steps, search))
    assert in_crowd < 0.85 * knowing


@pytest.mark.slow
def test_partitions_answer_together_what_one_process_does() -> None:
    """Counts of partitions add up, cleared people included; each partition uses the crowd sums of all."""
    rng = np.random.default_rng(11)
    population = deciding.people(rng, 90, LOCATIONS)
    settings = deciding.HorizonSettings(4, 1, sharpen_above=0.0)
    limit = RiskBudget(0.1, risk=0.6)
    make = lambda some: BothAccounts(some, CrowdAdversary(known=2), settings, decided=limit)  # noqa: E731
    whole, parts = make(population), [make(part) for part in population.split(3)]
    what_ifs = [WhatIf(each.informed, limit, each) for each in (whole, *parts)]
    cleared = 0
    for t in range(6):
        sensors = [
            Sensor(f"s{place}", (place,)) for place in rng.choice(LOCATIONS, 3, replace=False).tolist()
        ]
        sums = [each.ask(announced(t, sensors)) for each in parts]
        crowds = tuple(sum(each, start=SensorCrowd()) for each in zip(*sums, strict=True))
        assert crowds == whole.ask(announced(t, sensors))
        choices = deciding.choices_of(sensors)
        candidates = [StepSchedule(t, deciding.schedule_of_random(rng, choices)) for _ in range(5)]
        one, *others = (
            each.next_step(AnnouncedStep(sensors, crowds)).count_over(candidates) for each in what_ifs
        )
        together = others[0] + others[1] + others[2]
        assert together == one
        cleared += sum(one.cleared)
        for each in (whole, *parts):
            each.apply(candidates[0], crowds)
    assert cleared > 0


@pytest.mark.slow
@pytest.mark.indices
def test_in_a_small_crowd_a_budget_leaves_later_steps_more_than_silence() -> None:
    """If there is almost no crowd, no step uses up what would leave later steps only silence."""
    rng = np.random.default_rng(4)
    people = deciding.people(rng, 12, LOCATIONS, cycles=(1,))
    limit = RiskBudget(0.2, added=0.25)
    settings = deciding.HorizonSettings(4, 1, sharpen_above=0.0, decided=limit)
    steps = [[Sensor(f"s{place}", (place,)) for place in range(2)]] * 8
    account = BothAccounts(people, CrowdAdversary(known=11), settings, decided=limit)
    informed = deciding.ContinuousAccountant(people, settings)
    search = SearchSettings()
    in_crowd = sum(decision.cost for decision, _ in decided_in_crowd(account, limit, steps, search))
    knowing = sum(done.decision.cost for done in deciding.run(informed, limit, steps, search))
    assert in_crowd <= knowing
