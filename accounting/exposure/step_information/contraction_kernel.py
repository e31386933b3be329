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

from accounting.hmm.eight import load, smaller_of, spread_out, store
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

GAPS = (1, 2, 4, 8)
"""Numbers of steps whose coefficients are kept; the ones between are bounded by the next smaller gap."""

MAX_PLACES = 320
"""Above this many places products of matrices are not formed; Doeblin's coefficient of one step is used."""

_0, _1 = np.uint64(0), np.uint64(1)

_ROUNDING = 8e-16  # a row's sums are wrong by less than this times its number of places


class _Work(NamedTuple):
    """Sixteen rows of a matrix, with which its others are compared; ``W`` is K in whole sixteens."""

    columns: Floats  # (K, 16), the sixteen rows turned into columns
    turned: Floats  # (K, 16), the same of their roots, once they are needed
    roots: Floats  # (K, W), roots of the matrix, once they are needed
    common: Floats  # (2, 16), the mass that each of two rows has in common with the sixteen
    overlap: Floats  # (2, 16), their Bhattacharyya coefficients
    entry: Floats  # (K,), what is not zero in a row that is multiplied
    source: Integers  # (K,), and in which columns


@inline
def _in_sixteens(places: int) -> int:
    return (places + 15) // 16 * 16


@inline
def _carved(buffer: Floats, first: int, rows: int, width: int) -> Floats:
    return buffer[first * width : (first + rows) * width].reshape(rows, width)


@inline
def _room(places: int) -> int:
    """The numbers of a :class:`_Work`."""
    return places * (_in_sixteens(places) + 33) + 64


@jit
def _work_in(buffer: Floats, places: int) -> _Work:
    """That work in this buffer."""
    width, sixteens = _in_sixteens(places), buffer[: 32 * places + 64]
    buffer[: 32 * places] = 0.0  # what is beyond the last rows is compared, too, and not looked at
    return _Work(
        _carved(sixteens, 0, places, 16),
        _carved(sixteens, places, places, 16),
        _carved(buffer[sixteens.size :], 0, places, width),
        _carved(sixteens, 2 * places, 2, 16),
        _carved(sixteens, 2 * places + 2, 2, 16),
        buffer[sixteens.size + places * width :],
        np.empty(places, np.int64),
    )


@bare_jit
def _lay_out(chain: ChainView, slot: int, matrices: Floats, first: int) -> None:
    """Fill in one slot's matrix, in rows ``first`` and on, which are zero; rows are the places one leaves."""
    for y in range(chain.places.size):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            matrices[first + chain.row[j], y] = chain.value[j]


@jit
def dense_matrix(chain: ChainView, slot: int) -> Floats:
    """The transition matrix of one slot as (K, K), rows are the places one leaves."""
    matrix = np.zeros((chain.places.size, chain.places.size))
    _lay_out(chain, slot, matrix, 0)
    return matrix


@jit
def _in_wide_rows(matrix: Floats) -> Floats:
    """A copy in rows of whole sixteens, zero beyond the matrix."""
    wide = np.zeros((matrix.shape[0], _in_sixteens(matrix.shape[1])))
    wide[:, : matrix.shape[1]] = matrix
    return wide


@inline
def _add_rows(work: _Work, count: int, rows: Floats, first: int, totals: Floats, to: int, end: int) -> None:
    """``totals[to, v] = sum_i entry[i] rows[first + source[i], v]`` for ``i < count`` and ``v < end``.

    Thirty-two sums at a time while there are as many, the terms of each in order.
    """
    width, v = rows.shape[1], 0
    while v < end:
        a, b, c, d = spread_out(0.0), spread_out(0.0), spread_out(0.0), spread_out(0.0)
        is_wide = v + 16 < end
        for i in range(count):
            entry, at = spread_out(work.entry[i]), (first + work.source[i]) * width + v
            a = a + entry * load(rows, at)
            b = b + entry * load(rows, at + 8)
            if is_wide:
                c = c + entry * load(rows, at + 16)
                d = d + entry * load(rows, at + 24)
        store(a, totals, to * width + v)
        store(b, totals, to * width + v + 8)
        if is_wide:
            store(c, totals, to * width + v + 16)
            store(d, totals, to * width + v + 24)
        v += 32


@bare_jit
def _multiply(matrices: Floats, left: int, right: int, products: Floats, to: int, work: _Work) -> None:
    """The product of two matrices of wide rows, in rows ``to`` and on: a fixed order of additions.

    A BLAS library's bits depend on its threads; the faster
    :func:`~accounting.hmm.propagation.full_product`, whose order of additions is another, would give the
    risks of a running log other last digits.
    """
    size = work.source.size
    for x in range(size):
        count = _0
        for via in range(size):  # without a branch, which could not be foreseen
            work.entry[count], work.source[count] = matrices[left + x, via], via
            count += _1 if matrices[left + x, via] > 0.0 else _0
        _add_rows(work, int(count), matrices, right, products, to + x, size)


@jit
def product(left: Floats, right: Floats) -> Floats:
    """``left @ right`` of square matrices, in a fixed order of additions."""
    size = left.shape[0]
    both = np.concatenate((_in_wide_rows(left), _in_wide_rows(right)))
    result = np.empty((size, both.shape[1]))
    _multiply(both, 0, size, result, 0, _work_in(np.empty(_room(size)), size))
    return result[:, :size].copy()


