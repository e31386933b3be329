"""Discrete Gaussian noise as a sum of independent shares, exactly.

With ``q = exp(-1 / (2 sigma^2))``, Jacobi's triple product makes the discrete Gaussian a product,

    sum_n q^(n^2) z^n = prod_{m>=1} (1 - q^(2m)) (1 + z q^(2m-1)) (1 + q^(2m-1) / z).

Take every ``k``-th of the factors with ``z``, from the ``j``-th on, and every ``k``-th of those with ``1/z``,
from the ``(k + 1 - j)``-th on. By the same identity with ``q^k`` they are, but for a constant,
``sum_n q^(k n^2 + (2j - 1 - k) n) z^n``: a discrete Gaussian of scale ``sigma / sqrt(k)`` about the centre
``(k + 1 - 2j) / (2k)``. So ``k`` independent ones, ``j = 1..k``, add up to the discrete Gaussian of scale
``sigma``, not nearly but exactly. For two shares the centres are 1/4 and -1/4.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from models.numerics.arrays import Floats
from models.numerics.elementwise import exp

_REACH = 14.0  # scales: what lies beyond has less than 2^-140 of the mass


@dataclass(frozen=True, eq=False)
class GaussianShare:
    """The law of one share: ``probabilities[k]`` of the value ``first + k``; ``scale`` and ``centre``."""

    scale: float
    centre: float
    first: int
    probabilities: Floats

    def divergence(self) -> float:
        """The larger of the divergences (nats) to itself shifted by one up and down."""
        values = self.first + np.arange(self.probabilities.size)
        lean = math.fsum(self.probabilities * (values - self.centre))
        return (1.0 + 2.0 * abs(lean)) / (2.0 * self.scale**2)

    def normaliser_excess(self) -> float:
        """How far the logarithm of a normaliser can lie above that of another centre's.

        Normalisers ``sum_n exp(-(n - c)^2 / (2 s^2))`` are largest about an integer, least half way between.
        """
        values = np.arange(-_half_width(self.scale), _half_width(self.scale) + 1)
        largest, least = (
            math.fsum(exp(-((values - centre) ** 2) / (2.0 * self.scale**2))) for centre in (0.0, 0.5)
        )
        return max(0.0, math.log(largest / least)) + 1e-14


def gaussian_share(sigma: float, shares: int, position: int) -> GaussianShare:
    """The share ``position``, from 0, of so many shares of discrete Gaussian noise of scale ``sigma``."""
    scale = sigma / math.sqrt(shares)
    centre = (shares - 1 - 2 * position) / (2 * shares)
    width = _half_width(scale)
    weights = exp(-((np.arange(-width, width + 1) - centre) ** 2) / (2.0 * scale**2))
    return GaussianShare(scale, centre, -width, weights / math.fsum(weights))


def _half_width(scale: float) -> int:
    return math.ceil(_REACH * scale) + 1
