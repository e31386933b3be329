"""Discrete Gaussian noise: an integer is added to the count, an integer is published."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from models.arguments import checked
from models.exceptions import MechanismError
from models.mechanisms.base import AddedNoise, NoiseFamily, NoiseLaw, computed_once
from models.noise import (
    EXACT_UP_TO_SIGMA,
    InformationTable,
    check_sigma,
    discrete_gaussian_table,
    large_sigma_information_table,
    noise_information_table,
)
from models.numerics.arrays import Integers, Words


@checked(MechanismError)
@dataclass(frozen=True, slots=True)
class Gaussian(AddedNoise):
    """Discrete Gaussian noise of scale ``sigma`` people, 0.05..10 000 (Canonne, Kamath, Steinke 2020)."""

    sigma: float
    name: ClassVar[str] = "gaussian"
    parameter_names: ClassVar[tuple[str, ...]] = ("sigma",)
    is_exact: ClassVar[bool] = False
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.DISCRETE_GAUSSIAN

    def __post_init__(self) -> None:
        """:class:`MechanismError` when sigma has no table; equal sigmas make equal mechanisms."""
        check_sigma(self.sigma)
        object.__setattr__(self, "sigma", float(self.sigma))

    def publish(self, counts: Integers, words: Words) -> Integers:
        """Counts (n,) plus the noise that the uniform bits ``words`` (n, 2) stand for; may be negative."""
        return counts + discrete_gaussian_table(self.sigma).sample(words)

    def noise_law(self) -> NoiseLaw:
        """The sampler's table, in floating point; its variance is at most ``sigma^2``, nearly it above 1."""
        return NoiseLaw.of_table(discrete_gaussian_table(self.sigma))

    def reveal_probability(self) -> float:
        """The probability of zero, the larger of the table's and the ideal law's: both are unimodal."""
        return discrete_gaussian_table(self.sigma).reveal_probability()

    def divergence(self) -> float:
        """``1 / (2 sigma^2)`` nats, exactly, at shift one, of the ideal law: its log-ratio is linear.

        The sampler's own divergence is infinite because of the table's ends. That is charged through
        ``noise_law().truncated_mass`` (:func:`models.noise.noise_information.truncation_information_nats`).
        """
        return 1.0 / (2.0 * self.sigma**2)

    @computed_once(64)
    def information_table(self) -> InformationTable:
        """Information of the discrete law itself."""
        table = discrete_gaussian_table(self.sigma)
        if self.sigma > EXACT_UP_TO_SIGMA:
            return large_sigma_information_table(self.sigma, table.truncated_mass)
        return noise_information_table(table.probabilities)

    @computed_once(1024)
    def expected_absolute_error(self) -> float:
        """Expected size of the noise, in people."""
        return self.noise_law().expected_size()

    def zcdp_rho(self) -> float:
        """``1 / (2 sigma^2)`` for a count that one person changes by one (Canonne et al., theorem 4)."""
        return self.divergence()

    def gaussian_variance(self) -> float:
        """``sigma^2``, of the continuous law."""
        return self.sigma**2
