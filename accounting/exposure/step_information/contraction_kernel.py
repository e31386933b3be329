"""How fast a chain forgets: strong data-processing coefficients of its transition matrices.

For a channel with rows ``P_x`` the mutual information that survives it is at most ``eta`` times what went in,
``eta`` being attained by two inputs (Ordentlich and Polyanskiy, *Strong Data Processing Constant is Achieved
by Binary Inputs*, 2021). For a pair of rows with Bhattacharyya coefficient ``BC`` and total variation ``TV``,

    eta(P_x, P_x') <= min(TV, 1 - BC^2)

(the first is Dobrushin's; the second is ``H^2 - H^4 / 4`` with the squared Hellinger distance
``H^2 = 2 - 2 BC``, from the same paper). The second is quadratically smaller for rows that nearly agree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.hmm.eight import is_any_above, load, smaller_of, spread_out, store
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

GAPS = (1, 2, 4, 8)
"""Numbers of steps whose coefficients are kept; the ones between are bounded by the next smaller gap."""

MAX_PLACES = 320
"""Above this many places products of matrices are not formed; Doeblin's coefficient of one step is used."""

_0, _1 = np.uint64(0), np.uint64(1)

_FAR = 0.8  # a coefficient above which the masses in common tell after few places that two rows are nearer
_ROUNDING = 8e-16  # a row's sums are wrong by less than this times its number of places


class _Work(NamedTuple):
    """What the coefficients of one chain take; ``W`` is K in whole sixteens."""

    order: Integers  # (K,), the places where most mass is first
    roots: Floats  # (K, W), roots of the matrix, once they are needed
    sums: Floats  # (2, 16), what two rows have in common with sixteen others
    entry: Floats  # (K,), what is not zero in a column
    source: Integers  # (K,), and in which rows


@inline
def _in_sixteens(places: int) -> int:
    return (places + 15) // 16 * 16


@jit
def _new_work(law: Floats) -> _Work:
    """That work, empty, for matrices that lead to this law."""
    places = law.size
    is_heavy = law * places >= 1.0
    order = np.concatenate((np.flatnonzero(is_heavy), np.flatnonzero(~is_heavy)))
    roots = np.empty((places, _in_sixteens(places)))
    return _Work(order, roots, np.empty((2, 16)), np.empty(places), np.empty(places, np.int64))


# Matrices are turned: a row for each place that one comes to, as a chain's columns are. The places one leaves
# lie side by side in it, and beyond the last one the first is repeated, which changes no coefficient.


@bare_jit
def _lay_out(chain: ChainView, slot: int, matrices: Floats, first: int) -> None:
    """Fill in one slot's matrix, in rows ``first`` and on."""
    places = chain.places.size
    for y in range(places):
        for x in range(places):
            matrices[first + y, x] = 0.0
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            matrices[first + y, chain.row[j]] = chain.value[j]
        for x in range(places, matrices.shape[1]):
            matrices[first + y, x] = matrices[first + y, 0]


@jit
def dense_matrix(chain: ChainView, slot: int) -> Floats:
    """The transition matrix of one slot as (K, K), rows are the places one leaves."""
    matrix = np.empty((chain.places.size, chain.places.size))
    _lay_out(chain, slot, matrix, 0)
    return matrix.T.copy()


@jit
def _turned(matrix: Floats) -> Floats:
    """A copy, turned."""
    places = matrix.shape[0]
    wide = np.empty((places, _in_sixteens(places)))
    wide[:, :places] = matrix.T
    wide[:, places:] = wide[:, :1]
    return wide


@inline
def _add_rows(
    entry: Floats,
    source: Integers | Integers32,
    begin: int,
    end: int,
    rows: Floats,
    first: int,
    totals: Floats,
    to: int,
) -> None:
    """``totals[to] = sum_i entry[i] rows[first + source[i]]`` for ``begin <= i < end``.

    Thirty-two sums at a time while there are as many, the terms of each in order.
    """
    width, v = rows.shape[1], 0
    while v < width:
        a, b, c, d = spread_out(0.0), spread_out(0.0), spread_out(0.0), spread_out(0.0)
        is_wide = v + 16 < width
        for i in range(begin, end):
            factor, at = spread_out(entry[np.uint64(i)]), (first + source[np.uint64(i)]) * width + v
            a = a + factor * load(rows, at)
            b = b + factor * load(rows, at + 8)
            if is_wide:
                c = c + factor * load(rows, at + 16)
                d = d + factor * load(rows, at + 24)
        store(a, totals, to * width + v)
        store(b, totals, to * width + v + 8)
        if is_wide:
            store(c, totals, to * width + v + 16)
            store(d, totals, to * width + v + 24)
        v += 32


