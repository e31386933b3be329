"""The differential-privacy reader: what the whole log costs a person.

Discrete Gaussian noise is certified by zCDP. Tiers are certified by their own epsilon or by zCDP, whichever
is smaller. Continuous noise (correlated releases) also has an exact curve. Sums are exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from fractions import Fraction
from functools import lru_cache
from itertools import groupby
from math import inf
from typing import Any, NamedTuple

from scipy.special import log_ndtr, ndtr

from accounting.exceptions import LedgerError
from accounting.ledgers.person_cost import Cost, DayCost, Neighbours, WindowCosts, costs_at_places, step_cost
from accounting.ledgers.release_log import ReleaseLog, known
from accounting.numerics import bracket
from models.calendar import Days
from models.mechanisms import Composite, Mechanism, NoiseFamily
from models.releases import SensorRelease, StepSchedule, WindowRelease

# Epsilon and delta of continuous Gaussian noise: the exact curve, and the formula of the papers.


def gaussian_delta(epsilon: float, mu: float) -> float:
    """``Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)``: the smallest delta at ``epsilon`` (nats).

    Balle, Wang ("Improving the Gaussian Mechanism for Differential Privacy", 2018, theorem 8). For releases
    with sensitivities ``Delta_t`` and scales ``sigma_t``: ``mu^2 = sum_t Delta_t^2 / sigma_t^2``. Not an
    upper bound for *discrete* Gaussian noise, whose delta is larger: 1.8 times at sigma 1, delta near 1e-6.
    """
    if mu == 0.0:
        return 0.0
    inside = mu / 2.0 - epsilon / mu
    beyond = math.exp(min(epsilon + float(log_ndtr(inside - mu)), 0.0))
    return max(0.0, float(ndtr(inside)) - beyond)


def gaussian_epsilon(delta: float, mu: float) -> float:
    """The smallest epsilon (nats) at ``delta`` in (0, 1), from above; 0 where ``delta`` alone suffices."""
    if math.isinf(mu):
        return math.inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    most = mu * mu / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta))  # Mironov 2017, proposition 3
    return bracket(lambda epsilon: gaussian_delta(epsilon, mu) > delta, 0.0, most).first_false


def paper_epsilon(delta: float, mu: float) -> float:
    """``sqrt(2 ln(1.25 / delta)) mu``, the formula of Koga et al.: shown as "paper", not a guarantee.

    It is the classical formula of Dwork and Roth ("The Algorithmic Foundations of Differential Privacy",
    theorem A.1), which is proven only for epsilon below 1. At sigma 10, 8 760 steps and delta 1e-6 it gives
    49.6; the true epsilon is 87.5.
    """
    return math.sqrt(2.0 * math.log(1.25 / delta)) * mu


# The cost of sampling: theorems are about ideal noise, and a sampler's law differs from it a little.
#
# There are two ways to charge the difference, and the smaller epsilon counts.
#
# - **By mass**: a law within ``tau`` of the ideal one in total variation costs ``(1 + e^epsilon) tau`` of
#   delta. That is negligible for small epsilon and more than all of delta from an epsilon of about 45 on.
# - **By table**: let the sampler's probabilities of ``|z| <= K`` be within a factor ``e^r`` of the ideal
#   ones, and ``beta = Pr[z < -K or z > K - L]``, where ``L`` is the most that one person changes the count
#   by. Then
#
#       delta(epsilon + 2 sum r) <= e^(sum r) delta_ideal(epsilon) + sum beta
#
#   because on those outputs ``P - e^(epsilon + 2r) Q <= e^r (P_ideal - e^epsilon Q_ideal)``, and all other
#   outputs together have a mass of at most ``sum beta``. No ``e^epsilon`` multiplies ``beta``, so large
#   epsilons can be certified too. The last ``L`` values inside the table count into ``beta`` because the
#   neighbouring data set does not have these outputs.

_MARGIN = 1.001  # charge a little more than was found: the next epsilon is larger, and so is its cost
_SEARCH_ROUNDS = 64


@dataclass(frozen=True, slots=True, order=True)
class SamplerDistance:
    """How far samplers may be from ideal noise, summed over releases.

    ``truncated_mass`` is the total variation of all samplers. ``log_ratio`` is ``r`` and ``outside`` is
    ``beta`` of the samplers that are tables; ``untabled_mass`` is the total variation of the others (floating
    point, or a law of which only the total variation is known).
    """

    truncated_mass: float = 0.0
    log_ratio: float = 0.0
    outside: float = 0.0
    untabled_mass: float = 0.0

    def __add__(self, other: SamplerDistance) -> SamplerDistance:
        return SamplerDistance(
            self.truncated_mass + other.truncated_mass,
            self.log_ratio + other.log_ratio,
            self.outside + other.outside,
            self.untabled_mass + other.untabled_mass,
        )

    def epsilon(self, ideal: Callable[[float], float], delta: float) -> float:
        """Epsilon (nats) at ``delta`` of the real samplers; inf if none is certified.

        ``ideal`` gives the epsilon of ideal noise at a delta above 0 and must not increase with delta.
        """
        by_mass = _epsilon_by_mass(ideal, delta, self.truncated_mass)
        if self.untabled_mass == self.truncated_mass:
            return by_mass

        def on_tables(left: float) -> float:
            left = (left - self.outside) * math.exp(-self.log_ratio)
            return ideal(left) + 2.0 * self.log_ratio if left > 0.0 else math.inf

        return min(by_mass, _epsilon_by_mass(on_tables, delta, self.untabled_mass))


def step_distance(
    releases: Iterable[SensorRelease], neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> SamplerDistance:
    """How far the samplers of one step may be from ideal noise, in the counts that one person can change.

    As :func:`step_cost`, but separately for each field, because the dearest noise need not be the furthest.
    """
    released = tuple(releases)
    distances = [sampler_distance(release.charged) for release in released]
    found = furthest(costs_at_places(released, distances), neighbours.places)
    windows = WindowCosts(released, distances).by_length(neighbours.places)
    return sum((furthest(*group) for group in windows), found)


def furthest(distances: Sequence[SamplerDistance], most: int) -> SamplerDistance:
    """An upper bound on the sum of any ``most`` of them."""
    if len(set(distances)) <= 1:  # nearly always: one kind of noise
        return sum(distances[:most], SamplerDistance())
    return SamplerDistance(
        *(sum(sorted(values, reverse=True)[:most]) for values in zip(*map(astuple, distances), strict=True))
    )


def sampler_distance(mechanism: Mechanism, most_counts: int = 1) -> SamplerDistance:
    """The distance of one release whose count one person changes by at most ``most_counts``."""
    return _distance(mechanism, most_counts)  # type: ignore[arg-type]  # mechanisms are hashable values


@lru_cache(maxsize=4096)
def _distance(mechanism: Mechanism, most_counts: int) -> SamplerDistance:
    if isinstance(mechanism, Composite):
        most = most_counts * mechanism.most_counts
        return sum((sampler_distance(part, most) for part in mechanism.parts), SamplerDistance())
    law = mechanism.noise_law()
    if law is None:
        return SamplerDistance()
    if law.faithful_last < 0:
        return SamplerDistance(law.truncated_mass, untabled_mass=law.truncated_mass)
    return SamplerDistance(law.truncated_mass, law.faithful_log_ratio, law.outside_faithful(most_counts))


def _epsilon_by_mass(ideal: Callable[[float], float], delta: float, mass: float) -> float:
    """The epsilon of ideal noise at what ``(1 + e^epsilon) mass`` leaves of ``delta``; inf if nothing.

    The cost depends on the epsilon, so it is charged, found to be larger, and charged again until it
    suffices.
    """
    charged = 0.0
    for _ in range(_SEARCH_ROUNDS):
        if charged >= delta:
            return math.inf
        epsilon = ideal(delta - charged)
        cost = (1.0 + math.exp(min(epsilon, 700.0))) * mass if mass > 0.0 else 0.0  # e^710 would overflow
        if cost <= charged:
            return epsilon
        charged = cost * _MARGIN
    return math.inf


# zCDP added up exactly over the releases, and the epsilon that it certifies.
#
# Neighbours are two data sets that differ by one person being counted or not (add/remove) at every step of
# the log, so one person changes each count by at most one, or by the ``most_counts`` that its sensor
# declares. A raw release costs infinity. The discrete Gaussian satisfies zCDP with the same rho as the
# continuous one (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy", 2020, Theorem 4)
# but has another epsilon curve. So epsilon is computed from rho here, never from the continuous curve.

_GOLDEN = (math.sqrt(5.0) - 1.0) / 2.0
_ROUNDS = 80  # golden section: the bracket shrinks to 1e-16 of itself


class Unprotected(NamedTuple):
    """Releases of infinite cost: their number, the first one's sensor, and whether other sensors have any.

    ``is_exact`` is True if the first was an exact count; otherwise it had noise that guarantees nothing by
    itself. The name is empty in an account saved by an earlier version, which did not keep it.
    """

    counts: int = 0
    sensor: str = ""
    of_others: bool = False
    is_exact: bool = True

    def and_one_of(self, name: str, is_exact: bool) -> Unprotected:
        """These and one more release of the named sensor."""
        if self == Unprotected():
            return Unprotected(1, name, False, is_exact)
        return Unprotected(
            self.counts + 1, self.sensor, self.of_others or name != self.sensor, self.is_exact and is_exact
        )


class _Charged(NamedTuple):
    """The releases of a step, of infinite and of finite cost, and what the latter cost a person in it."""

    releases: tuple[SensorRelease, ...]
    infinite: list[SensorRelease]
    finite: list[SensorRelease]
    rho: Fraction
    distance: SamplerDistance

    @classmethod
    def of(cls, releases: tuple[SensorRelease, ...]) -> _Charged:
        infinite: list[SensorRelease] = []
        finite: list[SensorRelease] = []
        for each in releases:
            (infinite if math.isinf(each.charged.zcdp_rho()) else finite).append(each)
        rho = step_cost(finite, zcdp_cost, Neighbours.ADD_REMOVE).amount
        return cls(releases, infinite, finite, rho, step_distance(finite))


@dataclass
class ZcdpSpend:
    """The zCDP cost of all steps of a log so far, for some of its sensors.

    ``rho`` is exact (a sum of dyadic rationals), so it does not depend on how the steps were grouped.
    ``distance`` is the samplers' distance from ideal noise. If ``is_infinite``, ``unprotected`` says which
    releases have an infinite cost; ``rho`` is the sum of the others. ``day`` is the last day in which sensors
    with a bound over the day released something; its cost is a part of ``rho``.
    """

    rho: Fraction = field(default_factory=Fraction)
    is_infinite: bool = False
    distance: SamplerDistance = field(default_factory=SamplerDistance)
    unprotected: Unprotected = field(default_factory=Unprotected)
    day: DayCost | None = None
    _last: _Charged | None = field(default=None, compare=False, repr=False)  # most steps are like the last

    @property
    def truncated_mass(self) -> float:
        """Total variation between the samplers and the ideal noise, of all releases together."""
        return self.distance.truncated_mass

    def add(self, releases: Iterable[SensorRelease], step: int = 0, days: Days | None = None) -> None:
        """Charge one step, as :func:`step_cost` for adding or removing a person; infinite costs apart.

        ``days`` are those of bounds over the day; without them a person is counted at every step.
        """
        own = tuple(releases)
        charged = self._last
        if charged is None or charged.releases != own:
            charged = self._last = _Charged.of(own)
        for release in charged.infinite:
            self.is_infinite = True
            self.unprotected = self.unprotected.and_one_of(release.sensor.name, release.charged.is_exact)
        finite = charged.finite
        today = None if days is None else days.of(step)
        is_bounded = any(release.sensor.per_day is not None for release in finite)
        if days is not None and today is not None and (is_bounded or (self.day and self.day.day == today)):
            if self.day is None or self.day.day != today:
                self.day = DayCost(today)
            before = self.day.cost().amount
            self.day.add(step, finite, [zcdp_cost(each.charged) for each in finite], days)
            self.rho += self.day.cost().amount - before
        else:
            self.rho += charged.rho
        self.distance += charged.distance

    def rho_value(self) -> float:
        """rho as a number; inf once a raw count was released."""
        return math.inf if self.is_infinite else float(self.rho)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon certified at ``delta``, in nats; inf if none is.

        None is after a release without noise, and where the samplers' distance from ideal noise costs more
        than ``delta``.
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

    # The minimiser of the classical bound rho + 2 sqrt(rho ln(1/delta)); this bound's is near it.
    # Not so far below that alpha would round to 1.
    around = max(-25.0, 0.5 * math.log(-math.log(delta) / rho))
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


# What a log has cost in differential privacy so far: a few figures for each group of sensors.
#
# Their number does not grow with the log. A run that is continued saves them together with its position in
# the log and need not read the log again. A loaded account continues exactly like one that was never saved.

EVERY_GROUP = "all"


class PrivacyAccount:
    """The zCDP spent by each group of sensors and by all of them together, after ``steps`` steps.

    ``is_of_this_version`` is False for an account that an earlier version saved. Its figures are right, but
    it knows the samplers' distance from ideal noise only by mass, and not which releases had an infinite
    cost. A caller who has the log should charge the steps to a new account. ``days`` are needed where a
    sensor has a bound over the day.
    """

    def __init__(self, groups: Iterable[str], days: Days | None = None) -> None:
        self.steps, self.days = 0, days
        self.is_of_this_version = True
        self.spends = {group: ZcdpSpend() for group in sorted({*groups, EVERY_GROUP})}

    def open(self, groups: Iterable[str], days: Days | None = None) -> None:
        """Begin the account of groups that had no sensor before: they have spent nothing."""
        self.days = self.days or days
        known = {**{group: ZcdpSpend() for group in groups}, **self.spends}
        self.spends = dict(sorted(known.items()))

    def charge(self, schedule: StepSchedule) -> tuple[str, ...]:
        """Add the next step; returns the groups that have releases in it."""
        charged = []
        for group, spend in self.spends.items():
            own = [r for r in schedule.releases if group in (EVERY_GROUP, r.sensor.group)]
            if own:
                spend.add(own, schedule.step, self.days)
                charged.append(group)
        self.steps += 1
        return tuple(charged)

    def save(self) -> dict[str, Any]:
        """The account as JSON values."""
        spends = {
            group: [
                str(spend.rho),
                spend.is_infinite,
                spend.truncated_mass,
                [spend.distance.log_ratio, spend.distance.outside, spend.distance.untabled_mass],
                list(spend.unprotected),
                *([] if spend.day is None else [spend.day.save()]),
            ]
            for group, spend in self.spends.items()
        }
        days = {} if self.days is None else {"days": list(astuple(self.days))}
        return {"steps": self.steps, "spends": spends, **days}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> PrivacyAccount:
        """The account that :meth:`save` gave; ``ValueError`` for anything else."""
        try:
            account = cls(saved["spends"], Days(*saved["days"]) if "days" in saved else None)
            account.steps = int(saved["steps"])
            for group, (rho, is_infinite, mass, *later) in saved["spends"].items():
                # Not Fraction(rho): of "1e999999999" it would compute the integer.
                spent = Fraction(*map(int, rho.split("/")))
                distance, unprotected, *day = later or ((0.0, 0.0, mass), ())
                account.is_of_this_version &= bool(later)
                sampled = SamplerDistance(*map(float, (mass, *distance)))
                if spent < 0 or not all(0.0 <= each < inf for each in astuple(sampled)):
                    raise TypeError("an amount below 0, or none")
                account.spends[group] = ZcdpSpend(
                    spent,
                    bool(is_infinite),
                    sampled,
                    _saved_unprotected(*unprotected),
                    DayCost.load(day[0]) if day else None,
                )
        except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
            raise ValueError("a privacy account must have steps and spends") from error
        return account


def _saved_unprotected(
    counts: int = 0, sensor: str = "", of_others: bool = False, is_exact: bool = True
) -> Unprotected:
    return Unprotected(int(counts), str(sensor), bool(of_others), bool(is_exact))


# The cost of counts over windows, from declared sensitivities.
#
# Adding or removing a person changes at most ``m`` counts of a window, each by at most its ``most_counts``
# ``L``: ``mu^2 = sum over windows of the m largest L^2 / sigma^2``. A change by ``L`` costs ``L^2 rho`` in
# zCDP (group privacy: Bun and Steinke, "Concentrated Differential Privacy", 2016, proposition 1.9), which
# also holds for the discrete Gaussian. Priors play no part.


def window_cost(
    releases: Iterable[WindowRelease], most_sensors: int, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> ZcdpSpend:
    """zCDP of all releases, where at most ``most_sensors`` sensors count the same person in a window.

    Releases over the same steps belong to one window; the costs of different windows are added. Moving a
    person changes twice as many counts as removing one. :class:`LedgerError` unless ``most_sensors`` is at
    least 1.
    """
    if most_sensors < 1:
        raise LedgerError(
            "most_sensors must be at least 1", most_sensors, "declare how many sensors can count one person"
        )
    windows: dict[tuple[int, int], list[tuple[Cost, SamplerDistance]]] = {}
    unprotected = Unprotected()
    for release in releases:
        rho = Cost.of(release.mechanism.zcdp_rho())
        times = release.most_counts**2 * release.values
        cost = rho if rho.is_infinite else Cost(rho.amount * times)
        costs = windows.setdefault((release.first, release.last), [])
        distances = [sampler_distance(release.mechanism, release.most_counts)] * release.values
        costs.append((cost, sum(distances, SamplerDistance())))
        if rho.is_infinite:
            unprotected = unprotected.and_one_of(release.sensor.name, release.mechanism.is_exact)
    most = neighbours.places * most_sensors
    total, distance = Cost(), SamplerDistance()
    for costs in windows.values():
        total = sum(sorted((cost for cost, _ in costs), reverse=True)[:most], total)
        distance += furthest([own for _, own in costs], most)
    return ZcdpSpend(total.amount, total.is_infinite, distance, unprotected)


_NAME = "differential-privacy"
_GAUSSIAN = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.CONTINUOUS_GAUSSIAN)


@dataclass(frozen=True, slots=True)
class DpStatement:
    """What the log guarantees for two data sets that are ``neighbours``; epsilons in nats at ``delta``.

    ``epsilon`` is certified and ``certified_by`` says how: "zcdp" from ``rho``, "pure" from ``pure_epsilon``
    (inf where some noise has none), or "gaussian" by the exact curve where all noise is continuous
    (``exact_epsilon``, otherwise None). ``paper_epsilon`` is the classical formula and guarantees nothing;
    None where it does not apply. ``distance`` is that of all samplers. ``unprotected`` are the releases
    without a finite rho.
    """

    neighbours: Neighbours
    delta: float
    rho: Cost
    pure_epsilon: Cost
    zcdp_epsilon: float
    exact_epsilon: float | None
    paper_epsilon: float | None
    distance: SamplerDistance
    epsilon: float
    certified_by: str
    unprotected: Unprotected

    @property
    def truncated_mass(self) -> float:
        """Total variation between the samplers and the ideal noise, of all releases together."""
        return self.distance.truncated_mass

    def rho_value(self) -> float:
        """rho as a number; inf where a release has none."""
        return float(self.rho)


def read_differential_privacy(
    log: ReleaseLog, delta: float, neighbours: Neighbours = Neighbours.ADD_REMOVE, days: Days | None = None
) -> DpStatement:
    """The statement for a log; :class:`UnknownReleaseError` for a mechanism whose cost is not known.

    ``days`` are needed where a bound over the day is to count; without them it is not made use of.
    """
    check_delta(delta)
    rho = _total(log, zcdp_cost, neighbours, days, 2)
    pure = _total(log, pure_cost, neighbours, days, 1)
    return statement_of(log, delta, neighbours, rho, pure, log_distance(log, neighbours))


def statement_of(
    log: ReleaseLog, delta: float, neighbours: Neighbours, rho: Cost, pure: Cost, distance: SamplerDistance
) -> DpStatement:
    """What these costs guarantee, all of them of releases of this log."""
    zcdp = ZcdpSpend(rho.amount, rho.is_infinite, distance).epsilon(delta)
    family = _only_family(log)
    mu = math.sqrt(2.0 * float(rho)) if not rho.is_infinite else math.inf
    is_continuous = family is NoiseFamily.CONTINUOUS_GAUSSIAN
    exact = distance.epsilon(lambda left: gaussian_epsilon(left, mu), delta) if is_continuous else None
    paper = paper_epsilon(delta, mu) if family in _GAUSSIAN else None
    candidates = {"zcdp": zcdp, "pure": distance.epsilon(lambda _: float(pure), delta)}
    if exact is not None:
        candidates["gaussian"] = exact
    best = min(candidates, key=lambda name: candidates[name])
    return DpStatement(
        neighbours,
        delta,
        rho,
        pure,
        zcdp,
        exact,
        paper,
        distance,
        candidates[best],
        certified_by=best,
        unprotected=_unprotected(log),
    )


def log_distance(log: ReleaseLog, neighbours: Neighbours) -> SamplerDistance:
    """How far the log's samplers may be from ideal noise, in the counts that one person can change."""
    return sum((step_distance(step.releases, neighbours) for step in log.steps), SamplerDistance())


