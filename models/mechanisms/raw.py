"""Raw release: the count as it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from models.mechanisms.base import NoiseFamily, NoiseLaw, NoPromises
from models.noise import binary_entropy
from models.numerics.arrays import Floats, Integers, Words


@dataclass(frozen=True, slots=True)
class Raw(NoPromises):
    """Publishes the count itself: no differential privacy, and all the information there is."""

    name: ClassVar[str] = "raw"
    is_exact: ClassVar[bool] = True
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.NONE

    def publish(self, counts: Integers, words: Words) -> Integers:
        """A copy of the counts (n,); the uniform bits are not used."""
        return counts.copy()

    def noise_law(self) -> NoiseLaw:
        """All the probability at zero."""
        return NoiseLaw(0, np.ones(1), 0.0)

    def reveal_probability(self) -> float:
        """1: the count is always shown."""
        return 1.0

    def information(self, probability: Floats) -> Floats:
        """The entropy ``h(p)`` of being counted, nats; same shape as ``probability``."""
        return binary_entropy(probability)

    def expected_absolute_error(self) -> float:
        """0: published as counted."""
        return 0.0

    def variance(self) -> float:
        """0: no noise."""
        return 0.0

    def gaussian_variance(self) -> float:
        """0: no noise."""
        return 0.0
