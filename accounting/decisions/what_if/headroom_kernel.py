"""What the next step may still tell of each person before a limit is broken, now or in the silence after it.

If nothing were released after the next step, the horizon would slide on and what was told would fade. A step
is admissible for a person when every horizon from now on keeps its cap then. So silence is always admissible
afterwards, and a budget that was kept can be kept for ever.

With the step's terms ``u`` and ``c`` (:mod:`accounting.exposure.step_information.step_terms_kernel`) a
horizon that starts before the step gives away ``c`` more than in silence. One that starts with it or later
gives away a concave function of ``u``, the least of many lines, each of which bounds it from above:

    c <= min_k [cap_k - quiet_k],      u <= min_k [(cap_k - line_k(0)) / slope_k].

The caps repeat with the person's cycle and no bound rises in silence, so one cycle beyond the horizon is all
that has to be looked at.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.horizon_kernel import MEMORY, UNITS_PER_NAT, Constants, HorizonState
from accounting.decisions.what_if.limits_kernel import UNLIMITED, Caps
from accounting.exposure.step_information.contraction_kernel import GAPS
from models.numerics.jit import jit, pjit
from models.priors.chain import PopulationArrays

_SLACK_UNITS = 16.0  # rounding of one remembered amount, with room to spare


class Rooms(NamedTuple):
    """What the next step may tell of each person, units; -1 where it may tell nothing."""

    conditional: NDArray[np.int64]  # (N,) limit of ``c``
    unconditioned: NDArray[np.int64]  # (N,) limit of ``u``
    is_quiet_over: NDArray[np.bool_]  # (N,) a limit is broken although nothing more is released


class Future(NamedTuple):
    """Working memory of one thread; position ``j`` is step ``first - MEMORY + j`` of the next horizon."""

    told: NDArray[np.float64]  # unconditioned terms, zero from the next step on
    remembered: NDArray[np.float64]  # J in silence
    line: NDArray[np.float64]  # J is at most line + slope u ..
    slope: NDArray[np.float64]  # .. with the next step's u


@jit
def remember_ahead(
    future: Future, constants: Constants, phase: int, position: int, now: int, entropy: float, likely: float
) -> None:
    """``J`` at a position, as ``horizon_kernel.remember`` has it, and the line above it.

    ``now`` is the next step's position; the line is the least one at ``u = likely``.
    """
    quiet, line, slope = np.inf, np.inf, 0.0
    between, between_slope = 0.0, 0.0
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            eta = constants.contraction[phase, j - 1]
            between += eta * future.told[position - gap]
            between_slope += eta if position - gap == now else 0.0
            gap += 1
        eta = constants.contraction[phase, j]
        back = position - gap
        quiet = min(quiet, eta * (future.remembered[back] + future.told[back]) + between)
        own_line = eta * (future.line[back] + future.told[back]) + between
        own_slope = eta * (future.slope[back] + (1.0 if back == now else 0.0)) + between_slope
        if own_line + own_slope * likely < line + slope * likely:
            line, slope = own_line, own_slope
    before = future.remembered[position - 1] + future.told[position - 1]
    quiet = min(np.ceil(quiet) + 1.0, before) if quiet > 0.0 else 0.0
    future.remembered[position] = min(quiet, entropy)
    future.line[position] = min(line + _SLACK_UNITS, entropy)
    future.slope[position] = slope if line < entropy else 0.0


@jit
def load_past(state: HorizonState, future: Future, first: int, now: int, person: int) -> None:
    """Fill the working memory with what is known before the next step, at position ``now``."""
    horizon = state.conditional.shape[0]
    future.told[now:] = 0.0
    for j in range(now):
        future.told[j] = state.unconditioned[(first - MEMORY + j) % (horizon + MEMORY), person]
    for j in range(MEMORY):
        amount = state.remembered[(first - MEMORY + j) % (MEMORY + 1), person]
        future.remembered[j], future.line[j], future.slope[j] = amount, amount, 0.0


@jit
def room_of_person(
    constants: Constants,
    caps: Caps,
    state: HorizonState,
    rooms: Rooms,
    future: Future,
    slots: int,
    has_own_start: bool,
    first_slot: int,
    next_step: int,
    person: int,
) -> None:
    """Slide one person's horizon through silence, a cycle beyond the next step, and note the tightest cap."""
    horizon = state.conditional.shape[0]
    first = next_step - horizon + 1
    now = MEMORY + horizon - 1
    load_past(state, future, first, now, person)
    running, known = state.running[person], state.information[person]
    conditional, unconditioned, is_over = UNLIMITED, caps.step[person], False
    for k in range(horizon - 1 + slots):
        position = MEMORY + k
        phase = constants.phase_start[person] + (first_slot + first + k) % slots
        # The law of an own start moves on, and its entropy with it.
        entropy = np.inf if has_own_start else float(constants.entropy_units[phase])
        likely = min(UNITS_PER_NAT, max(1.0, float(min(conditional, unconditioned))))
        remember_ahead(future, constants, phase, position, now, entropy, likely)
        if k < horizon - 1:
            running -= state.conditional[(first + k) % horizon, person]
        quiet = min(future.remembered[position] + future.told[position], entropy)
        known = min(known, int(quiet) + (running if k < horizon - 1 else 0))
        cap = caps.information[phase]
        is_over = is_over or known > cap
        if k < horizon - 1:
            conditional = min(conditional, cap - known)
        elif entropy > cap:
            free = float(cap) - future.line[position] - _SLACK_UNITS
            slope = future.slope[position] + (1.0 if position == now else 0.0)
            unconditioned = min(unconditioned, largest_term(free, slope))
    rooms.conditional[person] = max(conditional, -1)
    rooms.unconditioned[person] = max(unconditioned, -1)
    rooms.is_quiet_over[person] = is_over


@jit
def largest_term(free: float, slope: float) -> int:
    """The largest ``u`` with ``slope u <= free``; -1 if there is none."""
    if free < 0.0:
        return -1
    if slope * float(UNLIMITED) <= free:
        return UNLIMITED
    return int(free / slope * (1.0 - 1e-12))


@pjit(lambda population, *_: population.slots.size, least=256)
def find_rooms(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    caps: Caps,
    state: HorizonState,
    rooms: Rooms,
    first_slot: int,
    next_step: int,
    longest_cycle: int,
) -> None:
    """What the next step may tell of everybody; fills ``rooms``, changes nothing else."""
    positions = MEMORY + state.conditional.shape[0] + longest_cycle
    future = Future(np.empty(positions), np.empty(positions), np.empty(positions), np.empty(positions))
    for person in range(begin, end):
        has_own_start = population.initial_start[person] < population.initial_start[person + 1]
        slots = int(population.slots[person])
        room_of_person(
            constants, caps, state, rooms, future, slots, has_own_start, first_slot, next_step, person
        )
