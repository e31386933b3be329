"""People whose chain starts from a distribution of their own: their marginals are carried step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.horizon import OwnStarts
from models.chain import PopulationArrays, chain_view
from models.jit import jit
from models.stationary_kernels import push_forward


@jit
def carry(
    population: PopulationArrays,
    own: OwnStarts,
    person: int,
    since: int,
    first_slot: int,
    horizon: int,
    step_number: int,
    work: NDArray[np.float64],
) -> bool:
    """Move one person's marginals on to ``step_number``; whether the one at the horizon's start changed.

    Until the horizon has moved past the person's first step ``since`` it starts there.
    """
    begin = population.initial_start[person]
    end = population.initial_start[person + 1]
    chain = chain_view(population, person)
    slots = population.slots[person]
    if step_number > since:
        own.before[begin:end] = own.now[begin:end]
        slot = (first_slot + step_number - 1) % slots
        push_forward(own.before[begin:end], chain.column_start[slot], chain.row, chain.value, own.now[begin:end])
    first = step_number - horizon + 1
    if first <= since:
        return False
    moved = work[: end - begin]
    slot = (first_slot + first - 1) % slots
    push_forward(own.first[begin:end], chain.column_start[slot], chain.row, chain.value, moved)
    changed = slots > 1  # the constants of another slot are wanted even for the same marginal
    for x in range(moved.size):
        changed = changed or moved[x] != own.first[begin + x]
        own.first[begin + x] = moved[x]
    return changed
