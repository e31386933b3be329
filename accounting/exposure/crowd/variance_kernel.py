"""What the others' unknown places add to each count: their sums of variances, coins and transforms.

The bound gives the adversary part of the others' movements, chosen from priors, schedule and a public coin
alone, never from a place that was not revealed; knowing more does no adversary harm. At a step each other
person is

- *revealed*: the adversary learns the place;
- *free*: the adversary learns whether the place is counted by one *designated* sensor alone or by none, and
  otherwise the place itself. The sensor is chosen from the person's places at the revealed steps before and
  after;
- *silent*: nothing is revealed, where no sensor counts at any of the person's places.

- near counters of moves *paired*: with the places before and after revealed, each place the person may be at
  gives a set of counts, of the step and of the moves into it and out of it. Two sets that differ in one count
  are a pair; each set is in one pair at most. The adversary learns the pair, or the place if it is in none.

Between two free steps of a person there is a revealed one, so the free bits "is the designated sensor
counting the person", or "which of the pair", are independent of each other over people, steps and sensors
(Markov), and all else in the counts is known. With ``x`` the place at the last revealed step and ``y`` at the
next, the bit has ``q = a / (a + b)``, ``a`` the probability of going from ``x`` to ``y`` by a place of the
sensor alone, ``b`` by one that nobody counts; of a pair, by places of the one set and of the other. A count
is then a known number, the one target's bit and an independent sum of such bits.

The rule is greedy and never revised: a person whom a sensor may count is free, unless free at the step
before; the step after a free one is revealed. The coin makes half of the people start one seen step later,
also of those who live like one persona, so a persona is asked twice and its sums count for half of them each.

For example a person at one of two places with probability 1/2 each, whatever came before, and one of them
counted: free at every other step, ``q = 1/2``, a variance of 1/4.
"""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.propagation import predict
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, bare_pjit, inline, jit, pjit
from models.priors.chain import ChainView, PopulationArrays, inlined_chain_view

# Masses of a difference of two Poisson counts, the flattest law with a given sum of variances.
#
# For a sum ``N`` of independent bits with variances that add up to ``V`` the probability of any value is at
# most ``(1/2 pi) int |E e^(i theta N)| <= (1/2 pi) int e^(-V (1 - cos theta)) = e^-V I_0(V)``, and it is
# attained in the limit by half of the bits with small ``q`` and half with small ``1 - q``. With released
# noise of probabilities ``f``, which must have a non-negative characteristic function, the same integral
# gives ``sum_k f(k) e^-V I_k(V)``, ``I_k`` the modified Bessel functions: the masses below.

_LEAST, _MOST = 1e-6, 1e9  # beyond, the masses are those of the nearest: 1 at zero, or too large
_LARGE = 1e200
_DIFFERENCE_ROUNDING = 1e-11  # relative: thousands of positive terms, each rounded


@jit
def difference_masses(variance: float, last: int) -> Floats:
    """``e^-V I_k(V)`` for ``k = 0..last``, rounded up; of a smaller variance where it is beyond the range.

    By the recurrence ``I_(k-1) = I_(k+1) + (2 k / V) I_k`` from far out inwards, in which every term is
    positive, and by ``I_0 + 2 I_1 + 2 I_2 + .. = e^V``: no exponential, so the same bits everywhere.
    """
    found = np.zeros(last + 1)
    if variance < _LEAST:
        found[0] = 1.0
        return found
    variance = min(variance, _MOST)
    above, here, total = 0.0, 1e-300, 0.0
    for k in range(last + 40 + int(10.0 * sqrt(variance)), 0, -1):
        if k <= last:
            found[k] = here
        total += 2.0 * here
        above, here = here, above + (2.0 * k / variance) * here
        if here > _LARGE:
            above, here, total = above / _LARGE, here / _LARGE, total / _LARGE
            for j in range(k, last + 1):
                found[j] /= _LARGE
    found[0] = here
    return found * ((1.0 + _DIFFERENCE_ROUNDING) / (total + here))


