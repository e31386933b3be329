"""Betting against a mean: the capital of a gambler whom no mean as large as claimed lets grow rich.

Who claims that draws in [0, 1] have a mean of ``m`` or more must offer even odds on every draw that comes
below ``m``. Stakes ``lambda(t)``, each chosen before its draw, make of 1

    capital = product over t of 1 + lambda(t) (m - x(t)).

If the claim is true, its expectation never rises, so it ever reaches ``1 / delta`` with probability
``delta`` at most (Ville's inequality). Stakes are the predictable plug-in for a number of draws fixed
beforehand, ``sqrt(2 ln(1 / delta) / (n variance))`` with the variance of the draws before, cut where a draw
of 1 would take nearly everything (Waudby-Smith and Ramdas, *Estimating means of bounded random variables by
betting*, 2024, section 4).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit

_MOST_STAKED = 0.95  # of the capital, should the draw be 1
_ROUNDING = 1e-15  # of each factor, relative


@jit
def stakes(values: NDArray[np.float64], log_threshold: float) -> NDArray[np.float64]:
    """``lambda(t)`` (n,) before it is cut, each from the draws before its own."""
    count = values.size
    found = np.empty(count)
    total, squares = 0.5, 0.25
    for t in range(count):
        found[t] = np.sqrt(2.0 * log_threshold * (t + 1) / (count * squares))
        total += values[t]
        squares += (values[t] - total / (t + 2)) ** 2
    return found


@jit
def is_refuted(
    mean: float, values: NDArray[np.float64], stake: NDArray[np.float64], threshold: float
) -> bool:
    """Whether the capital ever is ``threshold`` times what it was at first; true of any larger mean, too.

    Each factor rises in the mean, whether its stake is cut or not. Capital that underflows is lost.
    """
    if mean >= 1.0:
        return True  # nothing is above 1
    most, enough = _MOST_STAKED / (1.0 - mean), threshold * (1.0 + _ROUNDING * (values.size + 1))
    capital = 1.0
    for t in range(values.size):
        capital *= 1.0 + min(stake[t], most) * (mean - values[t])
        if capital >= enough:
            return True
    return False
