"""What the others' unknown places add to each count: their sums of variances, coins and transforms.

Tell the adversary part of the others' movements, chosen from priors, schedule and a public coin alone, never
from a place that was not told; nobody does worse for being told more. At a step each other person is

- *told*: the adversary learns the place;
- *free*: the adversary learns whether the place is counted by one *designated* sensor alone or by none, and
  otherwise the place itself. The sensor is chosen from the person's places at the told steps on both sides;
- *silent*: nothing is told, where no sensor counts at any of the person's places.

Between two free steps of a person there is a told one, so the free bits "is the designated sensor counting
the person" are independent of each other over people, steps and sensors (Markov), and all else in the counts
is known. With ``x`` the place at the last told step and ``y`` at the next, the bit has ``q = a / (a + b)``,
``a`` the probability of going from ``x`` to ``y`` by a place of the sensor alone, ``b`` by one that nobody
counts. A count is then a known number, the one target's bit and an independent sum of such bits.

The rule is greedy and final at once: whoever a sensor may count is free, unless free at the step before; the
step after a free one is told. The coin makes half of the people start one seen step later.

For example a person at one of two places with probability 1/2 each, whatever came before, and one of them
counted: free at every other step, ``q = 1/2``, a variance of 1/4.
"""

from __future__ import annotations

from math import exp, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.propagation import predict
from models.numerics.jit import bare_jit, jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view

FREE = 0
"""State of whoever was free at the step before; 1, 2, .. of whoever was told so many steps ago."""

NOT_YET, NOT_YET_LATE = 120, 121
"""State of whoever nothing was told of so far; the latter are told at the first step they are seen in."""

MOST_STEPS_BACK = 8
"""Of whoever was told longer ago, the place so many steps ago counts as told too."""

MOST_PLACES = 64
"""Whoever has more places is always told: the work grows with their cube."""

RATES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
"""Arguments of the transforms ``ln E e^(-rate V)``."""

UNITS = 1 << 32
"""Fixed point of all sums: they are exact then, whatever the order, the threads or the partitions."""

VARIANCE, COINS, TRANSFORMS = 0, 1, 2
"""Columns of the sums: ``V``, ``mu``, and from ``TRANSFORMS`` on one for each rate."""

COLUMNS = TRANSFORMS + len(RATES)
PEOPLE_A_BLOCK = 1024

NOBODY, SEVERAL = -1, -2

_ROUNDING = 1e-13  # sums of hundreds of probabilities, each rounded; the logarithm's argument is above 1e-7


class Crowd(NamedTuple):
    """The others at one step, and the sensors that are released in it."""

    population: PopulationArrays
    people: NDArray[np.int64]  # (n,) who is asked, by position in the population
    slot: int  # of the step, before it is taken modulo a person's own cycle
    sensor: NDArray[np.int64]  # (M,) the one sensor counting at a location; -1 for none, -2 for several
    before: NDArray[np.float64]  # packed as ``population.initial``: the law one step ago of who starts so
    now: NDArray[np.float64]  # the same of this step


class Scratch(NamedTuple):
    """Working memory of one thread."""

    left: NDArray[np.float64]  # (K, K) from the place at the last told step to the one now
    right: NDArray[np.float64]  # (K, K) from there to the next step
    weight: NDArray[np.float64]  # (K,) probability of the place at the last told step
    unit: NDArray[np.float64]
    moved: NDArray[np.float64]
    passing: NDArray[np.float64]  # (K + 1, K) by sensor, none first, and by place at the next step
    own: NDArray[np.int64]  # (K,) which of the person's sensors counts at each place, from 1; 0 none, -2
    sensor: NDArray[np.int64]  # (K,) those sensors
    sums: NDArray[np.float64]  # (K, COLUMNS)


@jit
def new_scratch(most_places: int) -> Scratch:
    """For people with up to so many places."""
    size = max(most_places, 1)
    return Scratch(
        np.zeros((size, size)),
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros((size + 1, size)),
        np.zeros(size, np.int64),
        np.zeros(size, np.int64),
        np.zeros((size, COLUMNS)),
    )


