"""What does not change with the releases, for a whole population: one row a person and slot of its cycle."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import (
    HISTORY,
    Accounts,
    Constants,
    HorizonRules,
    account_slot,
    to_units,
)
from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.exposure.step_information.contraction_kernel import GAPS, gap_contractions
from accounting.exposure.step_information.renewal_kernel import surprise
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import inline, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view
from models.priors.stationary_kernel import push_forward


@inline
def fill_phase(
    constants: Constants,
    row: int,
    chain: ChainView,
    start: NDArray[np.float64],
    slot: int,
    horizon: HorizonRules,
) -> None:
    """``q``, baseline and ``H(X_w)`` of a horizon that starts in ``slot`` with the law ``start``."""
    person = LocalChain(chain, start, slot)
    known = prior_constants(person, horizon.steps, horizon.mistakes, False)
    guess = known.guess
    constants.guess[row] = min(1.0, guess.koga, guess.subsets, guess.markov, guess.frontier)
    constants.baseline[row] = known.baseline.success
    entropy = 0.0
    for x in range(start.size):
        entropy += surprise(start[x])
    constants.entropy_units[row] = to_units(entropy)


@pjit(lambda accounts, people, *_: people.size)
def fill_constants(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    is_stationary: bool,
) -> None:
    """Constants of these people: all rows for (cyclo-)stationary starts; else that of one horizon.

    The one is the horizon that ends with ``step_number``, of people with an initial distribution: it starts
    with the law in ``accounts.nonstationary.first``.
    """
    population, constants = accounts.population, accounts.constants
    for k in range(begin, end):
        person = people[k]
        chain = chain_view(population, person)
        row = constants.phase_start[person]
        if is_stationary:
            slot, last = 0, int(population.slots[person])
            constants.contraction[row : row + last] = gap_contractions(chain)
        else:
            first_step = max(step_number - accounts.horizon.steps + 1, accounts.since[person])
            slot = account_slot(accounts, person, first_step)
            last = slot + 1
        for phase in range(slot, last):
            start = chain.start[phase]
            if not is_stationary:
                own = population.initial_start[person]
                start = accounts.nonstationary.first[own : own + start.size]
            fill_phase(constants, row + phase, chain, start, phase, accounts.horizon)


def empty_constants(population: PopulationArrays) -> Constants:
    """Arrays of the right sizes, not yet filled."""
    phase_start = np.concatenate(([0], np.cumsum(population.slots, dtype=np.int64)))
    phases = int(phase_start[-1])
    return Constants(
        phase_start=phase_start,
        guess=np.ones(phases),
        baseline=np.zeros(phases),
        entropy_units=np.zeros(phases, dtype=np.int64),
        contraction=np.ones((phases, len(GAPS))),
    )


# People whose chain starts from an initial distribution: their marginals move on step by step.


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
