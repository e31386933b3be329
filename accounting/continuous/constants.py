"""A population's constants for one horizon and number of mistakes, computed once and kept with the priors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from accounting.continuous.constants_kernel import empty_constants, fill_constants
from accounting.continuous.horizon_kernel import Constants
from models.priors import PopulationArrays

_PEOPLE_PER_CALL = 4096


def population_constants(
    population: PopulationArrays,
    horizon: int,
    mistakes: int,
    progress: Callable[[int], None] | None = None,
) -> Constants:
    """Guess probability, baseline, entropy and contraction of everybody, per slot the horizon may start in.

    For (cyclo-)stationary starts; ``progress`` is told how many people are done.
    """
    constants = empty_constants(population)
    people = population.slots.size
    for first in range(0, people, _PEOPLE_PER_CALL):
        last = min(people, first + _PEOPLE_PER_CALL)
        fill_constants(first, last, population, constants, horizon, mistakes)
        if progress is not None:
            progress(last)
    return constants


def median_guess(constants: Constants) -> float:
    """How often habits alone tell half of the people or more: each one's guess, mean over the cycle."""
    first, last = constants.phase_start[:-1], constants.phase_start[1:]
    if first.size == 0:
        return 0.0
    return float(np.median(np.add.reduceat(constants.baseline, first) / (last - first)))