@bare_jit
def find_own_sensors(places: NDArray[np.int32], sensor: NDArray[np.int64], scratch: Scratch) -> int:
    """Number the sensors that count at exactly one of the person's places or more; -1 if nobody counts.

    Places of several sensors are marked ``SEVERAL``: whoever is there is told.
    """
    count, is_seen = 0, False
    for z in range(places.size):
        found = sensor[places[z]]
        scratch.own[z] = 0 if found == NOBODY else found
        if found != NOBODY:
            is_seen = True
        if found >= 0:
            k = 0
            while k < count and scratch.sensor[k] != found:
                k += 1
            if k == count:
                scratch.sensor[count] = found
                count += 1
            scratch.own[z] = k + 1
    return count if is_seen else -1


@bare_jit
def add_free_bits(
    scratch: Scratch, first_places: int, places: int, last_places: int, sensors: int, designated: int
) -> None:
    """Add to ``scratch.sums`` what a person's free step gives, from ``weight``, ``left``, ``right``, ``own``.

    ``designated`` is a sensor's number, 0 to choose the one with most variance for each pair of told places.
    """
    for x in range(first_places):
        weight = scratch.weight[x]
        if weight <= 0.0:
            continue
        for k in range(sensors + 1):
            for y in range(last_places):
                scratch.passing[k, y] = 0.0
        for z in range(places):
            reached = scratch.left[x, z]
            if reached > 0.0 and scratch.own[z] >= 0:
                for y in range(last_places):
                    scratch.passing[scratch.own[z], y] += reached * scratch.right[z, y]
        for y in range(last_places):
            nowhere = scratch.passing[0, y]
            if nowhere > 0.0:
                best, most = 0, 0.0
                for k in range(1, sensors + 1):
                    a = scratch.passing[k, y]
                    spread = a * nowhere / (a + nowhere)
                    if spread > most and (designated in (0, k)):
                        best, most = k, spread
                if best > 0:
                    _add_bit(scratch.sums, best - 1, weight, scratch.passing[best, y], nowhere)


@bare_jit
def _add_bit(sums: NDArray[np.float64], sensor: int, weight: float, here: float, nowhere: float) -> None:
    """One pair of told places: the bit is 1 with probability ``here / (here + nowhere)``."""
    mass = here + nowhere
    spread = here * nowhere / mass
    variance = spread / mass
    sums[sensor, VARIANCE] += weight * spread
    sums[sensor, COINS] += weight * 2.0 * min(here, nowhere)
    mass *= weight
    half = exp(-0.5 * variance)
    one = half * half
    two = one * one
    three = two * one
    sums[sensor, TRANSFORMS] += mass * (1.0 - half)
    sums[sensor, TRANSFORMS + 1] += mass * (1.0 - one)
    column = TRANSFORMS + 2
    for _ in range(5):  # rates 2, 3, then twice each: 4, 6, 8, 12, ..
        sums[sensor, column] += mass * (1.0 - two)
        sums[sensor, column + 1] += mass * (1.0 - three)
        column += 2
        two *= two
        three *= three
    sums[sensor, column] += mass * (1.0 - two)


@bare_jit
def _units_of(sums: NDArray[np.float64], sensor: int, total: NDArray[np.int64]) -> None:
    """One person's sums in fixed point, each towards less of a crowd: one unit is more than any rounding."""
    for column in range(TRANSFORMS):
        total[column] += max(0, int(sums[sensor, column] * UNITS) - 1)
    for column in range(TRANSFORMS, COLUMNS):
        lost = -log(1.0 - sums[sensor, column] + _ROUNDING)  # the transform is minus this
        total[column] += max(0, int(lost * UNITS) - 1)


@jit
def _lay_out_moves(chain: ChainView, slot: int, back: int, scratch: Scratch) -> None:
    """``left`` over the ``back`` steps up to ``slot``, ``right`` of the next one; ``weight`` is not touched.

    Without a step back ``left`` stays as it is.
    """
    places = chain.places.size
    cycle = chain.start.shape[0]
    for z in range(places):
        for y in range(places):
            scratch.right[z, y] = 0.0
    for y in range(places):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            scratch.right[chain.row[j], y] = chain.value[j]
    if back == 1:
        earlier = (slot - 1) % cycle
        for x in range(places):
            for z in range(places):
                scratch.left[x, z] = 0.0
        for z in range(places):
            for j in range(chain.column_start[earlier, z], chain.column_start[earlier, z + 1]):
                scratch.left[chain.row[j], z] = chain.value[j]
        return
    for x in range(places if back > 1 else 0):
        scratch.unit[:places] = 0.0
        scratch.unit[x] = 1.0
        for gone in range(back):
            predict(chain, (slot - back + gone) % cycle, scratch.unit[:places], scratch.moved[:places])
            scratch.unit[:places] = scratch.moved[:places]
        scratch.left[x, :places] = scratch.unit[:places]


