"""What the next step may still say of each person before a limit is broken, now or in the silence after it.

If nothing were released after the next step, the horizon would slide on and what was revealed would fade. A
step is admissible for a person when every horizon from now on keeps its limit then. So silence is always
admissible afterwards, and a budget that was kept can be kept for ever.

With the step's terms ``u`` and ``c`` (:mod:`accounting.exposure.step_information.step_terms_kernel`) a
horizon that starts before the step gives away ``c`` more than in silence. One that starts with it or later
gives away a concave function of ``u``, the least of many lines, each of which bounds it from above:

    c <= min_k [limit_k - quiet_k],      u <= min_k [(limit_k - line_k(0)) / slope_k].

The limits repeat with the person's cycle and no bound rises in silence, so one cycle beyond the horizon is
all that has to be looked at.

Horizon T = 2, limit 100 units everywhere, nothing revealed yet but 60 in the last step, eta_1 = 1/2:
    horizon {last, next}:      60 in silence, so c <= 100 - 60 = 40
    horizon {next, next + 1}:  it carries J = 60 / 2 = 30 and adds u in full, so u <= (100 - 30) / 1 = 70
    horizon {next + 1, ..}:    at most J = (30 + u) / 2: looser, and a cycle of one slot ends before it
    the headroom is c <= 40 and u <= 70
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import (
    MEMORY,
    UNITS_PER_NAT,
    Accounts,
    Constants,
    HorizonState,
    has_initial_distribution,
)
from accounting.decisions.what_if.limits_kernel import UNLIMITED, Limits
from accounting.exposure.step_information.contraction_kernel import GAPS
from models.numerics.jit import bare_jit, inline, jit, pjit
from models.priors.chain import PopulationArrays

_SLACK_UNITS = 16.0  # rounding of one carried amount, and more


class Headroom(NamedTuple):
    """What the next step may say of each person, units; -1 where it may say nothing."""

    conditional: NDArray[np.int64]  # (N,) limit of ``c``
    unconditioned: NDArray[np.int64]  # (N,) limit of ``u``
    is_quiet_over: NDArray[np.bool_]  # (N,) a limit is broken although nothing more is released


class Outlook(NamedTuple):
    """One person's coming horizons; position ``j`` is step ``first - MEMORY + j`` of the next horizon."""

    unconditioned: NDArray[np.float64]  # terms, zero from the next step on
    carried: NDArray[np.float64]  # J in silence
    line: NDArray[np.float64]  # J is at most line + slope u ..
    slope: NDArray[np.float64]  # .. with the next step's u
    now: int  # position of the next step


@jit
def new_outlook(horizon: int, cycle: int) -> Outlook:
    """Working memory of one thread, for people whose cycles are no longer than ``cycle``."""
    size = MEMORY + horizon + cycle
    return Outlook(np.empty(size), np.empty(size), np.empty(size), np.empty(size), MEMORY + horizon - 1)


@bare_jit
def look_back(state: HorizonState, outlook: Outlook, next_step: int, person: int) -> None:
    """Fill in what is known before the next step."""
    horizon = state.conditional.shape[0]
    first = next_step - horizon + 1
    outlook.unconditioned[outlook.now :] = 0.0
    for j in range(outlook.now):
        outlook.unconditioned[j] = state.unconditioned[(first - MEMORY + j) % (horizon + MEMORY), person]
    for j in range(MEMORY):
        amount = state.carried[(first - MEMORY + j) % (MEMORY + 1), person]
        outlook.carried[j], outlook.line[j], outlook.slope[j] = amount, amount, 0.0


