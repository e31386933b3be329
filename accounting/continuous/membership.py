"""People join and leave: the accountant's arrays put together and taken apart, number by number the same."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import Accounts, Constants
from accounting.continuous.people import AccountPositions, equal_accounts, join_people, take_people
from accounting.continuous.saved_state import RunningAccount
from accounting.numerics import packed_positions
from models.priors import Population, PopulationArrays

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_running(first: RunningAccount, second: RunningAccount, population: Population) -> RunningAccount:
    """Both accounts after the same step, without groups; ``population`` has those of ``first`` first."""
    return first._replace(
        accounts=join_accounts(first.accounts, second.accounts, population.accounted.arrays)
    )


def take_running(
    running: RunningAccount, accounts: AccountPositions, population: Population
) -> RunningAccount:
    """These accounts, by position, without groups; ``population`` has their priors."""
    chains = population.chains_of(accounts)
    return running._replace(accounts=take_accounts(running.accounts, chains, population.accounted.arrays))


def same_accounts(first: RunningAccount, second: RunningAccount, population: Population) -> AccountPositions:
    """For each account of ``second`` the equal one of ``first``, -1 where there is none, (A,).

    ``population`` are the accounts of ``first``, then those of ``second``. Equal are priors, starts, first
    steps and the whole state after the steps so far.
    """
    count, draws = first.accounts.since.size // population.draws, population.draws
    since = np.concatenate((first.accounts.since, second.accounts.since))[::draws]
    first_like = equal_accounts(population, since)[count:]  # of accounts here, one chain or more each
    found = AccountPositions(np.where(first_like < count, first_like, -1))
    chosen = np.flatnonzero(found >= 0)
    if not chosen.size:
        return found
    here, there = population.chains_of(found[chosen]), population.chains_of(chosen)
    is_same = np.ones(here.size, dtype=np.bool_)
    states: zip[tuple[NDArray[Any], NDArray[Any]]] = zip(
        first.accounts.state, second.accounts.state, strict=True
    )
    for own, other in states:
        is_same &= (own[..., here] == other[..., there]).reshape(-1, here.size).all(axis=0)
    found[chosen[~is_same.reshape(-1, draws).all(axis=1)]] = -1
    return found


def join_accounts(first: Accounts, second: Accounts, population: PopulationArrays) -> Accounts:
    """The accounts of both, those of the first before those of the second; ``population`` is everybody."""
    return Accounts(
        population,
        join_constants(first.constants, second.constants),
        join_people(first.nonstationary, second.nonstationary),
        join_people(first.state, second.state),
        np.concatenate((first.since, second.since)),
        first.horizon,
    )


def take_accounts(accounts: Accounts, people: NDArray[np.int64], population: PopulationArrays) -> Accounts:
    """The accounts of these people, by position; ``population`` has their priors."""
    return Accounts(
        population,
        take_constants(accounts.constants, people),
        take_packed(accounts.nonstationary, accounts.population.initial_start, people),
        take_people(accounts.state, people),
        accounts.since[people],
        accounts.horizon,
    )


def take_packed(arrays: Arrays, start: NDArray[np.int64], people: NDArray[np.int64]) -> Arrays:
    """Flat arrays in which person ``i`` owns ``[start[i], start[i + 1])``: the slices of these people."""
    index = packed_positions(start, people)
    return type(arrays)(*(array[index] for array in arrays))


def join_constants(first: Constants, second: Constants) -> Constants:
    """Everybody's constants, those of the first before those of the second."""
    joined = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))
        for name in Constants._fields
        if name != "phase_start"
    }
    start = np.concatenate((first.phase_start, first.phase_start[-1] + second.phase_start[1:]))
    return Constants(phase_start=start, **joined)


def take_constants(constants: Constants, people: NDArray[np.int64]) -> Constants:
    """The constants of these people."""
    index = packed_positions(constants.phase_start, people)
    taken = {name: getattr(constants, name)[index] for name in Constants._fields if name != "phase_start"}
    lengths = np.diff(constants.phase_start)[people]
    start = np.concatenate(([0], np.cumsum(lengths))).astype(constants.phase_start.dtype)
    return Constants(phase_start=start, **taken)
