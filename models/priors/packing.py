"""Kernels that check moves and sort them into the packed column form, and back; they return fault codes."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.numerics.arrays import Floats, Integers, Integers32, Words
from models.numerics.jit import inline, jit, pjit
from models.priors.chain import PopulationArrays, chain_view

ROW_TOLERANCE = 1e-6  # a row may miss one by this much, and is then renormalised
_ROUNDING = 1e-14  # a row that sums to one up to rounding is kept bit for bit

OK, BAD_PLACES, BAD_INDEX, BAD_PROBABILITY, BAD_ROW, DUPLICATE, BAD_INITIAL = range(7)


class Lists(NamedTuple):
    """One list a person, one after the other: person ``i`` owns ``values[start[i] : start[i + 1]]``."""

    start: Integers  # (N + 1,)
    values: NDArray[Any]


class Moves(NamedTuple):
    """Moves of people, one person after the other: person ``i`` owns ``[start[i], start[i + 1])`` of each.

    Move ``j`` of a person says: in slot ``slot[j]`` one goes from local place ``row[j]`` to ``column[j]``
    with ``probability[j]``. Any order; what is not listed is zero.
    """

    start: Integers  # (N + 1,)
    slot: Integers32
    row: Integers32
    column: Integers32
    probability: Floats


class Faults(NamedTuple):
    """What is wrong with each person: code, where (entry, ``slot * K + row`` or place), number found."""

    code: NDArray[np.int8]  # (N,) OK or one of the BAD_ codes
    where: Integers
    got: Floats


@jit
def _places_fault(places: Integers32, location_count: int) -> int:
    """Position of the first place that is out of range or below the one before; -1 if none."""
    for x in range(places.size):
        if places[x] < 0 or places[x] >= location_count or (x > 0 and places[x] < places[x - 1]):
            return x
    return -1


@jit
def _entry_fault(
    slots: int, size: int, slot: Integers32, row: Integers32, column: Integers32, probability: Floats
) -> tuple[int, int]:
    """Code and position of the first entry outside the matrices or that is no probability."""
    for j in range(row.size):
        if not (0 <= slot[j] < slots and 0 <= row[j] < size and 0 <= column[j] < size):
            return BAD_INDEX, j
        if not 0.0 <= probability[j] < np.inf:  # false for NaN too
            return BAD_PROBABILITY, j
    return OK, -1


@jit
def _counting_sort(order: Integers, key: Integers, keys: int) -> tuple[Integers, Integers]:
    """Stable reordering of ``order`` by ``key[order]``, and where each key begins (keys + 1,)."""
    start = np.zeros(keys + 1, dtype=np.int64)
    for j in range(key.size):
        start[key[j] + 1] += 1
    for k in range(keys):
        start[k + 1] += start[k]
    free = start.copy()
    result = np.empty_like(order)
    for j in order:
        result[free[key[j]]] = j
        free[key[j]] += 1
    return result, start


@jit
def _normalise(probability: Floats, group: Integers, groups: int, out: Floats) -> tuple[int, float]:
    """Scale each group to sum to one; the first that misses one by more than the tolerance and its sum."""
    total = np.zeros(groups)
    for j in range(group.size):
        total[group[j]] += probability[j]
    for k in range(groups):
        if not abs(total[k] - 1.0) <= ROW_TOLERANCE:
            return k, total[k]
    for j in range(group.size):
        scale = total[group[j]]
        out[j] = probability[j] / scale if abs(scale - 1.0) > _ROUNDING else probability[j]
    return -1, 1.0


@jit
def _duplicate(order: Integers, row: Integers32, start: Integers) -> int:
    """The first entry that names the same move as the one before it in column order; -1 if none."""
    for k in range(start.size - 1):
        for j in range(start[k] + 1, start[k + 1]):
            if row[order[j]] == row[order[j - 1]]:
                return int(order[j])
    return -1


@jit
def _pack_person(moves: Moves, person: int, packed: PopulationArrays) -> tuple[int, int, float]:
    """Check one person's moves and write them in column form; fault code, where, and the number found."""
    entries = slice(moves.start[person], moves.start[person + 1])
    columns = slice(packed.column_start_start[person], packed.column_start_start[person + 1])
    column_start = packed.column_start[columns]
    row_out, value_out = packed.row[entries], packed.value[entries]
    slot, row, column = moves.slot[entries], moves.row[entries], moves.column[entries]
    probability = moves.probability[entries]
    slots, size = packed.slots[person], packed.places_start[person + 1] - packed.places_start[person]
    code, where = _entry_fault(slots, size, slot, row, column, probability)
    if code != OK:
        return code, where, 0.0
    scaled = np.empty_like(probability)
    missed, total = _normalise(probability, slot * np.int64(size) + row, slots * size, scaled)
    if missed >= 0:
        return BAD_ROW, missed, total
    by_row, _ = _counting_sort(np.arange(row.size), row.astype(np.int64), size)
    order, start = _counting_sort(by_row, slot * np.int64(size) + column, slots * size)
    twice = _duplicate(order, row, start)
    if twice >= 0:
        return DUPLICATE, twice, 0.0
    for k in range(slots):
        for y in range(size + 1):
            column_start[k * (size + 1) + y] = start[k * size + y]
    for j in range(order.size):
        row_out[j] = row[order[j]]
        value_out[j] = scaled[order[j]]
    return OK, -1, 0.0


