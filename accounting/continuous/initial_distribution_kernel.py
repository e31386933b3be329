"""People whose chain starts from a distribution of their own: their marginals are carried step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.constants_kernel import fill_phase
from accounting.continuous.horizon_kernel import Constants, OwnStarts
from models.numerics.jit import jit, pjit
from models.priors.chain import PopulationArrays, chain_view
from models.priors.stationary_kernel import push_forward


@jit
def carry(
    population: PopulationArrays,
    own: OwnStarts,
    person: int,
    since: int,
    first_slot: int,
    horizon: int,
    step_number: int,
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
        push_forward(
            own.before[begin:end], chain.column_start[slot], chain.row, chain.value, own.now[begin:end]
        )
    first = step_number - horizon + 1
    if first <= since:
        return False
    moved = np.empty(end - begin)
    slot = (first_slot + first - 1) % slots
    push_forward(own.first[begin:end], chain.column_start[slot], chain.row, chain.value, moved)
    changed = slots > 1  # the constants of another slot are wanted even for the same marginal
    for x in range(moved.size):
        changed = changed or moved[x] != own.first[begin + x]
        own.first[begin + x] = moved[x]
    return changed


@jit
def refresh(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    person: int,
    since: int,
    first_slot: int,
    horizon: int,
    mistakes: int,
    step_number: int,
) -> None:
    """Recompute one person's constants for the horizon that ends with ``step_number``."""
    begin = population.initial_start[person]
    end = population.initial_start[person + 1]
    slot = (first_slot + max(step_number - horizon + 1, since)) % int(population.slots[person])
    row = constants.phase_start[person] + slot
    chain = chain_view(population, person)
    fill_phase(constants, row, chain, slot, own.first[begin:end], horizon, mistakes)


@pjit(lambda population, constants, own, people, *_: people.size, least=16)
def refresh_all(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    people: NDArray[np.int64],
    since: NDArray[np.int64],
    first_slot: int,
    horizon: int,
    mistakes: int,
    step_number: int,
) -> None:
    """Recompute the constants of these people from the marginals at hand, as after a restart."""
    for k in range(begin, end):
        person = people[k]
        refresh(population, constants, own, person, since[person], first_slot, horizon, mistakes, step_number)


@jit
def carry_and_refresh(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    person: int,
    since: int,
    first_slot: int,
    horizon: int,
    mistakes: int,
    step_number: int,
) -> None:
    """Move one person on; recompute the constants if the law of the horizon's first step changed."""
    if carry(population, own, person, since, first_slot, horizon, step_number):
        refresh(population, constants, own, person, since, first_slot, horizon, mistakes, step_number)


@pjit(lambda population, constants, own, people, *_: people.size, least=64)
def carry_all(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    people: NDArray[np.int64],
    since: NDArray[np.int64],
    first_slot: int,
    horizon: int,
    mistakes: int,
    step_number: int,
) -> None:
    """Move the marginals of these people on to ``step_number``, and the constants that hang on them."""
    for k in range(begin, end):
        person = people[k]
        carry_and_refresh(
            population, constants, own, person, since[person], first_slot, horizon, mistakes, step_number
        )
