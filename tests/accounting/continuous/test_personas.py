"""A persona that stands for so many people counts like as many people listed by names of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.shadow import drawn_parts
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exceptions import SnapshotError
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw, Suppressed
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.decisions import deciding
from tests.accounting.random_runs import LOCATIONS, listed, random_step, with_few_data

WEIGHTS = np.array([3.0, 1.0, 7.4, 0.2, 1.5, 12.0])
PEOPLE = np.array([3, 1, 7, 1, 2, 12])
LIMIT = RiskBudget(0.3, risk=0.6)


def personas(seed: int = 3, draws: int = 1) -> Population:
    kinds = deciding.people(np.random.default_rng(seed), len(WEIGHTS), LOCATIONS, own_starts=0.3)
    kinds = kinds if draws == 1 else with_few_data(kinds, 8.0, draws)
    return replace(kinds, weights=WEIGHTS)


def in_one_share(people: int) -> PeopleShares:
    return PeopleShares.single(people)


def test_weights_are_whole_people() -> None:
    """To the nearest, and at least one."""
    assert personas().stands_for is not None
    np.testing.assert_array_equal(personas().stands_for, PEOPLE)
    assert personas().everybody == PEOPLE.sum() == len(listed(personas()))
    assert replace(personas(), weights=None).everybody == len(WEIGHTS)
    unweighted = replace(personas(), weights=None)
    assert personas().unweighted_fingerprint == unweighted.fingerprint != personas().fingerprint


@pytest.mark.parametrize("operations", [None, 0, 80_000, 150_000])
@pytest.mark.parametrize("draws", [1, 3])
def test_figures_of_all_are_those_of_people_listed_one_by_one(operations: int | None, draws: int) -> None:
    """Summaries with all counts, quantiles and means; whose work is scarce, too."""
    some = personas(draws=draws)
    chosen = HorizonSettings(4, 1, sharpen_above=0.0, operations=operations)
    one = ContinuousAccountant(some, chosen, shares=in_one_share(len(some)))
    all_of = ContinuousAccountant(listed(some), chosen, shares=in_one_share(int(PEOPLE.sum())))
    assert len(one.population) == len(one.people) == len(WEIGHTS)
    rng, not_reached = np.random.default_rng(8), set()
    for step in range(10):
        released = random_step(rng, step, LOCATIONS)
        one.apply(released)
        all_of.apply(released)
        found, chains = one.summary(), one.summary().chains
        assert found == replace(all_of.summary(), chains=chains)
        not_reached.add(found.not_reached)
        np.testing.assert_array_equal(np.repeat(one.risk(), PEOPLE), all_of.risk())
        crossed = np.isin(np.arange(len(WEIGHTS)), one.crossings())
        np.testing.assert_array_equal(np.flatnonzero(np.repeat(crossed, PEOPLE)), all_of.crossings())
    assert one.everybody == PEOPLE.sum()
    assert one.median_guess() == all_of.median_guess()
    assert max(not_reached) > 0 or operations in (None, 0)


def test_a_budget_counts_the_people_behind_personas() -> None:
    """Who would be over the limit, by candidates, and by habit alone."""
    some, chosen = personas(5), HorizonSettings(4, 1)
    one, all_of = ContinuousAccountant(some, chosen), ContinuousAccountant(listed(some), chosen)
    sensors = [Sensor(f"s{k}", (k,)) for k in range(LOCATIONS)]
    over = set()
    for step in range(4):
        candidates = [
            StepSchedule(step, tuple(SensorRelease(each, how) for each in sensors))
            for how in (Suppressed(), Gaussian(3.0), Gaussian(1.0), Raw())
        ]
        counts = [
            WhatIf(each, LIMIT).next_step(AnnouncedStep(sensors)).count_over(candidates)
            for each in (one, all_of)
        ]
        assert counts[0] == counts[1]
        assert counts[0].people == PEOPLE.sum()
        over.update(counts[0].over)
        one.apply(candidates[2])
        all_of.apply(candidates[2])
    assert len(over) > 1


def test_personas_join_leave_and_are_saved_with_the_people_behind_them() -> None:
    some, chosen = personas(), HorizonSettings(4, 1, operations=3_000_000)
    shares = PeopleShares(3, np.arange(6) % 3, np.arange(6) * 5)

    def of(which: list[int]) -> ContinuousAccountant:
        chosen_people = np.array(which)
        return ContinuousAccountant(some.subset(chosen_people), chosen, shares=shares.take(chosen_people))

    everybody, first, others = of([0, 1, 2, 3, 4, 5]), of([0, 1, 2]), of([3, 4, 5])
    joined = first.with_people(others)
    rng = np.random.default_rng(8)
    for step in range(5):
        released = random_step(rng, step, LOCATIONS)
        for each in (everybody, joined, first):
            each.apply(released)
    assert joined.summary() == everybody.summary()
    assert joined.of_people(np.array([0, 1, 2])).summary() == first.summary()
    again = of([0, 1, 2, 3, 4, 5])
    again.restore(everybody.snapshot())
    assert again.summary() == everybody.summary()
    other = ContinuousAccountant(replace(some, weights=WEIGHTS + 1.0), chosen, shares=shares)
    with pytest.raises(SnapshotError, match="stands_for"):
        other.restore(everybody.snapshot())
    unlisted = ContinuousAccountant(replace(some, weights=None), chosen, shares=shares)
    with pytest.raises(SnapshotError, match="stands_for"):
        unlisted.restore(everybody.snapshot())
    one_each = everybody.with_people(
        _at_step(ContinuousAccountant(replace(some, weights=None).renamed(list("abcdef")), chosen), everybody)
    )
    assert one_each.everybody == PEOPLE.sum() + 6


def _at_step(newcomers: ContinuousAccountant, known: ContinuousAccountant) -> ContinuousAccountant:
    for step in range(known.next_step):
        newcomers.apply(StepSchedule(step, ()))
    return newcomers


@pytest.mark.slow
def test_people_behind_personas_are_drawn_alike() -> None:
    """Over many splits into shares a persona is attacked in proportion to the people behind it."""
    rng, counted, weighed = np.random.default_rng(2), np.zeros(len(WEIGHTS)), 0.0
    for _ in range(4000):
        shares = PeopleShares(2, rng.integers(0, 2, 6), rng.integers(0, 2**56, 6))
        for part in drawn_parts(shares, 8, PEOPLE):
            assert part.draws == 1
            assert part.person.size == 4
            assert part.people == PEOPLE[np.unique(shares.share[part.person])[0] == shares.share].sum()
            assert np.unique(np.stack((part.person, part.seed)), axis=1).shape[1] == 4
            np.add.at(counted, part.person, part.people / part.person.size)
            weighed += part.people
    np.testing.assert_allclose(counted / weighed, PEOPLE / PEOPLE.sum(), rtol=0.06)
