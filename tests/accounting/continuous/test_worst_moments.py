"""Everybody's worst moments: the maxima over all steps, whoever joins, leaves or is restored."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant, WorstMoments
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.stream_app.engine_support import NAMES, population

SETTINGS = HorizonSettings(4, 1)


def steps(count: int) -> list[StepSchedule]:
    """Raw and noised counts by turns, one step in three without any."""
    kinds = (Raw(), Gaussian(2.0))
    return [
        StepSchedule(
            k,
            () if k % 3 == 2 else (SensorRelease(Sensor(NAMES[k % 4], (k % 4,)), kinds[k % 2]),),
        )
        for k in range(count)
    ]


def equal(one: WorstMoments, other: WorstMoments) -> bool:
    return all(np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_they_are_the_maxima_over_all_steps_and_the_first_that_reaches_them() -> None:
    """Of the ceiling, and of what is added, with the figures of that step."""
    accountant = ContinuousAccountant(population(), SETTINGS)
    risks, added, baselines = [], [], []
    for step in steps(14):
        accountant.apply(step)
        risks.append(accountant.risk())
        added.append(accountant.added())
        baselines.append(accountant.baseline())
    worst, people = accountant.worst(), np.arange(len(population()))
    assert np.array_equal(worst.highest_risk, np.max(risks, axis=0))
    assert np.array_equal(worst.highest_step, np.argmax(risks, axis=0))
    assert np.array_equal(worst.step, np.argmax(added, axis=0))
    assert np.array_equal(worst.added, np.max(added, axis=0))
    assert np.array_equal(worst.baseline, np.array(baselines)[worst.step, people])
    summary = accountant.summary()
    assert (summary.most_risk, summary.most_added) == (np.max(risks), np.max(added))
    most = np.flatnonzero(worst.is_most_added(2, np.ones(people.size, dtype=np.int64)))
    assert most.size == 2
    assert set(most) == set(np.argsort(-worst.added)[:2])


def test_a_restored_accountant_continues_the_worst_moments() -> None:
    whole, first = (ContinuousAccountant(population(), SETTINGS) for _ in range(2))
    whole.apply_all(steps(12))
    first.apply_all(steps(9))
    restored = ContinuousAccountant(population(), SETTINGS)
    restored.restore(first.snapshot())
    restored.apply_all(steps(12)[9:])
    assert equal(restored.worst(), whole.worst())


@pytest.mark.parametrize("since", [0, 5])
def test_people_who_come_later_have_theirs_since_they_came(since: int) -> None:
    """The same whether they were there from the start with a later step, or joined then."""
    people = population()
    early, late = people.subset([0, 1, 2, 3]), people.subset([4, 5])
    known = ContinuousAccountant(early, SETTINGS)
    known.apply_all(steps(9))
    newcomers = ContinuousAccountant(late, SETTINGS.starting_at(since), np.full(2, since))
    newcomers.apply_all(steps(9)[since:])
    joined = known.with_people(newcomers)
    together = ContinuousAccountant(people, SETTINGS, np.array([0, 0, 0, 0, since, since]))
    together.apply_all(steps(9))
    joined.apply_all(steps(13)[9:])
    together.apply_all(steps(13)[9:])
    assert equal(joined.worst(), together.worst())
    assert together.worst().step[4:].min() >= since
    some = together.of_people(np.array([5, 0]))
    assert np.array_equal(some.worst().added, together.worst().added[[5, 0]])
