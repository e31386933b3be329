"""The bound at levels: through noise where counts are erased, and as if they were exact in the rest of cases.

With ``f(b)`` the bound through noise at level ``b``, one of ``b_1 > .. > b_k``:
``(1 - b_1) f(b_1) + (b_1 - b_2) f(b_2) + .. + b_k f(1)``, from the widest level, the last one, on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import HISTORY, Accounts
from accounting.continuous.refine_kernel import exact_success, noised_success, raw_horizon
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from models.numerics.jit import jit, pjit

_ROUNDING = 1e-12


class Levels(NamedTuple):
    """The same steps as their counts are erased at each level, in falling order of probability."""

    probability: tuple[float, ...]
    seen: tuple[SeenSteps, ...]


@jit
def success_by_levels(
    accounts: Accounts, person: int, first: int, levels: Levels, row: int, everything: float, least: float
) -> float:
    """The bound on the horizon of the steps ``first..``, never below ``least``.

    Its history begins with ``row`` of the levels; ``everything`` is a bound if all counts were exact.
    """
    rows = slice(row, row + HISTORY + accounts.horizon.steps)
    raw = raw_horizon(accounts, person, first, levels.seen[0].labels[rows])
    highest, smaller, total = everything, 0.0, 0.0
    for k in range(len(levels.probability) - 1, -1, -1):
        total += (levels.probability[k] - smaller) * highest
        smaller = levels.probability[k]
        whole = levels.seen[k]
        seen = SeenSteps(whole.labels[rows], whole.channel[rows], whole.tables)
        # Who sees less than at this level does no better.
        highest = min(highest, max(noised_success(raw, seen, accounts.horizon), least))
    total += (1.0 - smaller) * highest
    return total * (1.0 + _ROUNDING)


@pjit(lambda accounts, people, *_: people.size)
def find_success_by_levels(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    levels: Levels,
    everything: NDArray[np.float64],
    success: NDArray[np.float64],
) -> None:
    """Fills ``success`` (n,) of the horizon that ends with ``step_number``; ``everything`` (n,) as above."""
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        least = accounts.state.baseline[people[k]]
        success[k] = success_by_levels(accounts, people[k], first, levels, 0, everything[k], least)


@pjit(lambda accounts, people, *_: people.size)
def find_exact_success(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    labels: NDArray[np.int32],
    success: NDArray[np.float64],
) -> None:
    """Fills ``success`` (n,), as if every count were exact; ``labels`` as for ``raw_horizon``."""
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        raw = raw_horizon(accounts, people[k], first, labels)
        success[k] = exact_success(raw, accounts.horizon)
