"""A whole population at once: the numbers of one by one, whatever the threads, and sound under stress."""

from __future__ import annotations

import numba
import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.audit.audit import audit_person
from accounting.bounds import Effort, deciding_bound
from accounting.bounds.patterns import FRONTIER
from accounting.bounds.patterns.frontier_kernel import frontier_effort, raw_frontier
from accounting.bounds.patterns.raw_success_kernel import unobserved
from accounting.bounds.population_bounds import certify_population
from accounting.exposure import Exposure
from models.priors import MovementPrior, Population, Triplets
from models.releases import Schedule, StepSchedule
from tests.accounting.exposures import RAW, gaussian, step_of

LOCATIONS = [f"l{i}" for i in range(40)]


def town(people: int, seed: int = 1) -> Population:
    """People with 1 to 12 places of 40, some with a cycle of three slots, some with a start of their own."""
    rng = np.random.default_rng(seed)
    priors = []
    for person in range(people):
        size = int(rng.integers(1, 13))
        slots = 3 if person % 3 == 0 else 1
        matrices = rng.dirichlet(np.full(size, 0.4), size=(slots, size)) + 0.3 * np.eye(size)
        matrices = np.where(matrices < 0.02, 0.0, matrices)
        matrices /= matrices.sum(axis=2, keepdims=True)
        initial = rng.dirichlet(np.ones(size)) if person % 5 == 0 else None
        places = np.sort(rng.permutation(40)[:size])
        priors.append(MovementPrior.from_dense(f"p{person}", matrices, places, initial))
    return Population.pack(priors, LOCATIONS)


def raw_schedule(steps: int, sensors: int, seed: int = 2) -> Schedule:
    """Raw sensors at random places."""
    rng = np.random.default_rng(seed)
    chosen = [rng.permutation(40)[:sensors].tolist() for _ in range(steps)]
    releases = [step_of(where, [RAW] * sensors).releases for where in chosen]
    return Schedule(tuple(StepSchedule(t, each) for t, each in enumerate(releases)), first_slot=1)


@pytest.mark.slow
@pytest.mark.parametrize("mistakes", [0, 2])
def test_everybody_at_once_equals_one_by_one(mistakes: int) -> None:
    population, schedule = town(40), raw_schedule(6, 6)
    together = certify_population(population, schedule, mistakes, order=2)
    effort = Effort(order=2, patterns=0, vectors=64)  # its searches may be off by less than 1e-6
    for person in range(len(population)):
        audit = audit_person(population, person, schedule, mistakes, effort=effort)
        assert abs(audit.baseline - together.baseline[person]) < 1e-12
        assert audit.information.exact is not None
        assert abs(audit.information.exact - together.information_nats[person]) < 1e-11
        # The paper's loose bound is not part of the quick path; Koga's q may beat the two others at s > 0.
        assert audit.certified <= together.certified[person] + 1e-6
        by = deciding_bound(int(together.by[person]), mistakes)
        if by == FRONTIER.name:  # an audit lowers its completions, everybody at once does without
            start = population.initial(person)
            chain = Exposure.of(population.chain(person), schedule, len(LOCATIONS), start)
            effort_of_all = frontier_effort(4)
            frontier = raw_frontier(
                chain.person, chain.hits, chain.marginal, mistakes, unobserved(chain.start), effort_of_all
            )
            moment = audit.bounds.model_dump()["moment"] or 1.0
            assert abs(min(frontier, moment) - together.certified[person]) < 1e-9
        elif by == audit.certified_by:
            assert abs(audit.certified - together.certified[person]) < 1e-6
    assert np.all(together.added >= 0.0)


def test_threads_do_not_change_a_bit() -> None:
    population, schedule = town(60), raw_schedule(7, 5)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        one_thread = certify_population(population, schedule, 2)
    finally:
        numba.set_num_threads(threads)
    all_threads = certify_population(population, schedule, 2)
    assert np.array_equal(one_thread.certified, all_threads.certified)
    assert np.array_equal(one_thread.information_nats, all_threads.information_nats)