@bare_jit
def look_ahead(
    outlook: Outlook, constants: Constants, phase: int, position: int, entropy: float, likely: float
) -> None:
    """``J`` at a position, as ``horizon_kernel.carried_units`` has it, and the line above it.

    The line is the least one at ``u = likely``.
    """
    quiet, line, slope = np.inf, np.inf, 0.0
    between, between_slope = 0.0, 0.0
    gap = 1
    for j in range(len(GAPS)):
        while gap < GAPS[j]:
            eta = constants.contraction[phase, j - 1]
            between += eta * outlook.unconditioned[position - gap]
            between_slope += eta if position - gap == outlook.now else 0.0
            gap += 1
        eta = constants.contraction[phase, j]
        back = position - gap
        quiet = min(quiet, eta * (outlook.carried[back] + outlook.unconditioned[back]) + between)
        new_line = eta * (outlook.line[back] + outlook.unconditioned[back]) + between
        new_slope = eta * (outlook.slope[back] + (1.0 if back == outlook.now else 0.0)) + between_slope
        if new_line + new_slope * likely < line + slope * likely:
            line, slope = new_line, new_slope
    before = outlook.carried[position - 1] + outlook.unconditioned[position - 1]
    quiet = min(np.ceil(quiet) + 1.0, before) if quiet > 0.0 else 0.0
    outlook.carried[position] = min(quiet, entropy)
    outlook.line[position] = min(line + _SLACK_UNITS, entropy)
    outlook.slope[position] = slope if line < entropy else 0.0


@inline
def largest_term(free: float, slope: float) -> int:
    """The largest ``u`` with ``slope u <= free``; -1 if there is none."""
    largest = UNLIMITED
    if free < 0.0:
        largest = -1
    elif slope * float(UNLIMITED) > free:
        largest = int(free / slope * (1.0 - 1e-12))
    return largest


@bare_jit
def longest_cycle(population: PopulationArrays, begin: int, end: int) -> int:
    """The most slots that any of the people ``begin..end - 1`` has."""
    longest = 1
    for person in range(begin, end):
        longest = max(longest, int(population.slots[person]))
    return longest


@bare_jit
def _find_some(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    headroom: Headroom,
    next_step: int,
    outlook: Outlook,
) -> None:
    """:func:`find_headroom` of the people ``begin..end - 1``."""
    population, constants, _, state, _, (horizon, _, _, _, first_slot) = accounts
    first = next_step - horizon + 1
    for person in range(begin, end):
        slots = int(population.slots[person])
        starts_itself = has_initial_distribution(population, person)
        look_back(state, outlook, next_step, person)
        running, known = state.running[person], state.information[person]
        conditional, unconditioned, is_over = UNLIMITED, limits.step[person], False
        for k in range(horizon - 1 + slots):
            position = MEMORY + k
            phase = constants.phase_start[person] + (first_slot + first + k) % slots
            # The law of an initial distribution moves on, and its entropy with it.
            entropy = np.inf if starts_itself else float(constants.entropy_units[phase])
            likely = min(UNITS_PER_NAT, max(1.0, float(min(conditional, unconditioned))))
            look_ahead(outlook, constants, phase, position, entropy, likely)
            if k < horizon - 1:
                running -= state.conditional[(first + k) % horizon, person]
            quiet = min(outlook.carried[position] + outlook.unconditioned[position], entropy)
            known = min(known, int(quiet) + (running if k < horizon - 1 else 0))
            limit = limits.information[phase]
            is_over = is_over or known > limit
            if k < horizon - 1:
                conditional = min(conditional, limit - known)
            elif entropy > limit:
                free = float(limit) - outlook.line[position] - _SLACK_UNITS
                slope = outlook.slope[position] + (1.0 if position == outlook.now else 0.0)
                unconditioned = min(unconditioned, largest_term(free, slope))
        headroom.conditional[person] = max(conditional, -1)
        headroom.unconditioned[person] = max(unconditioned, -1)
        headroom.is_quiet_over[person] = is_over


@pjit(lambda accounts, *_: accounts.since.size, least=256)
def find_headroom(
    begin: int, end: int, accounts: Accounts, limits: Limits, headroom: Headroom, next_step: int
) -> None:
    """What the next step may say of everybody; fills ``headroom``, changes nothing else.

    Each one's horizon slides through silence, a cycle beyond the next step; the tightest limit counts.
    """
    outlook = new_outlook(accounts.horizon.steps, longest_cycle(accounts.population, begin, end))
    _find_some(begin, end, accounts, limits, headroom, next_step, outlook)
