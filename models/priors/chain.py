"""The form in which chains reach the kernels: flat arrays, one person after the other, columns first.

Column (gather) form beats row (scatter) form in every recursion of this project: predicting and
max-product both need, for each place, all the places one can come from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, inline, jit


class ChainView(NamedTuple):
    """One person's chain on its K states with C slots; views into a population, never copies.

    As a rule each place is one state, and every docstring says "place" for it. States may share a place
    (stages of a stay, where one came from, a kind of day): then, and where another question is asked than
    "which place", ``label`` says what is to be guessed in each state.

    ``start[k]`` is the (cyclo-)stationary distribution of the place in slot ``k``; matrix ``k`` moves from
    slot ``k`` to ``k + 1 mod C``; the probability of moving from place ``row[j]`` to ``y`` in slot ``k`` is
    ``value[j]`` for ``column_start[k, y] <= j < column_start[k, y + 1]``. Rows within a column increase.
    ``places[x]`` is the location index of state ``x``; they never decrease. ``label[k, x]`` is what must not
    be guessed of state ``x`` in slot ``k``, one of ``0..K - 1``, and ``label[k, K]`` what a wrong guess costs
    there, 0 where nothing is asked; without rows each place is its own label, asked in every step.
    """

    places: Integers32  # (K,)
    start: Floats  # (C, K)
    column_start: Integers32  # (C, K + 1), offsets into row and value
    row: Integers32  # (nnz of all slots,)
    value: Floats  # (nnz of all slots,)
    label: Integers32  # (C, K + 1), or (0, K + 1)


class LocalChain(NamedTuple):
    """A chain on ``K`` own places, the law of the place in the horizon's first step, and that step's slot."""

    chain: ChainView
    start: Floats  # (K,)
    first_slot: int


@bare_jit
def slot_of(person: LocalChain, step: int) -> int:
    """The slot of a step of the horizon in the chain's cycle; its matrix moves on to the next step."""
    return (person.first_slot + step) % person.chain.start.shape[0]


@inline
def is_labelled(chain: ChainView) -> bool:
    """Whether something else is to be guessed than the state, or not in every step."""
    return chain.label.shape[0] > 0


@bare_jit
def mistake_cost(person: LocalChain, first: int, last: int) -> int:
    """What it costs to guess wrong in all the steps ``first..last``: how many they are, without labels."""
    label = person.chain.label
    if label.shape[0] == 0:
        return max(0, last - first + 1)
    cost = 0
    for t in range(first, last + 1):
        cost += label[slot_of(person, t), label.shape[1] - 1]
    return cost


class PopulationArrays(NamedTuple):
    """All chains of a population, packed: person ``i`` owns ``[x_start[i], x_start[i + 1])`` of each ``x``.

    A chain whose matrix is full keeps its ``row`` too; kernels see from ``nnz == C * K * K`` that ``value``
    is then the plain column-major matrix and need not read the indices.
    """

    slots: Integers32  # (N,) C of each person
    places_start: Integers  # (N + 1,)
    places: Integers32
    distribution_start: Integers  # (N + 1,)
    distribution: Floats  # C * K a person, slot-major: (cyclo-)stationary
    column_start_start: Integers  # (N + 1,)
    column_start: Integers32  # C * (K + 1) a person, offsets relative to the person's entries
    entry_start: Integers  # (N + 1,)
    row: Integers32
    value: Floats
    initial_start: Integers  # (N + 1,) empty slice = starts (cyclo-)stationary
    initial: Floats  # K a person with a start of its own
    label_start: Integers  # (N + 1,) empty slice = each place is its own label
    label: Integers32  # C * (K + 1) a person with labels, slot-major


class Rows(NamedTuple):
    """A chain's matrices by rows: from place ``x`` in slot ``k`` to ``column[j]`` with ``value[j]``.

    ``start[k, x] <= j < start[k, x + 1]``; columns within a row increase.
    """

    start: Integers  # (C, K + 1)
    column: Integers  # (nnz of all slots,)
    value: Floats  # (nnz of all slots,)


@jit
def rows_of(chain: ChainView) -> Rows:
    """The same matrices, rows first: for code that needs the places one place leads to."""
    slots, places = chain.start.shape
    start = np.zeros((slots, places + 1), np.int64)
    column, value = np.empty(chain.row.size, np.int64), np.empty(chain.row.size)
    free = np.empty(places, np.int64)
    begin = 0
    for k in range(slots):
        entries = range(chain.column_start[k, 0], chain.column_start[k, places])
        for j in entries:
            start[k, chain.row[j] + 1] += 1
        start[k, 0] = begin
        for x in range(places):
            free[x] = start[k, x]
            start[k, x + 1] += start[k, x]
        begin = start[k, places]
        for y in range(places):
            for j in range(chain.column_start[k, y], chain.column_start[k, y + 1]):
                x = chain.row[j]
                column[free[x]], value[free[x]] = y, chain.value[j]
                free[x] += 1
    return Rows(start, column, value)


@inline
def inlined_chain_view(population: PopulationArrays, person: int) -> ChainView:
    """:func:`chain_view` compiled into its caller, for loops in which a call would be slow."""
    slots = population.slots[person]
    places = population.places[population.places_start[person] : population.places_start[person + 1]]
    entries = slice(population.entry_start[person], population.entry_start[person + 1])
    distribution = population.distribution[
        population.distribution_start[person] : population.distribution_start[person + 1]
    ]
    columns = population.column_start[
        population.column_start_start[person] : population.column_start_start[person + 1]
    ]
    label = population.label[population.label_start[person] : population.label_start[person + 1]]
    return ChainView(
        places,
        distribution.reshape(slots, places.size),
        columns.reshape(slots, places.size + 1),
        population.row[entries],
        population.value[entries],
        label.reshape(label.size // (places.size + 1), places.size + 1),
    )


@jit
def chain_view(population: PopulationArrays, person: int) -> ChainView:
    """The chain of one person of a population, for use inside and outside kernels."""
    return inlined_chain_view(population, person)