@pytest.mark.parametrize("threshold", [0.05, 0.3, 0.9])
def test_cascade_decides_as_the_dear_bound_does(threshold: float) -> None:
    """Fast bound first, refined one only where it matters: everybody lands on the same side."""
    population, schedule = town(150), raw_schedule(6, 4)
    refined = certify_population(population, schedule, 2)
    cascade = certify_population(population, schedule, 2, threshold=threshold)
    assert np.array_equal(refined.certified > threshold, cascade.certified > threshold)
    assert np.all(cascade.certified >= refined.certified)


def test_progress_reaches_everybody() -> None:
    done: list[int] = []
    audits = list(audit_population(town(5), raw_schedule(3, 2), 1, progress=done.append))
    assert [audit.person for audit in audits] == [f"p{i}" for i in range(5)]
    assert done == [1, 2, 3, 4, 5]


def near_deterministic(places: int) -> MovementPrior:
    """A ring that is left with probability 1e-300."""
    matrix = np.roll(np.eye(places), 1, axis=1)
    matrix[0, 0] = 1e-300
    return MovementPrior.from_dense("ring", matrix, initial=np.eye(places)[0])


@pytest.mark.parametrize("steps", [30, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("mistakes", [0, 7])
def test_many_steps_give_probabilities_above_the_baseline(mistakes: int, steps: int) -> None:
    rng = np.random.default_rng(6)
    walker = MovementPrior.from_dense("walker", rng.dirichlet(np.full(6, 0.2), size=6) + 1e-300)
    population = Population.pack([walker, near_deterministic(6)], LOCATIONS)
    schedule = raw_schedule(steps, 2)
    effort = Effort(order=1, patterns=64, vectors=4)
    for person in range(2):
        audit = audit_person(population, person, schedule, mistakes, effort=effort)
        shown = [value for value in audit.bounds.model_dump().values() if value is not None]
        assert all(np.isfinite(value) and 0.0 <= value <= 1.0 for value in shown)
        assert audit.baseline <= audit.certified <= 1.0
        assert np.isfinite(audit.entropy)
    assert audit.baseline == 1.0  # the ring is known beforehand


@pytest.mark.slow
def test_five_thousand_sparse_places_are_bounded() -> None:
    """Someone who may be at any of 5 000 places, three exits each."""
    places = 5000
    rng = np.random.default_rng(7)
    row = np.repeat(np.arange(places), 3)
    column = (row + np.tile([1, 17, 1901], places)) % places
    exits = rng.dirichlet(np.ones(3), size=places).ravel()
    prior = MovementPrior.from_triplets("nomad", np.arange(places), Triplets(row, column, exits))
    population = Population.pack([prior])
    sensors = rng.permutation(places)[:20].tolist()
    schedule = Schedule(tuple(StepSchedule(t, step_of(sensors, [RAW] * 20).releases) for t in range(8)))
    audit = audit_person(population, 0, schedule, 3, effort=Effort(order=1, patterns=64))
    assert audit.baseline <= audit.certified < 0.2
    assert audit.prior_guess.koga is None


@pytest.mark.slow
@pytest.mark.indices
def test_noised_population_audit_stays_between_baseline_and_raw() -> None:
    population, raw = town(12), raw_schedule(5, 3)
    noise = [gaussian(1.0)] * 3
    quietly = [step_of([r.sensor.locations[0] for r in step.releases], noise) for step in raw.steps]
    noised = Schedule(tuple(StepSchedule(t, step.releases) for t, step in enumerate(quietly)), first_slot=1)
    limits = Effort(order=2, patterns=1024)
    for quiet, loud in zip(
        audit_population(population, noised, 1, effort=limits),
        audit_population(population, raw, 1, effort=limits),
        strict=True,
    ):
        assert quiet.baseline - 1e-12 <= quiet.certified <= loud.certified + 1e-9
