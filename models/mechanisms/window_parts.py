"""The part of a release over several steps that is accounted in a single step; parts are never published.

A release over a window is accounted as if something had been published in each of its steps
(:mod:`models.releases.fine_steps` says what, and why that reveals at least as much). Two kinds of part:

- :class:`NoiseShare`: the window's noise is a sum of independent shares, one for each step;
- :class:`ErasureCoin`: with some probability the exact count of some places is shown, else nothing.

Differential privacy is accounted for whole releases, never parts, so parts promise none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import log, prod
from typing import ClassVar

from models.mechanisms.base import (
    Mechanism,
    NoiseFamily,
    NoiseLaw,
    NoPromises,
    Tabulated,
    computed_once,
    truncated_mass,
)
from models.mechanisms.gaussian import Gaussian
from models.mechanisms.versions import revealed_by_shift
from models.noise import (
    GaussianShare,
    InformationTable,
    charged,
    discrete_gaussian_table,
    gaussian_share,
    large_sigma_information_table,
    least_information,
    scaled_entropy_table,
    truncation_information_nats,
)


@dataclass(frozen=True, slots=True)
class NoiseShare(NoPromises, Tabulated):
    """One of ``shares`` independent parts of the noise of ``whole``: the one at ``position``, from 0.

    The ideal law is the sum of the ideal shares; the sampler's law is ``tau`` away from it. So a window's
    release reveals at most its ideal shares and, with probability ``tau``, all its steps. That is less than
    if each step were shown with an additional probability ``tau^(1/shares)``.
    """

    whole: Gaussian
    shares: int
    position: int
    name: ClassVar[str] = "share of a window"
    is_exact: ClassVar[bool] = False
    most_counts: ClassVar[int] = 1

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The release, once for each share: its sampler's distance is charged in every step."""
        return (self.whole,) * self.shares

    def noise_law(self) -> NoiseLaw:
        """The ideal law of the share, with the charge for the sampler."""
        own = self._share()
        return NoiseLaw(own.first, own.probabilities, _sampler_charge(self.whole, self.shares))

    def reveal_probability(self) -> float:
        """The largest probability of a law centred at an integer, which is the largest for any centre."""
        return min(1.0, share_reveal_probability(self.whole, self.shares))

    def divergence(self) -> float:
        """To itself shifted by one, up or down."""
        return self._share().divergence() * (1.0 + 1e-12)

    @computed_once(256)
    def information_table(self) -> InformationTable:
        """The lesser of ``delta h(p)`` and ``p (1 - p) / (2 s^2)`` for the share's scale ``s``.

        The second holds for a centred law; the difference between the normalisers of two centres is added.
        """
        own, missed = self._share(), sum(map(truncated_mass, self.parts))
        quadratic = large_sigma_information_table(own.scale, 0.0)
        quadratic = quadratic._replace(information_nats=quadratic.information_nats + own.normaliser_excess())
        erased = scaled_entropy_table(shared_reveal(self.whole, self.shares))
        return charged(least_information(quadratic, erased), missed)

    @computed_once(1024)
    def _share(self) -> GaussianShare:
        return gaussian_share(self.whole.sigma, self.shares, self.position)


_BELOW_ONE = 1.0 - 2.0**-53  # the rounding of a product of chances is as large


@dataclass(frozen=True, slots=True)
class ErasureCoin(NoPromises, Tabulated):
    """Shows the exact count of a set of places with probability ``shown``, else nothing.

    All parts of one release share one coin, which shows with probability ``revealed``. Independent coins with
    probability ``shown`` would all show at least as often, so they are an upper bound. The mean information
    of an adversary who sees the shared coin is ``revealed`` times the entropy.
    """

    parts: tuple[Mechanism, ...]
    shown: float
    revealed: float
    name: ClassVar[str] = "shown now and then"
    most_counts: ClassVar[int] = 1

    @property
    def is_exact(self) -> bool:
        """Whether the coin always shows."""
        return self.shown >= 1.0

    def reveal_probability(self) -> float:
        """``shown``."""
        return self.shown

    def information_table(self) -> InformationTable:
        """``revealed h(p)``, and the charge for the samplers."""
        return _coin_table(self.revealed, sum(map(truncated_mass, self.parts)))


def joined_coins(parts: Sequence[ErasureCoin]) -> ErasureCoin:
    """The coins of several releases or moves for one set of places as one coin: any of them shows it.

    It is exact only if one of them is: else accounts would count exact places beside what the noise reveals.
    """
    most = 1.0 if any(part.is_exact for part in parts) else _BELOW_ONE
    return ErasureCoin(
        tuple(whole for part in parts for whole in part.parts),
        min(most, 1.0 - prod(1.0 - part.shown for part in parts)),
        1.0 - prod(1.0 - part.revealed for part in parts),
    )


def share_reveal_probability(whole: Gaussian, shares: int) -> float:
    """Probability that one of ``shares`` shares shows the exact count, with the charge for the sampler."""
    return shared_reveal(whole, shares) + _sampler_charge(whole, shares)


def shared_reveal(whole: Gaussian, shares: int) -> float:
    """Probability that one share of the ideal law shows the exact count."""
    return discrete_gaussian_table(whole.sigma / shares**0.5).reveal_probability()


def _sampler_charge(whole: Gaussian, shares: int) -> float:
    """The additional probability of each share: all of them together have the sampler's distance."""
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


@lru_cache(256)
def _coin_table(revealed: float, missed: float) -> InformationTable:
    return charged(scaled_entropy_table(min(1.0, revealed)), missed)