@bare_jit
def _multiply(rows: Floats, before: int, after: int, to: int, work: _Work) -> None:
    """The moves in rows ``before`` and then those in rows ``after``, in rows ``to``.

    In a fixed order of additions: a BLAS library's bits depend on its threads.
    """
    for y in range(work.entry.size):
        count = _0
        for via in range(work.entry.size):  # without a branch, which could not be foreseen
            work.entry[count], work.source[count] = rows[after + y, via], via
            count += _1 if rows[after + y, via] > 0.0 else _0
        _add_rows(work.entry, work.source, 0, int(count), rows, before, rows, to + y)


@jit
def product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` of square matrices, in a fixed order of additions."""
    size = left.shape[0]
    both = np.concatenate((_turned(left), _turned(right), np.empty((size, _in_sixteens(size)))))
    _multiply(both, 0, size, 2 * size, _new_work(left[0]))
    return both[2 * size :, :size].T.copy()


@jit
def contraction(matrix: Floats) -> float:
    """Largest ``min(TV, 1 - BC^2)`` over two rows of a stochastic matrix, rounded up; 0 for one place."""
    return _contraction(_turned(matrix), 0, _new_work(matrix.sum(axis=0) / matrix.shape[0]))


@bare_jit
def _contraction(rows: Floats, first: int, work: _Work) -> float:
    """:func:`contraction` of the matrix in these rows.

    Of the two coefficients one comes first, and the other is added up only where that is above the largest so
    far: the one that decided last, or always the mass where it tells after few places.
    """
    places = work.order.size
    largest, is_by_mass, work.roots[0, 0] = 0.0, True, -1.0
    for begin in range(0, places, 16):
        for x in range(begin + 1, places, 2):
            if not _compare(rows, first, begin, x, is_by_mass, 1.0 - largest, work):
                continue
            is_mass_first = is_by_mass
            for k in range(min(2, places - x)):
                for z in range(begin, min(begin + 16, x + k)):
                    found = _apart(work.sums[k, z - begin], is_mass_first)
                    if found > largest:
                        if is_mass_first and found == 1.0:
                            return 1.0  # no places in common: nothing is larger
                        other = _apart(
                            _common(rows, first, x + k, z, not is_mass_first, places), not is_mass_first
                        )
                        if other > largest:
                            largest = min(found, other)
                            is_by_mass = (found < other) == is_mass_first or largest > _FAR
    return min(1.0, largest + _ROUNDING * places) if places > 1 else 0.0


@inline
def _apart(common: float, is_by_mass: bool) -> float:
    """``TV`` or ``1 - BC^2`` of two rows, by what they have in common."""
    return 1.0 - common if is_by_mass else 1.0 - common * common


@bare_jit
def _common(rows: Floats, first: int, x: int, z: int, is_by_mass: bool, places: int) -> float:
    """The mass that two rows have in common, or their Bhattacharyya coefficient."""
    total = 0.0
    for y in range(np.uint64(first), np.uint64(first + places)):
        one, other = rows[y, np.uint64(x)], rows[y, np.uint64(z)]
        total += min(one, other) if is_by_mass else np.sqrt(one * other)
    return total


@bare_jit
def _compare(
    rows: Floats, first: int, begin: int, x: int, is_by_mass: bool, most: float, work: _Work
) -> bool:
    """What the rows ``x`` and ``x + 1`` have in common with the sixteen from ``begin`` on.

    By mass, false as soon as that is ``most`` or more of all: what is added is never negative.
    """
    places, width, block = work.roots.shape[0], np.uint64(work.roots.shape[1]), np.uint64(begin)
    here, there = np.uint64(x), np.uint64(min(x + 1, places - 1))
    a, b, c, d = spread_out(0.0), spread_out(0.0), spread_out(0.0), spread_out(0.0)
    if is_by_mass:
        for k in range(0, places, 16):
            for i in range(k, min(k + 16, places)):
                row = np.uint64(first + work.order[np.uint64(i)])
                low, high = load(rows, row * width + block), load(rows, row * width + block + 8)
                one, two = spread_out(rows[row, here]), spread_out(rows[row, there])
                a, b = a + smaller_of(one, low), b + smaller_of(one, high)
                c, d = c + smaller_of(two, low), d + smaller_of(two, high)
            least = smaller_of(smaller_of(a, b), smaller_of(c, d))
            if not is_any_above(spread_out(most), least):
                return False
    else:
        if work.roots[0, 0] < 0.0:
            for y in range(places):
                for v in range(width):
                    work.roots[y, v] = np.sqrt(rows[first + y, v])
        for y in range(np.uint64(places)):
            low, high = load(work.roots, y * width + block), load(work.roots, y * width + block + 8)
            one, two = spread_out(work.roots[y, here]), spread_out(work.roots[y, there])
            a, b = a + one * low, b + one * high
            c, d = c + two * low, d + two * high
    store(a, work.sums, 0)
    store(b, work.sums, 8)
    store(c, work.sums, 16)
    store(d, work.sums, 24)
    return True


@jit
def doeblin(chain: ChainView, slot: int) -> float:
    """``1 - sum_y min_x P[x, y]``: an upper bound on the contraction in one pass over the entries."""
    place_count = chain.places.size
    common = 0.0
    for y in range(place_count):
        first = chain.column_start[slot, y]
        last = chain.column_start[slot, y + 1]
        if last - first == place_count:
            common += chain.value[first:last].min()
    return min(1.0, max(0.0, 1.0 - common) + _ROUNDING * place_count)


@jit
def gap_contractions(chain: ChainView) -> Floats:
    """Contraction of the ``GAPS`` steps that end in each slot, shape (C, len(GAPS)).

    Entry ``[k, j]`` belongs to ``P_{k-g} ... P_{k-1}`` with ``g = GAPS[j]`` (indices modulo C). Products
    double: the one of gap ``2g`` ending in ``k`` is that of gap ``g`` ending in ``k - g`` times that of gap
    ``g`` ending in ``k``, or times ``g`` moves where these have fewer entries.
    """
    slots, place_count = chain.start.shape
    coefficients = np.ones((slots, len(GAPS)))
    if place_count > MAX_PLACES:
        for slot in range(slots):
            coefficients[(slot + 1) % slots, :] = doeblin(chain, slot)
        return coefficients
    rows, width = slots * place_count, _in_sixteens(place_count)
    matrices, work = np.empty((2 * rows + place_count, width)), _new_work(chain.start[0])
    ending, doubled = 0, rows
    exits = chain.value.size / rows
    for slot in range(slots):
        _lay_out(chain, slot, matrices, (slot + 1) % slots * place_count)
    for j in range(len(GAPS)):
        if j > 0:
            gap = GAPS[j - 1]
            is_by_moves = gap * exits <= min(place_count, exits**gap)
            for slot in range(slots):
                before, here = (slot - gap) % slots, doubled + slot * place_count
                if is_by_moves:
                    _move_on(chain, before, gap, matrices, ending + before * place_count, here, 2 * rows)
                else:
                    now = ending + slot * place_count
                    _multiply(matrices, ending + before * place_count, now, here, work)
            ending, doubled = doubled, ending
        for slot in range(slots):
            coefficients[slot, j] = _contraction(matrices, ending + slot * place_count, work)
            if j > 0:
                # Forgetting does not undo itself; this also covers the rounding of the longer product.
                coefficients[slot, j] = min(coefficients[slot, j], coefficients[slot, j - 1])
    return coefficients


@bare_jit
def _move_on(
    chain: ChainView, slot: int, moves: int, matrices: Floats, before: int, to: int, between: int
) -> None:
    """The matrix in rows ``before`` and the moves that follow, in rows ``to``; ``between`` is used."""
    slots, places = chain.start.shape
    for k in range(moves):
        after = to if (moves - k) % 2 == 1 else between
        column = chain.column_start[(slot + k) % slots]
        for y in range(places):
            _add_rows(chain.value, chain.row, column[y], column[y + 1], matrices, before, matrices, after + y)
        before = after