@jit
def _initial_fault(initial: Floats, size: int) -> tuple[int, float]:
    """Normalise a person's own start in place; where it is wrong (size: length or sum); the number found."""
    if initial.size == 0:
        return -1, 0.0
    if initial.size != size:
        return size, float(initial.size)
    for x in range(size):
        if not 0.0 <= initial[x] < np.inf:
            return x, initial[x]
    missed, total = _normalise(initial, np.zeros(size, dtype=np.int64), 1, initial)
    return (size, total) if missed >= 0 else (-1, 0.0)


@jit
def _check_person(
    moves: Moves, person: int, location_count: int, packed: PopulationArrays
) -> tuple[int, int, float]:
    """Check and write one person whole: places, moves, start."""
    places = packed.places[packed.places_start[person] : packed.places_start[person + 1]]
    wrong = _places_fault(places, location_count)
    if wrong >= 0 or places.size == 0 or packed.slots[person] < 1:
        return BAD_PLACES, wrong, 0.0
    code, where, got = _pack_person(moves, person, packed)
    if code != OK:
        return code, where, got
    own = slice(packed.initial_start[person], packed.initial_start[person + 1])
    wrong, got = _initial_fault(packed.initial[own], places.size)
    return (BAD_INITIAL, wrong, got) if wrong >= 0 else (OK, -1, 0.0)


@pjit(lambda moves, *_: moves.start.size - 1, least=64)
def pack_columns(
    begin: int, end: int, moves: Moves, location_count: int, packed: PopulationArrays, faults: Faults
) -> None:
    """Check all people and write the column form without the distributions; ``faults`` gets what is wrong."""
    for person in range(begin, end):
        faults.code[person], faults.where[person], faults.got[person] = _check_person(
            moves, person, location_count, packed
        )


def pack(packed: PopulationArrays, moves: Moves, location_count: int) -> Faults:
    """Write all moves in column form into arrays laid out for them; the faults of each person."""
    count = packed.slots.size
    faults = Faults(np.zeros(count, np.int8), np.zeros(count, np.int64), np.zeros(count))
    pack_columns(moves, location_count, packed, faults)
    return faults


