"""Budgets count people, also where many have one account, and decisions are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Raw
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.continuous.one_account_each import OneAccountEach
from tests.accounting.decisions import deciding
from tests.accounting.random_runs import LOCATIONS, kinds_of, shares_of, some_of


def settings_of(rng: np.random.Generator, limit: RiskBudget) -> HorizonSettings:
    """Refined or not, with any work or with little of it."""
    chosen = deciding.random_settings(rng, sharpen=bool(rng.random() < 0.8), sharpen_above=0.0)
    operations = int(rng.choice([0, 10_000_000, 60_000_000, 200_000_000, -1]))
    return replace(chosen, operations=None if operations < 0 else operations, decided=limit)


@pytest.mark.slow
@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1))
def test_counts_and_decisions_are_those_of_people_accounted_one_by_one(seed: int) -> None:
    """Candidate by candidate, with enough of them known to be over, in hindsight, with a look ahead."""
    rng = np.random.default_rng(seed)
    limit = deciding.random_limit(rng, in_hindsight=rng.random() < 0.2, habits_apart=rng.random() < 0.3)
    chosen, population = settings_of(rng, limit), some_of(rng, kinds_of(rng, 5, 1), 40, "a")
    shares, since = shares_of(population.people), rng.integers(0, 3, 40)
    one = ContinuousAccountant(population, chosen, since, shares)
    each = OneAccountEach(population, chosen, since, shares, apart=True)
    what_ifs = [WhatIf(accountant, limit) for accountant in (one, each)]
    assert what_ifs[0].people == what_ifs[1].people == 40
    steps = [deciding.random_sensors(rng, LOCATIONS) for _ in range(9)]
    for t, sensors in enumerate(steps[:7]):
        coming = steps[t + 1 : t + 1 + int(rng.integers(0, 3))]
        questions = [what_if.next_step(AnnouncedStep(sensors, coming=coming)) for what_if in what_ifs]
        choices = deciding.choices_of(sensors)
        picks = [StepSchedule(t, deciding.schedule_of_random(rng, choices)) for _ in range(6)]
        for enough in (None, 3):
            counts = [question.count_over(picks, enough) for question in questions]
            cut = [found if enough is None else found.cut_above(enough) for found in counts]
            assert replace(cut[0], cleared=()) == replace(cut[1], cleared=())
            assert enough is not None or counts[0].cleared == counts[1].cleared
        for what_if, accountant in zip(what_ifs, (one, each), strict=True):
            what_if.note(picks[0])
            accountant.apply(picks[0])


def test_people_of_one_account_are_evaluated_once_and_each_share_pays_for_them() -> None:
    """Work that clears some of 80 priors clears three times as many people with the same priors."""
    rng = np.random.default_rng(1)
    kinds, limit = kinds_of(rng, 80, 1), RiskBudget(0.0, risk=0.9)
    steps = [
        StepSchedule(t, tuple(SensorRelease(Sensor(f"s{x}", (x,)), Raw()) for x in at))
        for t, at in enumerate([(0, 1, 2, 3), (4, 5, 6), (0, 2, 4)])
    ]

    def cleared(population: Population, operations: int | None) -> int:
        chosen = HorizonSettings(3, 1, sharpen_above=0.0, operations=operations, decided=limit)
        accountant = ContinuousAccountant(population, chosen)
        accountant.apply_all(steps[:2])
        sensors = [release.sensor for release in steps[2].releases]
        next_step = WhatIf(accountant, limit).next_step(AnnouncedStep(sensors))
        return next_step.count_over([steps[2]]).cleared[0]

    many = kinds.subset(np.arange(240) % 80).renamed([f"p{k}" for k in range(240)])
    all_work = [None, *(2**k for k in range(22, 34, 2))]
    found = [cleared(kinds, work) for work in all_work]
    assert [cleared(many, work) for work in all_work] == [3 * each for each in found]
    assert len({*found} - {0, found[0]}) > 0
