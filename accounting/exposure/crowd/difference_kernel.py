"""Masses of a difference of two Poisson counts, the flattest law with a given sum of variances.

For a sum ``N`` of independent bits with variances that add up to ``V`` the probability of any value is at
most ``(1/2 pi) int |E e^(i theta N)| <= (1/2 pi) int e^(-V (1 - cos theta)) = e^-V I_0(V)``, and it is
attained in the limit by half of the bits with small ``q`` and half with small ``1 - q``. With released noise
of probabilities ``f``, which must have a non-negative characteristic function, the same integral gives
``sum_k f(k) e^-V I_k(V)``, ``I_k`` the modified Bessel functions: the masses below.
"""

from __future__ import annotations

from math import sqrt

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit

_LEAST, _MOST = 1e-6, 1e9  # beyond, the masses are those of the nearest: 1 at zero, or too large
_LARGE = 1e200
_ROUNDING = 1e-11  # relative: thousands of positive terms, each rounded


@jit
def difference_masses(variance: float, last: int) -> NDArray[np.float64]:
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
    return found * ((1.0 + _ROUNDING) / (total + here))
