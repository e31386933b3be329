"""What a log adds to a population's mean risk: against enumeration, and the same on any number of threads."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from accounting.bounds import Effort, mean_added
from accounting.exceptions import EffortError, HorizonError
from models.priors import MovementPrior, Population
from models.releases import Schedule, StepSchedule
from tests.accounting.bounds.test_bounds_sampled import Exact
from tests.accounting.chains import Case
from tests.accounting.exposures import gaussian, noised_case, step_of

STEPS, PLACES, SIGMA = 4, 3, 0.5
SCHEDULE = Schedule(
    tuple(StepSchedule(t, step_of([t % PLACES], [gaussian(SIGMA)]).releases) for t in range(STEPS)),
    first_slot=1,
)


def people(count: int) -> list[Case]:
    """Chains of one or two slots, some with a start of their own."""
    rng = np.random.default_rng(4)
    labels = np.zeros((STEPS, PLACES), np.int32)
    labels[np.arange(STEPS), np.arange(STEPS) % PLACES] = 1
    cases = []
    for person in range(count):
        matrices = rng.dirichlet(np.full(PLACES, 0.5), size=(1 + person % 2, PLACES))
        cases.append(Case(rng.dirichlet(np.ones(PLACES)), matrices, labels, 1 % len(matrices)))
    return cases


def packed(cases: list[Case]) -> Population:
    """The same people as a population."""
    places = np.arange(PLACES)
    priors = [MovementPrior.from_dense(f"p{i}", c.matrices, places, c.start) for i, c in enumerate(cases)]
    return Population.pack(priors, ["a", "b", "c"])


@pytest.mark.slow
@pytest.mark.parametrize("seen", [3, 4], ids=["at the moment", "in hindsight"])
def test_the_best_adversarys_mean_gain_is_between_the_ends(seen: int) -> None:
    """Every output of every person written down; one in five intervals may miss it, fewer do."""
    cases = people(5)
    window, mistakes = (1, 2), 0
    exact = []
    for case in cases:
        channels = noised_case(case, [SIGMA] * STEPS)[1]
        found = Exact(case, channels[:seen], window, mistakes)
        exact.append((found.optimum - found.prior, found.bound - found.prior))
    gain, bound = np.mean(exact, axis=0)
    log = Schedule(SCHEDULE.steps[:seen], SCHEDULE.first_slot)
    found = [
        mean_added(packed(cases), log, window, mistakes, Effort(draws=600, seed=seed, confidence=0.8))
        for seed in range(60)
    ]
    assert sum(not each.low <= gain <= each.high for each in found) <= 12
    assert all(each.low - 1e-12 <= each.attack <= each.bound <= each.high + 1e-12 for each in found)
    means = np.array([each.bound for each in found])
    assert abs(means.mean() - bound) <= 4 * means.std() / np.sqrt(len(means))
    assert np.mean([each.high - each.low for each in found]) < 0.1


def test_threads_do_not_change_a_bit() -> None:
    population, effort = packed(people(70)), Effort(draws=500, seed=3)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one_thread = mean_added(population, SCHEDULE, (1, 3), 1, effort)
    finally:
        numba.set_num_threads(threads)
    assert mean_added(population, SCHEDULE, (1, 3), 1, effort) == one_thread
    assert mean_added(population, SCHEDULE, (1, 3), 1, Effort(draws=500, seed=4)) != one_thread


def test_what_cannot_be_answered_is_refused() -> None:
    population = packed(people(2))
    with pytest.raises(EffortError, match="must have draws"):
        mean_added(population, SCHEDULE, (1, 3), 1, Effort())
    with pytest.raises(HorizonError, match="mistakes must lie in"):
        mean_added(population, SCHEDULE, (1, 3), 3, Effort(draws=10))