FREE = 0
"""State of a person who was free at the step before; 1, 2, .. of one revealed so many steps ago."""

NOT_YET, NOT_YET_LATE = 120, 121
"""States of a person of whom nothing was revealed so far; the latter is revealed when first seen."""

MOST_STEPS_BACK = 8
"""Of a person revealed longer ago, the place so many steps ago counts as revealed too."""

_COUNTS_A_PLACE = 4
"""Counts of moves that are told apart, by the places of a person; whoever makes another move is revealed."""

MOST_PLACES = 64
"""A person with more places is always revealed: the work grows with the cube of their number."""

RATES = (0.5, 1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 24.0, 32.0, 48.0, 64.0)
"""Arguments of the transforms ``ln E e^(-rate V)``."""

UNITS = 1 << 32
"""Fixed point of all sums: they are exact then, whatever the order, the threads or the partitions."""

VARIANCE, COINS, TRANSFORMS = 0, 1, 2
"""Columns of the sums: ``V``, ``mu``, and from ``TRANSFORMS`` on one for each rate."""

COLUMNS = TRANSFORMS + len(RATES)
PEOPLE_A_BLOCK = 1024

NOBODY, SEVERAL = -1, -2
_0, _1, _2 = np.uint64(0), np.uint64(1), np.uint64(2)  # numba counts a signed index from the end if it must

_ROUNDING = 1e-12  # up to 4096 probabilities, each rounded, are added; the logarithm's argument is above 1e-7


class Asked(NamedTuple):
    """Who is asked together: people of one prior and one coin, which a person of their own has alone.

    Somebody with a prior of their own is asked as one whole person. Of a persona one half is asked with each
    coin; the rest of its number is a person who is there with that chance.
    """

    start: Integers  # (N + 1,) those of prior i are start[i]..start[i + 1] - 1
    prior: Integers  # (E,) by position in the population
    whole: Integers  # (E,) how many people
    chance: Floats  # (E,) that there is one more


class Ends(NamedTuple):
    """Ends of counted moves by the location they are at: of location ``m`` ``start[m]..start[m + 1] - 1``."""

    start: Integers  # (M + 1,)
    beyond: Integers  # (E,) the location of the other end
    number: Integers  # (E,) of the count


class Crowd(NamedTuple):
    """The others at one step, and the sensors that are released in it."""

    population: PopulationArrays
    asked: Asked
    people: Integers  # (n,) by position among the asked
    slot: int  # of the step, before it is taken modulo a person's own cycle
    sensor: Integers  # (M,) the one sensor counting at a location; -1 for none, -2 for several
    arriving: Ends  # of moves into the step
    leaving: Ends  # of moves out of it
    before: Floats  # laws one step ago of people with an initial distribution, packed like it
    now: Floats  # the same of this step


class CrowdScratch(NamedTuple):
    """Working memory of one thread."""

    left: Floats  # (K, K) from the place at the last revealed step to the one now
    right: Floats  # (K, K) from there to the next step
    weight: Floats  # (K,) probability of the place at the last revealed step
    unit: Floats
    moved: Floats
    passing: Floats  # (K + 1, K) by sensor, none first, and by place at the next step
    own: Integers  # (K,) which of the person's sensors counts at each place, from 1; 0 none, -2
    arriving: Integers  # (K, K) the same of moves into the step, from place to place
    leaving: Integers  # (K, K) of moves out of it
    mass: Floats  # (K,) of each set of counts
    counts: Integers  # (K, 3) of the place, the move into the step, and the one out of it; 0 none
    sensor: Integers  # (C,) those sensors
    sums: Floats  # (C, COLUMNS)


