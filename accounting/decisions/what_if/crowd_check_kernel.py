"""People whom the fast bound in the crowd puts over a limit, looked at with the bound at levels in advance.

Each horizon from now on is looked at, as if silence followed, with the very bound that the crowd's account
will compute then (:mod:`accounting.continuous.crowd.levels_kernel`).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import Accounts
from accounting.continuous.crowd.levels_kernel import Levels, is_within_by_levels, level_horizon
from accounting.decisions.what_if.candidate_kernel import Terms
from accounting.decisions.what_if.limits_kernel import Limits
from accounting.decisions.what_if.refined_check_kernel import phase_of, unclear_horizons
from models.numerics.jit import inline, pjit


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
