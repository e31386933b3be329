"""One move of a chain: sums and maxima over the places one can come from, in column (gather) form.

Indices are unsigned and nothing is sliced: numba counts a signed index from the end if it must, and a slice
is an object; on a person's few places both cost several times what the products do.
"""

from __future__ import annotations

import numpy as np

from models.calendar import Calendar
from models.numerics.arrays import Floats
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView, LocalChain, PopulationArrays, slot_of
from models.priors.unrolled import chain_on_the_clock

_0, _1, _2, _3, _4 = np.uint64(0), np.uint64(1), np.uint64(2), np.uint64(3), np.uint64(4)


@inline
def _dot_from(left: Floats, right: Floats, first: np.uint64) -> float:
    """``sum_i left[i] right[first + i]`` with four running sums."""
    a = b = c = d = 0.0
    size = np.uint64(left.size)
    whole = size - size % _4
    i = _0
    while i < whole:
        a += left[i] * right[first + i]
        b += left[i + _1] * right[first + i + _1]
        c += left[i + _2] * right[first + i + _2]
        d += left[i + _3] * right[first + i + _3]
        i += _4
    while i < size:
        a += left[i] * right[first + i]
        i += _1
    return (a + b) + (c + d)


@bare_jit
def dot(left: Floats, right: Floats) -> float:
    """Inner product with four running sums: fast without leaving the order of additions to the compiler."""
    return _dot_from(left, right, _0)


@inline
def _largest_from(left: Floats, right: Floats, first: np.uint64) -> float:
    """``max_i left[i] right[first + i]`` of non-negative vectors, with four running maxima."""
    a = b = c = d = 0.0
    size = np.uint64(left.size)
    whole = size - size % _4
    i = _0
    while i < whole:
        a = max(a, left[i] * right[first + i])
        b = max(b, left[i + _1] * right[first + i + _1])
        c = max(c, left[i + _2] * right[first + i + _2])
        d = max(d, left[i + _3] * right[first + i + _3])
        i += _4
    while i < size:
        a = max(a, left[i] * right[first + i])
        i += _1
    return max(a, b, c, d)


@bare_jit
def largest_product(left: Floats, right: Floats) -> float:
    """``max_i left[i] right[i]`` of non-negative vectors."""
    return _largest_from(left, right, _0)


@bare_jit
def predict(chain: ChainView, slot: int, before: Floats, after: Floats) -> None:
    """``after[y] = sum_x before[x] P[x, y]``; a full column is read without its indices."""
    size, column = np.uint64(before.size), chain.column_start[slot]
    for y in range(size):
        first, last = np.uint64(column[y]), np.uint64(column[y + _1])
        if last - first == size:
            after[y] = _dot_from(before, chain.value, first)
        else:
            total = 0.0
            for j in range(first, last):
                total += before[np.uint64(chain.row[j])] * chain.value[j]
            after[y] = total


@bare_jit
def predict_largest(chain: ChainView, slot: int, before: Floats, after: Floats) -> None:
    """``after[y] = max_x before[x] P[x, y]``: one step of max-product."""
    size, column = np.uint64(before.size), chain.column_start[slot]
    for y in range(size):
        first, last = np.uint64(column[y]), np.uint64(column[y + _1])
        if last - first == size:
            after[y] = _largest_from(before, chain.value, first)
        else:
            best = 0.0
            for j in range(first, last):
                best = max(best, before[np.uint64(chain.row[j])] * chain.value[j])
            after[y] = best


@bare_jit
def retreat(chain: ChainView, slot: int, after: Floats, before: Floats) -> None:
    """``before[x] = sum_y P[x, y] after[y]``: a test vector pulled back one step."""
    size, column = np.uint64(after.size), chain.column_start[slot]
    before[:] = 0.0
    for y in range(size):
        weight = after[y]
        if weight > 0.0:
            first, last = np.uint64(column[y]), np.uint64(column[y + _1])
            if last - first == size:
                for x in range(size):
                    before[x] += weight * chain.value[first + x]
            else:
                for j in range(first, last):
                    before[np.uint64(chain.row[j])] += chain.value[j] * weight


@inline
def first_place_law(population: PopulationArrays, person: int, first_slot: int) -> Floats:
    """A person's initial distribution (K,), or the (cyclo-)stationary one of the slot of the first step."""
    first, last = population.initial_start[person], population.initial_start[person + 1]
    if last > first:
        return population.initial[first:last]
    places = population.places_start[person + 1] - population.places_start[person]
    offset = population.distribution_start[person] + (first_slot % population.slots[person]) * places
    return population.distribution[offset : offset + places]


@jit
def marginals(person: LocalChain, steps: int) -> Floats:
    """``p_t`` for ``t = 0..steps-1``, shape (steps, K)."""
    table = np.empty((steps, person.start.size))
    table[0] = person.start
    for t in range(1, steps):
        predict(person.chain, slot_of(person, t - 1), table[t - 1], table[t])
    return table


_CARRIED = 1000  # steps whose moves are laid out at once