@jit
def new_crowd_scratch(most_places: int) -> CrowdScratch:
    """For people with up to so many places."""
    size = max(most_places, 1)
    counts = size * _COUNTS_A_PLACE
    return CrowdScratch(
        np.zeros((size, size)),
        np.zeros((size, size)),
        np.zeros(size),
        np.zeros(size),
        np.zeros(size),
        np.zeros((size + 1, size)),
        np.zeros(size, np.int64),
        np.zeros((size, size), np.int64),
        np.zeros((size, size), np.int64),
        np.zeros(size),
        np.zeros((size, 3), np.int64),
        np.zeros(counts, np.int64),
        np.zeros((counts, COLUMNS)),
    )


@inline
def _number_of(scratch: CrowdScratch, count: int, sensor: int) -> int:
    """The number of a sensor among the person's, of which there are so many; one more if it is none."""
    k = 0
    while k < count and scratch.sensor[k] != sensor:
        k += 1
    return k


@bare_jit
def find_own_sensors(places: Integers32, sensor: Integers, scratch: CrowdScratch) -> int:
    """Number the sensors that count at one of the person's places or more; how many, -1 if none counts.

    Places of several sensors are marked ``SEVERAL``: a person there is revealed.
    """
    count, is_seen = 0, False
    for z in range(places.size):
        found = sensor[places[z]]
        scratch.own[z] = 0 if found == NOBODY else found
        if found != NOBODY:
            is_seen = True
        if found >= 0:
            k = _number_of(scratch, count, found)
            if k == count:
                scratch.sensor[count] = found
                count += 1
            scratch.own[z] = k + 1
    return count if is_seen else -1


@bare_jit
def find_own_ends(places: Integers32, crowd: Crowd, count: int, scratch: CrowdScratch) -> int:
    """Number the counts of moves that the person can make behind ``count`` sensors; -1 if there are none."""
    is_near, size = False, places.size
    for z in range(size):
        at = places[z]
        is_near |= crowd.arriving.start[at] < crowd.arriving.start[at + 1]
        is_near |= crowd.leaving.start[at] < crowd.leaving.start[at + 1]
    if not is_near:
        return -1
    found = count
    for z in range(size):
        for x in range(size):
            scratch.arriving[x, z] = 0
            scratch.leaving[x, z] = 0
    for z in range(size):
        found = _find_ends_at(places, z, crowd.arriving, True, found, scratch)
        found = _find_ends_at(places, z, crowd.leaving, False, found, scratch)
    return found if found > count else -1


@bare_jit
def _find_ends_at(
    places: Integers32, here: int, ends: Ends, is_arriving: bool, count: int, scratch: CrowdScratch
) -> int:
    """Number the counts of moves that end at one of the person's places; how many there are then."""
    for e in range(ends.start[places[here]], ends.start[places[here] + 1]):
        for beyond in range(places.size):
            if places[beyond] != ends.beyond[e]:
                continue
            k = _number_of(scratch, count, ends.number[e])
            if k == count and count < scratch.sensor.size:
                scratch.sensor[count] = ends.number[e]
                count += 1
            if is_arriving:
                is_sole = scratch.arriving[beyond, here] == 0 and k < count
                scratch.arriving[beyond, here] = k + 1 if is_sole else SEVERAL
            else:
                is_sole = scratch.leaving[here, beyond] == 0 and k < count
                scratch.leaving[here, beyond] = k + 1 if is_sole else SEVERAL
    return count


@bare_jit
def add_paired_bits(scratch: CrowdScratch, first_places: int, places: int, is_revealed_before: bool) -> None:
    """Add to ``scratch.sums`` what a person's free step gives near counters of moves.

    Pairs are taken one after the other, that with most variance first. Where the place in the step before is
    not revealed, whoever is where counted moves lead is.
    """
    for z in range(0 if is_revealed_before else places):
        is_counted = False
        for x in range(places):
            is_counted |= scratch.arriving[x, z] != 0
        for x in range(first_places):
            scratch.arriving[x, z] = SEVERAL if is_counted else 0
    for x in range(first_places):
        if scratch.weight[x] > 0.0:
            for y in range(places):
                _add_pairs(scratch, scratch.weight[x], _find_sets(scratch, x, places, y))


