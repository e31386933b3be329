"""A released count in which one person can be counted more than once."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import sqrt
from typing import ClassVar

from models.exceptions import MechanismError
from models.mechanisms.base import DrawnPerWindow, Mechanism, NoiseFamily
from models.mechanisms.seen_release import SeenRelease
from models.mechanisms.versions import Versions
from models.noise import (
    InformationTable,
    large_sigma_information_table,
    least_information,
    scaled_entropy_table,
    shift_probability,
)


@dataclass(frozen=True, slots=True)
class CountedAgain(SeenRelease):
    """``inner`` where somebody who is there adds 0 to ``most_counts`` to the count.

    How often somebody is counted must not depend on where else they go. Given it, being there shifts the
    noise by at most ``L = most_counts``, and all those shifts have ``1 - delta_L`` in common: so the release
    is no more than the channel that reveals with probability ``delta_L`` whether somebody is there, and else
    nothing. All verbs are that channel's, but for the information, where Gaussian noise says less.
    """

    most_counts: int
    name: ClassVar[str] = "counted again"

    @property
    def parts(self) -> tuple[Mechanism, ...]:
        """The release."""
        return (self.inner,)

    def reveal_probability(self) -> float:
        """``delta_L``."""
        return revealed_by_shift(self.inner, self.most_counts)

    def information_table(self) -> InformationTable:
        """At most ``delta_L h(p)``; of discrete Gaussian noise also ``p (1 - p) L^2 / (2 sigma^2)``."""
        return _information_table(self)

    def zcdp_rho(self) -> float:
        """``L^2`` times that of one count (Bun and Steinke 2016, proposition 1.9)."""
        return self.most_counts**2 * self.inner.zcdp_rho()

    def pure_epsilon(self) -> float:
        """``L`` times that of one count."""
        return self.most_counts * self.inner.pure_epsilon()


def counted_again(mechanism: Mechanism, most_counts: int) -> Mechanism:
    """The mechanism as accountants ask it where one person can be counted ``most_counts`` times.

    Of several values each for itself. The mechanism itself for 1, and where nothing or the exact count is
    released: that reveals the same at any shift.
    :class:`MechanismError` for noise that several steps share.
    """
    if most_counts == 1:  # first, as asking for abilities takes long and every release comes by here
        return mechanism
    if isinstance(mechanism, Versions):
        return Versions(tuple(counted_again(part, most_counts) for part in mechanism.parts))
    if mechanism.is_exact or not mechanism.is_released:
        return mechanism
    if isinstance(mechanism, DrawnPerWindow):
        raise MechanismError(
            "noise that several steps share must count each person once in a step",
            f"{mechanism.name} on a sensor that counts somebody up to {most_counts} times",
            "use gaussian or raw for sensors with most_counts above 1",
        )
    return mechanism if mechanism.noise_law() is None else CountedAgain(mechanism, most_counts)


def revealed_by_shift(mechanism: Mechanism, shift: int) -> float:
    """Total variation between the noise and itself shifted by ``shift`` counts, for the erasure bound.

    1 for raw, 0 for suppressed. All shifts in ``0..shift`` have the rest in common. Includes the truncated
    mass; at shift one it is the mechanism's own.
    """
    noise = mechanism.noise_law()
    if noise is None or shift == 0:
        return 0.0
    if mechanism.is_exact or shift == 1:
        return mechanism.reveal_probability()
    return min(1.0, shift_probability(noise.probabilities, shift) + noise.truncated_mass)


@lru_cache(256)
def _information_table(counted: CountedAgain) -> InformationTable:
    """What :func:`models.noise.large_sigma_information_table` says of one count holds for a shift ``L``.

    The noise about the mean is ``L`` times as far away: ``sigma / L`` stands for ``sigma``.
    """
    erased = scaled_entropy_table(counted.reveal_probability())
    if counted.inner.noise_family is not NoiseFamily.DISCRETE_GAUSSIAN:
        return erased
    law = counted.inner.noise_law()
    assert law is not None
    sigma = 1.0 / sqrt(2.0 * counted.inner.divergence())
    shifted = large_sigma_information_table(sigma / counted.most_counts, law.truncated_mass)
    return least_information(erased, shifted)