def law_at(
    chain: ChainView, law: Floats | None, begin: int, step: int, first_slot: int, calendar: Calendar | None
) -> Floats:
    """Where a person is at a ``step`` who had this law at step ``begin``, over the chain's places, (K,).

    Through everything that the clock does between. None for the law of the chain's slot, which is kept unless
    there are holidays. ``first_slot`` is the slot of step 0.
    """
    if law is None:
        if calendar is None or not calendar.has_holidays(chain.start.shape[0]):
            begin = step
        clock = chain_on_the_clock(chain, calendar, first_slot + begin, 1)
        law = clock.chain.start[clock.first_slot]
    for first in range(begin, step, _CARRIED):
        count = min(_CARRIED, step - first) + 1
        clock = chain_on_the_clock(chain, calendar, first_slot + first, count)
        law = marginals(LocalChain(clock.chain, law, clock.first_slot), count)[-1]
    return law


@jit
def count_mistakes(now: Floats, right: int, rows: int) -> None:
    """``now[j, x]``, at ``x`` with ``j`` mistakes: one more for every place but ``right``, the guess.

    Rows above ``rows`` are empty; mass that leaves the last row has made too many mistakes and is dropped.
    """
    for j in range(rows, 0, -1):
        kept = now[j, right]
        now[j] = now[j - 1]
        now[j, right] = kept
    kept = now[0, right]
    now[0] = 0.0
    now[0, right] = kept


@jit
def add_rows(chain: ChainView, slot: int, until: Floats, between: Floats, result: Floats) -> None:
    """One more move after a product of moves: ``result = until D P``, all of them transposed.

    ``until[z, x]`` is the probability of being at ``z`` after leaving ``x``; ``D`` weighs the place ``z`` by
    ``between``. Transposed so that the inner loop adds rows, whatever the matrix's zeros; four at a time so
    that the row they are added to is read and written less often.
    """
    weight = np.empty(between.size)
    source = np.empty(between.size, np.int64)
    for y in range(between.size):
        count = 0
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            if between[chain.row[j]] > 0.0:
                weight[count] = chain.value[j] * between[chain.row[j]]
                source[count] = chain.row[j]
                count += 1
        total = result[y]
        total[:] = 0.0
        whole = count - count % 4
        for i in range(0, whole, 4):
            a, b, c, d = weight[i], weight[i + 1], weight[i + 2], weight[i + 3]
            first, second = until[source[i]], until[source[i + 1]]
            third, fourth = until[source[i + 2]], until[source[i + 3]]
            for x in range(total.size):
                total[x] += (a * first[x] + b * second[x]) + (c * third[x] + d * fourth[x])
        for i in range(whole, count):
            only = until[source[i]]
            for x in range(total.size):
                total[x] += weight[i] * only[x]


@bare_jit
def transposed(chain: ChainView, slot: int, result: Floats) -> None:
    """``result[y, x] = P[x, y]``."""
    result[:] = 0.0
    for y in range(result.shape[0]):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            result[y, chain.row[j]] = chain.value[j]


@bare_jit
def full_product(left: Floats, right: Floats, result: Floats) -> None:
    """``left @ right`` in a fixed order of additions; two rows and four terms at a time stay in registers."""
    size = left.shape[0]
    whole = size - size % 4
    for y in range(0, size, 2):
        z = min(y + 1, size - 1)  # the last row of an odd size is computed alone, twice
        upper, lower = result[y], result[z]
        upper[:] = 0.0
        lower[:] = 0.0
        for i in range(0, whole, 4):
            a, b, c, d = left[y, i], left[y, i + 1], left[y, i + 2], left[y, i + 3]
            e, f, g, h = left[z, i], left[z, i + 1], left[z, i + 2], left[z, i + 3]
            first, second, third, fourth = right[i], right[i + 1], right[i + 2], right[i + 3]
            for x in range(size):
                p, q, r, s = first[x], second[x], third[x], fourth[x]
                above = upper[x] + ((a * p + b * q) + (c * r + d * s))
                lower[x] += (e * p + f * q) + (g * r + h * s)
                upper[x] = above
        for i in range(whole, size):
            for x in range(size):
                above = upper[x] + left[y, i] * right[i, x]
                lower[x] += left[z, i] * right[i, x]
                upper[x] = above


@jit
def gap_matrices(chain: ChainView, first_slot: int, starts: int, longest: int) -> Floats:
    """Products of ``1..longest`` consecutive moves, ``[i, g - 1, y, x]`` from ``x`` to ``y`` in ``g`` steps.

    ``i`` counts the slots in which the product starts: ``(first_slot + i) % C`` for ``i < starts``.
    """
    slots, place_count = chain.start.shape
    gaps = np.empty((starts, longest, place_count, place_count))
    anywhere = np.ones(place_count)
    is_full = slots == 1 and chain.value.size == place_count * place_count
    for i in range(starts):
        transposed(chain, (first_slot + i) % slots, gaps[i, 0])
        for g in range(1, longest):
            if is_full:
                full_product(gaps[0, 0], gaps[0, g - 1], gaps[0, g])
            else:
                add_rows(chain, (first_slot + i + g) % slots, gaps[i, g - 1], anywhere, gaps[i, g])
    return gaps
