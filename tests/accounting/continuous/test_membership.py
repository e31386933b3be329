"""People who join or leave a running accountant: nobody else's numbers change."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule

PLACES = 4
SETTINGS = HorizonSettings(horizon=4, mistakes=1)


def people(count: int, seed: int, name: str) -> Population:
    """Some with a start of their own, some with a cycle of two slots."""
    random = np.random.default_rng(seed)
    priors = []
    for i in range(count):
        matrices = random.dirichlet(np.ones(PLACES), size=(1 + i % 2, PLACES))
        initial = random.dirichlet(np.ones(PLACES)) if i % 3 == 0 else None
        priors.append(MovementPrior.from_dense(f"{name}{i}", matrices, initial=initial))
    return Population.pack(priors, tuple("ABCD"))


def steps(count: int, seed: int) -> list[StepSchedule]:
    random = np.random.default_rng(seed)
    mechanisms = (Raw(), Gaussian(2.0))
    return [
        StepSchedule(
            number,
            tuple(
                SensorRelease(Sensor(str(place), (place,)), mechanisms[random.integers(2)])
                for place in np.flatnonzero(random.random(PLACES) < 0.4).tolist()
            ),
        )
        for number in range(count)
    ]


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), came=st.integers(0, 9))
def test_people_who_join_late_are_accounted_as_if_they_had_always_been_known(seed: int, came: int) -> None:
    first, second = people(4, seed, "a"), people(3, seed + 1, "b")
    schedule = steps(14, seed)
    running = ContinuousAccountant(first, SETTINGS)
    running.apply_all(schedule[:10])
    newcomers = ContinuousAccountant(second, SETTINGS, np.full(3, came))
    newcomers.apply_all(schedule[:10])
    joined = running.with_people(newcomers)
    whole = ContinuousAccountant(
        Population.concatenate([first, second]), SETTINGS, np.array([0] * 4 + [came] * 3)
    )
    whole.apply_all(schedule[:10])
    for step in schedule[10:]:
        joined.apply(step)
        whole.apply(step)
    assert joined.snapshot() == whole.snapshot()


@pytest.mark.slow
@pytest.mark.indices
@settings(max_examples=15)
@given(seed=st.integers(0, 2**32 - 1), stay=st.sets(st.integers(0, 5)))
def test_people_who_leave_change_nothing_for_those_who_stay(seed: int, stay: set[int]) -> None:
    everybody = people(6, seed, "a")
    chosen = np.array(sorted(stay), dtype=np.int64)
    schedule = steps(12, seed)
    running = ContinuousAccountant(everybody, SETTINGS)
    running.apply_all(schedule[:6])
    fewer = running.of_people(chosen)
    fewer.apply_all(schedule[6:])
    running.apply_all(schedule[6:])
    np.testing.assert_array_equal(fewer.risk(), running.risk()[chosen])
    np.testing.assert_array_equal(fewer.baseline(), running.baseline()[chosen])
    assert len(fewer.people) == len(stay)
