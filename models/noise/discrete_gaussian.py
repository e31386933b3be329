"""The discrete Gaussian as a table of exact integers (:mod:`models.noise.integer_table`).

Probability of the integer ``k`` proportional to ``exp(-k^2 / (2 sigma^2))`` (Canonne, Kamath, Steinke, "The
Discrete Gaussian for Differential Privacy", 2020, definition 1). Weights are computed once per sigma in
256-bit fixed point; an error of n^2 2^-256 is left after n steps of the recurrence.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from models.exceptions import MechanismError
from models.noise.integer_table import FIXED_BITS, IntegerTable, fixed_point_exp, integer_table

MIN_SIGMA = 0.05  # below it the noise is zero in all but 2^-287 of the draws: say raw instead
MAX_SIGMA = 10_000.0  # 251 851 table entries, 4 MB, a fifth of a second to compute

_WIDTH = 13.2  # table half-width in sigmas: the mass beyond is below 2^-128


@lru_cache(maxsize=64)
def discrete_gaussian_table(sigma: float) -> IntegerTable:
    """The table for ``sigma`` in [0.05, 10 000], computed once; :class:`MechanismError` outside."""
    check_sigma(sigma)
    weights, tail = _weights(sigma)
    return integer_table(weights, tail)


def check_sigma(sigma: float) -> None:
    """:class:`MechanismError` unless ``sigma`` is a finite number in the range that has a table."""
    if math.isfinite(sigma) and MIN_SIGMA <= sigma <= MAX_SIGMA:
        return
    if math.isfinite(sigma) and 0 <= sigma < MIN_SIGMA:
        remedy = 'use the mechanism "raw" for no noise'
    elif sigma > MAX_SIGMA:
        remedy = 'use the mechanism "suppressed" where such noise would leave nothing'
    else:
        remedy = "give the standard deviation in people, e.g. 1.0"
    raise MechanismError(f"sigma must lie in {MIN_SIGMA}..{MAX_SIGMA:g}", sigma, remedy)


def _weights(sigma: float) -> tuple[list[int], int]:
    """Weights of 0..K in 256-bit fixed point, and a bound on the weight of all values beyond, both sides.

    ``w(k+1) = w(k) r(k)`` with ``r(k) = exp(-(2k+1) / (2 sigma^2))`` and ``r(k+1) = r(k) exp(-1 / sigma^2)``.
    """
    one = 1 << FIXED_BITS
    last = max(1, math.ceil(_WIDTH * sigma))
    ratio = fixed_point_exp(-1 / (2 * Fraction(sigma) ** 2))
    step = ratio * ratio >> FIXED_BITS
    weights = [one]
    for _ in range(last):
        weights.append(weights[-1] * ratio >> FIXED_BITS)
        ratio = ratio * step >> FIXED_BITS
    # Ratios fall, so what lies beyond is below a geometric series; one more for the truncated products.
    next_weight = (weights[-1] * ratio >> FIXED_BITS) + last**2
    tail = 2 * next_weight * one // (one - ratio) + 1
    return weights, tail
