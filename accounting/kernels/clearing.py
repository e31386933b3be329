"""People whom the cheap bound puts over a limit, looked at with the dear bounds before the step is accounted.

The dear bounds do not fall in silence as the information does: a horizon may lose its least certain step. So
each of the horizons that contain the next step and begin before it is looked at, as if silence followed, with
the very bound that the accountant will compute then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.caps import UNLIMITED, Caps
from accounting.kernels.horizon import MEMORY, UNITS_PER_NAT, Constants, HorizonState
from accounting.kernels.propagation import marginals
from accounting.kernels.rooms import Future, load_past, remember_ahead
from accounting.kernels.sharpen import horizon_hits, with_history
from models.chain import PopulationArrays, chain_view
from models.jit import jit, pjit, prange


@jit
def is_within(
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    since: int,
    first_slot: int,
    first: int,
    labels: NDArray[np.int32],
    remembered: float,
    mistakes: int,
    order: int,
    person: int,
) -> bool:
    """Whether the dear bounds keep the horizon of ``labels`` (T, M) from step ``first`` within the limit."""
    chain = chain_view(population, person)
    slot = (first_slot + first) % int(population.slots[person])
    phase = constants.phase_start[person] + slot
    start = chain.start[slot]
    marginal = marginals(chain, start, slot, labels.shape[0])
    hits = horizon_hits(chain.places, labels, marginal, 0, since - first)
    guess = constants.guess[phase]
    nats = remembered / UNITS_PER_NAT
    dear = with_history(chain, start, slot, hits, marginal, nats, guess, mistakes, order)
    return min(dear.success, dear.divergence) <= caps.risk[phase]


@jit
def room_by_dear_bounds(
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    state: HorizonState,
    since: int,
    first_slot: int,
    next_step: int,
    labels: NDArray[np.int32],
    conditional: int,
    mistakes: int,
    order: int,
    sharpened_from: float,
    person: int,
) -> int:
    """The largest ``c`` of the next step with every horizon that began before it within the limit.

    ``labels`` (2 T - 1, M): the horizon, the next step as last but ``T - 1``, silence. Only a ``c`` of up to
    ``conditional`` is of interest: -1 as soon as that is too much. Rows of silence may be longer than needed.
    """
    horizon = state.conditional.shape[0]
    first = next_step - horizon + 1
    now = MEMORY + horizon - 1
    positions = now + 1
    future = Future(np.empty(positions), np.empty(positions), np.empty(positions), np.empty(positions))
    load_past(state, future, first, now, person)
    running, known, room = state.running[person], state.information[person], UNLIMITED
    for k in range(horizon - 1):
        position = MEMORY + k
        phase = constants.phase_start[person] + (first_slot + first + k) % int(population.slots[person])
        entropy = float(constants.entropy_units[phase])
        remember_ahead(future, constants, phase, position, now, entropy, 1.0)
        running -= state.conditional[(first + k) % horizon, person]
        known = min(known, int(min(future.remembered[position] + future.told[position], entropy)) + running)
        cap = caps.information[phase]
        if known + conditional <= cap:
            room = min(room, cap - known)
        elif caps.risk[phase] < sharpened_from or not is_within(
            population,
            constants,
            caps,
            since,
            first_slot,
            first + k,
            labels[k : k + horizon],
            future.remembered[position],
            mistakes,
            order,
            person,
        ):
            return -1
    return room


@pjit
def find_dear_rooms(
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    state: HorizonState,
    since: NDArray[np.int64],
    people: NDArray[np.int64],
    first_slot: int,
    next_step: int,
    labels: NDArray[np.int32],
    conditional: NDArray[np.int64],
    mistakes: int,
    order: int,
    sharpened_from: float,
    rooms: NDArray[np.int64],
) -> None:
    """:func:`room_by_dear_bounds` of each of these people; fills ``rooms`` (n,)."""
    for k in prange(people.size):
        rooms[k] = room_by_dear_bounds(
            population,
            constants,
            caps,
            state,
            since[people[k]],
            first_slot,
            next_step,
            labels,
            conditional[k],
            mistakes,
            order,
            sharpened_from,
            people[k],
        )
