"""Suppression: the sensor is named and nothing else is published."""

from __future__ import annotations

from dataclasses import dataclass
from math import nan
from typing import ClassVar

import numpy as np

from models.mechanisms.base import NoiseFamily, NoPromises
from models.numerics.arrays import Floats


@dataclass(frozen=True, slots=True)
class Suppressed(NoPromises):
    """Publishes nothing, whatever was counted."""

    name: ClassVar[str] = "suppressed"
    is_released: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.NONE

    def reveal_probability(self) -> float:
        """0: nothing is ever shown."""
        return 0.0

    def divergence(self) -> float:
        """0: no two counts can be distinguished."""
        return 0.0

    def information(self, probability: Floats) -> Floats:
        """Zeros of the same shape as ``probability``."""
        return np.zeros(np.shape(probability))

    def expected_absolute_error(self) -> float:
        """Not a number: there is no published value."""
        return nan

    def zcdp_rho(self) -> float:
        """0: nothing is spent."""
        return 0.0

    def pure_epsilon(self) -> float:
        """0: nothing is spent."""
        return 0.0
