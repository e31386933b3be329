"""Covariance functions of time: RBF, periodic, Matérn, white noise, and their sums and products.

Times may be irregular; they and the length scales share one unit, of the caller's choice. Variances are in
the square of the unit of the values. Definitions as in Meehan, Chaudhuri, "Location Trace Privacy Under
Conditional Priors", appendix equation (6), and Rasmussen, Williams, "Gaussian Processes for Machine Learning"
(2006), section 4.2.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.exceptions import GaussianProcessError
from models.numerics.elementwise import exp

Floats = NDArray[np.float64]

_SMOOTHNESS = (0.5, 1.5, 2.5)


class Kernel(ABC):
    """A positive semidefinite function of two times. ``+`` and ``*`` make sums and products."""

    @abstractmethod
    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right] between the values at times ``left`` (n,) and ``right`` (m,)."""

    @abstractmethod
    def hyperparameters(self) -> dict[str, float]:
        """Every number that can be fitted, by name; all are positive."""

    @abstractmethod
    def with_hyperparameters(self, values: Mapping[str, float]) -> Kernel:
        """The same kernel with some numbers replaced."""

    def covariance(self, times: Floats) -> Floats:
        """The covariance matrix [time, time] of the values at ``times`` (n,), exactly symmetric."""
        matrix = self.between(times, times)
        return (matrix + matrix.T) / 2.0

    def __add__(self, other: Kernel) -> Sum:
        """The kernel of two independent processes added up."""
        return Sum(self, other)

    def __mul__(self, other: Kernel) -> Product:
        """The kernel of two independent processes multiplied."""
        return Product(self, other)


@dataclass(frozen=True)
class _Leaf(Kernel):
    """A kernel made of positive numbers."""

    def __post_init__(self) -> None:
        for name, value in self.hyperparameters().items():
            if not (math.isfinite(value) and value > 0.0):
                kind = type(self).__name__
                raise GaussianProcessError(
                    f"{name} of {kind} must be positive and finite", value, "give a positive number"
                )

    def hyperparameters(self) -> dict[str, float]:
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "smoothness"}

    def with_hyperparameters(self, values: Mapping[str, float]) -> Self:
        own = self.hyperparameters()
        return replace(self, **{name: value for name, value in values.items() if name in own})


@dataclass(frozen=True)
class RBF(_Leaf):
    """``variance exp(-dt^2 / (2 length_scale^2))``: very smooth movement."""

    length_scale: float
    variance: float = 1.0

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.variance * exp(-0.5 * (_apart(left, right) / self.length_scale) ** 2)


@dataclass(frozen=True)
class Periodic(_Leaf):
    """``variance exp(-2 sin^2(pi dt / period) / length_scale^2)``; the length scale has no unit."""

    length_scale: float
    period: float
    variance: float = 1.0

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        turn = np.sin(np.pi * _apart(left, right) / self.period)
        return self.variance * exp(-2.0 * (turn / self.length_scale) ** 2)


@dataclass(frozen=True)
class Matern(_Leaf):
    """The Matérn kernel of smoothness 0.5, 1.5 or 2.5 (Rasmussen, Williams, equations 4.17 and below)."""

    length_scale: float
    smoothness: float = 1.5
    variance: float = 1.0

    def __post_init__(self) -> None:
        """:class:`GaussianProcessError` unless the smoothness is one with a closed form."""
        super().__post_init__()
        if self.smoothness not in _SMOOTHNESS:
            raise GaussianProcessError(
                "smoothness must be 0.5, 1.5 or 2.5", self.smoothness, "choose one of them, or RBF"
            )

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        scaled = math.sqrt(2.0 * self.smoothness) * np.abs(_apart(left, right)) / self.length_scale
        polynomial = 1.0 + (self.smoothness > 1.0) * scaled + (self.smoothness > 2.0) * scaled**2 / 3.0
        return np.asarray(self.variance * polynomial * exp(-scaled), np.float64)


@dataclass(frozen=True)
class White(_Leaf):
    """Independent noise: ``variance`` at equal times, nothing between different ones."""

    variance: float

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return np.asarray(self.variance * (_apart(left, right) == 0.0), np.float64)


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels combined; the numbers of each are named ``left.`` and ``right.``."""

    left: Kernel
    right: Kernel

    def hyperparameters(self) -> dict[str, float]:
        sides = (("left", self.left), ("right", self.right))
        return {
            f"{side}.{name}": value
            for side, kernel in sides
            for name, value in kernel.hyperparameters().items()
        }

    def with_hyperparameters(self, values: Mapping[str, float]) -> Self:
        return replace(
            self,
            left=self.left.with_hyperparameters(_below("left", values)),
            right=self.right.with_hyperparameters(_below("right", values)),
        )


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two independent processes."""

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.left.between(left, right) + self.right.between(left, right)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two independent processes of mean zero, e.g. a daily cycle that slowly changes."""

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.left.between(left, right) * self.right.between(left, right)


def _apart(left: Floats, right: Floats) -> Floats:
    """Time differences [left, right]."""
    return np.subtract.outer(np.asarray(left, np.float64), np.asarray(right, np.float64))


def _below(side: str, values: Mapping[str, float]) -> dict[str, float]:
    """The numbers of one side, without its prefix."""
    prefix = f"{side}."
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
