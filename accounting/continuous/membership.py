"""People join and leave: the accountant's arrays put together and taken apart, number by number the same."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import Accounts, Constants
from accounting.continuous.saved_state import RunningAccount
from accounting.numerics import packed_positions
from models.priors import Population, PopulationArrays

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_running(first: RunningAccount, second: RunningAccount, population: Population) -> RunningAccount:
    """Both, after the same step; those of the first come before those of the second in ``population``."""
    return first._replace(
        accounts=join_accounts(first.accounts, second.accounts, population.accounted.arrays),
        worst=join_people(first.worst, second.worst),
        reached=np.concatenate((first.reached, second.reached)),
        reached_before=np.concatenate((first.reached_before, second.reached_before)),
        is_unreached=np.concatenate((first.is_unreached, second.is_unreached)),
    )


def take_running(
    running: RunningAccount, people: NDArray[np.int64], population: Population
) -> RunningAccount:
    """That of these people, by position; ``population`` is they."""
    chains = population.chains_of(people)
    return running._replace(
        accounts=take_accounts(running.accounts, chains, population.accounted.arrays),
        worst=take_people(running.worst, people),
        reached=running.reached[people],
        reached_before=running.reached_before[people],
        is_unreached=running.is_unreached[chains],
    )


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
    """The accounts of these people, by position; ``population`` is they."""
    return Accounts(
        population,
        take_constants(accounts.constants, people),
        take_packed(accounts.nonstationary, accounts.population.initial_start, people),
        take_people(accounts.state, people),
        accounts.since[people],
        accounts.horizon,
    )


def join_people(first: Arrays, second: Arrays) -> Arrays:
    """The people of the first, then those of the second; every array has them on its last axis."""
    joined = (np.concatenate(pair, axis=-1) for pair in zip(first, second, strict=True))
    return type(first)(*joined)


def take_people(arrays: Arrays, people: NDArray[np.int64]) -> Arrays:
    """The arrays of these people, by position."""
    return type(arrays)(*(np.ascontiguousarray(array[..., people]) for array in arrays))


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