def _unprotected(log: ReleaseLog) -> Unprotected:
    """The releases without a finite rho."""
    found = Unprotected()
    for step in log.steps:
        for release in step.releases:
            if zcdp_cost(release.charged).is_infinite:
                found = found.and_one_of(release.sensor.name, release.charged.is_exact)
    return found


def _only_family(log: ReleaseLog) -> NoiseFamily | None:
    """The family that all noise of the log belongs to; None if there are several or none."""
    released = (own.mechanism for step in log.steps for own in step.releases if own.mechanism.is_released)
    families = {mechanism.noise_family for mechanism in released}
    return families.pop() if len(families) == 1 else None


def check_delta(delta: float) -> None:
    """:class:`LedgerError` unless ``0 < delta < 1``."""
    if not 0.0 < delta < 1.0:
        raise LedgerError(
            "delta must lie in (0, 1)", delta, "e.g. 1e-6, far below one over the people counted"
        )


def zcdp_cost(mechanism: Mechanism) -> Cost:
    """zCDP rho of one count that changes by one; inf for a raw count."""
    return Cost.of(known(_NAME, mechanism).zcdp_rho())


def pure_cost(mechanism: Mechanism) -> Cost:
    """Pure epsilon (nats) of one count that changes by one: of tiers the largest, inf if Gaussian or raw."""
    return Cost.of(known(_NAME, mechanism).pure_epsilon())


def _total(
    log: ReleaseLog, cost: Callable[[Mechanism], Cost], neighbours: Neighbours, days: Days | None, power: int
) -> Cost:
    """The sum over all steps, because a person may be there at every one; less where a day bounds it.

    To move a person is to remove one and to add one.
    """
    every_step = sum((step_cost(step.releases, cost, neighbours) for step in log.steps), Cost())
    if days is None or not log.is_bounded:
        return every_step
    by_day = sum((each.cost() for each in days_of(log.steps, cost, days, power)), Cost())
    return min(every_step, by_day.times(Fraction(neighbours.places)))


def days_of(
    steps: Iterable[StepSchedule], cost: Callable[[Mechanism], Cost], days: Days, power: int
) -> Iterator[DayCost]:
    """What the days of consecutive steps cost, by each kind of cost."""
    for number, of_day in groupby(steps, lambda step: days.of(step.step)):
        day = DayCost(number, power)
        for step in of_day:
            day.add(step.step, step.releases, [cost(each.charged) for each in step.releases], days)
        yield day
