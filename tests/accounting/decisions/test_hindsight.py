"""A limit in hindsight holds against everything released since, by enumeration of every trajectory."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import UNITS_PER_NAT
from accounting.exposure import Exposure, horizon_information
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, StepSchedule
from tests.accounting.decisions import deciding
from tests.accounting.enumeration import all_paths, joint_law, window_law, within
from tests.accounting.random_runs import channel
from tests.volume import some

STEPS, HORIZON = 4, 2
RELEASED = (Raw(), Gaussian(0.7))


def one_person(rng: np.random.Generator) -> tuple[Population, np.ndarray]:
    """A chain of two or three places that forgets fast; the matrix is (1, K, K)."""
    size = int(rng.integers(2, 4))
    matrices = rng.dirichlet(np.full(size, 8.0), size=(1, size))
    prior = MovementPrior.from_dense("p", matrices)
    return Population.pack([prior], [str(k) for k in range(size)]), matrices


def random_step(rng: np.random.Generator, places: int) -> list[Sensor]:
    """One sensor, or none."""
    return [Sensor("s", (int(rng.integers(places)),))] if rng.random() < 0.8 else []


def optimum(law: np.ndarray, traces: np.ndarray, mistakes: int) -> float:
    """Success of the best adversary; ``law`` (traces, outcomes) is joint with everything seen."""
    return float((within(traces, traces, mistakes) @ law).max(0).sum())


def hindsight_optima(
    population: Population, matrices: np.ndarray, released: list[StepSchedule], mistakes: int
) -> list[float]:
    """The optimum of each horizon given all releases, earlier and later."""
    start = population.chain(0).start[0]
    everything = all_paths(start, matrices, len(released), 0)
    joint = joint_law(everything, [channel(matrices.shape[1], step) for step in released])
    found = []
    for first in range(len(released) - HORIZON + 1):
        traces, law = window_law(everything, joint, (first, first + HORIZON - 1))
        found.append(optimum(law, traces, mistakes))
    return found


def check(seed: int) -> tuple[int, int]:
    """One random run under a limit in hindsight; how many counts were released, and raw."""
    rng = np.random.default_rng(seed)
    population, matrices = one_person(rng)
    mistakes = int(rng.integers(0, 2))
    accountant = ContinuousAccountant(population, HorizonSettings(HORIZON, mistakes, sharpen=False))
    guess = float(accountant.view().accounts.constants.guess[0])
    limit = RiskBudget(0.0, risk=guess + (1 - guess) * float(rng.uniform(0.5, 0.999)), in_hindsight=True)
    steps = [random_step(rng, matrices.shape[1]) for _ in range(STEPS)]
    decisions = [done.decision for done in deciding.run(accountant, limit, steps, released=RELEASED)]
    released = [decision.schedule for decision in decisions]
    assert limit.risk is not None
    for best in hindsight_optima(population, matrices, released, mistakes):
        assert best <= limit.risk + 1e-10
    mechanisms = [release.mechanism for step in released for release in step.releases]
    return sum(how.is_released for how in mechanisms), sum(how.is_exact for how in mechanisms)


@pytest.mark.slow
@pytest.mark.indices
def test_no_adversary_beats_a_limit_in_hindsight():
    counts = np.sum([check(seed) for seed in range(60)], axis=0)
    assert counts[0] > 30
    assert counts[1] > 3


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_a_limit_in_hindsight_in_many_runs():
    runs = some(1000)
    assert np.sum([check(1000 + run) for run in runs], axis=0)[0] > len(runs) / 2


@pytest.mark.slow
@pytest.mark.indices
def test_what_later_releases_tell_stays_within_the_reserve():
    """The exact information in hindsight of raw logs is never above the cap without the reserve."""
    rng = np.random.default_rng(11)
    checked = raw = 0
    for _ in range(40):
        population, matrices = one_person(rng)
        horizon = HorizonSettings(HORIZON, 0, sharpen=False)
        accountant = ContinuousAccountant(population, horizon)
        guess = float(accountant.view().accounts.constants.guess[0])
        limit = guess + (1 - guess) * float(rng.uniform(0.9, 0.9999))
        cap = deciding.information_cap_nats(limit, guess)
        steps = [random_step(rng, matrices.shape[1]) for _ in range(9)]
        run = deciding.run(
            accountant, RiskBudget(0.0, risk=limit, in_hindsight=True), steps, released=(Raw(),)
        )
        released = tuple(done.decision.schedule for done in run)
        exposure = Exposure.of(population.chain(0), Schedule(released), population.location_count)
        for first in range(len(steps) - HORIZON + 1):
            found = horizon_information(exposure, first, first + HORIZON - 1)
            assert found.in_hindsight <= cap + 4 / UNITS_PER_NAT
            checked += found.later > 0
        raw += sum(r.mechanism.is_exact for step in released for r in step.releases)
    assert checked > 50
    assert raw > 50
