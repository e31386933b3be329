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

from accounting.hmm.forward_viterbi import (
    POSSIBLE,
    SAFE_PRODUCT,
    Observed,
    Recursion,
    Scale,
    condition,
    is_full,
    predict_full,
    predict_sparse,
    smallest_entry,
)
from accounting.hmm.trace_decoding import (
    WIDTH,
    DecodeWork,
    LaneWork,
    decode_trace,
    filter_small_step,
    is_small,
    new_decode_work,
)
from models.numerics.jit import bare_jit, bare_pjit, inline, pjit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, inlined_chain_view

LEAST_PEOPLE = 64  # worth a thread with scratch of its own


class People(NamedTuple):
    """Who was observed: their chains, each one's smallest probability, and the slot of the first step."""

    arrays: PopulationArrays
    smallest: NDArray[np.float64]  # (N,)
    first_slot: int


class Observations(NamedTuple):
    """What was observed of everybody: outcomes are the same for all, their likelihoods each person's own."""

    labels: NDArray[np.int32]  # (T, M) outcome of each location
    likelihood: NDArray[np.float64]  # (N, T, O)


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


@inline
def start_of(population: PopulationArrays, person: int, first_slot: int) -> NDArray[np.float64]:
    """The person's own start, or the (cyclo-)stationary distribution of the first slot; (K,)."""
    first, last = population.initial_start[person], population.initial_start[person + 1]
    if last > first:
        return population.initial[first:last]
    places = population.places_start[person + 1] - population.places_start[person]
    offset = population.distribution_start[person] + (first_slot % population.slots[person]) * places
    return population.distribution[offset : offset + places]


@bare_jit
def largest_place_count(population: PopulationArrays) -> int:
    """The number of places of the person who has most."""
    most = 1
    for person in range(population.slots.size):
        most = max(most, population.places_start[person + 1] - population.places_start[person])
    return most


def smallest_entries(population: PopulationArrays) -> NDArray[np.float64]:
    """The smallest positive probability in each person's matrices, (N,); computed once per population."""
    smallest = np.empty(population.slots.size)
    _fill_smallest(smallest, population)
    return smallest


@bare_pjit(lambda smallest, _: smallest.size, least=1024)
def _fill_smallest(begin: int, end: int, smallest: NDArray[np.float64], population: PopulationArrays) -> None:
    for person in range(begin, end):
        entries = population.value[population.entry_start[person] : population.entry_start[person + 1]]
        smallest[person] = smallest_entry(entries)


@bare_jit
def _decode_each(
    begin: int, end: int, people: People, observations: Observations, decoded: DecodedArrays, work: DecodeWork
) -> None:
    """The traces of these people, in the same scratch."""
    arrays, first_slot = people.arrays, people.first_slot
    labels, likelihood = observations.labels, observations.likelihood
    status, log_likelihood, log_path, path = decoded
    for i in range(begin, end):
        person = LocalChain(inlined_chain_view(arrays, i), start_of(arrays, i, first_slot), first_slot)
        found = decode_trace(person, people.smallest[i], Observed(labels, likelihood[i]), work, path[i])
        status[i] = found.status
        log_likelihood[i] = found.log_likelihood
        log_path[i] = found.log_path


@pjit(lambda people, *_: people.smallest.size, least=LEAST_PEOPLE)
def decode_people(
    begin: int, end: int, people: People, observations: Observations, decoded: DecodedArrays
) -> None:
    """Every person's whole trace in one visit to their matrix."""
    work = new_decode_work(observations.labels.shape[0], largest_place_count(people.arrays))
    _decode_each(begin, end, people, observations, decoded, work)


@inline
def own_places(people: People, person: int) -> slice:
    """Where a person's places stand among everybody's."""
    return slice(people.arrays.places_start[person], people.arrays.places_start[person + 1])


