"""The differential-privacy reader: what the whole log costs anybody who was there at every step.

Discrete Gaussian noise is certified by zCDP, tiers by their own epsilon or by zCDP, whichever is smaller;
continuous noise (correlated releases) has an exact curve besides. Sums are exact rationals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, field
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache
from math import inf
from typing import Any, Generic, Protocol, TypeVar

from scipy.special import log_ndtr, ndtr

from accounting.exceptions import LedgerError
from accounting.ledgers.release_log import ReleaseLog, known
from accounting.numerics import bracket
from models.mechanisms import Composite, Mechanism, NoiseFamily
from models.releases import CountingWindow, SensorRelease, StepSchedule, WindowRelease

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
    """``sqrt(2 ln(1.25 / delta)) mu``, Koga et al.'s formula: shown as "paper", no guarantee.

    The classical one of Dwork and Roth ("The Algorithmic Foundations of Differential Privacy", theorem A.1),
    proven for epsilon below 1 only: at sigma 10, 8 760 steps and delta 1e-6 it says 49.6 where 87.5 is true.
    """
    return math.sqrt(2.0 * math.log(1.25 / delta)) * mu


# What one person can change, and the most that a step charges for it.


class Neighbours(StrEnum):
    """Which two data sets must look alike."""

    ADD_REMOVE = "add or remove one person"
    MOVE = "move one person"

    @property
    def places(self) -> int:
        """At how many places counts differ."""
        return 2 if self is Neighbours.MOVE else 1


@dataclass(frozen=True, slots=True)
class Cost:
    """An exact amount, or infinitely much."""

    amount: Fraction = Fraction()
    is_infinite: bool = False

    @classmethod
    def of(cls, value: float) -> Cost:
        """The amount of a floating-point number, exactly."""
        return cls(is_infinite=True) if math.isinf(value) else cls(Fraction(value))

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.amount + other.amount, self.is_infinite or other.is_infinite)

    def __lt__(self, other: Cost) -> bool:
        return (self.is_infinite, self.amount) < (other.is_infinite, other.amount)

    def __float__(self) -> float:
        return math.inf if self.is_infinite else float(self.amount)


class _Ordered(Protocol):
    def __lt__(self, other: Any, /) -> bool: ...


Amount = TypeVar("Amount", bound=_Ordered)


class WindowCosts(Generic[Amount]):
    """What the windows that end with one step cost whoever they count.

    One person is counted by at most ``most_sensors`` of those that cover the same steps, by all of them where
    nothing is declared. Windows of another length are charged besides.
    """

    def __init__(self) -> None:
        self._costs: dict[int, list[Amount]] = {}
        self._most: dict[int, int | None] = {}

    def add(self, window: CountingWindow, cost: Amount) -> None:
        """One more release."""
        self._costs.setdefault(window.steps, []).append(cost)
        self._most[window.steps] = window.most_sensors

    def dearest(self, people: int = 1) -> list[Amount]:
        """Those that so many people together can change at most; who moves is as two."""
        found: list[Amount] = []
        for costs, most in self.by_length(people):
            found += sorted(costs, reverse=True)[:most]
        return found

    def by_length(self, people: int = 1) -> Iterator[tuple[list[Amount], int]]:
        """Costs of the windows of each length, and how many of them so many people can change at most."""
        for steps, costs in self._costs.items():
            most = self._most[steps]
            yield costs, len(costs) if most is None else people * most


def seen_together(releases: Iterable[SensorRelease]) -> set[tuple[int, ...]]:
    """The sets of releases, by their number, that one place has in common; those of windows have none."""
    seen_by: dict[int, tuple[int, ...]] = {}
    for index, release in enumerate(releases):
        if release.sensor.window is None:
            for location in release.sensor.locations:
                seen_by[location] = (*seen_by.get(location, ()), index)
    return set(seen_by.values())


def step_cost(
    releases: Iterable[SensorRelease], cost: Callable[[Mechanism], Cost], neighbours: Neighbours
) -> Cost:
    """The most that one step costs anybody, ``cost`` being that of one count changed by one.

    A person is at one location and counted by every sensor there. To add or remove them costs the dearest
    location; to move them costs two locations that different sensors see: exact when these share no sensor,
    an upper bound otherwise. Windows that end with the step are charged besides.
    """
    released = tuple(releases)
    costs = [cost(release.charged) for release in released]
    windows = WindowCosts[Cost]()
    for release, own in zip(released, costs, strict=True):
        if release.sensor.window is not None:
            windows.add(release.sensor.window, own)
    places = sorted((sum((costs[i] for i in seen), Cost()) for seen in seen_together(released)), reverse=True)
    people = neighbours.places
    return sum([*places[:people], *windows.dearest(people)], Cost())


# What it costs that noise is sampled, and not ideal: a release's sampler beside the law a theorem is about.
#
# Two ways are known, and the better one counts. **By mass**: laws within ``tau`` of the ideal in total
# variation cost ``(1 + e^epsilon) tau`` of delta: nothing for small epsilon, everything from 45 on or so.
# **By table**: where ``|z| <= K`` let the sampler's probabilities be within a factor ``e^r`` of the ideal
# ones, and ``beta = Pr[z < -K or z > K - L]``, with ``L`` the most that one person changes the count by.
# Then
#
#     delta(epsilon + 2 sum r) <= e^(sum r) delta_ideal(epsilon) + sum beta
#
# as on those outputs ``P - e^(epsilon + 2r) Q <= e^r (P_ideal - e^epsilon Q_ideal)``, and all others
# together have the mass ``sum beta`` at most. No ``e^epsilon`` stands before it: large epsilons can be
# certified, too. The last ``L`` values *inside* count: their neighbours have no such output.

_MARGIN = 1.001  # charged beyond what was found: the next epsilon is larger, and so is its cost
_SEARCH_ROUNDS = 64


@dataclass(frozen=True, slots=True, order=True)
class SamplerDistance:
    """How far samplers may be from ideal noise; of several releases the sums.

    ``truncated_mass`` is the total variation. Of samplers that are tables ``log_ratio`` is ``r`` and
    ``outside`` is ``beta``; ``untabled_mass`` is the total variation of all others (floating point, or a law
    of which no more is known).
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
        """Epsilon (nats) at ``delta`` as the samplers are, ``ideal`` giving that of the ideal noise; or inf.

        ``ideal`` is asked for deltas above 0 and must not rise with them.
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
    """The furthest that the samplers of one step may be from ideal noise in the counts that anybody changes.

    As :func:`step_cost`, in each way of measuring: the noise that costs most is not the one that is furthest.
    """
    released = tuple(releases)
    own = [sampler_distance(release.charged) for release in released]
    windows = WindowCosts[SamplerDistance]()
    for release, distance in zip(released, own, strict=True):
        if release.sensor.window is not None:
            windows.add(release.sensor.window, distance)
    places = [sum((own[i] for i in seen), SamplerDistance()) for seen in seen_together(released)]
    found = furthest(places, neighbours.places)
    return sum((furthest(*group) for group in windows.by_length(neighbours.places)), found)


def furthest(distances: Sequence[SamplerDistance], most: int) -> SamplerDistance:
    """At least the sum of any ``most`` of them."""
    if len(set(distances)) <= 1:  # nearly always: one kind of noise
        return sum(distances[:most], SamplerDistance())
    return SamplerDistance(
        *(sum(sorted(values, reverse=True)[:most]) for values in zip(*map(astuple, distances), strict=True))
    )


def sampler_distance(mechanism: Mechanism, most_counts: int = 1) -> SamplerDistance:
    """The distance of one release whose count one person changes by ``most_counts``; of all its parts."""
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


def mass_in_delta(epsilon: float, mass: float) -> float:
    """What samplers that miss the ideal by ``mass`` cost of delta: ``(1 + e^epsilon) mass``, 0 for none."""
    return (1.0 + math.exp(min(epsilon, 700.0))) * mass if mass > 0.0 else 0.0


def _epsilon_by_mass(ideal: Callable[[float], float], delta: float, mass: float) -> float:
    """Where ``delta`` pays for the ideal's epsilon and for what its samplers miss; inf where it does not."""
    charged = 0.0
    for _ in range(_SEARCH_ROUNDS):
        if charged >= delta:
            return math.inf
        epsilon = ideal(delta - charged)
        cost = mass_in_delta(epsilon, mass)
        if cost <= charged:
            return epsilon
        charged = cost * _MARGIN
    return math.inf


