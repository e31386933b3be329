"""Forward + max-product for whole populations: many people, each with a matrix that fits the cache.

Several steps per visit where the observations are known (:func:`decode_people`), one visit per step where
they arrive one by one (:func:`filter_people`). People are independent and each is computed by one thread in
one order, so the bits do not depend on the number of threads.

Results are written by plain functions called from the parallel loops: numba 0.68 drops a write to an array
that a parallel loop reaches through a named tuple.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.forward_viterbi import (
    POSSIBLE,
    SAFE_PRODUCT,
    Filtered,
    Recursion,
    condition,
    filter_steps,
    is_full,
    new_recursion,
    predict_full,
    predict_sparse,
    smallest_entry,
    trace_back,
)
from accounting.kernels.log_space import log_filter_steps, log_trace_back
from models.chain import ChainView, PopulationArrays, chain_view
from models.jit import jit, pjit, prange

PEOPLE_PER_BLOCK = 64
"""People a thread visits with one set of scratch arrays."""


class DecodedArrays(NamedTuple):
    """What decoding found, filled by the kernels; natural logarithms.

    ``status`` is POSSIBLE or the first impossible step; ``path`` holds indices of the person's own places.
    """

    status: NDArray[np.int32]  # (N,)
    log_likelihood: NDArray[np.float64]  # (N,)
    log_path: NDArray[np.float64]  # (N,)
    path: NDArray[np.int32]  # (N, T)


class FilterArrays(NamedTuple):
    """State of one-visit-per-step filtering; person ``i`` owns ``[places_start[i], places_start[i + 1])``."""

    belief: NDArray[np.float64]  # (sum of K,)
    score: NDArray[np.float64]  # (sum of K,)
    log_likelihood: NDArray[np.float64]  # (N,)
    log_path: NDArray[np.float64]  # (N,)
    status: NDArray[np.int32]  # (N,) POSSIBLE or the first impossible step
    is_exact: NDArray[np.bool_]  # (N,) False once underflow may have hidden a path: decode anew


@jit
def start_of(population: PopulationArrays, person: int, first_slot: int) -> NDArray[np.float64]:
    """The person's own start, or the (cyclo-)stationary distribution of the first slot; (K,)."""
    first, last = population.initial_start[person], population.initial_start[person + 1]
    if last > first:
        return population.initial[first:last]
    places = population.places_start[person + 1] - population.places_start[person]
    offset = population.distribution_start[person] + (first_slot % population.slots[person]) * places
    return population.distribution[offset : offset + places]


@jit
def largest_place_count(population: PopulationArrays) -> int:
    """The number of places of the person who has most."""
    most = 1
    for person in range(population.slots.size):
        most = max(most, population.places_start[person + 1] - population.places_start[person])
    return most


@pjit
def smallest_entries(population: PopulationArrays) -> NDArray[np.float64]:
    """The smallest positive probability in each person's matrices, (N,); computed once per population."""
    people = population.slots.size
    smallest = np.empty(people)
    for person in prange(people):
        entries = population.value[population.entry_start[person] : population.entry_start[person + 1]]
        smallest[person] = smallest_entry(entries)
    return smallest


@jit
def decode_trace(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    smallest: float,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    work: Recursion,
    path: NDArray[np.int32],
) -> Filtered:
    """Filter and decode one observed trace, in logarithms where scaled arithmetic may have lost a path.

    Arguments as in ``filter_steps``; ``path`` (T,) is left alone when an observation is impossible.
    """
    found = filter_steps(chain, start, first_slot, smallest, labels, likelihood, work)
    if found.is_exact:
        if found.status == POSSIBLE:
            trace_back(chain, first_slot, work.scores, path)
        return found
    found = log_filter_steps(chain, start, first_slot, labels, likelihood, work)
    if found.status == POSSIBLE:
        log_trace_back(chain, first_slot, work.scores, path)
    return found