@bare_jit
def _begin_person(people: People, person: int, state: FilterArrays) -> None:
    start, first = start_of(people.arrays, person, people.first_slot), people.arrays.places_start[person]
    for x in range(start.size):
        state.belief[first + x] = state.score[first + x] = start[x]
    state.log_likelihood[person] = 0.0
    state.log_path[person] = 0.0
    state.status[person] = POSSIBLE
    state.is_exact[person] = True


@bare_pjit(lambda people, *_: people.smallest.size, least=1024)
def begin_filter(begin: int, end: int, people: People, state: FilterArrays) -> None:
    """Set belief and score to everybody's start, before the first observation."""
    for person in range(begin, end):
        _begin_person(people, person, state)


@bare_jit
def _move_person(
    chain: ChainView,
    slot: int,
    observed: Observed,
    belief: NDArray[np.float64],
    score: NDArray[np.float64],
    work: Recursion,
) -> Scale:
    """Move ``belief`` and ``score`` (K,) by the matrix of ``slot``, unless it is -1, and condition them."""
    places = belief.size
    for x in range(places):
        work.belief[x] = work.next_belief[x] = belief[x]
        work.scores[0, x] = work.next_score[x] = score[x]
    if slot >= 0 and is_full(chain):
        predict_full(chain, slot, work, 0)
    elif slot >= 0:
        predict_sparse(chain, slot, work, 0)
    scale = condition(chain.places, observed, 0, work)
    if scale.total > 0.0:
        for x in range(places):
            belief[x] = work.belief[x]
            score[x] = work.scores[0, x]
    return scale


@inline
def _move_small_person(
    chain: ChainView,
    slot: int,
    observed: Observed,
    belief: NDArray[np.float64],
    score: NDArray[np.float64],
    work: LaneWork,
) -> Scale:
    """The same in lanes."""
    places = belief.size
    for x in range(WIDTH):
        work.belief[x] = belief[x] if x < places else 0.0
        work.scores[0, x] = score[x] if x < places else 0.0
    scale = filter_small_step(chain, slot, observed, work)
    if scale.total > 0.0:
        for x in range(places):
            belief[x] = work.belief[x]
            score[x] = work.scores[0, x]
    return scale


@inline
def _filter_person(
    people: People, person: int, step: int, observed: Observed, work: DecodeWork, state: FilterArrays
) -> None:
    """One person's update by one step; ``observed`` has this step only, ``work`` is scratch."""
    chain = inlined_chain_view(people.arrays, person)
    own = own_places(people, person)
    belief, score = state.belief[own], state.score[own]
    slot = (people.first_slot + step - 1) % chain.start.shape[0] if step > 0 else -1
    if is_small(chain):
        scale = _move_small_person(chain, slot, observed, belief, score, work.lanes)
    else:
        scale = _move_person(chain, slot, observed, belief, score, work.recursion)
    state.is_exact[person] &= scale.lowest * people.smallest[person] >= SAFE_PRODUCT
    if scale.total == 0.0:
        state.status[person] = step
        return
    state.log_likelihood[person] += np.log(scale.total)
    state.log_path[person] += np.log(scale.best)


@bare_jit
def _filter_each(
    begin: int,
    end: int,
    people: People,
    step: int,
    observations: Observations,
    state: FilterArrays,
    work: DecodeWork,
) -> None:
    """One step for those of these people whose trace is still possible."""
    labels, likelihood = observations.labels, observations.likelihood
    for i in range(begin, end):
        if state.status[i] == POSSIBLE:
            _filter_person(people, i, step, Observed(labels, likelihood[i]), work, state)


@pjit(lambda people, *_: people.smallest.size, least=LEAST_PEOPLE)
def filter_people(
    begin: int, end: int, people: People, step: int, observations: Observations, state: FilterArrays
) -> None:
    """One step for everybody whose trace is still possible.

    ``step`` counts from 0 at the first slot; ``observations`` have this step only. Not for people whose
    ``is_exact`` has become False: their whole trace is decoded instead.
    """
    work = new_decode_work(1, largest_place_count(people.arrays))
    _filter_each(begin, end, people, step, observations, state, work)
