"""People whom the cheap bound puts over a limit, looked at with the dear bounds before the step is accounted.

The dear bounds do not fall in silence as the information does: a horizon may lose its least certain step. So
each horizon from now on is looked at, as if silence followed, with the very bound that the accountant will
compute then.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.horizon_kernel import MEMORY, UNITS_PER_NAT, Constants, HorizonState
from accounting.continuous.refine_kernel import horizon_hits, with_history
from accounting.decisions.what_if.headroom_kernel import Future, load_past, remember_ahead
from accounting.decisions.what_if.limits_kernel import UNLIMITED, Caps
from accounting.hmm.propagation import marginals
from models.numerics.jit import jit, pjit
from models.priors.chain import PopulationArrays, chain_view


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
    unconditioned: int,
    mistakes: int,
    order: int,
    sharpened_from: float,
    person: int,
) -> int:
    """The largest ``c`` of the next step, of terms ``c`` and ``u``, with all horizons to come in limits.

    ``labels`` (2 T + C, M): the horizon, the next step as number ``T``, silence. Of interest is a ``c`` of
    ``conditional`` or more: -1 if that is too much. Horizons that start after the next step differ by their
    slot and by what is remembered, which never rises in silence: one cycle of them is enough.
    """
    horizon = state.conditional.shape[0]
    slots = int(population.slots[person])
    first = next_step - horizon + 1
    now = MEMORY + horizon - 1
    positions = now + slots + 2
    future = Future(np.empty(positions), np.empty(positions), np.empty(positions), np.empty(positions))
    load_past(state, future, first, now, person)
    running, known, room = state.running[person], state.information[person], UNLIMITED
    for k in range(horizon + slots):
        position = MEMORY + k
        phase = constants.phase_start[person] + (first_slot + first + k) % slots
        entropy = float(constants.entropy_units[phase])
        remember_ahead(future, constants, phase, position, now, entropy, float(unconditioned))
        kept, cap = future.remembered[position], caps.information[phase]
        if k < horizon - 1:
            running -= state.conditional[(first + k) % horizon, person]
            known = min(known, int(min(kept + future.told[position], entropy)) + running)
            if known + conditional <= cap:
                room = min(room, cap - known)
                continue
        else:
            kept = min(future.line[position] + future.slope[position] * unconditioned, entropy)
            told = unconditioned if position == now else 0
            if min(kept + told, entropy) <= cap:
                continue
        if caps.risk[phase] < sharpened_from:
            return -1
        window = labels[k : k + horizon]
        if not is_within(
            population,
            constants,
            caps,
            since,
            first_slot,
            first + k,
            window,
            kept,
            mistakes,
            order,
            person,
        ):
            return -1
    return room


@pjit(lambda population, constants, caps, state, since, people, *_: people.size)
def find_dear_rooms(
    begin: int,
    end: int,
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
    unconditioned: NDArray[np.int64],
    mistakes: int,
    order: int,
    sharpened_from: float,
    rooms: NDArray[np.int64],
) -> None:
    """:func:`room_by_dear_bounds` of each of these people; fills ``rooms`` (n,)."""
    for k in range(begin, end):
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
            unconditioned[k],
            mistakes,
            order,
            sharpened_from,
            people[k],
        )