@jit
def _lay_out(crowd: Crowd, person: int, chain: ChainView, state: int, scratch: Scratch) -> int:
    """``weight``, ``left`` and ``right`` of a person who is free; how many places were told of."""
    places, cycle = chain.places.size, chain.start.shape[0]
    slot = crowd.slot % cycle
    own = crowd.population.initial_start[person]
    has_own_law = crowd.population.initial_start[person + 1] > own
    if state >= NOT_YET:
        _lay_out_moves(chain, slot, 0, scratch)
        scratch.weight[0] = 1.0
        for z in range(places):
            scratch.left[0, z] = crowd.now[own + z] if has_own_law else chain.start[slot, z]
        return 1
    back = 1 if has_own_law else min(state, MOST_STEPS_BACK)
    _lay_out_moves(chain, slot, back, scratch)
    for x in range(places):
        scratch.weight[x] = crowd.before[own + x] if has_own_law else chain.start[(slot - back) % cycle, x]
    return places


@bare_jit
def told_next(state: int) -> int:
    """State after a step in which nothing was asked of the person; counting stops at ``MOST_STEPS_BACK``."""
    if state >= NOT_YET:
        return state
    return min(state + 1, MOST_STEPS_BACK)


def _blocks(crowd: Crowd, state: NDArray[np.int8], sums: NDArray[np.int64]) -> int:
    return int(sums.shape[0])


@pjit(_blocks)
def add_up_crowd(
    begin: int, end: int, crowd: Crowd, state: NDArray[np.int8], sums: NDArray[np.int64]
) -> None:
    """One step: ``sums`` (blocks, S, COLUMNS) of each block of people, zero before; ``state`` (N,) moves on.

    Block ``b`` is the people ``crowd.people[b * PEOPLE_A_BLOCK:(b + 1) * PEOPLE_A_BLOCK]``.
    """
    most = 1
    for i in range(begin * PEOPLE_A_BLOCK, min(end * PEOPLE_A_BLOCK, crowd.people.size)):
        person = crowd.people[i]
        most = max(most, crowd.population.places_start[person + 1] - crowd.population.places_start[person])
    scratch = new_scratch(min(most, MOST_PLACES))
    for block in range(begin, end):
        first = block * PEOPLE_A_BLOCK
        for i in range(first, min(first + PEOPLE_A_BLOCK, crowd.people.size)):
            _add_person(crowd, crowd.people[i], state, scratch, sums[block])


@jit
def _add_person(
    crowd: Crowd, person: int, state: NDArray[np.int8], scratch: Scratch, sums: NDArray[np.int64]
) -> None:
    """Ask one person, by the greedy rule."""
    chain = chain_view(crowd.population, person)
    places, before = chain.places.size, state[person]
    if places > MOST_PLACES:
        state[person] = 1
        return
    sensors = find_own_sensors(chain.places, crowd.sensor, scratch)
    if before == FREE:
        state[person] = 1
        return
    if sensors < 0:
        state[person] = told_next(before)
        return
    state[person] = 1
    if sensors == 0 or before == NOT_YET_LATE:
        return
    first_places = _lay_out(crowd, person, chain, before, scratch)
    scratch.sums[:sensors] = 0.0
    add_free_bits(scratch, first_places, places, places, sensors, 0)
    for k in range(sensors):
        if scratch.sums[k, VARIANCE] > 0.0:
            state[person] = FREE
            _units_of(scratch.sums, k, sums[scratch.sensor[k]])


def _people(population: PopulationArrays, people: NDArray[np.int64], *_: object) -> int:
    return int(people.size)


@pjit(_people)
def advance_laws(
    begin: int,
    end: int,
    population: PopulationArrays,
    people: NDArray[np.int64],
    slot: int,
    before: NDArray[np.float64],
    now: NDArray[np.float64],
) -> None:
    """Move on the laws of those with an initial distribution: from ``slot`` to the next."""
    for i in range(begin, end):
        chain = chain_view(population, people[i])
        own = population.initial_start[people[i]]
        last = own + chain.places.size
        before[own:last] = now[own:last]
        predict(chain, slot % chain.start.shape[0], before[own:last], now[own:last])
