"""Running ceilings through noise: the sandwich bound lowers them, and what it reads is kept and restored."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.refine_kernel import least_exact_bound, raw_horizon
from accounting.exposure.step_information import followed_by, is_whole, nothing_seen_for, seen_release
from accounting.exposure.step_information.likelihood_levels import SeenSteps
from accounting.exposure.step_information.rays import few_rays, rays_of
from accounting.settings import HorizonSettings
from models.mechanisms import Mechanism
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.continuous.test_soundness import Log
from tests.accounting.exposures import RAW, gaussian


@pytest.mark.slow
def test_a_running_ceiling_is_between_the_optimum_and_what_raw_counts_give() -> None:
    """And the sandwich bound decides some of them."""
    rng = np.random.default_rng(1)
    deciding = []
    for _ in range(60):
        log = Log(rng)
        steps = len(log.schedule)
        first = int(rng.integers(steps))
        for mistakes, best in enumerate(log.optima((first, steps - 1), steps)[:3]):
            settings = HorizonSettings(
                steps - first, mistakes, first_slot=log.first_slot, sharpen_above=0.0, vectors=16
            )
            accountant = ContinuousAccountant(log.population, settings)
            accountant.apply_all(log.schedule)
            view = accountant.view()
            risk, seen = float(accountant.risk()[0]), accountant._running.seen
            raw = raw_horizon(view.accounts, 0, first, seen.labels)
            known = least_exact_bound(raw, view.accounts.horizon)
            assert best - 1e-9 <= risk <= max(known, float(accountant.baseline()[0])) + 1e-12
            deciding.append(accountant.decided_by(0))
    assert deciding.count("sandwich") >= 5


@pytest.mark.parametrize("sigma", [1.0, 2.0])
@pytest.mark.parametrize("mistakes", [0, 1, 2])
def test_where_many_counts_may_go_either_way_a_running_ceiling_holds(sigma: float, mistakes: int) -> None:
    """Ten such counts: given drawn outputs the best success is exact, and its mean is the optimum."""
    rng, steps = np.random.default_rng(3), 5
    matrix = np.array([[0.7, 0.2, 0.1], [0.1, 0.8, 0.1], [0.2, 0.2, 0.6]])
    population = Population.pack([MovementPrior.from_dense("p", matrix)])
    counted = tuple(SensorRelease(Sensor(f"s{x}", (x,)), gaussian(sigma)) for x in (0, 1))
    settings = HorizonSettings(steps, mistakes, sharpen_above=0.0)
    accountant = ContinuousAccountant(population, settings)
    accountant.apply_all([StepSchedule(t, counted) for t in range(steps)])
    start = np.linalg.matrix_power(matrix, 200)[0]
    paths = np.array(list(product(range(3), repeat=steps)))
    prior = start[paths[:, 0]] * np.prod(matrix[paths[:, :-1], paths[:, 1:]], axis=1)
    is_right = ((paths[:, np.newaxis] != paths).sum(axis=2) <= mistakes).astype(float)
    is_there = (paths[..., np.newaxis] == np.arange(2)).reshape(len(paths), -1).astype(float)
    noise = np.arange(-30, 31)
    law = np.exp(-(noise**2) / (2.0 * sigma**2))
    drawn = rng.choice(noise, (4000, 2 * steps), p=law / law.sum())
    values = drawn + is_there[rng.choice(len(paths), 4000, p=prior / prior.sum())]
    posterior = prior * np.exp((values @ is_there.T - is_there.sum(axis=1) / 2.0) / sigma**2)
    best = (posterior / posterior.sum(axis=1, keepdims=True) @ is_right).max(axis=1)
    error = best.std() / np.sqrt(best.size)
    quick = ContinuousAccountant(population, replace(settings, sharpen=False))
    quick.apply_all([StepSchedule(t, counted) for t in range(steps)])
    assert best.mean() - 4.0 * error <= accountant.risk()[0] < quick.risk()[0]
    assert accountant.decided_by(0) == "sandwich"


def followed(mechanisms: list[Mechanism]) -> SeenSteps:
    """What was seen after a step with each of these, one sensor at location 0 and one at 2."""
    seen = nothing_seen_for(HISTORY + 5, 3)
    for mechanism in mechanisms:
        releases = tuple(SensorRelease(Sensor(f"s{x}", (x,)), mechanism) for x in (0, 2))
        seen = followed_by(seen, seen_release(releases, 3))
    return seen


def test_equal_channels_of_steps_are_kept_once_and_with_all_their_outputs() -> None:
    mechanisms = [gaussian(1.0), RAW, gaussian(3.0), gaussian(1.0), RAW]
    seen = followed(mechanisms)
    assert is_whole(seen)
    assert len(seen.tables.size) == 3
    for row, mechanism in zip(seen.channel[-5:], mechanisms, strict=True):
        assert row[1] == -1 and row[0] == row[2]
        rays, few = rays_of(mechanism), few_rays(mechanism, 7, 0.1)
        size, number = rays.weight.size, row[0]
        assert seen.tables.outputs[number] == size
        np.testing.assert_array_equal(seen.tables.theta[number, :size], rays.theta)
        np.testing.assert_array_equal(seen.tables.weight[number, :size], rays.weight)
        assert not seen.tables.weight[number, size:].any()
        np.testing.assert_array_equal(seen.tables.few_theta[number, 2, : few.theta.size], few.theta)
        assert seen.tables.left_out[number] == rays.left_out
    forgotten = followed([gaussian(3.0)] + [RAW] * (HISTORY + 5))
    assert forgotten.tables.theta.shape == (1, 2)


@pytest.mark.parametrize("field", ["outputs", "few_outputs"])
def test_a_snapshot_whose_outputs_do_not_fit_is_not_whole(field: str) -> None:
    seen = followed([gaussian(1.0)])
    changed = getattr(seen.tables, field) + 100
    assert not is_whole(seen._replace(tables=seen.tables._replace(**{field: changed})))
