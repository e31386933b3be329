"""Claim: a full audit of one person takes milliseconds.

Every bound, one person after the other on one thread, without attacks. The moment bound to order 1, 2 and 4.
``python -m benchmarks.bounds``
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.audit import audit_exposure
from accounting.bounds import Effort
from accounting.exposure import Exposure
from benchmarks.forward_viterbi import LOCATIONS, STEPS, random_population
from benchmarks.harness import Contestant, measure, rate, show
from models.priors import Population
from models.releases import Schedule

MISTAKES, PEOPLE = 5, 50


def exposures(population: Population) -> list[Exposure]:
    """Everybody under a schedule of their own: one raw sensor a step at a place of theirs."""
    rng = np.random.default_rng(0)
    found = []
    for person in range(len(population)):
        chain = population.chain(person)
        schedule = Schedule.raw([[place] for place in rng.choice(chain.places, STEPS).tolist()])
        found.append(Exposure.of(chain, schedule, LOCATIONS, population.initial(person)))
    return found


def audit_all(population: Population, order: int) -> Callable[[], None]:
    people = exposures(population)

    def run() -> None:
        for exposure in people:
            audit_exposure(exposure, MISTAKES, effort=Effort(order=order, patterns=0))

    return run


def main() -> None:
    """Print the table of full audits."""
    chains = {"full, 100 places": (100, 100), "sparse, 10 places, 3 exits": (10, 3)}
    found = measure(
        {
            f"{name}, order {order}": Contestant(
                audit_all(random_population(PEOPLE, *size), order), float(PEOPLE)
            )
            for name, size in chains.items()
            for order in (1, 2, 4)
        }
    )
    note = f"T = {STEPS}, s = {MISTAKES}, a raw sensor a step, no patterns enumerated, one thread"
    show(
        "Audit of a person",
        ["own matrix", "people/s"],
        [[name, rate(value)] for name, value in found.items()],
        note,
    )


if __name__ == "__main__":
    main()
