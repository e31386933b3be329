"""What a crowd hides of one count: from sums over the others to what is left of a release."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from math import expm1, inf, isfinite, log
from typing import ClassVar

from accounting.exceptions import SettingsError
from accounting.exposure.crowd.variance_kernel import (
    COINS,
    COLUMNS,
    RATES,
    TRANSFORMS,
    UNITS,
    VARIANCE,
    difference_masses,
)
from models.arguments import checked
from models.mechanisms import Composite, Mechanism, NoiseFamily, Raw, SeenRelease, Tabulated
from models.noise import InformationTable, least_information, scaled_entropy_table
from models.releases import SensorRelease, StepSchedule

# A released count seen by an adversary who does not know where the others are.


@dataclass(frozen=True, slots=True)
class Crowded(SeenRelease):
    """A release as seen by somebody who does not know where the others are; ``inner`` is the release itself.

    It reveals at most ``share`` of the entropy of being counted.

    - With ``is_erased`` it is an erasure channel: the person's bit with probability ``share``, else nothing.
    - Otherwise only :meth:`information` takes the crowd into account, because a mean over what is revealed of
      the others bounds information and nothing more. Everything else is that of ``inner``.

    Differential privacy does not depend on a crowd: its figures are those of ``inner``.
    """

    share: float
    is_erased: bool
    name: ClassVar[str] = "crowded"

    def reveal_probability(self) -> float:
        """Of the erasure; else that of the noise alone."""
        return self.share if self.is_erased else self.inner.reveal_probability()

    def information_table(self) -> InformationTable:
        """The smaller of what the crowd leaves and what the noise does."""
        return _information_table(self)


@lru_cache(4096)
def _information_table(crowded: Crowded) -> InformationTable:
    hidden = scaled_entropy_table(crowded.share)
    if crowded.is_erased or not isinstance(crowded.inner, Tabulated):
        return hidden
    return least_information(hidden, crowded.inner.information_table())


LEVELS = (0.5, 0.3, 0.15, 0.05, 0.02, 0.005, 1e-3, 1e-4)
"""Probabilities of what is revealed of the others where one of the counts hides less than its level says."""

_EXACT = Raw()
_ROUNDING = 1e-11  # relative, of what is computed from the sums
_SYMMETRIC = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.GEOMETRIC)  # characteristic function not negative


@checked(SettingsError, infinite=("alone",))
@dataclass(frozen=True, slots=True)
class CrowdAdversary:
    """Knows all priors, the schedule, every release, and all movements of any ``known`` people.

    ``companions`` always move with the person whose trace is guessed. ``alone`` is the share of people, at
    every sensor, who move independently of each other and of that person; the others count for nothing.
    The known people are fixed without a look at where anybody went.
    """

    known: int = 0
    companions: int = 0
    alone: float = 1.0

    def __post_init__(self) -> None:
        """:class:`SettingsError` names what is out of range."""
        for name in ("known", "companions"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative", getattr(self, name), "use 0 for nobody")
        if not (isfinite(self.alone) and 0.0 <= self.alone <= 1.0):
            raise SettingsError(
                "the share of people who move alone must lie in 0..1", self.alone, "use 1 for everybody"
            )

    @property
    def not_counted(self) -> int:
        """People among everybody who hide nobody: the one whose trace is guessed, companions, the known."""
        return 1 + self.companions + self.known


@dataclass(frozen=True, slots=True)
class SensorCrowd:
    """Sums over everybody at one sensor and step, in units of 1 / 2^32: ``(V, mu, transforms ..)``."""

    units: tuple[int, ...] = (0,) * COLUMNS

    def __add__(self, other: SensorCrowd) -> SensorCrowd:
        """Of two groups of people together; exact."""
        return SensorCrowd(tuple(a + b for a, b in zip(self.units, other.units, strict=True)))

    def variance(self, adversary: CrowdAdversary) -> float:
        """Mean of ``V`` over what is revealed, of those who hide somebody from this adversary."""
        return max(0.0, self._of_independent(VARIANCE, adversary) - 0.25 * adversary.not_counted)

    def coins(self, adversary: CrowdAdversary) -> float:
        """Mean number of fair coins in the count."""
        return max(0.0, self._of_independent(COINS, adversary) - adversary.not_counted)

    def variance_at(self, probability: float, adversary: CrowdAdversary) -> float:
        """What ``V`` is not below but with this ``probability`` (Chernoff).

        ``Pr[V < v] <= e^(rate v) E e^(-rate V)`` at each rate; with a probability of 0 nothing holds.
        """
        if probability <= 0.0:
            return 0.0
        likely = log(probability)
        found = max(
            (likely + self._of_independent(TRANSFORMS + index, adversary)) / rate
            for index, rate in enumerate(RATES)
        )
        return max(0.0, found * (1.0 - _ROUNDING) - 0.25 * adversary.not_counted)

    def _of_independent(self, column: int, adversary: CrowdAdversary) -> float:
        """Of those who move alone, rounded down."""
        share, whole = adversary.alone.as_integer_ratio()
        return (self.units[column] * share // whole) / UNITS


StepCrowd = tuple[SensorCrowd, ...]
"""What each release of a step hides among, in the order of the step's releases."""


