"""What one release over several steps is in a single step: accountants ask it, nobody publishes it.

A release over a window is accounted as if something had been published in each of its steps
(:mod:`models.releases.fine_steps` says what, and why that reveals at least as much). Two kinds of part:

- :class:`NoiseShare`: the window's noise is a sum of independent shares, one for each step;
- :class:`ShownNowAndThen`: a coin, which shows the exact count of some places or nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import inf, log, prod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from models.mechanisms.base import Mechanism, NoiseFamily, NoiseLaw, Tabulated, truncated_mass
from models.mechanisms.gaussian import Gaussian
from models.mechanisms.versions import revealed_by_shift
from models.noise import (
    GaussianShare,
    InformationTable,
    discrete_gaussian_table,
    gaussian_share,
    large_sigma_information_table,
    least_information,
    scaled_entropy_table,
    truncation_information_nats,
)


class _Part(Tabulated):
    """What both kinds answer alike. Differential privacy is asked of the release itself, never of a part."""

    __slots__ = ()
    is_released: ClassVar[bool] = True
    most_counts: ClassVar[int] = 1
    noise_family: ClassVar[NoiseFamily] = NoiseFamily.OTHER

    @property
    def parameters(self) -> Mapping[str, float]:
        """None of its own."""
        return {}

    def publish(self, counts: NDArray[np.int64], words: NDArray[np.uint64]) -> NDArray[np.int64] | None:
        """None: the window is published as a whole."""
        return None

    def expected_absolute_error(self) -> float:
        """None of its own."""
        return inf

    def variance(self) -> float:
        """None of its own."""
        return inf

    def zcdp_rho(self) -> float:
        """Infinite: it promises nothing."""
        return inf

    def pure_epsilon(self) -> float:
        """Infinite: it promises nothing."""
        return inf

    def gaussian_variance(self) -> float | None:
        """None: it is no Gaussian about zero."""
        return None


@dataclass(frozen=True, slots=True)
class NoiseShare(_Part):
    """One of ``shares`` independent parts of the noise of ``whole``, the one at ``position`` from 0.

    The sampler's law lies ``tau`` from the ideal one, which is what adds up. So a window's release is at most
    its ideal shares and, with mass ``tau``, all its steps shown; that is less than each step being shown
    with mass ``tau^(1/shares)`` besides.
    """

    whole: Gaussian
    shares: int
    position: int
    name: ClassVar[str] = "share of a window"
    is_exact: ClassVar[bool] = False

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The release, once for each share: what its sampler may miss is charged in every step."""
        return (self.whole,) * self.shares

    def noise_law(self) -> NoiseLaw:
        """The ideal law of the share, and what is charged for the sampler."""
        own = _share(self)
        return NoiseLaw(own.first, own.probabilities, shown_beside(self.whole, self.shares))

    def reveal_probability(self) -> float:
        """The largest probability: that of a centre at an integer, which is the largest of any centre."""
        return min(1.0, share_reveal_probability(self.whole, self.shares))

    def divergence(self) -> float:
        """To itself shifted by one, up or down."""
        return _share(self).divergence() * (1.0 + 1e-12)

    def information_table(self) -> InformationTable:
        """The less of ``delta h(p)`` and ``p (1 - p) / (2 s^2)``, ``s`` being the share's scale.

        The latter as for a centred law: normalisers of two centres differ by what is added here.
        """
        return _share_table(self)


@dataclass(frozen=True, slots=True)
class ShownNowAndThen(_Part):
    """Shows the exact count of a set of places with probability ``shown``, else nothing.

    All parts of one release share one coin, which comes up with probability ``revealed``. Separate coins with
    probability ``shown`` would all come up at least as often. But the mean information, for somebody who sees
    the shared coin, is ``revealed`` times the entropy.
    """

    parts: tuple[Mechanism, ...]
    shown: float
    revealed: float
    name: ClassVar[str] = "shown now and then"

    @property
    def is_exact(self) -> bool:
        """Whether the coin always comes up."""
        return self.shown >= 1.0

    def noise_law(self) -> NoiseLaw | None:
        """None: it is an erasure, not a noise."""
        return None

    def reveal_probability(self) -> float:
        """``shown``."""
        return self.shown

    def divergence(self) -> float:
        """Infinite: an erasure reveals all now and then."""
        return inf

    def information_table(self) -> InformationTable:
        """``revealed h(p)``, and what the samplers may miss."""
        return _coin_table(self.revealed, sum(map(truncated_mass, self.parts)))


def shown_together(parts: Sequence[ShownNowAndThen]) -> ShownNowAndThen:
    """Several coins for one set of places, of different releases or moves: any of them shows it."""
    return ShownNowAndThen(
        tuple(whole for part in parts for whole in part.parts),
        1.0 - prod(1.0 - part.shown for part in parts),
        1.0 - prod(1.0 - part.revealed for part in parts),
    )


def share_reveal_probability(whole: Gaussian, shares: int) -> float:
    """How likely one share of so many shows the exact count, its part in the sampler's distance included."""
    return shared_reveal(whole, shares) + shown_beside(whole, shares)


def shared_reveal(whole: Gaussian, shares: int) -> float:
    """The same of the ideal law."""
    return discrete_gaussian_table(whole.sigma / shares**0.5).reveal_probability()


def shown_beside(whole: Gaussian, shares: int) -> float:
    """With which mass each of the shares is shown besides, so that all are with the sampler's distance."""
    return float(truncated_mass(whole) ** (1.0 / shares)) * (1.0 + 1e-12)


def most_revealed(whole: Mechanism, most_counts: int) -> float:
    """Information (nats) of a release about an own count in ``0..most_counts``, whatever its law.

    ``delta_L ln (L + 1)``; of discrete Gaussian noise also ``L^2 / (8 sigma^2)``: the divergence to the noise
    about the mean, ``Var / (2 sigma^2)``, bounds it, and the variance is ``L^2 / 4`` at most.
    """
    erased = revealed_by_shift(whole, most_counts) * log(most_counts + 1)
    if whole.noise_family is not NoiseFamily.DISCRETE_GAUSSIAN:
        return erased
    missed = truncation_information_nats(min(0.5, most_counts * truncated_mass(whole)))
    return min(erased, whole.divergence() * most_counts**2 / 4.0 + missed)


@lru_cache(1024)
def _share(part: NoiseShare) -> GaussianShare:
    return gaussian_share(part.whole.sigma, part.shares, part.position)


@lru_cache(256)
def _share_table(part: NoiseShare) -> InformationTable:
    own, missed = _share(part), sum(map(truncated_mass, part.parts))
    quadratic = large_sigma_information_table(own.scale, 0.0)
    quadratic = quadratic._replace(information_nats=quadratic.information_nats + own.normaliser_excess())
    erased = scaled_entropy_table(shared_reveal(part.whole, part.shares))
    least = least_information(quadratic, erased)
    return least._replace(information_nats=least.information_nats + truncation_information_nats(missed))


@lru_cache(256)
def _coin_table(revealed: float, missed: float) -> InformationTable:
    table = scaled_entropy_table(min(1.0, revealed))
    return table._replace(information_nats=table.information_nats + truncation_information_nats(missed))
