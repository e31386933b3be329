"""Random steps, populations and shares for tests of accountants and decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from accounting.continuous import PeopleShares
from models.mechanisms import Gaussian, Mechanism, Raw, Suppressed
from models.priors import Evidence, Lists, MovementPrior, Population, with_draws
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import Case
from tests.accounting.decisions import deciding

MECHANISMS: tuple[Mechanism, ...] = (Raw(), Raw(), Gaussian(0.3), Gaussian(0.6), Gaussian(1.0), Suppressed())


LOCATIONS, SHARES = 8, 6


def releases(*pairs: tuple[tuple[int, ...], Mechanism]) -> tuple[SensorRelease, ...]:
    return tuple(SensorRelease(Sensor(f"s{k}", at), how) for k, (at, how) in enumerate(pairs))


def raw_step(step: int, *locations: int) -> StepSchedule:
    return StepSchedule(step, releases(*(((location,), Raw()) for location in locations)))


def random_step(rng: np.random.Generator, step: int, places: int, mechanisms=MECHANISMS) -> StepSchedule:
    """Up to two sensors, also of several locations and overlapping."""
    pairs = []
    for _ in range(rng.integers(0, 3)):
        size = rng.integers(1, places + 1) if rng.random() < 0.3 else 1
        at = tuple(sorted(rng.permutation(places)[:size].tolist()))
        pairs.append((at, mechanisms[rng.integers(len(mechanisms))]))
    return StepSchedule(step, releases(*pairs))


def channel(places: int, step: StepSchedule) -> np.ndarray:
    """``Pr[what is shown | place]`` of one step, (K, outcomes); tails below 1e-13 are left out."""
    shown = np.ones((places, 1))
    for release in step.releases:
        law = release.mechanism.noise_law()
        if law is None:
            continue
        kept = law.probabilities[law.probabilities > 1e-13]
        one = np.zeros((places, kept.size + 1))
        for x in range(places):
            shift = int(x in release.sensor.locations)
            one[x, shift : shift + kept.size] = kept / kept.sum()
        shown = (shown[:, :, None] * one[:, None, :]).reshape(places, -1)
        shown = shown[:, shown.any(axis=0)]
    return shown


def with_few_data(people: Population, weight: float, draws: int = 5) -> Population:
    """The people with several chains each, because each row rests on few moves, ``weight``."""
    rows = [people.chain(person).start.size for person in range(len(people))]
    start = np.concatenate(([0], np.cumsum(rows)))
    evidence = Evidence(people.people, Lists(start, np.full(start[-1], weight)))
    return with_draws(people, evidence, draws)


def kinds_of(rng: np.random.Generator, count: int, draws: int) -> Population:
    """People with different priors; with ``draws`` chains each if that is more than one."""
    kinds = deciding.people(rng, count, LOCATIONS, own_starts=0.3, cycles=(1, 2))
    return kinds if draws == 1 else with_few_data(kinds, 8.0, draws)


def some_of(rng: np.random.Generator, kinds: Population, count: int, name: str) -> Population:
    """People each of whom has the prior of one of the kinds."""
    chosen = rng.integers(0, len(kinds), count)
    return kinds.subset(chosen).renamed([f"{name}{k}" for k in range(count)])


def shares_of(names: Sequence[str]) -> PeopleShares:
    """Shares and ranks that follow from the names alone."""
    number = np.array([sum(map(ord, name)) * 31 + len(name) for name in names], dtype=np.int64)
    rank = np.array([int.from_bytes(name.encode()[::-1], "big") for name in names], dtype=np.int64)
    return PeopleShares(SHARES, number % SHARES, rank)


def listed(some: Population) -> Population:
    """The people behind the personas, each under a separate name."""
    which = np.repeat(np.arange(len(some)), some.stands_for)
    names = [f"{some.people[kind]}, person {k}" for k, kind in enumerate(which.tolist())]
    return replace(some, weights=None).subset(which).renamed(names)


def population_of(case: Case, own_start: bool) -> Population:
    prior = MovementPrior.from_dense("p", case.matrices, initial=case.start if own_start else None)
    return Population.pack([prior], [str(place) for place in range(case.matrices.shape[1])])


def start_of(population: Population, first_slot: int) -> np.ndarray:
    own = population.initial(0)
    chain = population.chain(0)
    return chain.start[first_slot % chain.start.shape[0]] if own is None else own
