"""Sensors that can count one person again: every account holds whatever the number of readings is."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from accounting.attacks import ATTACKS, attack_person
from accounting.bounds import Effort, certify, horizon_risk, question
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure, baseline, horizon_information
from accounting.exposure.step_information import observe
from accounting.ledgers import ReleaseLog, ZcdpSpend, oracle_epsilons, read_differential_privacy
from accounting.settings import HorizonSettings
from models.exceptions import TallyguardError
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.enumeration import all_paths, entropy_of, window_optimum

MOST = 3
RAW_OR_NOISED: list[Mechanism] = [Raw(), Gaussian(0.8), Gaussian(2.0), Gaussian(6.0)]


def read_law(kind: int, rng: np.random.Generator) -> np.ndarray:
    """How often somebody who is there is read: always three times, at random, or mostly once."""
    return [np.eye(MOST + 1)[MOST], rng.dirichlet(np.ones(MOST + 1)), np.array([0.0, 0.8, 0.1, 0.1])][kind]


def channel(mechanism: Mechanism, counted: np.ndarray, read: np.ndarray) -> np.ndarray:
    """What a step shows of who is at each place, others being known: one column an output."""
    law = mechanism.noise_law()
    assert law is not None
    absent = np.append(law.probabilities, np.zeros(MOST))
    return np.where(counted[:, None], np.convolve(law.probabilities, read), absent)


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("seed", range(40))
def test_no_adversary_is_above_the_ceiling_however_often_people_are_read(seed: int) -> None:
    """Audit, horizons now and in hindsight, running account: none is below the optimum by enumeration."""
    rng = np.random.default_rng(seed)
    places, steps, mistakes = int(rng.integers(2, 4)), 3, int(rng.integers(0, 2))
    matrix = rng.dirichlet(np.full(places, 0.6), size=places) + 1e-9
    matrix /= matrix.sum(axis=1, keepdims=True)
    person = MovementPrior.from_dense("ada", matrix)
    population = Population.pack([person], [str(place) for place in range(places)])
    chain = population.chain(0)
    schedule, channels = [], []
    for step in range(steps):
        counted = rng.random(places) < 0.5
        counted[int(rng.integers(places))] = True
        mechanism = RAW_OR_NOISED[int(rng.integers(4))]
        sensor = Sensor("door", tuple(np.flatnonzero(counted).tolist()), most_counts=MOST)
        schedule.append(StepSchedule(step, (SensorRelease(sensor, mechanism),)))
        channels.append(channel(mechanism, counted, read_law(int(rng.integers(3)), rng)))
    exposure = Exposure(chain, chain.start[0], 0, tuple(observe(step, places) for step in schedule))
    everything = all_paths(chain.start[0], matrix[None], steps)
    whole = window_optimum(everything, channels, (0, steps - 1), mistakes)
    bound_question = question(exposure, mistakes, Effort(draws=200))
    assert min(bound_question.values().values()) >= whole - 1e-12
    assert certify(bound_question, baseline(exposure, mistakes).success).value >= whole - 1e-12
    assert "sampled" not in bound_question.values(certain=False), (
        "nobody knows the law that would be drawn from"
    )
    last = window_optimum(everything, channels, (1, 2), mistakes)
    for in_hindsight in (False, True):
        assert horizon_risk(exposure, 1, 2, mistakes, in_hindsight=in_hindsight).certified >= last - 1e-12
    now = window_optimum(everything, channels[:2], (0, 1), mistakes)
    assert horizon_risk(exposure, 0, 1, mistakes).certified >= now - 1e-12
    accountant = ContinuousAccountant(population, HorizonSettings(horizon=2, mistakes=mistakes))
    for step in schedule:
        accountant.apply(step)
    assert accountant.risk()[0] >= last - 1e-12
    joint = horizon_information(exposure, 0, steps - 1).at_the_moment
    assert joint >= _information(everything.paths, everything.probability, channels) - 1e-9


def _information(paths: np.ndarray, probability: np.ndarray, channels: list[np.ndarray]) -> float:
    joint = probability[:, None]
    for t, shown in enumerate(channels):
        joint = (joint[:, :, None] * shown[paths[:, t]][:, None, :]).reshape(len(paths), -1)
    return entropy_of(joint.sum(1)) + entropy_of(joint.sum(0)) - entropy_of(joint.ravel())


@pytest.mark.slow
@pytest.mark.indices
def test_accounting_them_as_presence_would_promise_too_much() -> None:
    """The same releases with most_counts left out: the best adversary is above the ceiling of some."""
    broken = 0
    for stay, sigma in product((0.5, 0.8), (2.0, 6.0)):
        matrix = np.array([[stay, 1 - stay], [1 - stay, stay]])
        population = Population.pack([MovementPrior.from_dense("ada", matrix)], ["0", "1"])
        chain = population.chain(0)
        release = SensorRelease(Sensor("door", (1,)), Gaussian(sigma))
        exposure = Exposure(
            chain, chain.start[0], 0, tuple(observe(StepSchedule(t, (release,)), 2) for t in range(3))
        )
        shown = channel(Gaussian(sigma), np.array([False, True]), np.eye(MOST + 1)[MOST])
        best = window_optimum(all_paths(chain.start[0], matrix[None], 3), [shown] * 3, (0, 2), 0)
        broken += horizon_risk(exposure, 0, 2, 0).certified < best - 1e-6
    assert broken


def test_attacks_that_look_need_to_know_how_often_somebody_is_read() -> None:
    population = Population.pack([MovementPrior.from_dense("ada", np.full((2, 2), 0.5))], ["0", "1"])
    chain = population.chain(0)
    seen = {}
    for most in (1, 2):
        release = SensorRelease(Sensor("door", (1,), most_counts=most), Gaussian(2.0))
        step = observe(StepSchedule(0, (release,)), 2)
        seen[most] = set(attack_person(Exposure(chain, chain.start[0], 0, (step,)), 0, 100, 0))
    assert seen[2] < seen[1]
    assert all(ATTACKS[name].is_blind for name in seen[2])


def test_the_ledger_charges_the_squared_number_of_counts() -> None:
    steps = [
        StepSchedule(t, (SensorRelease(Sensor("a", (0,), most_counts=4), Gaussian(8.0)),)) for t in range(3)
    ]
    once = [StepSchedule(t, (SensorRelease(Sensor("a", (0,)), Gaussian(2.0)),)) for t in range(3)]
    found = read_differential_privacy(ReleaseLog.of(steps), 1e-6)
    assert float(found.rho) == pytest.approx(3 * 16 / 128)
    assert found.rho.amount == read_differential_privacy(ReleaseLog.of(once), 1e-6).rho.amount
    spend = ZcdpSpend()
    for step in steps:
        spend.add(step.releases)
    assert spend.rho == found.rho.amount
    assert spend.truncated_mass == pytest.approx(found.truncated_mass)
    assert spend.truncated_mass > 0.0
    with pytest.raises(TallyguardError, match="counted once"):
        oracle_epsilons(ReleaseLog.of(steps), 1e-6)
