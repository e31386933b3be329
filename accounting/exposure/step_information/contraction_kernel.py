"""How fast a chain forgets: strong data-processing coefficients of its transition matrices.

For a channel with rows ``P_x`` the mutual information that survives it is at most ``eta`` times what went in,
``eta`` being attained by two inputs (Ordentlich and Polyanskiy, *Strong Data Processing Constant is Achieved
by Binary Inputs*, 2021). For a pair of rows with Bhattacharyya coefficient ``BC`` and total variation ``TV``,

    eta(P_x, P_x') <= min(TV, 1 - BC^2)

(the first is Dobrushin's; the second is ``H^2 - H^4 / 4`` with the squared Hellinger distance
``H^2 = 2 - 2 BC``, from the same paper). The second is quadratically smaller for rows that nearly agree.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import bare_jit, jit
from models.priors.chain import ChainView

GAPS = (1, 2, 4, 8)
"""Numbers of steps whose coefficients are kept; the ones between are bounded by the next smaller gap."""

MAX_PLACES = 320
"""Above this many places products of matrices are not formed; Doeblin's coefficient of one step is used."""

_ROUNDING = 8e-16  # a row's sums are wrong by less than this times its number of places


@jit
def dense_matrix(chain: ChainView, slot: int) -> NDArray[np.float64]:
    """The transition matrix of one slot as (K, K), rows are the places one leaves."""
    place_count = chain.places.size
    matrix = np.zeros((place_count, place_count))
    for y in range(place_count):
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            matrix[chain.row[j], y] = chain.value[j]
    return matrix


@jit
def product(left: NDArray[np.float64], right: NDArray[np.float64]) -> NDArray[np.float64]:
    """``left @ right`` in a fixed order of additions: a BLAS library's bits depend on its threads.

    Not the faster :func:`~accounting.hmm.propagation.full_product`, whose other order of additions would give
    the risks of a running log other last digits.
    """
    result = np.zeros((left.shape[0], right.shape[1]))
    for x in range(left.shape[0]):
        for via in range(left.shape[1]):
            weight = left[x, via]
            if weight > 0.0:
                for y in range(right.shape[1]):
                    result[x, y] += weight * right[via, y]
    return result


@jit
def contraction(matrix: NDArray[np.float64]) -> float:
    """Largest ``min(TV, 1 - BC^2)`` over two rows of a stochastic matrix, rounded up; 0 for one place."""
    place_count = matrix.shape[0]
    columns, roots = np.ascontiguousarray(matrix.T), np.sqrt(matrix.T)
    overlap, common = np.empty(place_count), np.empty(place_count)
    largest = 0.0
    for x in range(place_count):
        _compare_rows(columns, roots, x, overlap, common)
        for other in range(x):
            largest = max(largest, min(1.0 - common[other], 1.0 - overlap[other] * overlap[other]))
        if largest == 1.0:  # no places in common: nothing is larger
            break
    return min(1.0, largest + _ROUNDING * place_count) if place_count > 1 else 0.0


@bare_jit
def _compare_rows(
    columns: NDArray[np.float64],
    roots: NDArray[np.float64],
    x: int,
    overlap: NDArray[np.float64],
    common: NDArray[np.float64],
) -> None:
    """What row ``x`` has in common with each row before it: all of these in the inner loop, side by side."""
    for other in range(x):
        overlap[other] = common[other] = 0.0
    for y in range(columns.shape[0]):
        own, root = columns[y, x], roots[y, x]
        if own > 0.0:
            column, of_root = columns[y], roots[y]
            for other in range(x):
                overlap[other] += root * of_root[other]
                common[other] += min(own, column[other])


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
    ending = np.empty((slots, place_count, place_count))
    for slot in range(slots):
        ending[(slot + 1) % slots] = dense_matrix(chain, slot)
    for j in range(len(GAPS)):
        if j > 0:
            doubled = np.empty_like(ending)
            for slot in range(slots):
                doubled[slot] = product(ending[(slot - GAPS[j - 1]) % slots], ending[slot])
            ending = doubled
        for slot in range(slots):
            coefficients[slot, j] = contraction(ending[slot])
            if j > 0:
                # Forgetting does not undo itself; this also covers the rounding of the longer product.
                coefficients[slot, j] = min(coefficients[slot, j], coefficients[slot, j - 1])
    return coefficients