@bare_jit
def _find_sets(scratch: CrowdScratch, x: int, places: int, y: int) -> int:
    """The sets of counts of places on the way from ``x`` to ``y``, with their ``mass``; how many there are.

    Places at which two sensors count one thing are in no set.
    """
    found = 0
    for z in range(places):
        mass = scratch.left[x, z] * scratch.right[z, y]
        own, into, out = scratch.own[z], scratch.arriving[x, z], scratch.leaving[z, y]
        if mass <= 0.0 or own < 0 or into < 0 or out < 0:
            continue
        k = 0
        while k < found and (
            scratch.counts[k, 0] != own or scratch.counts[k, 1] != into or scratch.counts[k, 2] != out
        ):
            k += 1
        if k == found:
            scratch.counts[k, 0], scratch.counts[k, 1], scratch.counts[k, 2] = own, into, out
            scratch.mass[k] = 0.0
            found += 1
        scratch.mass[k] += mass
    return found


@bare_jit
def _add_pairs(scratch: CrowdScratch, weight: float, sets: int) -> None:
    """Pairs of so many sets; ``mass`` becomes 0 of those that are in one."""
    while True:
        best, more, less, count = 0.0, 0, 0, 0
        for i in range(sets):
            for side in range(3):
                if scratch.mass[i] <= 0.0 or scratch.counts[i, side] == 0:
                    continue
                for j in range(sets):
                    is_pair = scratch.mass[j] > 0.0 and scratch.counts[j, side] == 0
                    for other in range(3):
                        is_alike = scratch.counts[i, other] == scratch.counts[j, other]
                        is_pair = is_pair and (other == side or is_alike)
                    if is_pair:
                        spread = scratch.mass[i] * scratch.mass[j] / (scratch.mass[i] + scratch.mass[j])
                        if spread > best:
                            best, more, less, count = spread, i, j, scratch.counts[i, side]
        if best <= 0.0:
            return
        _add_bit(scratch.sums, np.uint64(count - 1), weight, scratch.mass[more], scratch.mass[less])
        scratch.mass[more] = 0.0
        scratch.mass[less] = 0.0


@bare_jit
def add_free_bits(
    scratch: CrowdScratch, first_places: int, places: int, last_places: int, sensors: int, designated: int
) -> None:
    """Add to ``scratch.sums`` what a person's free step gives, from ``weight``, ``left``, ``right``, ``own``.

    ``designated`` is a sensor's number, 0 to choose the one with most variance for each pair of places.
    """
    last = np.uint64(last_places)
    for x in range(np.uint64(first_places)):
        weight = scratch.weight[x]
        if weight <= 0.0:
            continue
        _pass_by(scratch, np.uint64(x), np.uint64(places), last, np.uint64(sensors))
        for y in range(last):
            nowhere = scratch.passing[_0, y]
            if nowhere <= 0.0:
                continue
            best, here = designated, scratch.passing[np.uint64(designated), y]
            if designated == 0:
                here = 0.0
                for k in range(_1, np.uint64(sensors + 1)):  # the variance rises with the sensor's part
                    if scratch.passing[k, y] > here:
                        best, here = int(k), scratch.passing[k, y]
            if here * nowhere > 0.0:
                _add_bit(scratch.sums, np.uint64(best - 1), weight, here, nowhere)


@bare_jit
def _pass_by(
    scratch: CrowdScratch, x: np.uint64, places: np.uint64, last_places: np.uint64, sensors: np.uint64
) -> None:
    """``passing`` on the way from place ``x``: by each sensor's places, and by those of no sensor."""
    for k in range(sensors + _1):
        for y in range(last_places):
            scratch.passing[k, y] = 0.0
    for z in range(places):
        reached, own = scratch.left[x, z], scratch.own[z]
        if reached > 0.0 and own >= 0:
            sensor = np.uint64(own)
            for y in range(last_places):
                scratch.passing[sensor, y] += reached * scratch.right[z, y]


