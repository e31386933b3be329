"""What the refined bounds take of each person, in operations: some nanoseconds each, by structure alone.

A person's places, moves and hits say it, with ``T``, ``s``, vectors and laws: a rough mean over chains. How
often a place is counted, over all steps that the bounds follow, is the same for everybody, so it is counted
once (:func:`count_hits`) and looked up for each person's places.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.noised_frontier_kernel import SEQUENCES
from accounting.bounds.noised.noised_history_kernel import LEAST_LAWS
from accounting.bounds.patterns.raw_frontier_kernel import EXPANSIONS
from accounting.continuous.accounts_kernel import HISTORY, Accounts, HorizonRules
from accounting.continuous.refine_kernel import MOST_LAWS
from accounting.exposure.step_information.seen_steps_kernel import WHOLE, SeenSteps
from models.numerics.jit import bare_jit, bare_pjit, jit
from models.priors.chain import PopulationArrays

_MOST_OPERATIONS = 1 << 40  # of one person: sums over everybody stay exact

# Fitted to the time of chains of 4 to 20 places, T = 4 to 20, s = 0 to 2: most of them within a factor of 2.
LEAST_OPERATIONS, _PER_HIT, _PER_TARGET, _PER_EXPANSION = 35_000, 4.4, 32.0, 0.14
_PER_PAIR, _PER_MOVE, _PER_SOURCE, _PER_SEARCH = 1.0, 2.8, 120.0, 3.0  # of noised counts


class CountedHits(NamedTuple):
    """How many of a person's places are counted, over all steps."""

    exact: float  # in the horizon, as if every count were exact
    exact_before: float
    noised: float  # of those in the horizon, how many under noise
    noised_before: float


@jit
def count_hits(seen: SeenSteps) -> NDArray[np.float64]:
    """The :class:`CountedHits` of each location, (M, 4): in how many steps it is counted.

    The horizon are the rows of ``seen`` behind the first ``HISTORY``.
    """
    locations = seen.labels.shape[1]
    hits = np.zeros((locations, 4))
    for row in range(seen.labels.shape[0]):
        part = 0 if row >= HISTORY else 1
        for location in range(locations):
            channel = seen.channel[row, location]
            if channel >= 0:
                hits[location, part] += 1.0
                if seen.tables.present[channel, WHOLE, 0] > 0.0:
                    hits[location, part + 2] += 1.0
    return hits


@bare_jit
def _own_hits(population: PopulationArrays, person: int, hits: NDArray[np.float64]) -> CountedHits:
    """Those of all places of a person; whole numbers, so that their sums are exact."""
    exact, exact_before, noised, noised_before = 0.0, 0.0, 0.0, 0.0
    for k in range(population.places_start[person], population.places_start[person + 1]):
        place = population.places[k]
        exact += hits[place, 0]
        exact_before += hits[place, 1]
        noised += hits[place, 2]
        noised_before += hits[place, 3]
    return CountedHits(exact, exact_before, noised, noised_before)


@bare_jit
def _expanded(searched: float, vectors: int, mistakes: int, products: float) -> float:
    """Products of all searches, of which there is an end (``FrontierEffort``)."""
    return min(searched, float(EXPANSIONS * vectors)) * (mistakes + 1.0) * products


@bare_jit
def _noised_operations(
    counted: CountedHits, horizon: HorizonRules, vectors: int, places: float, moves: float
) -> float:
    """What the bound through noise takes: the history's pairs of laws, then all sequences of levels."""
    if counted.noised + counted.noised_before == 0.0:
        return 0.0
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    laws = float(max(vectors, LEAST_LAWS))
    sequences = min(float(SEQUENCES * vectors), 2.0 ** min(counted.noised, 20.0))
    searched = (laws / 2.0 + counted.noised) * sequences * mistakes**2
    total = _PER_PAIR * counted.noised_before * laws**2 * (places + 5.0)
    total += _PER_MOVE * sequences * steps * (moves + places * laws / 4.0)
    total += _PER_SOURCE * sequences * places * counted.noised**2 / steps
    return total + _PER_SEARCH * _expanded(searched, vectors, horizon.mistakes, moves + 2.0 * places)


@bare_jit
def _operations(accounts: Accounts, person: int, vectors: int, hits: NDArray[np.float64]) -> int:
    """What refining takes for one person; ``hits`` (M, 4) as in :func:`count_hits`.

    Between two hits lie ``L`` steps; from each source so many are searched to each target.
    """
    population, horizon = accounts.population, accounts.horizon
    places = float(population.places_start[person + 1] - population.places_start[person])
    steps, mistakes = float(horizon.steps), float(horizon.mistakes)
    entries = population.entry_start[person + 1] - population.entry_start[person]
    moves = entries / population.slots[person]
    counted = _own_hits(population, person, hits)
    total = LEAST_OPERATIONS + _PER_HIT * (counted.exact + counted.exact_before) * steps * moves
    if mistakes > 0.0:
        sources = counted.exact + places + min(counted.exact_before + 1.0, MOST_LAWS)
        length = steps * (places + 1.0) / (counted.exact + places + 1.0)
        searched = sources * min(counted.exact + 1.0, 2.0 * places) * length * mistakes / 4.0
        searched *= min(float(vectors), 5.0**mistakes)
        total += _PER_TARGET * (counted.exact + 1.0) * steps * mistakes * moves
        total += _PER_EXPANSION * _expanded(searched, vectors, horizon.mistakes, moves + 2.0 * places)
    total += _noised_operations(counted, horizon, vectors, places, moves)
    return int(min(total, _MOST_OPERATIONS))


@bare_pjit(lambda accounts, people, *_: people.size, least=4096)
def _fill_operations(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    vectors: int,
    hits: NDArray[np.float64],
    operations: NDArray[np.int64],
) -> None:
    """What each of these people takes; fills ``operations`` (n,)."""
    for k in range(begin, end):
        operations[k] = _operations(accounts, people[k], vectors, hits)


def find_operations(
    accounts: Accounts, people: NDArray[np.int64], vectors: int, seen: SeenSteps
) -> NDArray[np.int64]:
    """What refining the horizon at the end of ``seen`` takes for each of these people, (n,)."""
    operations = np.empty(people.size, dtype=np.int64)
    _fill_operations(accounts, people, vectors, count_hits(seen), operations)
    return operations
