"""Accounts before the first step: everybody's constants, and what a guess from the prior alone achieves."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import bound_for
from accounting.continuous.accounts_kernel import HISTORY, Accounts, HorizonRules, Nonstationary, empty_state
from accounting.continuous.constants_kernel import empty_constants, fill_constants
from accounting.continuous.people import Groups
from accounting.continuous.saved_state import RunningAccount
from accounting.exposure.step_information import nothing_seen, nothing_seen_for
from accounting.settings import HorizonSettings
from models.priors import Population


def open_accounts(
    population: Population, settings: HorizonSettings, since: NDArray[np.int64], groups: Groups
) -> RunningAccount:
    """Accounts before ``settings.first_step`` of these priors, one each, which count from ``since`` (A,) on.

    ``groups`` say who has the same figures, which are still to be filled in.
    """
    arrays, draws, locations = population.accounted.arrays, population.draws, population.location_count
    horizon = HorizonRules(
        settings.horizon,
        settings.mistakes,
        settings.vectors,
        bound_for(settings.within_nats, float(settings.refined_from)),
        settings.first_slot,
    )
    accounts = Accounts(
        arrays,
        empty_constants(arrays),
        Nonstationary(*(arrays.initial.copy() for _ in Nonstationary._fields)),
        empty_state(since.size * draws, horizon.steps),
        np.repeat(since, draws),
        horizon,
    )
    fill_constants(accounts, np.arange(since.size * draws), settings.first_step, True)
    nonstationary = np.flatnonzero(np.diff(arrays.initial_start))
    if nonstationary.size:
        fill_constants(accounts, nonstationary, settings.first_step, False)
    seen = nothing_seen_for(HISTORY + horizon.steps, locations)
    return RunningAccount(accounts, settings.first_step, nothing_seen(locations), seen, groups)


def show_prior(accounts: Accounts, first_step: int) -> None:
    """Before the first step nobody does better than the bound on a guess from the prior."""
    population, constants, state = accounts.population, accounts.constants, accounts.state
    slot = accounts.horizon.first_slot
    starts_itself = np.diff(population.initial_start) > 0
    start = np.where(starts_itself, slot + accounts.since, slot + first_step - accounts.horizon.steps)
    phase = constants.phase_start[:-1] + start % population.slots
    state.baseline[:] = constants.baseline[phase]
    state.bound[:] = constants.guess[phase]
    state.risk[:] = np.maximum(state.bound, state.baseline)
