"""People whose chain starts from an initial distribution: their marginals move on step by step."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import HISTORY, Accounts, account_slot
from models.numerics.jit import pjit
from models.priors.chain import chain_view
from models.priors.stationary_kernel import push_forward


@pjit(lambda accounts, people, *_: people.size, least=64)
def advance_marginals(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    is_changed: NDArray[np.bool_],
) -> None:
    """Move the marginals of these people on to ``step_number``.

    ``is_changed`` (n,) says whose constants have to be computed again: the law at the horizon's first step
    is another one, or lies in another slot. Until the horizon has moved past the person's own first step it
    starts there.

    Two places, swapped half of the time, start (1, 0) in step 0, horizon T = 2:
        step 0: now (1, 0),     first (1, 0)      the horizon is step 0
        step 1: now (1/2, 1/2), first (1, 0)      steps 0 and 1: the law of its first step stays
        step 2: now (1/2, 1/2), first (1/2, 1/2)  steps 1 and 2: changed
        step 3: now (1/2, 1/2), first (1/2, 1/2)  steps 2 and 3: the same law, not changed
    """
    marginals = accounts.nonstationary
    for k in range(begin, end):
        person, since = people[k], accounts.since[people[k]]
        own = slice(accounts.population.initial_start[person], accounts.population.initial_start[person + 1])
        before, now, first = marginals.before[own], marginals.now[own], marginals.first[own]
        earliest = marginals.earliest[own]
        chain = chain_view(accounts.population, person)
        if step_number > since:
            before[:] = now
            slot = account_slot(accounts, person, step_number - 1)
            push_forward(before, chain.column_start[slot], chain.row, chain.value, now)
        first_step = step_number - accounts.horizon.steps + 1
        if first_step - HISTORY > since:
            moved = np.empty(first.size)
            slot = account_slot(accounts, person, first_step - HISTORY - 1)
            push_forward(earliest, chain.column_start[slot], chain.row, chain.value, moved)
            earliest[:] = moved
        is_changed[k] = False
        if first_step > since:
            moved = np.empty(first.size)
            slot = account_slot(accounts, person, first_step - 1)
            push_forward(first, chain.column_start[slot], chain.row, chain.value, moved)
            is_changed[k] = accounts.population.slots[person] > 1
            for x in range(moved.size):
                is_changed[k] |= moved[x] != first[x]
                first[x] = moved[x]
