"""Correlated Gaussian release: one designed noise vector a noise window, a step at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, inf, sqrt
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from models.exceptions import MechanismError
from models.keys import expand_words
from models.mechanisms.base import NoiseLaw, NoiseWindow
from models.mechanisms.parameters import number, refuse_unknown
from models.noise import (
    CorrelatedNoise,
    InformationTable,
    binary_channel_information_table,
    binary_entropy,
    continuous_gaussian_information_table,
)

_REACH = 8.5  # standard deviations: draws have 53 bits, nothing lies beyond 8.3
_ALWAYS_TOLD = 1e-300  # the crossover of a channel that keeps nothing back
_LEAST_SIGMA = 0.05  # below it independent noise is accounted as none
_KNOWN: dict[int, CorrelatedNoise] = {}


def know_design(noise: CorrelatedNoise) -> CorrelatedNoise:
    """Make a design known, so that messages and schedules can name it by its number; returns it.

    A design is too large for a message. Numbers are made of the design itself, so knowing more designs never
    changes what a message means.
    """
    return _KNOWN.setdefault(noise.design, noise)


@dataclass(frozen=True, slots=True)
class Correlated:
    """Gaussian noise correlated over the steps of a noise window, rounded to an integer; ``position`` in it.

    What accountants ask is answered for *independent* Gaussian noise of the variance
    :attr:`CorrelatedNoise.independent_variance`, of which this release is post-processing: a valid bound,
    whichever steps of the window are released and whatever else is. Where the covariance has no independent
    part the step is accounted as raw.
    """

    design: int
    position: int
    noise: CorrelatedNoise = field(init=False, repr=False, compare=False)
    name: ClassVar[str] = "correlated"
    is_released: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """:class:`MechanismError` for a design nobody made known, or a step outside of its window."""
        if self.design not in _KNOWN:
            raise MechanismError(
                "a design of correlated noise must be known to this process",
                self.design,
                "name the file of its covariance in the settings (release.covariance) or --covariance",
            )
        noise = _KNOWN[self.design]
        if not 0 <= self.position < noise.steps:
            raise MechanismError(
                f"position must lie in 0..{noise.steps - 1}, the steps of the noise window",
                self.position,
                "use the step modulo the window's length",
            )
        object.__setattr__(self, "noise", noise)

    @classmethod
    def of(cls, noise: CorrelatedNoise, step: int) -> Correlated:
        """The mechanism of a step, windows following one another from step 0."""
        return cls(know_design(noise).design, step % noise.steps)

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object]) -> Correlated:
        """From ``{"design": number, "position": step}``; :class:`MechanismError` for anything else."""
        refuse_unknown(cls.name, parameters, ("design", "position"))
        design, position = (number(cls.name, parameters, key) for key in ("design", "position"))
        if design != int(design) or position != int(position):
            raise MechanismError(
                "design and position must be integers", (design, position), "copy them from the release"
            )
        return cls(int(design), int(position))

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
        """Which noise vector is meant: the same for all steps of the window."""
        return NoiseWindow(self.position, self.noise.steps, {"design": float(self.design)})

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64]:
        """Counts (n,) plus this step's share of the vectors that ``words`` (n, 2), one a window, begin."""
        if self.is_exact:
            return counts.copy()
        drawn = self.noise.noise(self.position, expand_words(words, self.position + 1))
        return counts + np.rint(drawn).astype(np.int64)

    def noise_law(self) -> NoiseLaw:
        """Law of this step's noise alone, rounded; other steps of the window depend on it."""
        return _marginal_law(self._sigma(), self.noise.realisation_mass(self.position))

    def reveal_probability(self) -> float:
        """``2 Phi(1 / (2 sigma)) - 1`` of the independent part, and what floating point may add."""
        sigma = self._independent_sigma()
        if sigma == 0.0:
            return 1.0
        exact = float(2.0 * ndtr(0.5 / sigma) - 1.0)
        return min(1.0, exact * (1 + 1e-12) + self.noise.realisation_mass(self.position))

    def divergence(self) -> float:
        """``1 / (2 sigma^2)`` nats of the independent part; inf where there is none."""
        sigma = self._independent_sigma()
        return inf if sigma == 0.0 else 1.0 / (2.0 * sigma**2)

    def information_table(self) -> InformationTable:
        """Upper bounds of :meth:`information` on a grid of [0, 1/2], for look-up in kernels."""
        return _information_table(self._independent_sigma(), self.noise.realisation_mass(self.position))

    def information(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Information (nats) through the independent part, never above the entropy ``h(p)``; any shape."""
        p = np.clip(probability, 0.0, 1.0)
        smaller = np.minimum(p, 1.0 - p)
        table = self.information_table()
        return np.minimum(np.interp(smaller, table.grid, table.information_nats), binary_entropy(smaller))

    def expected_absolute_error(self) -> float:
        """Expected size of this step's noise, in people."""
        values, probabilities = self._values()
        return float(np.sum(np.abs(values) * probabilities))

    def variance(self) -> float:
        """Variance of this step's rounded noise: the covariance's diagonal entry, and 1/12 or so."""
        values, probabilities = self._values()
        return float(np.sum(values**2 * probabilities))

    def zcdp_rho(self) -> float:
        """``1 / (2 sigma^2)`` of the independent part: adds up over the steps of a window too."""
        return self.divergence()

    def _values(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Values of this step's noise and their probabilities."""
        law = self.noise_law()
        return law.first + np.arange(law.probabilities.size, dtype=np.float64), law.probabilities

    def _sigma(self) -> float:
        return sqrt(float(self.noise.covariance[self.position, self.position]))

    def _independent_sigma(self) -> float:
        sigma = sqrt(float(self.noise.independent_variance[self.position]))
        return sigma if sigma >= _LEAST_SIGMA else 0.0


@dataclass(frozen=True, eq=False)
class CorrelatedSteps:
    """One noise window after the other from step 0 on, whether or not a step is released."""

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
        return binary_channel_information_table(_ALWAYS_TOLD, 0.0)
    return continuous_gaussian_information_table(sigma, realisation_mass)
