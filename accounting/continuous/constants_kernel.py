"""What does not change with the releases, for a whole population: one row a person and slot of its cycle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.erasure_kernel import raw_success
from accounting.continuous.horizon_kernel import Constants, to_units
from accounting.exposure.prior_constants_kernel import GuessBounds, prior_constants
from accounting.exposure.step_information.contraction_kernel import GAPS, gap_contractions
from accounting.exposure.step_information.renewal_kernel import surprise
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view

_ORDER = 3  # of the moment bound; higher orders hardly lower it when nothing is released
_MOST_MOVES = 1 << 22  # entries of its table of moves
_LEAST_GUESS = 1e-300  # ln q stays finite


@jit
def smallest_guess(bounds: GuessBounds) -> float:
    """``q``: the least of the bounds on a guess from the prior alone, at most 1."""
    return min(1.0, bounds.koga, bounds.subsets, bounds.markov)


@jit
def moment_guess(
    chain: ChainView, start: NDArray[np.float64], slot: int, horizon: int, mistakes: int
) -> float:
    """The moment bound with nothing released, another bound on ``q``; 1 where it would be too dear."""
    if (horizon * start.size) ** 2 > _MOST_MOVES:
        return 1.0
    nothing = np.zeros((horizon, start.size), np.bool_)
    order = min(_ORDER, horizon - mistakes)
    return raw_success(chain, start, slot, nothing, mistakes, order, 0.0)


@jit
def fill_phase(
    constants: Constants,
    row: int,
    chain: ChainView,
    slot: int,
    start: NDArray[np.float64],
    horizon: int,
    mistakes: int,
) -> None:
    """``q``, baseline and ``H(X_w)`` of a horizon that starts in ``slot`` with the law ``start``."""
    known = prior_constants(chain, start, slot, horizon, mistakes, False)
    moment = moment_guess(chain, start, slot, horizon, mistakes)
    constants.guess[row] = min(smallest_guess(known.guess), max(moment, known.baseline.success, _LEAST_GUESS))
    constants.baseline[row] = known.baseline.success
    entropy = 0.0
    for x in range(start.size):
        entropy += surprise(start[x])
    constants.entropy_units[row] = to_units(entropy)


@pjit(lambda first, last, *_: last - first)
def fill_constants(
    begin: int,
    end: int,
    first: int,
    last: int,
    population: PopulationArrays,
    constants: Constants,
    horizon: int,
    mistakes: int,
) -> None:
    """All rows of the people ``first..last - 1``, (cyclo-)stationary starts."""
    for person in range(first + begin, first + end):
        chain = chain_view(population, person)
        row = constants.phase_start[person]
        constants.contraction[row : constants.phase_start[person + 1]] = gap_contractions(chain)
        for slot in range(np.int64(population.slots[person])):  # one integer type, one compilation
            fill_phase(constants, row + slot, chain, slot, chain.start[slot], horizon, mistakes)


def empty_constants(population: PopulationArrays) -> Constants:
    """Arrays of the right sizes, not yet filled."""
    phase_start = np.concatenate(([0], np.cumsum(population.slots, dtype=np.int64)))
    phases = int(phase_start[-1])
    return Constants(
        phase_start=phase_start,
        guess=np.ones(phases),
        baseline=np.zeros(phases),
        entropy_units=np.zeros(phases, dtype=np.int64),
        contraction=np.ones((phases, len(GAPS))),
    )
