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
from typing import NamedTuple

from accounting.ledgers.neighbours import WindowCosts
from models.mechanisms import Mechanism, truncated_mass
from models.releases import SensorRelease

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_ROUNDS = 80  # golden section: the bracket shrinks to 1e-16 of itself


class Charge(NamedTuple):
    """What one release costs whoever it counts; ordered by rho."""

    rho: Fraction
    truncated_mass: float


@dataclass
class ZcdpSpend:
    """The zCDP cost of all steps of a log so far, for some of its sensors.

    ``rho`` is exact (a sum of dyadic rationals), so it does not depend on how the steps were grouped;
    ``truncated_mass`` adds the samplers' distance from the ideal noise, charged to delta.
    """

    rho: Fraction = field(default_factory=Fraction)
    is_infinite: bool = False
    truncated_mass: float = 0.0

    def add(self, releases: Iterable[SensorRelease]) -> None:
        """Charge one step: a person is at one location, and counted by every sensor that covers it.

        Besides, windows that end with it, in which a person can be counted anywhere.
        """
        by_location: dict[int, Fraction] = {}
        mass_by_location: dict[int, float] = {}
        truncated: dict[Mechanism, float] = {}
        windows = WindowCosts[Charge]()
        for release in releases:
            mechanism = release.charged
            cost = mechanism.zcdp_rho()
            if math.isinf(cost):
                self.is_infinite = True
                continue
            mass = truncated.get(mechanism)
            if mass is None:
                mass = truncated[mechanism] = truncated_mass(mechanism)
            exact = _exactly(cost)
            if release.sensor.window is not None:
                windows.add(release.sensor.window, Charge(exact, mass))
                continue
            for location in release.sensor.locations:
                mass_by_location[location] = mass_by_location.get(location, 0.0) + mass
                known = by_location.get(location)
                by_location[location] = exact if known is None else known + exact
        # Most locations have one sensor, and most sensors the same cost: one object for all of them.
        distinct = {id(cost): cost for cost in by_location.values()}
        self.rho += max(distinct.values(), default=Fraction())
        self.truncated_mass += max(mass_by_location.values(), default=0.0)
        for charge in windows.dearest():
            self.rho += charge.rho
            self.truncated_mass += charge.truncated_mass

    def rho_value(self) -> float:
        """rho as a number; inf once a raw count was released."""
        return math.inf if self.is_infinite else float(self.rho)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon certified at ``delta``; inf where none is.

        The truncated mass ``tau`` costs ``(1 + e^epsilon) tau`` of delta, which limits what can be certified
        to an epsilon of about 45, where it has long stopped promising anything.
        """
        rho, charged = self.rho_value(), 0.0
        for _ in range(4):
            if charged >= delta or math.isinf(rho):
                return math.inf
            epsilon = epsilon_from_zcdp(rho, delta - charged)
            cost = mass_in_delta(epsilon, self.truncated_mass)
            if cost <= charged:
                return epsilon
            charged = 2.0 * cost
        return math.inf


def mass_in_delta(epsilon: float, mass: float) -> float:
    """What samplers that miss the ideal by ``mass`` cost of delta: ``(1 + e^epsilon) mass``, 0 for none."""
    return (1.0 + math.exp(min(epsilon, 700.0))) * mass if mass > 0.0 else 0.0


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
