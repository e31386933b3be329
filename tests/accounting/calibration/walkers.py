"""People on tiny chains, and traces walked by these chains or by others."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.audit.calibration import RecordedPeople
from models.priors import MovementPrior, Population

Floats = NDArray[np.float64]


def random_people(random: np.random.Generator, count: int, slots: int = 1) -> list[Floats]:
    """Chains of two to four places, each ``(slots, places, places)``."""
    return [
        random.dirichlet(np.full(places, 1.0), size=(slots, places))
        for places in random.integers(2, 5, size=count)
    ]


def population(people: list[Floats]) -> Population:
    """The chains as priors, all on the same four locations."""
    priors = [MovementPrior.from_dense(f"p{number}", chain) for number, chain in enumerate(people)]
    return Population.pack(priors, ["a", "b", "c", "d"])


def sharpened(people: list[Floats], power: float) -> list[Floats]:
    """Rows to a power: above 1 people are easier to guess, below harder."""
    raised = [chain**power for chain in people]
    return [chain / chain.sum(axis=2, keepdims=True) for chain in raised]


def walked(random: np.random.Generator, chains: list[Floats], steps: int) -> RecordedPeople:
    """A trace of each chain from its long-run law in slot 0."""
    laws = population(chains)
    places = np.empty((len(chains), steps), dtype=np.int32)
    for person, chain in enumerate(chains):
        place = random.choice(chain.shape[1], p=laws.chain(person).start[0])
        for step in range(steps):
            places[person, step] = place
            place = random.choice(chain.shape[1], p=chain[step % chain.shape[0], place])
    return RecordedPeople(np.arange(len(chains)), places, 0)