@jit
def _decode_person(
    population: PopulationArrays,
    person: int,
    smallest: float,
    first_slot: int,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    work: Recursion,
    decoded: DecodedArrays,
) -> None:
    """Decode one person's trace into their row of ``decoded``; scratch as wide as the most places."""
    chain = chain_view(population, person)
    found = decode_trace(
        chain,
        start_of(population, person, first_slot),
        first_slot,
        smallest,
        labels,
        likelihood,
        work,
        decoded.path[person],
    )
    decoded.status[person] = found.status
    decoded.log_likelihood[person] = found.log_likelihood
    decoded.log_path[person] = found.log_path


@pjit
def decode_people(
    population: PopulationArrays,
    smallest: NDArray[np.float64],
    first_slot: int,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    decoded: DecodedArrays,
) -> None:
    """Every person's whole trace in one visit to their matrix.

    ``labels`` (T, M): the outcome of each location; ``likelihood`` (N, T, O): of each outcome, per person.
    """
    people = population.slots.size
    most = largest_place_count(population)
    for block in prange((people + PEOPLE_PER_BLOCK - 1) // PEOPLE_PER_BLOCK):
        work = new_recursion(labels.shape[0], most)
        for i in range(block * PEOPLE_PER_BLOCK, min(people, (block + 1) * PEOPLE_PER_BLOCK)):
            _decode_person(population, i, smallest[i], first_slot, labels, likelihood[i], work, decoded)


@jit
def _begin_person(population: PopulationArrays, person: int, first_slot: int, state: FilterArrays) -> None:
    own = slice(population.places_start[person], population.places_start[person + 1])
    state.belief[own] = start_of(population, person, first_slot)
    state.score[own] = state.belief[own]
    state.log_likelihood[person] = 0.0
    state.log_path[person] = 0.0
    state.status[person] = POSSIBLE
    state.is_exact[person] = True


@pjit
def begin_filter(population: PopulationArrays, first_slot: int, state: FilterArrays) -> None:
    """Set belief and score to everybody's start, before the first observation."""
    for person in prange(population.slots.size):
        _begin_person(population, person, first_slot, state)


@jit
def _filter_person(
    population: PopulationArrays,
    person: int,
    smallest: float,
    step: int,
    first_slot: int,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    work: Recursion,
    state: FilterArrays,
) -> None:
    """One person's update by one step; ``labels`` (1, M), ``likelihood`` (1, O), ``work`` is scratch."""
    chain = chain_view(population, person)
    first = population.places_start[person]
    for x in range(chain.places.size):
        work.belief[x] = work.next_belief[x] = state.belief[first + x]
        work.scores[0, x] = work.next_score[x] = state.score[first + x]
    if step > 0:
        slot = (first_slot + step - 1) % chain.start.shape[0]
        if is_full(chain):
            predict_full(chain, slot, work, 0)
        else:
            predict_sparse(chain, slot, work, 0)
    scale = condition(chain.places, labels, likelihood, 0, work)
    state.is_exact[person] &= scale.lowest * smallest >= SAFE_PRODUCT
    if scale.total == 0.0:
        state.status[person] = step
        return
    for x in range(chain.places.size):
        state.belief[first + x] = work.belief[x]
        state.score[first + x] = work.scores[0, x]
    state.log_likelihood[person] += np.log(scale.total)
    state.log_path[person] += np.log(scale.best)


@pjit
def filter_people(
    population: PopulationArrays,
    smallest: NDArray[np.float64],
    step: int,
    first_slot: int,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    state: FilterArrays,
) -> None:
    """One step for everybody whose trace is still possible.

    ``step`` counts from 0 at ``first_slot``; ``labels`` (1, M), ``likelihood`` (N, 1, O). Not for people
    whose ``is_exact`` has become False: their whole trace is decoded instead.
    """
    people = population.slots.size
    most = largest_place_count(population)
    for block in prange((people + PEOPLE_PER_BLOCK - 1) // PEOPLE_PER_BLOCK):
        work = new_recursion(1, most)
        for i in range(block * PEOPLE_PER_BLOCK, min(people, (block + 1) * PEOPLE_PER_BLOCK)):
            if state.status[i] == POSSIBLE:
                _filter_person(
                    population, i, smallest[i], step, first_slot, labels, likelihood[i], work, state
                )