# What the releases cost in differential privacy: zCDP added up exactly, and the epsilon it certifies.
#
# Neighbours are two data sets that differ by one person being counted or not (add/remove) at every step of
# the log, so one person changes each count by at most one, or by the ``most_counts`` that its sensor
# declares. A raw release costs infinity, and says so. The discrete Gaussian satisfies zCDP with the same
# rho as the continuous one (Canonne, Kamath, Steinke, "The Discrete Gaussian for Differential Privacy",
# 2020, Theorem 4), but not the same epsilon curve: so epsilon comes from rho here, never from the
# continuous curve.

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
        hide anybody (:mod:`accounting.ledgers.differential_privacy`).
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


# What a log has cost in differential privacy so far: a few figures for each group of sensors.
#
# The figures are as many however long the log is, so whoever continues a log keeps them beside its place in
# it and need not read it again. An account that was saved and loaded goes on as one that never stopped.

EVERY_GROUP = "all"


class PrivacyAccount:
    """The zCDP spent by each group of sensors, and by all of them together; ``steps`` were charged.

    ``is_of_this_version`` is False of one that an earlier version saved: it is true, but says of samplers
    only by mass how far they are from ideal noise, and not which releases cost infinitely much. Whoever has
    the log charges its steps anew.
    """

    def __init__(self, groups: Iterable[str]) -> None:
        self.steps = 0
        self.is_of_this_version = True
        self.spends = {group: ZcdpSpend() for group in sorted({*groups, EVERY_GROUP})}

    def charge(self, schedule: StepSchedule) -> tuple[str, ...]:
        """Add the next step; the groups that it cost anything."""
        charged = []
        for group, spend in self.spends.items():
            own = [r for r in schedule.releases if group in (EVERY_GROUP, r.sensor.group)]
            if own:
                spend.add(own)
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
                list(astuple(spend.distance)[1:]),
                list(astuple(spend.unprotected)),
            ]
            for group, spend in self.spends.items()
        }
        return {"steps": self.steps, "spends": spends}

    @classmethod
    def load(cls, saved: Mapping[str, Any]) -> PrivacyAccount:
        """The account that :meth:`save` gave; ``ValueError`` for anything else."""
        try:
            account = cls(saved["spends"])
            account.steps = int(saved["steps"])
            for group, (rho, is_infinite, mass, *later) in saved["spends"].items():
                spent = Fraction(*map(int, rho.split("/")))  # an exponent would be worked out, however large
                distance, unprotected = later or ((0.0, 0.0, mass), ())
                account.is_of_this_version &= bool(later)
                sampled = SamplerDistance(*map(float, (mass, *distance)))
                if spent < 0 or not all(0.0 <= each < inf for each in astuple(sampled)):
                    raise TypeError("an amount below 0, or none")
                account.spends[group] = ZcdpSpend(
                    spent, bool(is_infinite), sampled, _saved_unprotected(*unprotected)
                )
        except (ArithmeticError, AttributeError, KeyError, TypeError) as error:
            raise ValueError("a privacy account must have steps and spends") from error
        return account


