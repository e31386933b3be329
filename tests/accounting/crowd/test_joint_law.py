"""Few counts of a crowd are seen as they are: no adversary beats the ceiling, and it is nearly attained."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import date

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.bounds import Effort
from accounting.bounds.certified import BY_ALL_COUNTS
from accounting.exposure.crowd import CrowdAdversary, joint_law
from accounting.exposure.crowd.joint_law import FewCounts
from models.calendar import Calendar
from models.mechanisms import Correlated, Gaussian
from models.noise import CorrelatedNoise
from models.releases import CountingWindow, Counts, Schedule, SensorRelease
from tests.accounting.crowd.collective import others_law
from tests.accounting.crowd.instances import (
    Instance,
    large_instance,
    population_of,
    random_instance,
)
from tests.accounting.enumeration import all_paths, prior_optimum
from tests.volume import randoms, some

NOBODY_KNOWN = CrowdAdversary()


def added(instance: Instance, mistakes: int) -> tuple[float, float]:
    """What the ceiling and the best adversary add to the guess without counts; never the one below."""
    audits = audit_population(
        instance.population,
        instance.schedule,
        mistakes,
        people=[0],
        effort=Effort(vectors=16),
        adversary=NOBODY_KNOWN,
    )
    (audit,) = audits
    best = instance.optimum((0, instance.steps - 1), mistakes)
    guess = prior_optimum(all_paths(*instance.target, instance.steps), mistakes)
    assert best - 1e-9 <= audit.certified <= audit.certified_informed + 1e-9
    return audit.certified - guess, best - guess


def pooled(instances: Iterable[Instance]) -> float:
    """What ceilings add over what the best adversaries do."""
    pairs = [
        added(instance, mistakes) for instance in instances for mistakes in range(min(2, instance.steps))
    ]
    return float(np.divide(*np.sum(pairs, axis=0)))


@pytest.mark.slow
def test_few_counts_say_what_the_best_adversary_makes_of_them() -> None:
    """Up to four counts, raw and noised, overlapping, of people alike and unlike, in any order of time."""
    assert pooled(random_instance(rng, target_among=True) for rng in randoms(3, 150)) < 1.1


@pytest.mark.slow
def test_many_people_are_no_worse_a_crowd() -> None:
    """Some tens of people who move a lot, and three counts."""
    assert pooled(large_instance(rng) for rng in randoms(4, 12)) < 1.1


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_ceiling_of_few_counts_in_many_crowds() -> None:
    """The same, longer."""
    rngs = map(np.random.default_rng, some(3_000))
    assert pooled(random_instance(rng, target_among=True) for rng in rngs) < 1.1


def test_a_ceiling_says_that_it_comes_from_all_counts_together() -> None:
    """For 25 people or more it hardly ever is one of the others."""
    instance = large_instance(np.random.default_rng(0))
    (audit,) = audit_population(instance.population, instance.schedule, 1, people=[0], adversary=NOBODY_KNOWN)
    assert audit.certified_by == BY_ALL_COUNTS
    assert audit.certified < audit.certified_informed - 0.01


def test_laws_are_those_of_all_movements_written_down() -> None:
    """By which counts the target is in: the others' law and the noise, shifted."""
    for rng in randoms(6, 25):
        instance = random_instance(rng, target_among=True)
        few = FewCounts.of(instance.population, instance.schedule, NOBODY_KNOWN)
        assert few is not None
        found = few.among(0)
        assert found is not None and found.left_out < 1e-9
        law = others_law(instance.others, instance.counts(), instance.steps)
        if all(each.noise.size == 1 for each in instance.counts()):
            expected = np.sort(law[law > 0.0])
            for column in found.seen.T:
                shown = np.sort(np.append(np.zeros(expected.size), column))[-expected.size :]
                assert shown == pytest.approx(expected, rel=1e-9, abs=found.left_out)
        assert found.seen.sum(axis=0) == pytest.approx(1.0)


@pytest.mark.slow
def test_what_is_cut_off_counts_as_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare values show which counts a person is in, and cut ones are added: higher, and never below."""
    instances = [random_instance(rng, target_among=True) for rng in randoms(7, 25)]
    exact = pooled(instances)
    monkeypatch.setattr(joint_law, "_MOST_VALUES", 12)
    monkeypatch.setattr(joint_law, "_RARE", 1e-3)
    assert exact < pooled(instances)


def test_personas_are_the_people_behind_them() -> None:
    """As many as are there for certain; the target is one of them."""
    for rng in randoms(8, 10):
        instance = random_instance(rng, target_among=True)
        first, second = instance.target, instance.others[0]
        personas = replace(population_of([first, second], instance.has_own_law), weights=np.array([3.7, 5.5]))
        people = population_of([first] * 2 + [second] * 4, instance.has_own_law)
        few = FewCounts.of(personas, instance.schedule, CrowdAdversary(least=0.8))
        listed = FewCounts.of(people, instance.schedule, NOBODY_KNOWN)
        assert few is not None and listed is not None
        one, other = few.among(0), listed.among(0)
        assert one is not None and other is not None
        assert one.seen == pytest.approx(other.seen)


SHARED = Correlated.of(CorrelatedNoise.of_covariance(np.array([[2.0, 0.8], [0.8, 2.0]])), 0)


def test_it_is_not_used_where_more_is_known_or_something_else_is_counted() -> None:
    """Each time the other bounds remain."""
    instance = random_instance(np.random.default_rng(2), target_among=True)
    population, schedule = instance.population, instance.schedule
    assert FewCounts.of(population, schedule, NOBODY_KNOWN) is not None
    for adversary in (CrowdAdversary(known=1), CrowdAdversary(companions=1), CrowdAdversary(alone=0.9)):
        assert FewCounts.of(population, schedule, adversary) is None

    def changed(**what: object) -> Schedule:
        def one(release: SensorRelease) -> SensorRelease:
            return SensorRelease(replace(release.sensor, **what), release.mechanism)  # type: ignore[arg-type]

        steps = [replace(step, releases=tuple(map(one, step.releases))) for step in schedule.steps]
        return Schedule(tuple(steps))

    for what in (
        {"most_counts": 2},
        {"corrections": 1},
        {"counts": Counts.OCCUPIED},
        {"part_of": "device"},
        {"window": CountingWindow(1, miscounts=True)},
    ):
        assert FewCounts.of(population, changed(**what), NOBODY_KNOWN) is None
    shared = [
        replace(step, releases=tuple(replace(each, mechanism=SHARED) for each in step.releases))
        for step in schedule.steps
    ]
    assert FewCounts.of(population, Schedule(tuple(shared)), NOBODY_KNOWN) is None
    holidays = Calendar("UTC", 0, 3600, holidays=(date(2026, 1, 1),))
    assert FewCounts.of(population, replace(schedule, calendar=holidays), NOBODY_KNOWN) is None
    many = Schedule(
        tuple(
            replace(step, step=step.step + lap * len(schedule.steps))
            for lap in range(6)
            for step in schedule.steps
        )
    )
    assert FewCounts.of(population, many, NOBODY_KNOWN) is None


@pytest.mark.slow
def test_too_large_a_law_is_not_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nor one of too wide a noise."""
    instance = large_instance(np.random.default_rng(0))
    few = FewCounts.of(instance.population, instance.schedule, NOBODY_KNOWN)
    assert few is not None and few.among(0) is not None
    wide = tuple(replace(each, mechanism=Gaussian(300.0)) for each in few.releases)
    assert replace(few, releases=wide).among(0) is None
    monkeypatch.setattr(joint_law, "_MOST_OPERATIONS", 1e4)
    assert few.among(0) is None
