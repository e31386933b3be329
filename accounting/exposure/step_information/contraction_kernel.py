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
from numpy.typing import NDArray

from accounting.hmm.eight import larger_of, load, spread_out, store
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

GAPS = (1, 2, 4, 8)
"""Numbers of steps whose coefficients are kept; the ones between are bounded by the next smaller gap."""

MAX_PLACES = 320
"""Above this many places products of matrices are not formed; Doeblin's coefficient of one step is used."""

_ROUNDING = 8e-16  # a row's sums are wrong by less than this times its number of places


class _Work(NamedTuple):
    """What the rows of one matrix are compared with, in rows of ``W``: K in whole sixteens."""

    columns: NDArray[np.float64]  # (K, W), the matrix's columns, negative
    roots: NDArray[np.float64]  # (K, W), roots of its columns, once they are needed
    sums: NDArray[np.float64]  # (3, W): one row's entries, its overlap with others, less its common mass
    source: NDArray[np.int64]  # (K,) the column of each of these entries


@inline
def _in_sixteens(places: int) -> int:
    return (places + 15) // 16 * 16


@inline
def _carved(buffer: NDArray[np.float64], first: int, rows: int, width: int) -> NDArray[np.float64]:
    return buffer[first * width : (first + rows) * width].reshape(rows, width)


@jit
def _work_in(buffer: NDArray[np.float64], first: int, places: int) -> _Work:
    """Room for it from a row of a buffer on, ``2 K + 3`` rows."""
    width = _in_sixteens(places)
    return _Work(
        _carved(buffer, first, places, width),
        _carved(buffer, first + places, places, width),
        _carved(buffer, first + 2 * places, 3, width),
        np.empty(places, np.int64),
    )


@bare_jit
def _lay_out(chain: ChainView, slot: int, matrices: NDArray[np.float64], first: int) -> None:
    """Fill in one slot's matrix, in rows ``first`` and on, which are zero; rows are the places one leaves."""
    for y in range(chain.places.size):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            matrices[first + chain.row[j], y] = chain.value[j]


@jit
def dense_matrix(chain: ChainView, slot: int) -> NDArray[np.float64]:
    """The transition matrix of one slot as (K, K), rows are the places one leaves."""
    matrix = np.zeros((chain.places.size, chain.places.size))
    _lay_out(chain, slot, matrix, 0)
    return matrix


@jit
def _in_wide_rows(matrix: NDArray[np.float64]) -> NDArray[np.float64]:
    """A copy in rows of whole sixteens, zero beyond the matrix."""
    wide = np.zeros((matrix.shape[0], _in_sixteens(matrix.shape[1])))
    wide[:, : matrix.shape[1]] = matrix
    return wide


@inline
def _add_rows(
    work: _Work,
    count: int,
    rows: NDArray[np.float64],
    first: int,
    totals: NDArray[np.float64],
    to: int,
    end: int,
) -> None:
    """``totals[to, v] = sum_i entry[i] rows[first + source[i], v]`` for ``i < count`` and ``v < end``.

    Thirty-two sums at a time while there are as many, the terms of each in order.
    """
    width, v = rows.shape[1], 0
    while v < end:
        a, b, c, d = spread_out(0.0), spread_out(0.0), spread_out(0.0), spread_out(0.0)
        is_wide = v + 16 < end
        for i in range(count):
            entry, at = spread_out(work.sums[0, i]), (first + work.source[i]) * width + v
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
def _multiply(
    matrices: NDArray[np.float64],
    left: int,
    right: int,
    products: NDArray[np.float64],
    to: int,
    work: _Work,
) -> None:
    """The product of two matrices of wide rows, in rows ``to`` and on: a fixed order of additions.

    A BLAS library's bits depend on its threads; the faster
    :func:`~accounting.hmm.propagation.full_product`, whose order of additions is another, would give the
    risks of a running log other last digits.
    """
    size = work.source.size
    for x in range(size):
        count = 0
        for via in range(size):
            if matrices[left + x, via] > 0.0:
                work.sums[0, count], work.source[count] = matrices[left + x, via], via
                count += 1
        _add_rows(work, count, matrices, right, products, to + x, size)


