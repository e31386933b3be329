"""Correlated releases in the accountants: every bound covers the joint law, nothing treats steps as apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from accounting.attacks import ATTACKS, attack_person, attack_recorded
from accounting.audit import AttackSettings, audit_exposure
from accounting.bounds import Effort
from accounting.bounds.noised.sampled import sampled_success
from accounting.continuous import ContinuousAccountant
from accounting.exceptions import UnknownReleaseError
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings
from models.mechanisms import Correlated
from models.noise import CorrelatedNoise
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule

STEPS = np.arange(3)
MATRIX = np.array([[0.6, 0.4], [0.3, 0.7]])
DESIGNS = [
    CorrelatedNoise.of_covariance(0.5 * 0.8 ** np.abs(np.subtract.outer(STEPS, STEPS)) + 0.1 * np.eye(3)),
    CorrelatedNoise.of_covariance(np.full((3, 3), 4.0) + 0.05 * np.eye(3)),
    CorrelatedNoise.of_covariance(np.full((3, 3), 4.0)),
]


def case(noise: CorrelatedNoise, times: int = 1, values: int = 1) -> tuple[Population, Schedule, Exposure]:
    """A person on two places, one of them watched in all three steps of a noise window.

    Whoever is there is counted so many ``times``, and each count is published with so many ``values``.
    """
    population = Population.pack([MovementPrior.from_dense("p", MATRIX)], ("home", "work"))
    watched = Sensor("work", (1,), most_counts=times, corrections=values - 1)
    schedule = Schedule(
        tuple(StepSchedule(t, (SensorRelease(watched, Correlated.of(noise, t)),)) for t in range(3))
    )
    return population, schedule, Exposure.of(population.chain(0), schedule, 2)


def optimum(
    noise: CorrelatedNoise, mistakes: int, draws: int = 40_000, times: int = 1, values: int = 1
) -> float:
    """Success of the best adversary by sampling the joint law, less three standard errors.

    A published vector is presence plus a noise vector, rounded; the posterior of all eight trajectories
    is computed from the unrounded vectors' joint density, and the best guess's success averaged.
    """
    random = np.random.default_rng(11)
    paths = np.array(list(itertools.product((0, 1), repeat=3)))
    start = np.array([3 / 7, 4 / 7])
    prior = start[paths[:, 0]] * MATRIX[paths[:, 0], paths[:, 1]] * MATRIX[paths[:, 1], paths[:, 2]]
    truth = random.choice(len(paths), size=draws, p=prior)
    vectors = [
        times * paths[truth] + random.standard_normal((draws, 3)) @ noise.factor.T for _ in range(values)
    ]
    covariance = noise.covariance + 1e-4 * np.eye(3)  # a guess a trifle too humble
    density = stats.multivariate_normal(np.zeros(3), covariance).logpdf
    weights = np.stack(
        [
            np.log(p) + sum(density(seen - times * path) for seen in vectors)
            for p, path in zip(prior, paths, strict=True)
        ],
        axis=1,
    )
    posterior = np.exp(weights - weights.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    near = (np.abs(paths[:, None] - paths[None]).sum(axis=2) <= mistakes).astype(float)
    best = (posterior @ near).max(axis=1)
    return float(best.mean() - 3 * best.std() / np.sqrt(draws))


@pytest.mark.parametrize("noise", DESIGNS, ids=["fading", "nearly one draw", "one draw"])
@pytest.mark.parametrize("mistakes", [0, 1])
def test_every_bound_is_above_the_best_adversary_of_the_joint_law(
    noise: CorrelatedNoise, mistakes: int
) -> None:
    """Who uses that the steps share noise; with one draw for all steps that is nearly who sees raw counts."""
    population, schedule, exposure = case(noise)
    true = optimum(noise, mistakes)
    audit = audit_exposure(exposure, mistakes, effort=Effort(draws=500), attacks=AttackSettings(500))
    bounds = {name: value for name, value in audit.bounds.model_dump().items() if value is not None}
    assert min(bounds.values()) >= true, bounds
    assert audit.certified >= true
    accountant = ContinuousAccountant(population, HorizonSettings(3, mistakes))
    accountant.apply_all(schedule.steps)
    assert accountant.risk()[0] >= true
    if noise is DESIGNS[1]:  # one step at a time it would look harmless
        apart = CorrelatedNoise.of_covariance(np.diag(np.diag(noise.covariance)))
        assert audit_exposure(case(apart)[2], mistakes).certified < true


@pytest.mark.parametrize("noise", DESIGNS, ids=["fading", "nearly one draw", "one draw"])
@pytest.mark.parametrize(("times", "values"), [(2, 1), (1, 2), (3, 2)])
def test_passages_and_corrections_are_covered_too(noise: CorrelatedNoise, times: int, values: int) -> None:
    """Who is counted again shifts the counts further; each value of a count has a noise vector of its own."""
    population, schedule, exposure = case(noise, times, values)
    assert not exposure.has_independent_noise and not exposure.can_be_drawn
    for mistakes in (0, 1):
        true = optimum(noise, mistakes, 10_000, times, values)
        audit = audit_exposure(exposure, mistakes, effort=Effort(draws=500))
        bounds = {name: value for name, value in audit.bounds.model_dump().items() if value is not None}
        assert min(bounds.values()) >= true, bounds
        accountant = ContinuousAccountant(population, HorizonSettings(3, mistakes))
        accountant.apply_all(schedule.steps)
        assert accountant.risk()[0] >= true
    if noise is DESIGNS[0]:
        assert audit.certified < 1.0
        assert optimum(noise, 1, 10_000, times, values) > optimum(noise, 1, 10_000) + 0.02


def test_what_would_draw_steps_apart_is_not_tried() -> None:
    """Sampled bound and sighted attacks need the joint law: left out, and said so."""
    exposure = case(DESIGNS[0])[2]
    assert sampled_success(exposure, (0, exposure.steps - 1), 1, Effort(draws=100)) is None
    assert set(attack_person(exposure, 1)) == {name for name, each in ATTACKS.items() if each.is_blind}
    audit = audit_exposure(exposure, 1, attacks=AttackSettings(100))
    assert audit.attacks is not None
    assert audit.attacks["map"] is audit.attacks["marginal"] is None
    assert audit.attacks["prior"] is not None
    with pytest.raises(UnknownReleaseError, match="independent from step to step"):
        attack_recorded(exposure, np.zeros(3, dtype=np.int64), 1)
