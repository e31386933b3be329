"""The bound at levels: through noise where counts are erased, and as if they were exact in the rest of cases.

With ``f(b)`` the bound through noise at level ``b``, one of ``b_1 > .. > b_k``:
``(1 - b_1) f(b_1) + (b_1 - b_2) f(b_2) + .. + b_k f(1)``, from the widest level, the last one, on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import HISTORY, Accounts, HorizonRules
from accounting.continuous.refine_kernel import RawHorizon, exact_success, noised_success, raw_horizon
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from models.numerics.jit import jit, pjit

_ROUNDING = 1e-12


class Levels(NamedTuple):
    """The same steps as their counts are erased at each level, in falling order of probability."""

    probability: tuple[float, ...]
    seen: tuple[SeenSteps, ...]


class LevelHorizon(NamedTuple):
    """One person's horizon; its history begins with ``row`` of what was seen at the levels."""

    raw: RawHorizon
    row: int
    least: float  # no bound on its success is below that


@jit
def level_horizon(
    accounts: Accounts, person: int, first: int, levels: Levels, row: int, least: float
) -> LevelHorizon:
    """The horizon of the steps ``first..``."""
    rows = slice(row, row + HISTORY + accounts.horizon.steps)
    return LevelHorizon(raw_horizon(accounts, person, first, levels.seen[0].labels[rows]), row, least)


@jit
def success_at_level(horizon: HorizonRules, person: LevelHorizon, levels: Levels, k: int) -> float:
    """The bound through noise, with the counts erased at level ``k``."""
    rows = slice(person.row, person.row + HISTORY + horizon.steps)
    whole = levels.seen[k]
    seen = SeenSteps(whole.labels[rows], whole.channel[rows], whole.tables)
    return max(noised_success(person.raw, seen, horizon), person.least)


@jit
def success_by_levels(
    horizon: HorizonRules, person: LevelHorizon, levels: Levels, everything: float, known: float
) -> float:
    """The bound on the person's horizon; ``everything`` is the bound if all counts were exact.

    1 where the first level is not below ``known``, a bound that holds already: counts reveal least at the
    first level, so the whole bound is not below ``known`` either.
    """
    lowest = success_at_level(horizon, person, levels, 0)
    highest, smaller, total = everything, 0.0, 0.0
    for k in range(len(levels.probability) - 1, -1, -1):
        total += (levels.probability[k] - smaller) * highest
        smaller = levels.probability[k]
        if total + (1.0 - smaller) * min(lowest, highest) >= known:
            return 1.0
        # Who sees less than at this level does no better.
        highest = min(highest, lowest if k == 0 else success_at_level(horizon, person, levels, k))
    total += (1.0 - smaller) * highest
    return total * (1.0 + _ROUNDING)


@jit
def is_within_by_levels(horizon: HorizonRules, person: LevelHorizon, levels: Levels, limit: float) -> bool:
    """Whether :func:`success_by_levels`, or the exact bound, is at most ``limit``, by few levels.

    The bound falls from level to level, so the search ends once it is within the limit. It also ends if the
    first level, at which counts reveal least, is above the limit.
    """
    if max(exact_success(person.raw, horizon), person.least) <= limit:
        return True
    lowest = success_at_level(horizon, person, levels, 0)
    highest, smaller, total = 1.0, 0.0, 0.0
    for k in range(len(levels.probability) - 1, -1, -1):
        total += (levels.probability[k] - smaller) * highest
        smaller = levels.probability[k]
        if (total + (1.0 - smaller) * lowest) * (1.0 + _ROUNDING) > limit:
            return False
        highest = min(highest, lowest if k == 0 else success_at_level(horizon, person, levels, k))
        if (total + (1.0 - smaller) * highest) * (1.0 + _ROUNDING) <= limit:
            return True
    return False


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
    """Lowers ``success`` (n,), the bounds known of the horizon that ends with ``step_number``.

    ``everything`` (n,) as above.
    """
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        least = accounts.state.baseline[people[k]]
        person = level_horizon(accounts, people[k], first, levels, 0, least)
        found = success_by_levels(accounts.horizon, person, levels, everything[k], success[k])
        success[k] = min(success[k], found)


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
