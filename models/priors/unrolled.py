"""Chains with a move of their own for each step of a stretch of time: what a calendar makes of a cycle.

Kernels know chains with cycles. A stretch of ``n`` steps during which clocks are changed is a cycle of ``n``
slots that is gone through once: slot ``t`` is the stretch's step ``t``, and its matrix is that step's move.
The start of each slot is that of the step's slot in the original cycle, which is its law as long as every
move keeps the (cyclo-)stationary law. What follows the last slot is never reached.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from models.calendar import Calendar, StepMoves
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view
from models.priors.packing import offsets_of
from models.priors.population import Population
from models.priors.stationary_kernel import push_forward


class OnTheClock(NamedTuple):
    """Chains for some steps, and the slot that the first of these steps is in: the others follow on it."""

    population: Population
    first_slot: int


class ChainOnTheClock(NamedTuple):
    """The same of one chain."""

    chain: ChainView
    first_slot: int


class _Stretch(NamedTuple):
    """:class:`StepMoves` of several cycles, one after the other."""

    slot: Integers32  # (cycles, n)
    start: Integers  # (cycles, n + 1), offsets into by
    by: Integers32


@jit
def _moved(chain: ChainView, by: Integers32) -> Floats:
    """The product of the matrices of these slots, (K, K)."""
    places = chain.places.size
    found = np.zeros((places, places))
    after = np.empty(places)
    for x in range(places):
        found[x, x] = 1.0
        for slot in by:
            push_forward(found[x], chain.column_start[slot], chain.row, chain.value, after)
            found[x] = after
    return found


@jit
def _entry_count(chain: ChainView, start: Integers, by: Integers32) -> int:
    """How many moves of positive probability the stretch has."""
    count = 0
    for t in range(start.size - 1):
        if start[t + 1] - start[t] == 1:
            column = chain.column_start[by[start[t]]]
            count += column[-1] - column[0]
        else:
            moved = _moved(chain, by[start[t] : start[t + 1]])
            for x in range(moved.shape[0]):
                for y in range(moved.shape[1]):
                    count += moved[x, y] > 0.0
    return count


@jit
def _unroll(chain: ChainView, slot: Integers32, start: Integers, by: Integers32, unrolled: ChainView) -> None:
    """Write the chain of the stretch."""
    places, at = chain.places.size, 0
    for t in range(slot.size):
        unrolled.start[t] = chain.start[slot[t]]
        if chain.label.shape[0] > 0:
            unrolled.label[t] = chain.label[slot[t]]
        unrolled.column_start[t, 0] = at
        if start[t + 1] - start[t] == 1:
            column = chain.column_start[by[start[t]]]
            for y in range(places):
                for j in range(column[y], column[y + 1]):
                    unrolled.row[at], unrolled.value[at] = chain.row[j], chain.value[j]
                    at += 1
                unrolled.column_start[t, y + 1] = at
        else:
            moved = _moved(chain, by[start[t] : start[t + 1]])
            for y in range(places):
                for x in range(places):
                    if moved[x, y] > 0.0:
                        unrolled.row[at], unrolled.value[at] = x, moved[x, y]
                        at += 1
                unrolled.column_start[t, y + 1] = at


@pjit(lambda population, *_: population.slots.size, least=256)
def _count_entries(
    begin: int, end: int, population: PopulationArrays, cycle: Integers, stretch: _Stretch, entries: Integers
) -> None:
    for person in range(begin, end):
        chain = chain_view(population, person)
        entries[person] = _entry_count(chain, stretch.start[cycle[person]], stretch.by)


@pjit(lambda population, *_: population.slots.size, least=256)
def _unroll_all(
    begin: int,
    end: int,
    population: PopulationArrays,
    cycle: Integers,
    stretch: _Stretch,
    unrolled: PopulationArrays,
) -> None:
    for person in range(begin, end):
        k = cycle[person]
        into = chain_view(unrolled, person)
        _unroll(chain_view(population, person), stretch.slot[k], stretch.start[k], stretch.by, into)


def _joined(moves: list[StepMoves]) -> _Stretch:
    """The moves of several cycles during the same steps."""
    before = offsets_of([each.by.size for each in moves])
    return _Stretch(
        np.stack([each.slot for each in moves]),
        np.stack([each.start + begin for each, begin in zip(moves, before[:-1], strict=True)]),
        np.concatenate([each.by for each in moves]),
    )


def unrolled_arrays(
    arrays: PopulationArrays, calendar: Calendar, position: int, steps: int
) -> PopulationArrays:
    """All chains with one slot for each of the ``steps`` from a position on."""
    cycles, cycle = np.unique(arrays.slots, return_inverse=True)
    if not cycles.size:
        return arrays
    stretch = _joined([calendar.moves(int(each), position, steps) for each in cycles])
    cycle = cycle.reshape(-1).astype(np.int64)
    entries = np.zeros(arrays.slots.size, dtype=np.int64)
    _count_entries(arrays, cycle, stretch, entries)
    places = np.diff(arrays.places_start)
    distribution_start, column_start_start = offsets_of(places * steps), offsets_of((places + 1) * steps)
    entry_start = offsets_of(entries)
    label_start = offsets_of(np.where(np.diff(arrays.label_start) > 0, (places + 1) * steps, 0))
    unrolled = arrays._replace(
        slots=np.full(arrays.slots.size, steps, dtype=np.int32),
        distribution_start=distribution_start,
        distribution=np.empty(distribution_start[-1]),
        column_start_start=column_start_start,
        column_start=np.empty(column_start_start[-1], dtype=np.int32),
        entry_start=entry_start,
        row=np.empty(entry_start[-1], dtype=np.int32),
        value=np.empty(entry_start[-1]),
        label_start=label_start,
        label=np.empty(label_start[-1], dtype=np.int32),
    )
    _unroll_all(arrays, cycle, stretch, unrolled)
    return unrolled


@pjit(lambda unrolled, *_: unrolled.slots.size, least=256)
def _carry(begin: int, end: int, unrolled: PopulationArrays, laws: Floats, row: Integers) -> None:
    for person in range(begin, end):
        law = laws[unrolled.initial_start[person] : unrolled.initial_start[person + 1]]
        if law.size == 0:
            continue
        chain = chain_view(unrolled, person)
        known = min(row[person], chain.start.shape[0] - 1)
        chain.start[: known + 1] = law
        for t in range(known, chain.start.shape[0] - 1):
            push_forward(chain.start[t], chain.column_start[t], chain.row, chain.value, chain.start[t + 1])


def carried_arrays(unrolled: PopulationArrays, laws: Floats, row: Integers) -> PopulationArrays:
    """Unrolled chains in which everybody's start in each slot is the law that they really have there.

    ``laws``, packed like ``PopulationArrays.initial``, are those in slot ``row`` (N,) of people with an
    initial distribution; they hold for the slots before, too. Nobody is left with one.
    """
    carried = unrolled._replace(distribution=unrolled.distribution.copy())
    _carry(carried, laws, row)
    return carried._replace(initial_start=np.zeros_like(unrolled.initial_start), initial=np.empty(0))


def population_on_the_clock(
    population: Population, calendar: Calendar | None, position: int, steps: int
) -> OnTheClock:
    """The chains for the ``steps`` from a position on; drawn ones too.

    The population itself without a calendar, and where no clock is changed and no holiday is near: then only
    the slot is another.
    """
    regular = position if calendar is None else calendar.regular_position(position, steps)
    if calendar is None or regular is not None:
        return OnTheClock(population, position if regular is None else regular)
    drawn = population.drawn
    if drawn is not None:
        drawn = replace(drawn, arrays=unrolled_arrays(drawn.arrays, calendar, position, steps))
    arrays = unrolled_arrays(population.arrays, calendar, position, steps)
    return OnTheClock(replace(population, arrays=arrays, drawn=drawn), 0)


def chain_on_the_clock(
    chain: ChainView, calendar: Calendar | None, position: int, steps: int
) -> ChainOnTheClock:
    """The chain for the ``steps`` from a position on; see :func:`population_on_the_clock`."""
    cycle, places = chain.start.shape
    regular = position if calendar is None or cycle == 1 else calendar.regular_position(position, steps)
    if calendar is None or regular is not None:
        return ChainOnTheClock(chain, (position if regular is None else regular) % cycle)
    moves = calendar.moves(cycle, position, steps)
    entries = _entry_count(chain, moves.start, moves.by)
    unrolled = ChainView(
        chain.places,
        np.empty((steps, places)),
        np.empty((steps, places + 1), dtype=np.int32),
        np.empty(entries, dtype=np.int32),
        np.empty(entries),
        np.empty((steps if len(chain.label) else 0, places + 1), dtype=np.int32),
    )
    _unroll(chain, moves.slot, moves.start, moves.by, unrolled)
    return ChainOnTheClock(unrolled, 0)


def settled_laws(population: Population, calendar: Calendar, positions: Integers) -> Population:
    """The population in which all whose cycle has holidays start with the law at a position (N,).

    Carried on from step to step it stays the right law when they have left their cycle. Others, and those
    with an initial distribution of their own, keep what they have.
    """
    arrays, own = population.arrays, []
    for person, position in enumerate(positions.tolist()):
        law, chain = population.initial(person), population.chain(person)
        if law is None and calendar.has_holidays(len(chain.start)):
            law = chain.start[calendar.moves(len(chain.start), position, 1).slot[0]]
        own.append(np.empty(0) if law is None else law)
    initial = np.concatenate(own) if own else arrays.initial
    arrays = arrays._replace(initial_start=offsets_of([each.size for each in own]), initial=initial)
    drawn = population.drawn
    if drawn is not None:
        drawn = settled_laws(drawn, calendar, np.repeat(positions, population.draws))
    return replace(population, arrays=arrays, drawn=drawn)