def lay_out(slots: Integers32, places: Lists, moves_start: Integers, initial: Lists) -> PopulationArrays:
    """The arrays of people whose moves are not written yet; the distributions are zeros.

    States that share a place have it as their label (:func:`labels_by_place`).
    """
    size = np.diff(places.start)
    label_start, label = labels_by_place(slots, places)
    distribution_start = offsets_of(slots * size)
    column_start_start = offsets_of(slots * (size + 1))
    return PopulationArrays(
        slots.astype(np.int32),
        places.start.astype(np.int64),
        places.values.astype(np.int32),
        distribution_start,
        np.zeros(distribution_start[-1]),
        column_start_start,
        np.zeros(column_start_start[-1], dtype=np.int32),
        moves_start.astype(np.int64),
        np.empty(moves_start[-1], dtype=np.int32),
        np.empty(moves_start[-1]),
        initial.start.astype(np.int64),
        initial.values.astype(np.float64),
        label_start,
        label,
    )


def labels_by_place(slots: Integers32, places: Lists) -> tuple[Integers, Integers32]:
    """``label_start`` and ``label`` of people some of whose states share a place; none of all others.

    The label of a state is the first state of its place, and every step is asked.
    """
    own = places.values
    is_repeated = np.zeros(own.size, dtype=np.bool_)
    is_repeated[1:] = own[1:] == own[:-1]
    is_repeated[places.start[:-1][np.diff(places.start) > 0]] = False
    people = np.repeat(np.arange(slots.size), np.diff(places.start))
    found: list[Integers32] = [np.empty(0, dtype=np.int32)]
    length = np.zeros(slots.size, dtype=np.int64)
    for person in np.unique(people[is_repeated]).tolist():
        repeated = is_repeated[places.start[person] : places.start[person + 1]]
        first = np.maximum.accumulate(np.where(repeated, 0, np.arange(repeated.size)))
        found.append(np.tile(np.append(first, 1).astype(np.int32), int(slots[person])))
        length[person] = found[-1].size
    return offsets_of(length), np.concatenate(found)


def offsets_of(lengths: ArrayLike) -> Integers:
    """Where each of consecutive pieces begins, and the end of the last."""
    return np.concatenate(([0], np.cumsum(np.asarray(lengths, dtype=np.int64)))).astype(np.int64)


@pjit(lambda population, *_: population.slots.size, least=256)
def unpack_columns(
    begin: int, end: int, population: PopulationArrays, slot: Integers32, row: Integers32, column: Integers32
) -> None:
    """Write slot, row and column of every entry, in the order of ``population.value``."""
    for person in range(begin, end):
        view = chain_view(population, person)
        first = population.entry_start[person]
        for k in range(view.column_start.shape[0]):
            for y in range(view.places.size):
                for j in range(view.column_start[k, y], view.column_start[k, y + 1]):
                    slot[first + j], row[first + j], column[first + j] = k, view.row[j], y


# People with equal priors, who are computed once.

_PRIME = np.uint64(0x9E3779B97F4A7C15)


@inline
def _mixed(digest: np.uint64, word: np.uint64) -> np.uint64:
    """The digest with one more word."""
    found = (digest ^ word) * _PRIME
    return found ^ (found >> np.uint64(29))


@pjit(lambda start, *_: start.size - 1, least=1024)
def mix_in(begin: int, end: int, start: Integers, words: NDArray[Any], digest: Words) -> None:
    """Add ``words[start[i] : start[i + 1]]`` and their number to the ``digest`` (N,) of person ``i``."""
    for person in range(begin, end):
        found = _mixed(digest[person], np.uint64(start[person + 1] - start[person]))
        for j in range(start[person], start[person + 1]):
            found = _mixed(found, np.uint64(words[j]))
        digest[person] = found


@jit
def split_unequal(order: Integers, start: Integers, words: NDArray[Any], first: Integers) -> None:
    """Give people of ``order`` whose words differ from those of their ``first`` (N,) a group of their own."""
    for person in order:
        other = first[person]
        size = start[person + 1] - start[person]
        is_equal = size == start[other + 1] - start[other]
        for j in range(size if is_equal else 0):
            is_equal &= words[start[person] + j] == words[start[other] + j]
        if not is_equal:
            first[person] = person
