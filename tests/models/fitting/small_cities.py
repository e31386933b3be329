"""Small cities of random personas, and the law of a day by enumeration of every path."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
from numpy.typing import NDArray

from models.fitting.calibration import Flows
from models.priors import MovementPrior, Population


def random_personas(seed: int, people: int = 3, places: int = 3, slots: int = 3) -> Population:
    """Personas who may go anywhere, each with a weight."""
    random = np.random.default_rng(seed)
    priors = [
        MovementPrior.from_dense(f"persona-{i}", random.dirichlet(np.full(places, 0.7), size=(slots, places)))
        for i in range(people)
    ]
    names = tuple(f"zone {z}" for z in range(places))
    weights = random.uniform(50.0, 500.0, people)
    return replace(Population.pack(priors, names), weights=weights)


def table(flows: NDArray[np.float64], *, stays: bool = True) -> Flows:
    """A table (C, M, M) as a list; without those who stay where this is asked for."""
    listed = flows > 0.0
    if not stays:
        listed &= ~np.eye(flows.shape[1], dtype=np.bool_)
    slot, origin, destination = np.nonzero(listed)
    return Flows(slot, origin, destination, flows[listed])


def paths(places: int, slots: int) -> NDArray[np.int64]:
    """Every path through the slots 0..C of a day, (places^(C+1), C+1)."""
    return np.array(list(product(range(places), repeat=slots + 1)))


def path_law(population: Population, person: int, slots: int) -> NDArray[np.float64]:
    """The probability of every path of a day, from where the persona is in the long run."""
    prior, every = population.prior(person), paths(population.location_count, slots)
    law = population.chain(person).start[0][every[:, 0]]
    for slot in range(slots):
        law = law * prior.transitions[slot].toarray()[every[:, slot], every[:, slot + 1]]
    return law
