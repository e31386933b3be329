"""Correlated releases in the accountants: every bound covers the joint law, nothing treats steps as apart."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from accounting.attacks import ATTACKS, attack_person, attack_recorded
from accounting.audit import AttackSettings, audit_exposure
from accounting.bounds import Effort
from accounting.bounds.noised.sampled import sampled_success
from accounting.bounds.noised.shared_noise_bound import success_by_shared_noise
from accounting.bounds.windows import window_risk
from accounting.continuous import ContinuousAccountant
from accounting.exceptions import UnknownReleaseError
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings
from models.exceptions import ScheduleError
from models.mechanisms import Correlated, Gaussian
from models.noise import CorrelatedNoise
from models.priors import MovementPrior, Population
from models.releases import (
    CountingWindow,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    in_single_steps,
    window_release,
)
from tests.accounting.combinations.deployments import Shown

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


def of_design(covariance: NDArray[np.float64], sensors: Sequence[Sensor]) -> tuple[Exposure, CorrelatedNoise]:
    """The person at these sensors, one a step, all with noise of one design."""
    noise = CorrelatedNoise.of_covariance(covariance)
    steps = (
        StepSchedule(t, (SensorRelease(each, Correlated.of(noise, t)),)) for t, each in enumerate(sensors)
    )
    chain = case(noise)[0].chain(0)
    return Exposure.of(chain, Schedule(tuple(steps)), 2), noise


def best_of(covariance: NDArray[np.float64], mistakes: int, draws: int = 100_000) -> tuple[float, float]:
    """What the best adversary and the best guess without counts get, who knows the noise's covariance."""
    random, count = np.random.default_rng(13), len(covariance)
    paths = np.array(list(itertools.product((0, 1), repeat=count)))
    prior = np.array([3 / 7, 4 / 7])[paths[:, 0]] * np.prod(MATRIX[paths[:, :-1], paths[:, 1:]], axis=1)
    truth = random.choice(len(paths), size=draws, p=prior)
    seen = paths[truth] + random.multivariate_normal(np.zeros(count), covariance, draws)
    apart = seen[:, None] - paths
    weights = np.log(prior) - 0.5 * np.einsum("dpi,ij,dpj->dp", apart, np.linalg.inv(covariance), apart)
    posterior = np.exp(weights - weights.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    near = (np.abs(paths[:, None] - paths[None]).sum(axis=2) <= mistakes).astype(float)
    return float((posterior @ near).max(axis=1).mean()), float((prior @ near).max())


def fading(count: int, fades: float, more: float) -> NDArray[np.float64]:
    """Noise whose correlation fades, and as much more of its own in each step."""
    steps = np.arange(count)
    found: NDArray[np.float64] = fades ** np.abs(np.subtract.outer(steps, steps)) + more * np.eye(count)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("mistakes", [0, 1])
@pytest.mark.parametrize(
    ("covariance", "looser"),
    [
        (fading(2, 0.5, 0.0), 1.1),
        (fading(3, 0.5, 0.0), 1.1),
        (fading(3, 0.8, 0.2), 1.1),
        (fading(4, 0.5, 0.1), 1.4),
    ],
)
def test_few_counts_are_bounded_by_what_they_say_together(
    covariance: NDArray[np.float64], looser: float, mistakes: int
) -> None:
    """Near what the best adversary adds, and lower than by independent parts alone."""
    exposure, _ = of_design(covariance, [Sensor("work", (1,))] * len(covariance))
    best, guess = best_of(covariance, mistakes)
    found = audit_exposure(exposure, mistakes)
    assert found.certified_by == "own_counts"
    assert best - 0.003 <= found.certified <= guess + looser * (best - guess) + 0.003
    apart = min(value for value in found.bounds.model_dump().values() if value is not None)
    assert apart - guess > 1.05 * (found.certified - guess)


def test_sensors_of_one_design_have_noise_of_their_own() -> None:
    """The third step's sensor is another one: its noise says nothing of the others'."""
    covariance = fading(3, 0.9, 0.05)
    exposure, _ = of_design(covariance, [Sensor("a", (1,)), Sensor("a", (1,)), Sensor("b", (1,))])
    covariance[2, :2] = covariance[:2, 2] = 0.0
    best, guess = best_of(covariance, 0)
    found = success_by_shared_noise(exposure, 0, 64)
    assert found is not None
    assert best - 0.003 <= found <= guess + 1.1 * (best - guess) + 0.003


def test_other_counts_than_few_that_share_noise_are_left_to_other_bounds() -> None:
    """Each sensor's noise its own, too many counts, several values of one, or no independent part."""
    work = Sensor("work", (1,))
    assert success_by_shared_noise(of_design(fading(3, 0.5, 0.0), [work] * 3)[0], 1, 64) is not None
    assert success_by_shared_noise(of_design(fading(5, 0.5, 0.0), [work] * 5)[0], 1, 64) is None
    apart = [Sensor(name, (1,)) for name in "abc"]
    assert success_by_shared_noise(of_design(fading(3, 0.5, 0.0), apart)[0], 1, 64) is None
    for more in (Sensor("work", (1,), most_counts=2), Sensor("work", (1,), corrections=1)):
        assert success_by_shared_noise(of_design(fading(3, 0.5, 0.0), [more] * 3)[0], 1, 64) is None
    assert success_by_shared_noise(of_design(np.full((3, 3), 4.0), [work] * 3)[0], 1, 64) is None


WINDOWS = [
    Sensor("sum", (1,), most_counts=2, window=CountingWindow(2)),
    Sensor("limited", (1,), most_counts=1, window=CountingWindow(2)),
    Sensor("moves", (0, 1), most_counts=2, window=CountingWindow(2, ((0, 1, 1), (1, 0, 1)))),
    Sensor("steps", (0, 1), most_counts=1, window=CountingWindow(1, ((0, 1, 1),))),
]


@pytest.mark.parametrize("noise", DESIGNS, ids=["fading", "nearly one draw", "one draw"])
@pytest.mark.parametrize("sensor", WINDOWS, ids=lambda sensor: sensor.name)
def test_counts_over_windows_are_covered_too(noise: CorrelatedNoise, sensor: Sensor) -> None:
    """Each window by the independent part of the step that it is published with, one step or another."""
    population = Population.pack([MovementPrior.from_dense("p", MATRIX)], ("home", "work"))
    registry = SensorRegistry(("home", "work"), (sensor,)).with_windows(
        {sensor.name: Correlated.of(noise, 0)}
    )
    assert sensor.window is not None
    ends = [step for step in range(6) if sensor.window.ends_with(step)]
    steps = tuple(
        StepSchedule(t, (SensorRelease(sensor, Correlated.of(noise, t)),) if t in ends else ())
        for t in range(6)
    )
    with pytest.raises(ScheduleError, match="with the mechanism that is accounted"):
        last = ends[-1]
        in_single_steps(
            StepSchedule(last, (SensorRelease(sensor, Correlated.of(noise, last + 1)),)), registry
        )
    whole = Exposure.of(population.chain(0), Schedule(steps), 2)
    assert set(attack_person(whole, 1)) == {name for name, each in ATTACKS.items() if each.is_blind}
    for mistakes in (0, 1):
        true = best_over_windows(noise, sensor, ends, mistakes)
        audit = audit_exposure(whole, mistakes, effort=Effort(draws=500))
        bounds = {name: value for name, value in audit.bounds.model_dump().items() if value is not None}
        assert min(bounds.values()) >= true, bounds
        assert audit.certified >= true
        accountant = ContinuousAccountant(population, HorizonSettings(6, mistakes))
        accountant.apply_all([in_single_steps(step, registry) for step in steps])
        assert accountant.risk()[0] >= true
        releases = [window_release(step.releases[0], step.step) for step in steps if step.releases]
        assert window_risk(whole, releases, (0, 5), mistakes).certified >= true
    if noise is DESIGNS[1] and sensor.name == "steps":  # one window at a time it would look harmless
        sigma = np.sqrt(np.diag(noise.covariance))
        alone = [replace(each, mechanism=Gaussian(float(sigma[each.last % 3]))) for each in releases]
        assert window_risk(whole, alone, (0, 5), 1).certified < true


def best_over_windows(
    noise: CorrelatedNoise, sensor: Sensor, ends: list[int], mistakes: int, draws: int = 10_000
) -> float:
    """Success of the best adversary over six steps by sampling the joint law, less three standard errors."""
    random, window = np.random.default_rng(12), sensor.window
    assert window is not None
    paths = np.array(list(itertools.product((0, 1), repeat=6)))
    prior = np.array([3 / 7, 4 / 7])[paths[:, 0]] * np.prod(MATRIX[paths[:, :-1], paths[:, 1:]], axis=1)
    own = np.stack([Shown(sensor, last, sensor.most_counts, np.ones(1)).added(paths) for last in ends], 1)
    truth = random.choice(len(paths), size=draws, p=prior)
    vectors = random.standard_normal((draws, 2, 3)) @ noise.factor.T  # two noise windows of three steps
    seen = own[truth] + vectors.reshape(draws, 6)[:, ends]
    covariance = np.kron(np.eye(2), noise.covariance)[np.ix_(ends, ends)] + 1e-4 * np.eye(len(ends))
    density = stats.multivariate_normal(np.zeros(len(ends)), covariance).logpdf
    weights = np.log(prior) + np.stack([density(seen - each) for each in own], axis=1)
    posterior = np.exp(weights - weights.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    near = (np.abs(paths[:, None] - paths[None]).sum(axis=2) <= mistakes).astype(float)
    best = (posterior @ near).max(axis=1)
    return float(best.mean() - 3 * best.std() / np.sqrt(draws))


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
