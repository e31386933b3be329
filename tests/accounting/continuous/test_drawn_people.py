"""People for whom several chains stand: every figure is the mean over them, and a budget is kept by it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accounting.bounds.radius import ceilings_within
from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.shadow import Shadow, drawn_parts
from accounting.settings import HorizonSettings, RiskBudget
from models.exceptions import PriorError
from models.priors import MovementPrior, Population
from tests.accounting.decisions import deciding
from tests.accounting.random_runs import random_step, with_few_data
from tests.volume import some

PLACES, DRAWS = 6, 5


def folk(seed: int, count: int = 25, own_starts: float = 0.2) -> Population:
    return with_few_data(
        deciding.people(np.random.default_rng(seed), count, PLACES, own_starts=own_starts), 8.0
    )


def test_each_figure_is_the_mean_over_the_chains_of_a_person() -> None:
    """As if the chains were people, whose figures are put together afterwards; also within a radius."""
    people, random = folk(1), np.random.default_rng(2)
    settings = HorizonSettings(4, 1, thresholds=(0.2, 0.5, 0.8), within_nats=0.05)
    drawn = people.drawn
    assert drawn is not None
    means = ContinuousAccountant(people, settings)
    each = ContinuousAccountant(drawn, replace(settings, within_nats=0.0))
    highest = np.zeros(len(people))
    for step in range(8):
        schedule = random_step(random, step, PLACES)
        means.apply(schedule)
        each.apply(schedule)
        risk = each.risk().reshape(-1, DRAWS).mean(axis=1)
        np.testing.assert_allclose(means.risk(), ceilings_within(0.05, risk), rtol=1e-12)
        np.testing.assert_allclose(means.baseline(), each.baseline().reshape(-1, DRAWS).mean(axis=1))
        np.testing.assert_allclose(means.added(), risk - means.baseline(), rtol=1e-9, atol=1e-12)
        highest = np.maximum(highest, means.risk())
        summary = means.summary()
        assert summary.people == len(people)
        assert summary.mean_risk == pytest.approx(means.risk().mean(), rel=0.0, abs=1e-15)
        assert summary.at_risk[0.5] == int((means.risk() >= 0.5).sum())
    np.testing.assert_allclose(means.worst().highest_risk, highest, rtol=1e-12)
    guesses = [means.of_people(np.array([k])).median_guess() for k in range(len(people))]
    assert means.median_guess() == float(np.median(guesses))
    best = int(np.argmax(each.risk()[3 * DRAWS : 4 * DRAWS]))
    assert means.decided_by(3) == each.decided_by(3 * DRAWS + best)


def test_people_who_join_leave_or_are_restored_have_the_same_figures() -> None:
    people, settings = folk(3), HorizonSettings(4, 1, operations=3_000_000)
    shares = PeopleShares(4, np.arange(25) % 4, np.arange(25)[::-1].copy())
    steps = [random_step(np.random.default_rng(step), step, PLACES) for step in range(7)]
    whole = ContinuousAccountant(people, settings, shares=shares)
    whole.apply_all(steps)
    assert 0 < whole.not_reached < 25
    first, second = np.flatnonzero(shares.share < 2), np.flatnonzero(shares.share >= 2)
    parts = [
        ContinuousAccountant(people.subset(part), settings, shares=shares.take(part))
        for part in (first, second)
    ]
    for part in parts:
        part.apply_all(steps)
    joined = parts[0].with_people(parts[1])
    order = np.concatenate((first, second))
    assert joined.risk().tolist() == whole.risk()[order].tolist()
    assert joined.not_reached == whole.not_reached
    assert whole.of_people(second).risk().tolist() == parts[1].risk().tolist()
    again = ContinuousAccountant(people, settings, shares=shares)
    again.restore(whole.snapshot())
    for accountant in (again, whole):
        accountant.apply(random_step(np.random.default_rng(9), 7, PLACES))
    assert again.risk().tolist() == whole.risk().tolist()
    assert again.snapshot() == whole.snapshot()


def test_with_endless_evidence_the_figures_are_those_of_the_priors() -> None:
    plain = deciding.people(np.random.default_rng(4), 20, PLACES, own_starts=0.2)
    settings, random = HorizonSettings(4, 1), np.random.default_rng(5)
    drawn = ContinuousAccountant(with_few_data(plain, np.inf), settings)
    given = ContinuousAccountant(plain, settings)
    for step in range(5):
        schedule = random_step(random, step, PLACES)
        for accountant in (drawn, given):
            accountant.apply(schedule)
        np.testing.assert_allclose(drawn.risk(), given.risk(), rtol=1e-12)


@pytest.mark.thorough
@pytest.mark.slow
@pytest.mark.parametrize("in_hindsight", [False, True])
def test_a_budget_is_kept_by_the_mean_over_the_chains(in_hindsight: bool) -> None:
    """Of any kind of limit, and it is no budget that releases nothing."""
    released = 0
    for seed in some(16):
        random = np.random.default_rng(seed)
        people = with_few_data(deciding.people(random, 30, PLACES, own_starts=0.1), 20.0)
        limit = deciding.random_limit(random, in_hindsight=in_hindsight, habits_apart=seed % 3 == 0)
        within = 0.01 if limit.added is None and not limit.habits_apart else 0.0
        settings = deciding.random_settings(random, sharpen=seed % 2 == 0, within_nats=within, decided=limit)
        accountant = ContinuousAccountant(people, settings)
        steps = [deciding.random_sensors(random, PLACES, 3) for _ in range(10)] + [[]] * 10
        for done in deciding.run(accountant, limit, steps):
            assert done.decision.natural > done.decision.allowed or done.over.sum() <= done.decision.allowed
            released += sum(each.mechanism.is_released for each in done.decision.schedule.releases)
    assert released > 40 * len(some(16)) // 16


def test_parts_of_the_people_answer_together_what_all_answer() -> None:
    people, random = folk(7, 40), np.random.default_rng(8)
    limit, settings = RiskBudget(0.1, risk=0.8), HorizonSettings(4, 1, sharpen=False)
    parts = [people, people.subset(range(17)), people.subset(range(17, 40))]
    accountants = [ContinuousAccountant(part, settings) for part in parts]
    for step in range(5):
        sensors = deciding.random_sensors(random, PLACES)
        schedule = deciding.schedule_of_random(random, deciding.choices_of(sensors))
        candidate = replace(random_step(random, step, PLACES), releases=schedule)
        whole, first, second = (
            deciding.WhatIf(each, limit).next_step(deciding.AnnouncedStep(sensors)).count_over([candidate])
            for each in accountants
        )
        first += second
        assert first == whole
        for each in accountants:
            each.apply(candidate)


@pytest.mark.parametrize("draws", [7, 400])
def test_an_attack_on_drawn_chains_stays_below_the_mean_ceiling(draws: int) -> None:
    """Each draw is of one of the person's chains; with many draws every chain has its turn."""
    people, random = folk(9, own_starts=0.0), np.random.default_rng(10)
    accountant = ContinuousAccountant(people, HorizonSettings(4, 1))
    shadow = Shadow(accountant, drawn_parts(accountant.people_shares, draws))
    for step in range(6):
        schedule = random_step(random, step, PLACES)
        accountant.apply(schedule)
        shadow.note(schedule)
        attack = shadow.mean()
        assert attack is not None
        assert attack.draws == (7 if draws == 7 else 25 * 16)
        assert accountant.baseline().mean() - 1e-9 <= attack.success
        assert attack.low <= accountant.risk().mean()


def test_draws_that_cannot_be_are_refused() -> None:
    plain = deciding.people(np.random.default_rng(11), 3, PLACES)
    with pytest.raises(PriorError, match="must be 2 to 100"):
        with_few_data(plain, 3.0, draws=1)
    with pytest.raises(PriorError, match="as many chains a person"):
        Population.concatenate(
            [with_few_data(plain.subset([0]), 3.0), with_few_data(plain.subset([1]), 3.0, draws=2)]
        )
    two = Population.concatenate([with_few_data(plain.subset([k]), 3.0) for k in range(3)])
    assert two.accounted.fingerprint == with_few_data(plain, 3.0).accounted.fingerprint


def test_no_draw_is_too_small_to_be_multiplied() -> None:
    """A row that nearly always says one thing, and few data."""
    unlikely = Population.pack([MovementPrior.from_dense("bob", [[0.9998, 0.0002], [0.5, 0.5]])])
    drawn = with_few_data(unlikely, 20.0, draws=100).drawn
    assert drawn is not None
    assert drawn.arrays.value.min() > 1e-13
