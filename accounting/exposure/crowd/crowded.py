"""A released count seen by an adversary who does not know where the others are."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import inf
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import Mechanism, NoiseFamily, NoiseLaw, Tabulated
from models.noise import InformationTable, least_information, scaled_entropy_table


@dataclass(frozen=True, slots=True)
class Crowded(Tabulated):
    """``inner`` in a crowd, as accountants of one person ask it; it is never published.

    It reveals at most ``share`` of the entropy of being counted. With ``is_erased`` it stands for the channel
    that reveals the person's bit with probability ``share`` and else nothing, and all its verbs are that
    channel's. Otherwise only :meth:`information` knows of the crowd, and all else is as for whoever knows
    where the others are: the mean over what is revealed of them is a bound on information, not on more.
    """

    inner: Mechanism
    share: float
    is_erased: bool
    name: ClassVar[str] = "crowded"
    is_released: ClassVar[bool] = True
    is_exact: ClassVar[bool] = False

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the release."""
        return self.inner.parameters

    @property
    def noise_family(self) -> NoiseFamily:
        """None that a theorem is known of."""
        return NoiseFamily.OTHER

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64] | None:
        """As the release."""
        return self.inner.publish(counts, words)

    def noise_law(self) -> NoiseLaw | None:
        """None: neither the crowd nor the erasure is a noise with one law."""
        return None

    def reveal_probability(self) -> float:
        """Of the erasure; else that of the noise alone."""
        return self.share if self.is_erased else self.inner.reveal_probability()

    def divergence(self) -> float:
        """Infinite: an erasure reveals all now and then, and of the crowd no divergence is known."""
        return inf

    def information_table(self) -> InformationTable:
        """The smaller of what the crowd leaves and what the noise does."""
        return _information_table(self)

    def expected_absolute_error(self) -> float:
        """As the release."""
        return self.inner.expected_absolute_error()

    def variance(self) -> float:
        """As the release."""
        return self.inner.variance()

    def zcdp_rho(self) -> float:
        """As the release: differential privacy knows no crowd."""
        return self.inner.zcdp_rho()

    def pure_epsilon(self) -> float:
        """As the release."""
        return self.inner.pure_epsilon()

    def gaussian_variance(self) -> float | None:
        """As the release."""
        return self.inner.gaussian_variance()


@lru_cache(4096)
def _information_table(crowded: Crowded) -> InformationTable:
    hidden = scaled_entropy_table(crowded.share)
    if crowded.is_erased or not isinstance(crowded.inner, Tabulated):
        return hidden
    return least_information(hidden, crowded.inner.information_table())
