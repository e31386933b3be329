"""What if a step were released like this: who would be over a limit, without accounting it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import Accounts, has_initial_distribution, is_in_reach, to_units
from accounting.continuous.horizon_kernel import Transition, beliefs
from accounting.exposure.step_information.step_terms_kernel import TermsScratch, new_terms_scratch, step_terms
from models.numerics.jit import bare_jit, bare_pjit, pjit
from models.priors.chain import PopulationArrays, inlined_chain_view
from models.priors.stationary_kernel import push_forward


class Terms(NamedTuple):
    """What a step would say of some people, units, (n,) each."""

    people: NDArray[np.int64]
    conditional: NDArray[np.int64]
    unconditioned: NDArray[np.int64]


@bare_jit
def _find_some(
    begin: int,
    end: int,
    accounts: Accounts,
    transition: Transition,
    terms: Terms,
    scratch: TermsScratch,
    moved: NDArray[np.float64],
) -> None:
    """:func:`find_terms` of the people ``begin..end - 1`` of ``terms``."""
    population, _, nonstationary, _, all_since, horizon = accounts
    number = transition.number
    for k in range(begin, end):
        person = terms.people[k]
        since = all_since[person]
        if number < since or not is_in_reach(population, person, transition.step.labels):
            continue
        chain = inlined_chain_view(population, person)
        slots = chain.start.shape[0]
        slot = (horizon.first_slot + number) % slots
        slot_before = (slot - 1) % slots
        before, now = beliefs(population, nonstationary, person, slot_before, slot)
        if has_initial_distribution(population, person):
            before = now  # the last marginal that is known is the one before this step
            if number > since:
                now = moved[: before.size]
                push_forward(before, chain.column_start[slot_before], chain.row, chain.value, now)
        found = step_terms(chain, slot_before, before, now, transition.before, transition.step, scratch)
        terms.unconditioned[k] = to_units(found.unconditioned)
        terms.conditional[k] = to_units(found.conditional) if number > since else terms.unconditioned[k]


@pjit(lambda accounts, transition, terms, *_: terms.people.size, least=64)
def find_terms(
    begin: int, end: int, accounts: Accounts, transition: Transition, terms: Terms, most_places: int
) -> None:
    """The terms that accounting the step next would give ``terms.people``; fills the others, zeros before.

    The marginals of people with an initial distribution are not moved on.
    """
    scratch = new_terms_scratch(transition.before, transition.step, most_places)
    _find_some(begin, end, accounts, transition, terms, scratch, np.empty(most_places))


@bare_pjit(lambda population, *_: population.slots.size, least=1024)
def count_reaches(
    begin: int, end: int, population: PopulationArrays, labels: NDArray[np.int32], reaches: NDArray[np.int64]
) -> None:
    """Add to each person's ``reaches`` (N,) the number of rows of ``labels`` (steps, M) that count them."""
    for person in range(begin, end):
        for row in range(labels.shape[0]):
            if is_in_reach(population, person, labels[row]):
                reaches[person] += 1