def _saved_unprotected(
    counts: int = 0, sensor: str = "", of_others: bool = False, is_exact: bool = True
) -> Unprotected:
    return Unprotected(int(counts), str(sensor), bool(of_others), bool(is_exact))


# What counts over windows cost in differential privacy: sensitivities follow from what is declared.
#
# Who is added or removed changes the count of each sensor that counts them, at most ``m`` in a window, by
# at most its ``most_counts``: ``mu^2 = sum over windows of the m largest L^2 / sigma^2``. In zCDP, ``k^2
# rho`` for a group of ``k`` (Bun and Steinke, "Concentrated Differential Privacy", 2016, proposition 1.9)
# is the same for the discrete Gaussian. Priors, and what their support allows, play no part.


def window_cost(
    releases: Iterable[WindowRelease],
    most_sensors: int,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
) -> ZcdpSpend:
    """zCDP of all releases for anybody, ``most_sensors`` of them counting one person in a window.

    Releases over the same steps are of one window; every other window is charged besides. Who moves instead
    of being removed changes twice as many counts. :class:`LedgerError` unless ``most_sensors`` is at least 1.
    """
    if most_sensors < 1:
        raise LedgerError(
            "most_sensors must be at least 1", most_sensors, "declare how many sensors can count one person"
        )
    windows: dict[tuple[int, int], list[tuple[Cost, SamplerDistance]]] = {}
    unprotected = Unprotected()
    for release in releases:
        rho = Cost.of(release.mechanism.zcdp_rho())
        times = release.most_counts**2
        cost = rho if rho.is_infinite else Cost(rho.amount * times)
        costs = windows.setdefault((release.first, release.last), [])
        costs.append((cost, sampler_distance(release.mechanism, release.most_counts)))
        if rho.is_infinite:
            unprotected = unprotected.and_of(release.sensor.name, release.mechanism.is_exact)
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

    ``epsilon`` is certified, ``certified_by`` says how: "zcdp" from ``rho``, "pure" from ``pure_epsilon``
    (inf where some noise has none), "gaussian" by the exact curve where all noise is continuous
    (``exact_epsilon``, else None). ``paper_epsilon`` is the classical formula, no guarantee; None where it
    does not apply. ``distance`` is that of all samplers. Where nothing is certified,
    ``unprotected`` says which releases have no rho.
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
    log: ReleaseLog, delta: float, neighbours: Neighbours = Neighbours.ADD_REMOVE
) -> DpStatement:
    """The statement for a log; :class:`UnknownReleaseError` for a mechanism whose cost is not known."""
    check_delta(delta)
    rho = _total(log, zcdp_cost, neighbours)
    pure = _total(log, pure_cost, neighbours)
    distance = log_distance(log, neighbours)
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
    """How far the samplers of the whole log may be from ideal noise in the counts that anybody changes."""
    return sum((step_distance(step.releases, neighbours) for step in log.steps), SamplerDistance())


def _unprotected(log: ReleaseLog) -> Unprotected:
    """The releases that no finite rho covers."""
    found = Unprotected()
    for step in log.steps:
        for release in step.releases:
            if zcdp_cost(release.charged).is_infinite:
                found = found.and_of(release.sensor.name, release.charged.is_exact)
    return found


def _only_family(log: ReleaseLog) -> NoiseFamily | None:
    """The one law that all noise of the log follows; None where there are several."""
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
    """zCDP of one count changed by one; inf for a raw one."""
    return Cost.of(known(_NAME, mechanism).zcdp_rho())


def pure_cost(mechanism: Mechanism) -> Cost:
    """Pure epsilon (nats) of one count changed by one: a tiered one's largest; inf for Gaussian and raw."""
    return Cost.of(known(_NAME, mechanism).pure_epsilon())


def _total(log: ReleaseLog, cost: Callable[[Mechanism], Cost], neighbours: Neighbours) -> Cost:
    """Sum over the steps: a person is there at all of them."""
    return sum((step_cost(step.releases, cost, neighbours) for step in log.steps), Cost())
