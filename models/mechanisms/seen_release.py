"""A release as accountants see it who know of something that lies between a person and the count."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.mechanisms.base import Mechanism, NoiseFamily, NoiseLaw, Tabulated


@dataclass(frozen=True, slots=True)
class SeenRelease(Tabulated):
    """``inner`` seen through a channel of its own; it is never published under this name.

    Whoever derives from it says what the channel reveals: ``name``, ``reveal_probability`` and
    ``information_table``. What stands here errs upwards for any channel that reveals, with some probability,
    whether somebody was counted; what concerns the published value is the release's.
    """

    inner: Mechanism
    name: ClassVar[str]
    is_released: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the release."""
        return self.inner.parameters

    @property
    def noise_family(self) -> NoiseFamily:
        """None that a theorem is known of for what the channel leaves."""
        return NoiseFamily.OTHER

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64] | None:
        """As the release."""
        return self.inner.publish(counts, words)

    def noise_law(self) -> NoiseLaw | None:
        """None: the channel is no noise with one law."""
        return None

    def divergence(self) -> float:
        """Infinite: now and then the channel reveals all."""
        return inf

    def expected_absolute_error(self) -> float:
        """As the release."""
        return self.inner.expected_absolute_error()

    def variance(self) -> float:
        """As the release."""
        return self.inner.variance()

    def zcdp_rho(self) -> float:
        """As the release."""
        return self.inner.zcdp_rho()

    def pure_epsilon(self) -> float:
        """As the release."""
        return self.inner.pure_epsilon()

    def gaussian_variance(self) -> float | None:
        """As the release."""
        return self.inner.gaussian_variance()