@jit
def product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right`` of square matrices, in a fixed order of additions."""
    size = left.shape[0]
    both = np.concatenate((_in_wide_rows(left), _in_wide_rows(right)))
    result = np.empty((size, both.shape[1]))
    buffer = np.empty((2 * size + 3) * both.shape[1])
    _multiply(both, 0, size, result, 0, _work_in(buffer, 0, size))
    return result[:, :size].copy()


@jit
def contraction(matrix: NDArray[np.float64]) -> float:
    """Largest ``min(TV, 1 - BC^2)`` over two rows of a stochastic matrix, rounded up; 0 for one place."""
    places = matrix.shape[0]
    buffer = np.empty((2 * places + 3) * _in_sixteens(places))
    return _contraction(_in_wide_rows(matrix), 0, _work_in(buffer, 0, places))


@bare_jit
def _contraction(rows: NDArray[np.float64], first: int, work: _Work) -> float:
    """:func:`contraction` of the matrix in these wide rows.

    Of the two coefficients the one that decided last comes first for a row, and the other is added up only
    where the first is above the largest so far.
    """
    places = work.columns.shape[0]
    _begin(rows, first, work)
    largest, is_by_mass = 0.0, True  # rows with nothing in common are found without roots
    for x in range(1, places):
        if is_by_mass:
            _add_common(work, x)
        else:
            _add_overlap(work, x)
        is_mass_first, is_other_there = is_by_mass, False
        for other in range(x):
            found = _apart(work, other, is_mass_first)
            if found > largest:
                if not is_other_there:
                    if is_mass_first:
                        _add_overlap(work, x)
                    else:
                        _add_common(work, x)
                    is_other_there = True
                both = min(found, _apart(work, other, not is_mass_first))
                if both > largest:
                    largest, is_by_mass = both, (both == found) == is_mass_first
        if largest == 1.0:  # no places in common: nothing is larger
            break
    return min(1.0, largest + _ROUNDING * places) if places > 1 else 0.0


@inline
def _begin(rows: NDArray[np.float64], first: int, work: _Work) -> None:
    """Lay out the columns; the roots are not there yet."""
    places, width = work.columns.shape
    for y in range(places):
        for x in range(places):
            work.columns[y, x] = -rows[first + x, y]
        for x in range(places, width):
            work.columns[y, x] = 0.0
    work.roots[0, 0] = -1.0


@inline
def _apart(work: _Work, other: int, is_by_mass: bool) -> float:
    """``TV`` or ``1 - BC^2`` of the row that was added up last and another."""
    return 1.0 + work.sums[2, other] if is_by_mass else 1.0 - work.sums[1, other] * work.sums[1, other]


@bare_jit
def _add_overlap(work: _Work, x: int) -> None:
    """``BC`` of row ``x`` and each row before it."""
    if work.roots[0, 0] < 0.0:
        for y in range(work.roots.shape[0]):
            for v in range(work.roots.shape[1]):
                work.roots[y, v] = np.sqrt(-work.columns[y, v])
    _add_rows(work, _pack(work, work.roots, x), work.roots, 0, work.sums, 1, x)


@inline
def _pack(work: _Work, columns: NDArray[np.float64], x: int) -> int:
    """Note the entries of row ``x`` that are not zero, and how many they are."""
    count = 0
    for y in range(columns.shape[0]):
        if columns[y, x] != 0.0:
            work.sums[0, count], work.source[count] = columns[y, x], y
            count += 1
    return count


@bare_jit
def _add_common(work: _Work, x: int) -> None:
    """Less ``sum_y min(P[x, y], P[x', y])``, for each row before ``x``: ``min(a, b) = -max(-a, -b)``."""
    width, count = work.columns.shape[1], _pack(work, work.columns, x)
    for v in range(0, x, 16):
        lower, upper = spread_out(0.0), spread_out(0.0)
        for i in range(count):
            entry, at = spread_out(work.sums[0, i]), work.source[i] * width + v
            lower = lower + larger_of(entry, load(work.columns, at))
            upper = upper + larger_of(entry, load(work.columns, at + 8))
        store(lower, work.sums, 2 * width + v)
        store(upper, work.sums, 2 * width + v + 8)


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
def gap_contractions(chain: ChainView) -> NDArray[np.float64]:
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
    buffer = np.empty((2 * rows + 2 * place_count + 3) * width)
    ending, doubled = _carved(buffer, 0, rows, width), _carved(buffer, rows, rows, width)
    work = _work_in(buffer, 2 * rows, place_count)
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
