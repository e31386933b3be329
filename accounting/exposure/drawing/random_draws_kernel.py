"""Seeded draws for simulated adversaries: SplitMix64 streams and alias tables.

A stream is a number inside a kernel. It shares no type with the keyed uniform bits that published noise is
made of, so neither can be passed for the other. SplitMix64: Steele, Lea, Flood, "Fast splittable
pseudorandom number generators" (OOPSLA 2014). Alias tables: Vose (1991).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_S30, _S27, _S31, _S11 = np.uint64(30), np.uint64(27), np.uint64(31), np.uint64(11)
_TO_UNIT = 2.0**-53


class AliasTables(NamedTuple):
    """Many discrete laws, one after the other; law ``i`` owns ``[first[i], first[i + 1])`` of the rest.

    Of its ``n`` cells one is chosen uniformly; ``value`` is drawn with ``threshold``, ``other`` otherwise.
    """

    first: NDArray[np.int64]  # (laws + 1,)
    threshold: NDArray[np.float64]
    value: NDArray[np.int64]
    other: NDArray[np.int64]


class Walker(NamedTuple):
    """What simulating trajectories of one person needs: law 0 is the start, law ``1 + slot K + x`` a row."""

    places: int
    slots: int
    first_slot: int
    tables: AliasTables


class Draws(NamedTuple):
    """Which draws: ``number`` of them from the stream that ``seed`` and ``block`` name."""

    seed: int
    block: int
    number: int


@bare_jit
def _mix(state: np.uint64) -> np.uint64:
    z = state
    z = (z ^ (z >> _S30)) * _MIX_1
    z = (z ^ (z >> _S27)) * _MIX_2
    return z ^ (z >> _S31)


@jit
def new_stream(draws: Draws) -> NDArray[np.uint64]:
    """The stream (1,) of one block of draws: blocks can be drawn in any order, by any thread."""
    stream = np.empty(1, np.uint64)
    begin_stream(draws, stream)
    return stream


@bare_jit
def begin_stream(draws: Draws, stream: NDArray[np.uint64]) -> None:
    """Let a stream (1,) be that of one block of draws."""
    stream[0] = _mix(_mix(np.uint64(draws.seed) + _GOLDEN) + np.uint64(draws.block) * _GOLDEN)


@bare_jit
def uniform(stream: NDArray[np.uint64]) -> float:
    """The next number in [0, 1) with 53 bits."""
    stream[0] += _GOLDEN
    return np.float64(_mix(stream[0]) >> _S11) * _TO_UNIT


@bare_jit
def draw(tables: AliasTables, law: int, stream: NDArray[np.uint64]) -> int:
    """One value of a law, from one uniform number: leading bits choose the cell, the rest decides in it."""
    first = tables.first[law]
    scaled = uniform(stream) * (tables.first[law + 1] - first)
    cell = int(scaled)
    # Both are loaded, so that the processor has no branch to guess.
    value, other = tables.value[first + cell], tables.other[first + cell]
    return value if scaled - cell < tables.threshold[first + cell] else other


@jit
def _fill_alias(weight: NDArray[np.float64], first: int, last: int, tables: AliasTables) -> None:
    """Vose's construction for the law ``weight[first:last]``; zero weights are never drawn."""
    count = last - first
    scaled = weight[first:last] * (count / weight[first:last].sum())
    small = np.empty(count, np.int64)
    large = np.empty(count, np.int64)
    smalls = larges = 0
    for i in range(count):
        tables.threshold[first + i] = 1.0
        tables.other[first + i] = tables.value[first + i]
        if scaled[i] < 1.0:
            small[smalls] = i
            smalls += 1
        else:
            large[larges] = i
            larges += 1
    while smalls > 0 and larges > 0:
        low, high = small[smalls - 1], large[larges - 1]
        tables.threshold[first + low] = scaled[low]
        tables.other[first + low] = tables.value[first + high]
        scaled[high] -= 1.0 - scaled[low]
        smalls -= 1
        if scaled[high] < 1.0:
            larges -= 1
            small[smalls] = high
            smalls += 1
    for i in range(smalls):  # left over by rounding: of weight one, unless it must never be drawn
        if weight[first + small[i]] == 0.0:
            tables.threshold[first + small[i]] = 0.0
            tables.other[first + small[i]] = tables.value[first + weight[first:last].argmax()]


@jit
def alias_tables(
    first: NDArray[np.int64], value: NDArray[np.int64], weight: NDArray[np.float64]
) -> AliasTables:
    """Tables of the laws ``weight[first[i]:first[i + 1]]`` on ``value``; weights need not sum to one."""
    tables = AliasTables(first, np.ones(weight.size), value, value.copy())
    for law in range(first.size - 1):
        if first[law + 1] > first[law]:
            _fill_alias(weight, first[law], first[law + 1], tables)
    return tables


@jit
def _count_rows(chain: ChainView) -> NDArray[np.int64]:
    """Entries before each law of a walker: the start, then each slot's rows."""
    slots, places = chain.start.shape
    first = np.zeros(2 + slots * places, np.int64)
    first[1] = places
    for slot in range(slots):
        for j in range(chain.column_start[slot, 0], chain.column_start[slot, places]):
            first[2 + slot * places + chain.row[j]] += 1
    return first.cumsum()


@jit
def new_walker(person: LocalChain) -> Walker:
    """Alias tables of a person's start and rows, turned around from the columns."""
    chain = person.chain
    slots, places = chain.start.shape
    first = _count_rows(chain)
    value = np.empty(first[-1], np.int64)
    weight = np.empty(first[-1])
    value[:places] = np.arange(places)
    weight[:places] = person.start
    filled = first.copy()
    for slot in range(slots):
        for y in range(places):
            for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
                law = 1 + slot * places + chain.row[j]
                value[filled[law]] = y
                weight[filled[law]] = chain.value[j]
                filled[law] += 1
    return Walker(places, slots, person.first_slot, alias_tables(first, value, weight))


@bare_jit
def walk(walker: Walker, stream: NDArray[np.uint64], trace: NDArray[np.int32]) -> None:
    """One trajectory into ``trace`` (T,)."""
    place = draw(walker.tables, 0, stream)
    trace[0] = place
    for step in range(1, trace.size):
        slot = (walker.first_slot + step - 1) % walker.slots
        place = draw(walker.tables, 1 + slot * walker.places + place, stream)
        trace[step] = place
