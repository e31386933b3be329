"""Suppression: the sensor is named and nothing else is published."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf, nan
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.mechanisms.base import NO_DESIGNS, Designs, NoiseFamily, refuse_unknown


@dataclass(frozen=True, slots=True)
class Suppressed:
    """Publishes nothing, whatever was counted."""

    name: ClassVar[str] = "suppressed"
    parameter_names: ClassVar[tuple[str, ...]] = ()
    is_released: ClassVar[bool] = False
    is_exact: ClassVar[bool] = False
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.NONE

    @classmethod
    def from_parameters(cls, parameters: Mapping[str, object], designs: Designs = NO_DESIGNS) -> Suppressed:
        """Suppression has no parameters; :class:`MechanismError` if any is given."""
        refuse_unknown(cls.name, parameters)
        return cls()

    @property
    def parameters(self) -> Mapping[str, float]:
        """None."""
        return {}

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> None:
        """Nothing."""
        return

    def noise_law(self) -> None:
        """There is no published value to have a law."""
        return

    def reveal_probability(self) -> float:
        """0: nothing is ever shown."""
        return 0.0

    def divergence(self) -> float:
        """0: no two counts can be distinguished."""
        return 0.0

    def information(self, probability: NDArray[np.float64]) -> NDArray[np.float64]:
        """Zeros of the same shape as ``probability``."""
        return np.zeros(np.shape(probability))

    def expected_absolute_error(self) -> float:
        """Not a number: there is no published value."""
        return nan

    def variance(self) -> float:
        """Infinite: the published value says nothing about the count."""
        return inf

    def zcdp_rho(self) -> float:
        """0: nothing is spent."""
        return 0.0

    def pure_epsilon(self) -> float:
        """0: nothing is spent."""
        return 0.0

    def gaussian_variance(self) -> None:
        """There is no noise to have one."""
        return