@jit
def contraction(matrix: Floats) -> float:
    """Largest ``min(TV, 1 - BC^2)`` over two rows of a stochastic matrix, rounded up; 0 for one place."""
    places = matrix.shape[0]
    return _contraction(_in_wide_rows(matrix), 0, _work_in(np.empty(_room(places)), places))


@bare_jit
def _contraction(rows: Floats, first: int, work: _Work) -> float:
    """:func:`contraction` of the matrix in these wide rows.

    Of the two coefficients the one that decided last comes first, and the other is added up only where the
    first is above the largest so far. Each sum is over the places in order, zeros included.
    """
    places = work.source.size
    largest, is_by_mass, work.roots[0, 0] = 0.0, True, -1.0
    for begin in range(0, places, 16):
        _turn(rows, first + begin, work.columns, min(16, places - begin))
        work.turned[0, 0] = -1.0
        for x in range(begin + 1, places, 2):
            is_mass_first, is_other_there = is_by_mass, False
            _compare(rows, first, begin, x, is_mass_first, work)
            for k in range(min(2, places - x)):
                for other in range(min(16, x + k - begin)):
                    found = _apart(work, k, other, is_mass_first)
                    if found > largest:
                        if is_mass_first and work.common[k, other] == 0.0:
                            return 1.0  # no places in common: nothing is larger
                        if not is_other_there:
                            _compare(rows, first, begin, x, not is_mass_first, work)
                            is_other_there = True
                        both = min(found, _apart(work, k, other, not is_mass_first))
                        if both > largest:
                            largest, is_by_mass = both, (both == found) == is_mass_first
    return min(1.0, largest + _ROUNDING * places) if places > 1 else 0.0


@inline
def _turn(rows: Floats, first: int, columns: Floats, count: int) -> None:
    """Lay out so many rows as columns."""
    for i in range(count):
        for y in range(columns.shape[0]):
            columns[y, i] = rows[first + i, y]


@inline
def _apart(work: _Work, k: int, other: int, is_by_mass: bool) -> float:
    """``TV`` or ``1 - BC^2`` of the ``k``-th row compared last and one of the sixteen."""
    overlap = work.overlap[k, other]
    return 1.0 - work.common[k, other] if is_by_mass else 1.0 - overlap * overlap


@bare_jit
def _compare(rows: Floats, first: int, begin: int, x: int, is_by_mass: bool, work: _Work) -> None:
    """The common mass or the overlap of the rows ``x`` and ``x + 1`` with the sixteen from ``begin`` on."""
    places, width = work.roots.shape
    second = min(x + 1, places - 1)
    a, b, c, d = spread_out(0.0), spread_out(0.0), spread_out(0.0), spread_out(0.0)
    if is_by_mass:
        for y in range(places):
            low, high = load(work.columns, 16 * y), load(work.columns, 16 * y + 8)
            one, two = spread_out(rows[first + x, y]), spread_out(rows[first + second, y])
            a, b = a + smaller_of(one, low), b + smaller_of(one, high)
            c, d = c + smaller_of(two, low), d + smaller_of(two, high)
    else:
        if work.roots[0, 0] < 0.0:
            for y in range(places):
                for v in range(width):
                    work.roots[y, v] = np.sqrt(rows[first + y, v])
        if work.turned[0, 0] < 0.0:
            _turn(work.roots, begin, work.turned, min(16, places - begin))
        for y in range(places):
            low, high = load(work.turned, 16 * y), load(work.turned, 16 * y + 8)
            one, two = spread_out(work.roots[x, y]), spread_out(work.roots[second, y])
            a, b = a + one * low, b + one * high
            c, d = c + two * low, d + two * high
    sums = work.common if is_by_mass else work.overlap
    store(a, sums, 0)
    store(b, sums, 8)
    store(c, sums, 16)
    store(d, sums, 24)


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
    ``g`` ending in ``k``.
    """
    slots, place_count = chain.start.shape
    coefficients = np.ones((slots, len(GAPS)))
    if place_count > MAX_PLACES:
        for slot in range(slots):
            coefficients[(slot + 1) % slots, :] = doeblin(chain, slot)
        return coefficients
    rows, width = slots * place_count, _in_sixteens(place_count)
    buffer = np.empty(2 * rows * width + _room(place_count))
    ending, doubled = _carved(buffer, 0, rows, width), _carved(buffer, rows, rows, width)
    work = _work_in(buffer[2 * rows * width :], place_count)
    ending[:] = 0.0
    for slot in range(slots):
        _lay_out(chain, slot, ending, (slot + 1) % slots * place_count)
    for j in range(len(GAPS)):
        if j > 0:
            for slot in range(slots):
                before, here = (slot - GAPS[j - 1]) % slots * place_count, slot * place_count
                _multiply(ending, before, here, doubled, here, work)
            ending, doubled = doubled, ending
        for slot in range(slots):
            coefficients[slot, j] = _contraction(ending, slot * place_count, work)
            if j > 0:
                # Forgetting does not undo itself; this also covers the rounding of the longer product.
                coefficients[slot, j] = min(coefficients[slot, j], coefficients[slot, j - 1])
    return coefficients
