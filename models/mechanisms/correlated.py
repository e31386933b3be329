"""Correlated Gaussian release: one designed noise vector for a noise window, released step by step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, inf, sqrt
from typing import ClassVar

import numpy as np
from scipy.special import ndtr

from models.arguments import checked
from models.exceptions import MechanismError
from models.keys import expand_words
from models.mechanisms.base import (
    NO_DESIGNS,
    AddedNoise,
    Designs,
    NoiseFamily,
    NoiseLaw,
    NoiseWindow,
    number,
    refuse_unknown,
)
from models.noise import (
    CorrelatedNoise,
    InformationTable,
    binary_channel_information_table,
    continuous_gaussian_information_table,
)
from models.numerics.arrays import Integers, Words

_REACH = 8.5  # standard deviations: draws have 53 bits, nothing lies beyond 8.3
_REVEALED = 1e-300  # the crossover of a channel that hides nothing
_LEAST_SIGMA = 0.05  # below it independent noise is accounted as none


@checked(MechanismError)
@dataclass(frozen=True, slots=True)
class Correlated(AddedNoise):
    """Gaussian noise correlated over the steps of a noise window, rounded; the step has a ``position`` in it.

    Accountants get the figures of *independent* Gaussian noise of the variance
    :attr:`CorrelatedNoise.independent_variance`, of which this release is post-processing. That is a valid
    bound whatever else is released. Where the covariance has no independent part, the step is accounted as
    raw.
    """

    noise: CorrelatedNoise = field(repr=False, compare=False)
    position: int
    design: int = field(init=False)
    name: ClassVar[str] = "correlated"
    parameter_names: ClassVar[tuple[str, ...]] = ("design", "position")
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.CONTINUOUS_GAUSSIAN

    def __post_init__(self) -> None:
        """:class:`MechanismError` for a step outside of its window; equal designs make equal mechanisms."""
        if not 0 <= self.position < self.noise.steps:
            raise MechanismError(
                f"position must lie in 0..{self.noise.steps - 1}, the steps of the noise window",
                self.position,
                "use the step modulo the window's length",
            )
        object.__setattr__(self, "design", self.noise.design)

    @classmethod
    @checked(MechanismError)
    def of(cls, noise: CorrelatedNoise, step: int) -> Correlated:
        """The mechanism of a step where the first window begins with step 0."""
        return cls(noise, step % noise.steps)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Correlated:
        """From ``{"design": number, "position": step}``; :class:`MechanismError` for anything else.

        ``designs`` has the one of that number.
        """
        refuse_unknown(cls.name, parameters, cls.parameter_names)
        design, position = (number(cls.name, parameters, key) for key in ("design", "position"))
        if design != int(design) or position != int(position):
            raise MechanismError(
                "design and position must be integers", (design, position), "copy them from the release"
            )
        return cls(designs.find(int(design)), int(position))

    @property
    def parameters(self) -> Mapping[str, float]:
        """``{"design": number, "position": step}``."""
        return {"design": self.design, "position": self.position}

    @property
    def is_exact(self) -> bool:
        """Whether the design leaves this step without noise."""
        return self._sigma() == 0.0

    @property
    def noise_window(self) -> NoiseWindow:
        """The noise vector: the same for all steps of the window."""
        return NoiseWindow(self.position, self.noise.steps, {"design": float(self.design)})

    @checked(MechanismError)
    def covariance_at(self, position: int) -> float:
        """The covariance's entry for this step and another one of the window."""
        return float(self.noise.covariance[self.position, position])

    def publish(self, counts: Integers, words: Words) -> Integers:
        """Counts (n,) plus this step's entry of the noise vectors drawn by ``words`` (n, 2)."""
        if self.is_exact:
            return counts.copy()
        drawn = self.noise.noise(self.position, expand_words(words, self.position + 1))
        return counts + np.rint(drawn).astype(np.int64)

    def noise_law(self) -> NoiseLaw:
        """Law of this step's noise alone, rounded; other steps of the window depend on it.

        Its variance is the covariance's diagonal entry and about 1/12.
        """
        return _marginal_law(self._sigma(), self.noise.realisation_mass(self.position))

    def reveal_probability(self) -> float:
        """As :meth:`revealed_by_shift` of one count."""
        return self.revealed_by_shift(1)

    @checked(MechanismError)
    def revealed_by_shift(self, shift: int) -> float:
        """``2 Phi(L / (2 sigma)) - 1`` of the independent part shifted by ``L``, and a margin for floats.

        The rest of the noise may be known: given it, the steps' independent parts hide by themselves, and all
        shifts in ``0..L`` have in common what the least and the largest have.
        """
        sigma = self._independent_sigma()
        if sigma == 0.0:
            return 1.0
        exact = float(2.0 * ndtr(shift / (2.0 * sigma)) - 1.0)
        return min(1.0, exact * (1 + 1e-12) + self.noise.realisation_mass(self.position))

    def divergence(self) -> float:
        """``1 / (2 sigma^2)`` nats of the independent part; inf where there is none."""
        sigma = self._independent_sigma()
        return inf if sigma == 0.0 else 1.0 / (2.0 * sigma**2)

    def information_table(self) -> InformationTable:
        """Information through the independent part."""
        return _information_table(self._independent_sigma(), self.noise.realisation_mass(self.position))

    def zcdp_rho(self) -> float:
        """``1 / (2 sigma^2)`` of the independent part: it adds up over the steps of a window as well."""
        return self.divergence()

    def gaussian_variance(self) -> float:
        """The covariance's diagonal entry."""
        return self.covariance_at(self.position)

    def _sigma(self) -> float:
        return sqrt(self.gaussian_variance())

    def _independent_sigma(self) -> float:
        sigma = sqrt(float(self.noise.independent_variance[self.position]))
        return sigma if sigma >= _LEAST_SIGMA else 0.0


@dataclass(frozen=True, eq=False)
class CorrelatedSteps:
    """Consecutive noise windows from step 0 on, whether or not a step is released."""

    noise: CorrelatedNoise

    def at_step(self, step: int) -> Correlated:
        """The mechanism of a step."""
        return Correlated.of(self.noise, step)


@lru_cache(maxsize=1024)
def _marginal_law(sigma: float, realisation_mass: float) -> NoiseLaw:
    """A rounded normal number: the mass of each unit interval."""
    if sigma == 0.0:
        return NoiseLaw(0, np.ones(1), 0.0)
    edges = (np.arange(ceil(_REACH * sigma) + 2) - 0.5) / sigma
    side = ndtr(-edges[:-1]) - ndtr(-edges[1:])
    law = np.concatenate((side[:0:-1], side))
    return NoiseLaw(1 - side.size, law / law.sum(), realisation_mass)


@lru_cache(maxsize=1024)
def _information_table(sigma: float, realisation_mass: float) -> InformationTable:
    if sigma == 0.0:
        return binary_channel_information_table(_REVEALED, 0.0)
    return continuous_gaussian_information_table(sigma, realisation_mass)