@inline
def _exp_of_minus(t: float) -> float:
    """``e^-t`` for ``0 <= t <= 1/8``: its series up to ``t^10``, which leaves out less than 3e-18.

    Even and odd powers apart. Within 2.1e-16 of it, so within 5e-14 after seven squarings; the library's
    function took a third of the time of a whole step.
    """
    u = t * t
    even = 1.0 + u * (1 / 2 + u * (1 / 24 + u * (1 / 720 + u * (1 / 40320 + u * (1 / 3628800)))))
    odd = t * (1.0 + u * (1 / 6 + u * (1 / 120 + u * (1 / 5040 + u * (1 / 362880)))))
    return even - odd


@bare_jit
def _add_bit(sums: Floats, sensor: np.uint64, weight: float, here: float, nowhere: float) -> None:
    """One pair of revealed places: the bit is 1 with probability ``here / (here + nowhere)``."""
    mass = here + nowhere
    spread = here * nowhere / mass
    variance = spread / mass
    sums[sensor, np.uint64(VARIANCE)] += weight * spread
    sums[sensor, np.uint64(COINS)] += weight * 2.0 * min(here, nowhere)
    mass *= weight
    half = _exp_of_minus(0.5 * variance)
    one = half * half
    two = one * one
    three = two * one
    column = np.uint64(TRANSFORMS)
    sums[sensor, column] += mass * (1.0 - half)
    sums[sensor, column + _1] += mass * (1.0 - one)
    column += _2
    for _ in range(5):  # rates 2, 3, then twice each: 4, 6, 8, 12, ..
        sums[sensor, column] += mass * (1.0 - two)
        sums[sensor, column + _1] += mass * (1.0 - three)
        column += _2
        two *= two
        three *= three
    sums[sensor, column] += mass * (1.0 - two)


@bare_jit
def _units_of(sums: Floats, sensor: int, whole: int, chance: float, total: Integers) -> None:
    """The sums of so many people, and of one who is there with a chance, in fixed point.

    Each towards less of a crowd: one unit is more than any rounding. The one's transform is at most
    ``chance (E e^(-rate V) - 1)``, whether it is one person, or people whose personas are drawn one by one.
    """
    for column in range(COLUMNS):
        one = max(0, int(sums[sensor, column] * UNITS) - 1)
        if chance > 0.0:
            total[column] += max(0, int(chance * one) - 1)
        if column >= TRANSFORMS:
            lost = -log(1.0 - sums[sensor, column] + _ROUNDING)  # the transform is minus this
            one = max(0, int(lost * UNITS) - 1)
        total[column] += whole * one


@bare_jit
def _lay_out_moves(chain: ChainView, slot: int, back: int, scratch: CrowdScratch) -> None:
    """``left`` over the ``back`` steps up to ``slot``, ``right`` of the next one; ``weight`` is not touched.

    Without a step back ``left`` stays as it is.
    """
    places = np.uint64(chain.places.size)
    cycle = chain.start.shape[0]
    _lay_out_matrix(chain, slot, places, scratch.right)
    if back == 1:
        _lay_out_matrix(chain, (slot - 1) % cycle, places, scratch.left)
        return
    for x in range(places if back > 1 else _0):
        for z in range(places):
            scratch.unit[z] = 1.0 if z == x else 0.0
        for gone in range(back):
            predict(chain, (slot - back + gone) % cycle, scratch.unit[:places], scratch.moved)
            for z in range(places):
                scratch.unit[z] = scratch.moved[z]
        for z in range(places):
            scratch.left[x, z] = scratch.unit[z]


@bare_jit
def _lay_out_matrix(chain: ChainView, slot: int, places: np.uint64, matrix: Floats) -> None:
    """The moves of one slot, rows first; a full column is read without its indices."""
    column = chain.column_start[slot]
    for y in range(places):
        first, last = np.uint64(column[y]), np.uint64(column[y + _1])
        if last - first == places:
            for x in range(places):
                matrix[x, y] = chain.value[first + x]
        else:
            for x in range(places):
                matrix[x, y] = 0.0
            for j in range(first, last):
                matrix[np.uint64(chain.row[j]), y] = chain.value[j]


