"""What if a step were released like this: who would be over a limit, without accounting it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.horizon_kernel import OwnStarts, is_in_reach, to_units
from accounting.exposure.step_information.step_terms_kernel import (
    Scratch,
    StepTerms,
    StepView,
    new_scratch,
    step_terms,
)
from models.numerics.jit import jit, pjit
from models.priors.chain import PopulationArrays, chain_view
from models.priors.stationary_kernel import push_forward


class Terms(NamedTuple):
    """What a step would tell of some people, units, (n,) each."""

    conditional: NDArray[np.int64]
    unconditioned: NDArray[np.int64]


@jit
def next_terms(
    population: PopulationArrays,
    own: OwnStarts,
    since: int,
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
    scratch: Scratch,
    person: int,
) -> StepTerms:
    """The terms that accounting ``step`` next would give; the person's marginals are not moved on."""
    chain = chain_view(population, person)
    slots = int(population.slots[person])
    slot = (first_slot + step_number) % slots
    slot_before = (slot - 1) % slots
    begin, end = population.initial_start[person], population.initial_start[person + 1]
    if begin == end:
        terms = step_terms(
            chain, slot_before, chain.start[slot_before], chain.start[slot], step_before, step, scratch
        )
    else:
        before = own.now[begin:end]
        now = before.copy()
        if step_number > since:
            push_forward(before, chain.column_start[slot_before], chain.row, chain.value, now)
        terms = step_terms(chain, slot_before, before, now, step_before, step, scratch)
    return terms if step_number > since else StepTerms(terms.unconditioned, terms.unconditioned)


@pjit(lambda population, own, since, people, *_: people.size, least=64)
def find_terms(
    begin: int,
    end: int,
    population: PopulationArrays,
    own: OwnStarts,
    since: NDArray[np.int64],
    people: NDArray[np.int64],
    first_slot: int,
    step_number: int,
    step_before: StepView,
    step: StepView,
    most_places: int,
    terms: Terms,
) -> None:
    """What the step would tell of each of these people if it came next; fills ``terms``, zeros before."""
    scratch = new_scratch(step_before, step, most_places)
    for k in range(begin, end):
        person = people[k]
        if step_number >= since[person] and is_in_reach(population, person, step.labels):
            found = next_terms(
                population,
                own,
                since[person],
                first_slot,
                step_number,
                step_before,
                step,
                scratch,
                person,
            )
            terms.conditional[k] = to_units(found.conditional)
            terms.unconditioned[k] = to_units(found.unconditioned)


@pjit(lambda population, *_: population.slots.size, least=1024)
def count_reaches(
    begin: int, end: int, population: PopulationArrays, labels: NDArray[np.int32], reaches: NDArray[np.int64]
) -> None:
    """Add to each person's ``reaches`` (N,) the number of rows of ``labels`` (steps, M) that count them."""
    for person in range(begin, end):
        reaches[person] += reaches_of(population, person, labels)


@jit
def reaches_of(population: PopulationArrays, person: int, labels: NDArray[np.int32]) -> int:
    """In how many steps a sensor counts at one of the person's places."""
    count = 0
    for row in range(labels.shape[0]):
        if is_in_reach(population, person, labels[row]):
            count += 1
    return count
