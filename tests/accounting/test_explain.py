"""Explanations add up, and leave out what cannot concern the person."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.audit import audit_exposure, explain
from accounting.exposure import Exposure, released_information
from models.mechanisms import Gaussian, Raw, Suppressed
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule

NAMES = [str(k) for k in range(6)]


def release(location: int, mechanism) -> SensorRelease:
    return SensorRelease(Sensor(NAMES[location], (location,)), mechanism)


@pytest.fixture
def population() -> Population:
    matrix = np.random.default_rng(4).dirichlet(np.ones(4), size=4)
    return Population.pack([MovementPrior.from_dense("p", matrix, places=[0, 1, 2, 4])], NAMES)


STEPS = (
    StepSchedule(0, (release(0, Raw()), release(5, Raw()))),
    StepSchedule(1, (release(1, Gaussian(0.5)), release(2, Raw()))),
    StepSchedule(2, (release(4, Suppressed()),)),
    StepSchedule(3, (release(4, Raw()),)),
)


def test_shares_add_up_to_the_information_and_are_sorted(population):
    exposure = Exposure.of(population.chain(0), Schedule(STEPS), len(NAMES))
    found = explain(exposure, STEPS, mistakes=1)
    amounts = [share.information_nats for share in found.shares]
    assert sum(amounts) == pytest.approx(sum(released_information(exposure).per_step), rel=1e-12)
    assert amounts == sorted(amounts, reverse=True)
    assert found.certified == audit_exposure(exposure, 1).certified


def test_sensors_where_the_person_never_is_and_suppressed_ones_are_left_out(population):
    exposure = Exposure.of(population.chain(0), Schedule(STEPS), len(NAMES))
    found = explain(exposure, STEPS, mistakes=1)
    assert {(share.step, share.sensor) for share in found.shares} == {(0, "0"), (1, "1"), (1, "2"), (3, "4")}


def test_a_drop_is_the_certified_bound_less_that_of_the_schedule_without_the_release(population):
    exposure = Exposure.of(population.chain(0), Schedule(STEPS), len(NAMES))
    found = explain(exposure, STEPS, mistakes=1)
    last = next(share for share in found.shares if share.step == 3)
    without = Exposure.of(population.chain(0), Schedule((*STEPS[:3], StepSchedule(3))), len(NAMES))
    expected = found.certified - audit_exposure(without, 1).certified
    assert last.certified_drop == pytest.approx(expected, abs=1e-15)


def test_with_nothing_released_there_is_nothing_to_explain(population):
    steps = tuple(StepSchedule(t) for t in range(3))
    found = explain(Exposure.of(population.chain(0), Schedule(steps), len(NAMES)), steps, mistakes=1)
    assert found.shares == ()
    assert found.information_nats == 0.0
