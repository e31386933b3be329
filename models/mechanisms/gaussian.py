"""Discrete Gaussian noise: an integer is added to the count, an integer is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from math import inf, nextafter
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.mechanisms.base import NoiseLaw
from models.mechanisms.parameters import number, refuse_unknown
from models.noise import (
    TOTAL,
    InformationTable,
    binary_entropy,
    check_sigma,
    discrete_gaussian_table,
    large_sigma_information_table,
    noise_information_table,
)

_EXACT_SUMS_UP_TO_SIGMA = 64.0  # beyond, p(1-p)/(2 sigma^2) is within 1/(8 sigma^2) < 4e-5 of the exact sum


@dataclass(frozen=True, slots=True)
class Gaussian:
    """Discrete Gaussian noise of scale ``sigma`` people, 0.05..10 000 (Canonne, Kamath, Steinke 2020)."""

    sigma: float
    name: ClassVar[str] = "gaussian"
    is_released: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    def __post_init__(self) -> None:
        """:class:`MechanismError` when sigma has no table; equal sigmas make equal mechanisms."""
        check_sigma(self.sigma)
        object.__setattr__(self, "sigma", float(self.sigma))

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object]) -> Gaussian:
        """From ``{"sigma": number}``; :class:`MechanismError` for anything else."""
        refuse_unknown(cls.name, parameters, ("sigma",))
        return cls(number(cls.name, parameters, "sigma"))

    @property
    def parameters(self) -> Mapping[str, float]:
        """``{"sigma": sigma}``."""
        return {"sigma": self.sigma}

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Counts (n,) plus the noise that the uniform bits ``words`` (n, 2) stand for; may be negative."""
        return counts + discrete_gaussian_table(self.sigma).sample(words)

    def noise_law(self) -> NoiseLaw:
        """The sampler's table, in floating point."""
        table = discrete_gaussian_table(self.sigma)
        return NoiseLaw(-table.last, table.probabilities, table.truncated_mass)

    def reveal_probability(self) -> float:
        """The probability of zero: a unimodal integer noise's total variation to itself shifted by one.

        Table and ideal law are both unimodal; with the truncated mass added the result holds for either.
        """
        table = discrete_gaussian_table(self.sigma)
        exact = Fraction(table.units[0], TOTAL) + Fraction(table.truncated_mass)
        return min(1.0, nextafter(float(exact), inf))

    def divergence(self) -> float:
        """``1 / (2 sigma^2)`` nats, exactly, at shift one, of the ideal law: its log-ratio is linear.

        The table's ends make the sampler's own divergence infinite; what that is worth is charged through
        ``noise_law().truncated_mass`` (:func:`models.noise.noise_information.truncation_information_nats`).
        """
        return 1.0 / (2.0 * self.sigma**2)

    def information_table(self) -> InformationTable:
        """Upper bounds of :meth:`information` on a grid of [0, 1/2], for look-up in kernels."""
        return _information_table(self.sigma)

    def information(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Information (nats) between being counted, with ``probability``, and the published value; any shape.

        Of the discrete law itself, at most 1e-4 relative above it; never above the entropy ``h(p)``.
        """
        p = np.clip(probability, 0.0, 1.0)
        smaller = np.minimum(p, 1.0 - p)
        table = self.information_table()
        above = np.interp(smaller, table.grid, table.information_nats)
        return np.minimum(above, binary_entropy(smaller))

    def expected_absolute_error(self) -> float:
        """Expected size of the noise, in people."""
        return _expected_absolute_error(self.sigma)

    def variance(self) -> float:
        """Variance of the noise: at most ``sigma^2``, and very near it for sigma above 1."""
        values, probabilities = _law(self.sigma)
        return float(np.sum(values**2 * probabilities))

    def zcdp_rho(self) -> float:
        """``1 / (2 sigma^2)`` for a count that one person changes by one (Canonne et al., theorem 4)."""
        return self.divergence()


def _law(sigma: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Values of the noise and their probabilities."""
    table = discrete_gaussian_table(sigma)
    return np.arange(-table.last, table.last + 1, dtype=np.float64), table.probabilities


@lru_cache(maxsize=1024)
def _expected_absolute_error(sigma: float) -> float:
    values, probabilities = _law(sigma)
    return float(np.sum(np.abs(values) * probabilities))


@lru_cache(maxsize=64)
def _information_table(sigma: float) -> InformationTable:
    table = discrete_gaussian_table(sigma)
    if sigma > _EXACT_SUMS_UP_TO_SIGMA:
        return large_sigma_information_table(sigma, table.truncated_mass)
    return noise_information_table(table.probabilities)
