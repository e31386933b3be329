"""The bound through noise of many people's horizons, for counts that are erased or not."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import Accounts
from accounting.continuous.refine_kernel import noised_success, raw_horizon
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from models.numerics.jit import pjit


@pjit(lambda accounts, people, *_: people.size)
def find_erased_success(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    seen: SeenSteps,
    success: NDArray[np.float64],
) -> None:
    """Fills ``success`` (n,) of the horizon that ends with ``step_number``; 1 where nothing is erased."""
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        raw = raw_horizon(accounts, people[k], first, seen.labels)
        success[k] = noised_success(raw, seen, accounts.horizon)
