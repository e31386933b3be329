"""Audits of people with many places, steps and mistakes: sound under stress."""

from __future__ import annotations

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.audit.audit import audit_person
from accounting.bounds import Effort
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