def revealed(variance: float, mechanism: Mechanism, companions: int = 0) -> float:
    """The largest probability of a value of the others' sum plus the noise, from above: the erasure's delta.

    With companions, the largest probability of as many consecutive values. Noise counts only if it is
    symmetric with a known law; other noise is left out, which is safe because it only hides more.
    """
    return min(1.0, (1 + companions) * _mode(variance, _noise_of(mechanism)))  # type: ignore[arg-type]


def _noise_of(mechanism: Mechanism) -> Mechanism:
    return mechanism if mechanism.noise_family in _SYMMETRIC else _EXACT


@lru_cache(1 << 16)
def _mode(variance: float, mechanism: Mechanism) -> float:
    """``sum_k f(k) e^-V I_k(V)`` and what is cut off the noise's table."""
    law = mechanism.noise_law()
    if law is None or mechanism.is_exact:
        return float(difference_masses(variance, 0)[0])
    masses = difference_masses(variance, max(-law.first, law.first + law.probabilities.size - 1))
    total = 0.0
    for k, probability in enumerate(law.probabilities.tolist(), start=law.first):
        total += probability * float(masses[abs(k)])
    return min(1.0, total * (1.0 + _ROUNDING) + 3.0 * law.truncated_mass)


def left_of_entropy(coins: float) -> float:
    """``(1 - e^-mu) / mu >= E 1 / (M + 1)``: what ``M`` fair coins leave of any information about a bit."""
    return 1.0 if coins < 1e-9 else min(1.0, -expm1(-coins) / coins * (1.0 + _ROUNDING))


def in_crowd(step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary) -> StepSchedule:
    """The step as this adversary sees it, for bounds on information.

    With companions the noise by itself is not known to hide the group. A count then stands as an exact one,
    and the noise as part of its crowd.
    """
    return _replaced(step, crowds, adversary, partial(_hidden, adversary=adversary))


def at_level(
    step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary, probability: float
) -> StepSchedule:
    """The step as erasure channels, each with the ``probability`` that more is revealed than it says."""
    erased = partial(_erased, adversary=adversary, probability=probability)
    return _replaced(step, crowds, adversary, erased)


def _replaced(
    step: StepSchedule,
    crowds: StepCrowd,
    adversary: CrowdAdversary,
    seen: Callable[[Mechanism, SensorCrowd], Mechanism],
) -> StepSchedule:
    """The step with other mechanisms; what is not released stays as it is.

    A crowd is not known to hide anybody at a sensor that can count somebody twice, nor in the difference of
    several values of one count. For such releases noise is not known to hide a group either.
    """
    releases = (
        own
        if not own.mechanism.is_released or (_is_known(own) and not adversary.companions)
        else replace(own, mechanism=_EXACT if _is_known(own) else seen(own.mechanism, crowd))
        for own, crowd in zip(step.releases, crowds, strict=True)
    )
    return StepSchedule(step.step, tuple(releases))


def _is_known(release: SensorRelease) -> bool:
    """Whether it is charged as if the others were known."""
    sensor = release.sensor
    return sensor.most_counts > 1 or sensor.corrections > 0 or isinstance(release.mechanism, Composite)


def _hidden(mechanism: Mechanism, crowd: SensorCrowd, adversary: CrowdAdversary) -> Mechanism:
    variance, coins = crowd.variance(adversary), crowd.coins(adversary)
    share = revealed(variance, mechanism, adversary.companions)
    if adversary.companions:
        return Crowded(_EXACT, share, False) if share < 1.0 else _EXACT
    share = min(share, left_of_entropy(coins))
    return Crowded(mechanism, share, False) if variance + coins > 0.0 and share < 1.0 else mechanism


def _erased(
    mechanism: Mechanism, crowd: SensorCrowd, adversary: CrowdAdversary, probability: float
) -> Mechanism:
    variance = crowd.variance_at(probability, adversary)
    share = revealed(variance, mechanism, adversary.companions)
    if adversary.companions:
        return Crowded(_EXACT, share, True) if share < 1.0 else _EXACT
    return Crowded(mechanism, share, True) if variance > 0.0 and share < 1.0 else mechanism


def equivalent_sigma(crowd: SensorCrowd, adversary: CrowdAdversary) -> float:
    """Scale of Gaussian noise that hides a bit no better than the crowd alone does; 0 if it hides none.

    Of the continuous noise with the same total variation under a shift by one, rounded down.
    """
    from scipy.special import ndtri

    share = revealed(crowd.variance(adversary), _EXACT, adversary.companions)
    return 0.0 if share >= 1.0 else 0.5 / float(ndtri(0.5 * (1.0 + share))) if share > 0.0 else inf
