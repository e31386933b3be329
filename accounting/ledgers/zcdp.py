"""What the releases cost in differential privacy: zCDP added up exactly, and the epsilon it certifies.

Neighbours are two data sets that differ by one person being counted or not (add/remove) at every step of the
log, so one person changes each count by at most one, or by the ``most_counts`` that its sensor declares. A
raw release costs infinity, and says so. The discrete Gaussian satisfies zCDP with the same rho as the
continuous one (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Theorem 4),
but not the same epsilon curve: so epsilon comes from rho here, never from the continuous curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache

from accounting.ledgers.neighbours import WindowCosts
from accounting.ledgers.sampling import SamplerDistance, furthest, sampler_distance
from models.releases import SensorRelease

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_ROUNDS = 80  # golden section: the bracket shrinks to 1e-16 of itself


@dataclass(frozen=True, slots=True)
class Unprotected:
    """Releases that cost infinitely much: how many, the first one's sensor, and whether others have any.

    ``is_exact`` says that the first was an exact count; else its noise promises nothing by itself. The name
    is empty where an account of an earlier version did not keep it.
    """

    counts: int = 0
    sensor: str = ""
    of_others: bool = False
    is_exact: bool = True

    def and_of(self, name: str, is_exact: bool) -> Unprotected:
        """With one more."""
        if self == Unprotected():
            return Unprotected(1, name, False, is_exact)
        return Unprotected(
            self.counts + 1, self.sensor, self.of_others or name != self.sensor, self.is_exact and is_exact
        )


@dataclass
class ZcdpSpend:
    """The zCDP cost of all steps of a log so far, for some of its sensors.

    ``rho`` is exact (a sum of dyadic rationals), so it does not depend on how the steps were grouped;
    ``distance`` adds the samplers' distance from the ideal noise. Where ``is_infinite``, ``unprotected`` says
    which releases did it.
    """

    rho: Fraction = field(default_factory=Fraction)
    is_infinite: bool = False
    distance: SamplerDistance = field(default_factory=SamplerDistance)
    unprotected: Unprotected = field(default_factory=Unprotected)

    @property
    def truncated_mass(self) -> float:
        """Total variation between the samplers and the ideal noise, of all releases together."""
        return self.distance.truncated_mass

    def add(self, releases: Iterable[SensorRelease]) -> None:
        """Charge one step: a person is at one location, and counted by every sensor that covers it.

        Besides, windows that end with it, in which a person can be counted anywhere.
        """
        by_location: dict[int, Fraction] = {}
        far_by_location: dict[int, SamplerDistance] = {}
        windows, far_windows = WindowCosts[Fraction](), WindowCosts[SamplerDistance]()
        for release in releases:
            mechanism = release.charged
            cost = mechanism.zcdp_rho()
            if math.isinf(cost):
                self.is_infinite = True
                self.unprotected = self.unprotected.and_of(release.sensor.name, mechanism.is_exact)
                continue
            exact, far = _exactly(cost), sampler_distance(mechanism)
            if release.sensor.window is not None:
                windows.add(release.sensor.window, exact)
                far_windows.add(release.sensor.window, far)
                continue
            for location in release.sensor.locations:
                known = by_location.get(location)
                by_location[location] = exact if known is None else known + exact
                before = far_by_location.get(location)
                far_by_location[location] = far if before is None else before + far
        # Most locations have one sensor, and most sensors the same cost: one object for all of them.
        distinct = {id(cost): cost for cost in by_location.values()}
        self.rho += max(distinct.values(), default=Fraction()) + sum(windows.dearest())
        apart = {id(far): far for far in far_by_location.values()}
        self.distance += sum(
            (furthest(*group) for group in far_windows.by_length()), furthest([*apart.values()], 1)
        )

    def rho_value(self) -> float:
        """rho as a number; inf once a raw count was released."""
        return math.inf if self.is_infinite else float(self.rho)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon certified at ``delta``; inf where none is.

        That is after a release without noise, and where the sampled noise is never far enough from zero to
        hide anybody (:mod:`accounting.ledgers.sampling`).
        """
        rho = self.rho_value()
        return self.distance.epsilon(lambda left: epsilon_from_zcdp(rho, left), delta)


def epsilon_from_zcdp(rho: float, delta: float) -> float:
    """Smallest epsilon such that rho-zCDP implies (epsilon, delta)-DP, nats.

    ``min over alpha > 1 of alpha rho + (ln(1/delta) - ln alpha) / (alpha - 1) + ln(1 - 1/alpha)`` (Canonne,
    Kamath, Steinke 2020, Proposition 12). Every alpha gives a valid epsilon, so stopping the search early can
    only overstate it. ``rho`` may be 0 or inf.
    """
    if rho == 0.0:
        return 0.0
    if math.isinf(rho):
        return math.inf

    def epsilon(log_excess: float) -> float:
        alpha = 1.0 + math.exp(log_excess)
        return alpha * rho + (-math.log(delta) - math.log(alpha)) / (alpha - 1.0) + math.log1p(-1.0 / alpha)

    around = 0.5 * math.log(
        -math.log(delta) / rho
    )  # minimiser of the classical rho + 2 sqrt(rho ln(1/delta))
    return max(0.0, epsilon(_minimise(epsilon, around - 5.0, around + 5.0)))


def _minimise(function: Callable[[float], float], low: float, high: float) -> float:
    """The place of a minimum between ``low`` and ``high`` by golden section."""
    for _ in range(_ROUNDS):
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        if function(left) < function(right):
            high = right
        else:
            low = left
    return 0.5 * (low + high)


@lru_cache(maxsize=1024)
def _exactly(cost: float) -> Fraction:
    return Fraction(cost)
