"""People whom the fast bound puts over a limit, looked at with the refined bounds in advance.

The refined bounds do not fall in silence as the information does: a horizon may lose its least certain step.
So each horizon from now on is looked at, as if silence followed, with the very bound that the accountant will
compute then.

Horizon T = 2, limit 100 units or a risk of 0.2; the step would say ``c = u = 50``; a cycle of one slot:
    {last, next}:        70 known in silence and 50 more: refined, risk 0.15 with both steps raw: within
    {next, next + 1}:    it carries 30, and with 50 makes 80: the fast bound clears it
    {next + 1, ..}:      it carries at most 40: cleared, and so are all that follow
The headroom is unlimited, as no horizon was cleared by its ``c``. Had {last, next} been refined to 0.25, it
would be -1: over the limit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import HISTORY, MEMORY, UNITS_PER_NAT, Accounts
from accounting.continuous.crowd.levels_kernel import Levels, is_within_by_levels, level_horizon
from accounting.continuous.refine_kernel import refined_bounds
from accounting.decisions.what_if.headroom_kernel import look_ahead, look_back, new_outlook
from accounting.decisions.what_if.limits_kernel import UNLIMITED, Limits, Terms
from models.numerics.jit import inline, pjit


class Unclear(NamedTuple):
    """Horizons that the fast bound does not clear: how many steps ahead they begin, and what they carry."""

    ahead: NDArray[np.int64]  # (n,)
    carried: NDArray[np.float64]  # (n,) units
    headroom: int  # the largest ``c`` of the next step that keeps the others within their limits


@inline
def unclear_horizons(accounts: Accounts, limits: Limits, next_step: int, terms: Terms, k: int) -> Unclear:
    """The horizons to come that the fast bound does not clear of person ``k`` of ``terms``.

    The step says ``c`` and ``u`` of the person, and silence follows. Once all of the history that is followed
    is silence, horizons differ by their slot and by what they carry, which never rises in silence: one cycle
    of them is enough.
    """
    person, conditional, unconditioned = terms.people[k], terms.conditional[k], terms.unconditioned[k]
    state, constants, horizon = accounts.state, accounts.constants, accounts.horizon.steps
    slots = int(accounts.population.slots[person])
    first = next_step - horizon + 1
    outlook = new_outlook(horizon, HISTORY + slots + 1)
    look_back(state, outlook, next_step, person)
    running, known, headroom = state.running[person], state.information[person], UNLIMITED
    ahead_of = np.empty(horizon + HISTORY + slots, np.int64)
    carried_by = np.empty(ahead_of.size)
    count = 0
    for ahead in range(ahead_of.size):
        position = MEMORY + ahead
        phase = constants.phase_start[person] + (accounts.horizon.first_slot + first + ahead) % slots
        entropy = float(constants.entropy_units[phase])
        look_ahead(outlook, constants, phase, position, entropy, float(unconditioned))
        carried, limit = outlook.carried[position], limits.information[phase]
        if ahead < horizon - 1:
            running -= state.conditional[(first + ahead) % horizon, person]
            known = min(known, int(min(carried + outlook.unconditioned[position], entropy)) + running)
            if known + conditional <= limit:
                headroom = min(headroom, limit - known)
                continue
        else:
            carried = min(outlook.line[position] + outlook.slope[position] * unconditioned, entropy)
            revealed = unconditioned if position == outlook.now else 0
            if min(carried + revealed, entropy) <= limit:
                continue
        ahead_of[count], carried_by[count] = ahead, carried
        count += 1
    return Unclear(ahead_of[:count], carried_by[:count], headroom)


@inline
def phase_of(accounts: Accounts, person: int, step: int) -> int:
    """Where a person's constants of the horizon that begins with a step stand."""
    slots = int(accounts.population.slots[person])
    return int(accounts.constants.phase_start[person] + (accounts.horizon.first_slot + step) % slots)


@inline
def refined_headroom(
    accounts: Accounts,
    limits: Limits,
    next_step: int,
    labels: NDArray[np.int32],
    terms: Terms,
    k: int,
) -> int:
    """The largest ``c`` of the next step that keeps all horizons to come within limits.

    The step says ``c`` and ``u`` of person ``k`` of ``terms`` at least: -1 if that is too much. ``labels``
    (2 HISTORY + 2 T + C, M): the steps of the last horizon and before it but for the earliest, the next step,
    silence.
    """
    person, horizon = terms.people[k], accounts.horizon.steps
    first = next_step - horizon + 1
    unclear = unclear_horizons(accounts, limits, next_step, terms, k)
    for j in range(unclear.ahead.size):
        ahead = unclear.ahead[j]
        limit = limits.risk[phase_of(accounts, person, first + ahead)]
        if limit < accounts.horizon.refined_from:
            return -1
        window = labels[ahead : ahead + HISTORY + horizon]
        refined = refined_bounds(accounts, person, first + ahead, window, unclear.carried[j] / UNITS_PER_NAT)
        if min(refined.success, refined.divergence) > limit:
            return -1
    return unclear.headroom


@pjit(lambda accounts, limits, terms, *_: terms.people.size)
def find_refined_headroom(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    terms: Terms,
    next_step: int,
    labels: NDArray[np.int32],
    headroom: NDArray[np.int64],
) -> None:
    """:func:`refined_headroom` of each of the people of ``terms``; fills ``headroom`` (n,)."""
    for k in range(begin, end):
        headroom[k] = refined_headroom(accounts, limits, next_step, labels, terms, k)


# People whom the fast bound in the crowd puts over a limit, looked at with the bound at levels in advance.
#
# Each horizon from now on is looked at, as if silence followed, with the very bound that the crowd's
# account will compute then (:mod:`accounting.continuous.crowd.levels_kernel`).


@inline
def is_within(
    accounts: Accounts, limits: Limits, next_step: int, levels: Levels, terms: Terms, k: int
) -> bool:
    """Whether all horizons to come keep the limits of person ``k`` of ``terms``.

    ``levels`` are of the steps of the last horizon and before it but for the earliest, of the next step and
    of silence.
    """
    person, first = terms.people[k], next_step - accounts.horizon.steps + 1
    unclear = unclear_horizons(accounts, limits, next_step, terms, k)
    for j in range(unclear.ahead.size):
        ahead = unclear.ahead[j]
        begin, phase = first + ahead, phase_of(accounts, person, first + ahead)
        limit = limits.risk[phase]
        if limit < accounts.horizon.refined_from:
            return False
        least = accounts.constants.baseline[phase]
        horizon = level_horizon(accounts, person, begin, levels, ahead, least)
        if not is_within_by_levels(accounts.horizon, horizon, levels, limit):
            return False
    return True


@pjit(lambda accounts, limits, terms, *_: terms.people.size)
def find_within(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    terms: Terms,
    next_step: int,
    levels: Levels,
    found: NDArray[np.bool_],
) -> None:
    """:func:`is_within` of each of the people of ``terms``; fills ``found`` (n,)."""
    for k in range(begin, end):
        found[k] = is_within(accounts, limits, next_step, levels, terms, k)
