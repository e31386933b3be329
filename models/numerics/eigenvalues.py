"""The extreme eigenvalues of a symmetric matrix, the same bits on every machine.

A linear algebra library chooses its instructions, and so its rounding errors, by the CPU it runs on. So the
figures of a noise use kernels of our own. Householder's tridiagonal form, then bisection
with Sturm's count: Golub, Van Loan, *Matrix Computations*, sections 8.3.1 and 8.4.1; the error is a few ``n``
rounding errors of the largest eigenvalue.
"""

from __future__ import annotations

import math

import numpy as np

from models.numerics.arrays import Floats
from models.numerics.jit import jit

_HALVINGS = 80  # of an interval of twice the norm: far below a rounding error of it


def extreme_eigenvalues(matrix: Floats) -> tuple[float, float]:
    """The least and the largest eigenvalue of a symmetric ``matrix`` (n, n), finite."""
    _, exponent = math.frexp(float(np.abs(matrix).max()))
    scale = 2.0**exponent  # exact, so that squares of tiny entries do not vanish
    diagonal, beside = _tridiagonal(np.ascontiguousarray(matrix / scale))
    return scale * _eigenvalue(diagonal, beside, 0), scale * _eigenvalue(diagonal, beside, diagonal.size - 1)


@jit
def _tridiagonal(matrix: Floats) -> tuple[Floats, Floats]:
    """Diagonal (n,) and the entries beside it (n - 1,) of a similar matrix; ``matrix`` is overwritten."""
    size = matrix.shape[0]
    beside = np.zeros(max(size - 1, 0))
    mirror, pushed = np.zeros(size), np.zeros(size)
    for k in range(size - 1):
        largest = 0.0
        for i in range(k + 1, size):
            largest = max(largest, abs(matrix[i, k]))
        if largest == 0.0:
            continue
        squares = 0.0
        for i in range(k + 1, size):
            mirror[i] = matrix[i, k] / largest  # scaled, so that no square leaves the range
            squares += mirror[i] * mirror[i]
        length = math.sqrt(squares) if mirror[k + 1] > 0.0 else -math.sqrt(squares)
        beside[k] = -length * largest
        half = squares + length * mirror[k + 1]  # half the mirror's own square
        mirror[k + 1] += length
        _reflect(matrix, mirror, pushed, half, k + 1)
    diagonal = np.empty(size)
    for i in range(size):
        diagonal[i] = matrix[i, i]
    return diagonal, beside


@jit
def _reflect(matrix: Floats, mirror: Floats, pushed: Floats, half: float, first: int) -> None:
    """``H A H`` with ``H = I - v v^T / half`` on rows and columns from ``first``: a symmetric update."""
    size = matrix.shape[0]
    share = 0.0
    for i in range(first, size):
        total = 0.0
        for j in range(first, size):
            total += matrix[i, j] * mirror[j]
        pushed[i] = total / half
        share += pushed[i] * mirror[i]
    for i in range(first, size):
        pushed[i] -= 0.5 * share / half * mirror[i]
    for i in range(first, size):
        for j in range(first, size):
            matrix[i, j] -= mirror[i] * pushed[j] + pushed[i] * mirror[j]


@jit
def _eigenvalue(diagonal: Floats, beside: Floats, index: int) -> float:
    """The eigenvalue at ``index`` in rising order, by halving Gershgorin's interval."""
    low, high = np.inf, -np.inf
    for i in range(diagonal.size):
        reach = (abs(beside[i - 1]) if i > 0 else 0.0) + (abs(beside[i]) if i < beside.size else 0.0)
        low, high = min(low, diagonal[i] - reach), max(high, diagonal[i] + reach)
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _below(diagonal, beside, middle) > index:
            high = middle
        else:
            low = middle
    return 0.5 * (low + high)


@jit
def _below(diagonal: Floats, beside: Floats, shift: float) -> int:
    """How many eigenvalues lie below ``shift``: the negative pivots of the matrix less ``shift``."""
    count = 0
    pivot = 1.0
    for i in range(diagonal.size):
        coupling = beside[i - 1] * beside[i - 1] / pivot if i > 0 else 0.0
        pivot = diagonal[i] - shift - coupling
        if pivot == 0.0:
            pivot = -1e-300  # counts as negative; the next coupling stays finite
        if pivot < 0.0:
            count += 1
    return count
