"""What single moves reveal about everybody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.noise.noise_information import InformationTable, table_information
from models.numerics.jit import pjit
from models.priors.chain import PopulationArrays, chain_view


class MovesInto(NamedTuple):
    """Moves into a step, from one set of places to another each, and what a noised count of them reveals."""

    before: NDArray[np.bool_]  # (R, M)
    after: NDArray[np.bool_]  # (R, M)
    slot_before: int  # of the step before, not yet within anybody's cycle
    table: InformationTable


@pjit(lambda population, *_: population.slots.size, least=256)
def add_move_information(
    begin: int,
    end: int,
    population: PopulationArrays,
    own_before: NDArray[np.float64],
    moves: MovesInto,
    nats: NDArray[np.float64],
) -> None:
    """Add to ``nats`` (N,) the information of "makes one of the moves" and its noised count.

    ``own_before`` has the law of the place in the step before of those who start from a distribution of their
    own, packed like the population's.
    """
    for person in range(begin, end):
        chain = chain_view(population, person)
        slot = moves.slot_before % chain.start.shape[0]
        law = chain.start[slot]
        first, last = population.initial_start[person], population.initial_start[person + 1]
        if first < last:
            law = own_before[first:last]
        probability = 0.0
        for pair in range(moves.after.shape[0]):
            for y in range(chain.places.size):
                if moves.after[pair, chain.places[y]]:
                    for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                        x = chain.row[j]
                        if moves.before[pair, chain.places[x]]:
                            probability += law[x] * chain.value[j]
        nats[person] += table_information(moves.table, min(probability, 1.0))