@bare_jit
def _lay_out(crowd: Crowd, person: int, chain: ChainView, state: int, scratch: CrowdScratch) -> int:
    """Fill ``weight``, ``left`` and ``right`` of a free person; the number of places revealed last."""
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
    return int(places)


@pjit(lambda crowd, state, sums: sums.shape[0])
def add_up_crowd(begin: int, end: int, crowd: Crowd, state: NDArray[np.int8], sums: Integers) -> None:
    """One step: ``sums`` (blocks, S, COLUMNS) of each block of people, zero before; ``state`` (E,) moves on.

    Block ``b`` is the asked ``crowd.people[b * PEOPLE_A_BLOCK:(b + 1) * PEOPLE_A_BLOCK]``.
    """
    most = 1
    for i in range(begin * PEOPLE_A_BLOCK, min(end * PEOPLE_A_BLOCK, crowd.people.size)):
        person = crowd.asked.prior[crowd.people[i]]
        most = max(most, crowd.population.places_start[person + 1] - crowd.population.places_start[person])
    scratch = new_crowd_scratch(min(most, MOST_PLACES))
    for block in range(begin, end):
        _add_block(crowd, block * PEOPLE_A_BLOCK, state, scratch, sums[block])


@bare_jit
def _add_block(
    crowd: Crowd, first: int, state: NDArray[np.int8], scratch: CrowdScratch, sums: Integers
) -> None:
    """Ask so many people from ``first`` on."""
    for i in range(first, min(first + PEOPLE_A_BLOCK, crowd.people.size)):
        _add_person(crowd, crowd.people[i], state, scratch, sums)


@bare_jit
def _add_person(
    crowd: Crowd, asked: int, state: NDArray[np.int8], scratch: CrowdScratch, sums: Integers
) -> None:
    """Ask one person, or people of one persona and coin, by the greedy rule."""
    person = crowd.asked.prior[asked]
    chain = inlined_chain_view(crowd.population, person)
    places, before = chain.places.size, state[asked]
    if places > MOST_PLACES:
        state[asked] = 1
        return
    sensors = find_own_sensors(chain.places, crowd.sensor, scratch)
    counted = find_own_ends(chain.places, crowd, max(sensors, 0), scratch)
    sensors = max(sensors, counted)
    if before == FREE:
        state[asked] = 1
        return
    if sensors < 0:
        if before < NOT_YET:  # nothing is asked of the person; counting stops at ``MOST_STEPS_BACK``
            state[asked] = min(before + 1, MOST_STEPS_BACK)
        return
    state[asked] = 1
    if sensors == 0 or before == NOT_YET_LATE:
        return
    first_places = _lay_out(crowd, person, chain, before, scratch)
    for k in range(sensors):
        for column in range(COLUMNS):
            scratch.sums[k, column] = 0.0
    if counted > 0:
        add_paired_bits(scratch, first_places, places, before == 1)
    else:
        add_free_bits(scratch, first_places, places, places, sensors, 0)
    for k in range(sensors):
        if scratch.sums[k, VARIANCE] > 0.0:
            state[asked] = FREE
            _units_of(
                scratch.sums, k, crowd.asked.whole[asked], crowd.asked.chance[asked], sums[scratch.sensor[k]]
            )


@bare_pjit(lambda population, people, *_: people.size)
def advance_laws(
    begin: int,
    end: int,
    population: PopulationArrays,
    people: Integers,
    slot: int,
    before: Floats,
    now: Floats,
) -> None:
    """Move on the laws of those with an initial distribution: from ``slot`` to the next."""
    for i in range(begin, end):
        chain = inlined_chain_view(population, people[i])
        own = population.initial_start[people[i]]
        last = own + chain.places.size
        for z in range(own, last):
            before[z] = now[z]
        predict(chain, slot % chain.start.shape[0], before[own:last], now[own:last])
