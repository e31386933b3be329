"""Several values of one sensor and one step: late values, and corrections of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod, sqrt
from typing import ClassVar

import numpy as np

from models.mechanisms.base import (
    Composite,
    DrawnPerWindow,
    Mechanism,
    NoiseFamily,
    NoPromises,
    Tabulated,
    computed_once,
    truncated_mass,
)
from models.mechanisms.correlated import Correlated
from models.noise import (
    EXACT_UP_TO_SIGMA,
    MIN_SIGMA,
    InformationTable,
    discrete_gaussian_table,
    joint_information_table,
    joint_outcomes,
    joint_shift_probability,
    large_sigma_information_table,
    least_information,
    scaled_entropy_table,
    shift_probability,
)
from models.numerics.arrays import Floats, Integers, Words


@dataclass(frozen=True, slots=True)
class SeenRelease(NoPromises, Tabulated):
    """``inner`` as an accountant sees it through a channel between the person and the count; never published.

    A subclass says what the channel reveals: ``name``, ``reveal_probability`` and ``information_table``. The
    other verbs are upper bounds for any channel that reveals, with some probability, whether the person was
    counted; those about the published value are the release's.
    """

    inner: Mechanism
    is_exact: ClassVar[bool] = False

    @property
    def parameters(self) -> Mapping[str, float]:
        """Those of the release."""
        return self.inner.parameters

    def publish(self, counts: Integers, words: Words) -> Integers | None:
        """As the release."""
        return self.inner.publish(counts, words)

    def outputs(self) -> tuple[Floats, Floats, float] | None:
        """Probabilities of what comes out if the person is not counted, and if, and what they leave out.

        None for an erasure channel, which shows the exact count with the probability stated, else nothing.
        """
        return None

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


_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True)
class Versions(NoPromises, Tabulated):
    """All public values of one sensor and step, first to last, each with noise of its own.

    The person is counted in all of them or in none, or in some for reasons that do not depend on where the
    person goes; that reveals no more. All verbs describe the joint law of the values, so the account is the
    same as if the log had held all of them from the start.
    """

    parts: tuple[Mechanism, ...]
    name: ClassVar[str] = "versions"
    most_counts: ClassVar[int] = 1  # where it is more, the parts are CountedAgain

    @property
    def is_exact(self) -> bool:
        """True when one of the values is exact: the others then add nothing."""
        return any(part.is_exact for part in self.parts)

    @computed_once(1024)
    def reveal_probability(self) -> float:
        """Total variation of the joint law under a shift of all values by one.

        The least of three bounds: that of the joint law itself; of discrete Gaussians ``P[Z = 0]`` at the
        scale to which the precisions add up; and ``1 - prod (1 - delta_i)``.
        """
        if any(part.is_exact for part in self.parts):
            return 1.0
        found = 1.0 - prod(1.0 - part.reveal_probability() for part in self.parts)
        beyond = sum(map(_missed, self.parts))
        sigma = _added_sigma(self.parts)
        if sigma is not None and sigma >= MIN_SIGMA:
            found = min(found, discrete_gaussian_table(sigma).reveal_probability() + beyond)
        laws = _laws(self.parts)
        if laws is not None:
            found = min(found, joint_shift_probability(joint_outcomes(laws)) + beyond)
        return min(1.0, found * (1.0 + _ROUNDING))

    def divergence(self) -> float:
        """The sum: divergences of independent noises add up."""
        return sum(part.divergence() for part in self.parts)

    @computed_once(256)
    def information_table(self) -> InformationTable:
        """Of the joint law; of discrete Gaussians also ``p (1 - p)`` times the sum of ``1 / (2 sigma^2)``.

        Of values whose law is not symmetric, or not known, the sum: they are independent given the person.
        """
        found = scaled_entropy_table(self.reveal_probability())
        if any(part.is_exact for part in self.parts):
            return found
        sigma = _added_sigma(self.parts)
        if sigma is not None:
            added = large_sigma_information_table(sigma, sum(map(truncated_mass, self.parts)))
            found = least_information(found, added)
        if any(isinstance(part, Composite) for part in self.parts):  # of no symmetric law, or no known one
            tables = [part.information_table() for part in self.parts if isinstance(part, Tabulated)]
            assert len(tables) == len(self.parts)
            nats = np.sum([each.information_nats for each in tables], axis=0)
            return least_information(found, found._replace(information_nats=nats))
        laws = _laws(self.parts)
        if laws is not None and (sigma is None or sigma <= EXACT_UP_TO_SIGMA):
            found = least_information(found, joint_information_table(joint_outcomes(laws)))
        return found

    def expected_absolute_error(self) -> float:
        """Of the latest value."""
        return self.parts[-1].expected_absolute_error()

    def variance(self) -> float:
        """Of the latest value."""
        return self.parts[-1].variance()

    def zcdp_rho(self) -> float:
        """The sum: zCDP adds."""
        return sum(part.zcdp_rho() for part in self.parts)

    def pure_epsilon(self) -> float:
        """The sum."""
        return sum(part.pure_epsilon() for part in self.parts)

    def gaussian_variance(self) -> float | None:
        """Of the best mean of all values: of Gaussian noises precisions add, if no other step shares them."""
        if shares_noise(self):
            return None
        variances = [part.gaussian_variance() for part in self.parts]
        if any(variance is None for variance in variances):
            return None
        known = [variance for variance in variances if variance is not None]
        return 0.0 if min(known) == 0.0 else 1.0 / sum(1.0 / variance for variance in known)


def shares_noise(mechanism: Mechanism) -> bool:
    """Whether other steps' values have parts of this noise."""
    if isinstance(mechanism, Composite):
        return any(map(shares_noise, mechanism.parts))
    return isinstance(mechanism, DrawnPerWindow) and not mechanism.is_exact


def all_versions(values: Sequence[Mechanism]) -> Mechanism:
    """The mechanism of a sensor and step with these values in the order of their publication.

    Values that are not released reveal nothing. All tiers' values of one version reveal together what the
    best-informed tier's does, and each version has a chain of its own; of noise that several steps share, a
    vector of its own.
    """
    parts = [part for value in values for part in (value.parts if isinstance(value, Versions) else (value,))]
    released = [part for part in parts if part.is_released]
    if len(released) < 2:
        return released[0] if released else values[-1]
    return Versions(tuple(released))


def _missed(part: Mechanism) -> float:
    """How far the sampler is from the law of this value; of a window's share its part of that."""
    law = part.noise_law()
    return truncated_mass(part) if law is None else law.truncated_mass


def _laws(parts: tuple[Mechanism, ...]) -> list[Floats] | None:
    """The law of each value's noise (n,); None where one of them has no law of a single number and step."""
    laws = [None if isinstance(part, DrawnPerWindow) else part.noise_law() for part in parts]
    if any(law is None for law in laws):
        return None
    return [law.probabilities for law in laws if law is not None]


def _added_sigma(parts: tuple[Mechanism, ...]) -> float | None:
    """The scale of the added precisions of discrete Gaussians; None for other noise."""
    if any(part.noise_family is not NoiseFamily.DISCRETE_GAUSSIAN for part in parts):
        return None
    return 1.0 / sqrt(2.0 * sum(part.divergence() for part in parts))


@dataclass(frozen=True, slots=True)
class CountedAgain(SeenRelease):
    """``inner`` where a person who is there adds 0 to ``most_counts`` to the count.

    How often a person is counted must not depend on where else the person goes. Given that number, being
    there shifts the noise by at most ``L = most_counts``, and all those shifts have ``1 - delta_L`` in
    common. So the release reveals at most as much as a channel that shows with probability ``delta_L``
    whether the person is there, and else nothing. All verbs are that channel's, except the information of
    Gaussian noise, which is less.
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

    @computed_once(256)
    def information_table(self) -> InformationTable:
        """At most ``delta_L h(p)``; of discrete Gaussian noise also ``p (1 - p) L^2 / (2 sigma^2)``.

        What :func:`models.noise.large_sigma_information_table` says of one count holds for a shift ``L``: the
        noise about the mean is ``L`` times as far away, so ``sigma / L`` stands for ``sigma``.
        """
        erased = scaled_entropy_table(self.reveal_probability())
        if self.inner.noise_family is not NoiseFamily.DISCRETE_GAUSSIAN:
            return erased
        law = self.inner.noise_law()
        assert law is not None
        sigma = 1.0 / sqrt(2.0 * self.inner.divergence())
        shifted = large_sigma_information_table(sigma / self.most_counts, law.truncated_mass)
        return least_information(erased, shifted)

    def zcdp_rho(self) -> float:
        """``L^2`` times that of one count (Bun and Steinke 2016, proposition 1.9)."""
        return self.most_counts**2 * self.inner.zcdp_rho()

    def pure_epsilon(self) -> float:
        """``L`` times that of one count."""
        return self.most_counts * self.inner.pure_epsilon()


def counted_again(mechanism: Mechanism, most_counts: int) -> Mechanism:
    """The mechanism for accountants where one person can be counted ``most_counts`` times.

    Each of several values is treated by itself. The mechanism itself for 1, and where nothing or the exact
    count is released, as that reveals the same at any shift.
    """
    if most_counts == 1:  # the usual case, before the slower checks
        return mechanism
    if isinstance(mechanism, Versions):
        return Versions(tuple(counted_again(part, most_counts) for part in mechanism.parts))
    if mechanism.is_exact or not mechanism.is_released:
        return mechanism
    return mechanism if mechanism.noise_law() is None else CountedAgain(mechanism, most_counts)


def revealed_by_shift(mechanism: Mechanism, shift: int) -> float:
    """Total variation between the noise and itself shifted by ``shift`` counts, for the erasure bound.

    1 for raw, 0 for suppressed. All shifts in ``0..shift`` have the rest in common. Includes the truncated
    mass. At shift one it is the mechanism's own ``reveal_probability``.
    """
    noise = mechanism.noise_law()
    if noise is None or shift == 0:
        return 0.0
    if mechanism.is_exact or shift == 1:
        return mechanism.reveal_probability()
    if isinstance(mechanism, DrawnPerWindow):  # whose law of one step says nothing of the others
        return mechanism.revealed_by_shift(shift) if isinstance(mechanism, Correlated) else 1.0
    return min(1.0, shift_probability(noise.probabilities, shift) + noise.truncated_mass)
