"""Ceilings for people whose habits are not quite the prior's: within a radius of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import exp, expm1, inf, sqrt
from typing import NamedTuple

import numpy as np

from accounting import bounds
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure
from accounting.exposure.step_information import StepObservation, observe
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.hmm.log_space import log_sum
from accounting.numerics import ROOT_MARGIN, bracket, divergence_root, relative_entropy_term
from accounting.settings import RiskBudget
from models.arguments import checked
from models.mechanisms import Raw
from models.numerics.arrays import Floats, Integers32
from models.numerics.jit import inline, jit, pjit
from models.releases import Sensor, SensorRelease, StepSchedule

# How far the law of one Markov path is from another's: each quantity by one pass over the steps.
#
# ``P`` is the prior's law and ``Q`` the person's, both on the same places; a pass carries the law of the
# place under one of them, or a product of both. Every sum is made of terms that vanish where the two agree,
# so that equal laws are at distance 0 to the last bit.

_TINY = 1e-280  # below it a weight has lost digits, or all of them
_LOGARITHMS_ROUND = 1e-11  # relative, of sums of logarithms up to some thousands


class PathLaw(NamedTuple):
    """A path of ``steps`` places: ``start`` (K,) is the law of the first, ``matrices`` (C, K, K) move on.

    The move after step ``t`` is by matrix ``(first_slot + t) % C``.
    """

    start: Floats
    matrices: Floats
    first_slot: int
    steps: int


@inline
def _moves(law: PathLaw, t: int) -> Floats:
    """The matrix (K, K) of the move after step ``t``."""
    return law.matrices[(law.first_slot + t) % law.matrices.shape[0]]


class RowDistances(NamedTuple):
    """Relative entropy (nats) and total variation of two paths, each a sum over start and moves."""

    relative_entropy: float
    total_variation: float


@jit
def row_distances(q: Floats, p: Floats) -> RowDistances:
    """``KL(q || p)`` and the total variation of two laws."""
    relative_entropy, apart = 0.0, 0.0
    for x in range(q.size):
        relative_entropy += relative_entropy_term(q[x], p[x])
        apart += abs(q[x] - p[x])
    return RowDistances(relative_entropy, 0.5 * apart)


@jit
def expected_distances(law: PathLaw, other: PathLaw) -> RowDistances:
    """``KL(law || other)`` by the chain rule, and what telescoping says of the total variation.

    Both are the start's distance plus, step by step, the rows' distance expected under ``law``.
    """
    at_start = row_distances(law.start, other.start)
    relative_entropy, apart = at_start.relative_entropy, at_start.total_variation
    places = law.start.size
    here = law.start.copy()
    for t in range(law.steps - 1):
        moves, others = _moves(law, t), _moves(other, t)
        moved = np.zeros(places)
        for x in range(places):
            if here[x] > 0.0:
                rows = row_distances(moves[x], others[x])
                relative_entropy += here[x] * rows.relative_entropy
                apart += here[x] * rows.total_variation
                for y in range(places):
                    moved[y] += here[x] * moves[x, y]
        here = moved
    return RowDistances(relative_entropy, min(1.0, apart))


@jit
def _tilted(q: float, p: float, order: float) -> float:
    """``q^a p^(1 - a)``; infinite where the prior rules out what the person does and ``a > 1``."""
    if q <= 0.0:
        return 0.0
    if p <= 0.0:
        return np.inf if order > 1.0 else 0.0
    return q * np.exp((order - 1.0) * np.log(q / p))


@jit
def renyi_divergence(person: PathLaw, prior: PathLaw, order: float) -> float:
    """``D_a(Q || P)`` (nats) of order ``a``, neither 0 nor 1: one pass with ``Q^a P^(1 - a)``.

    Of Markov paths it is a product of matrices (Rached, Alajaji and Campbell, *Renyi's divergence and entropy
    rates for finite alphabet Markov sources*, 2001). By logarithms where a power is too small or too large a
    number: the rare step whose weight is lost may be followed by one that the prior all but rules out.
    """
    places = person.start.size
    weight = np.zeros(places)
    for x in range(places):
        weight[x] = _tilted(person.start[x], prior.start[x], order)
        if not _is_ordinary(weight[x], person.start[x], prior.start[x]):
            return _renyi_by_logarithms(person, prior, order)
    log_scale = 0.0
    for t in range(person.steps - 1):
        total = weight.sum()
        if total <= 0.0 or total == np.inf:
            return np.inf
        log_scale += np.log(total)
        moves, others = _moves(person, t), _moves(prior, t)
        moved = np.zeros(places)
        for x in range(places):
            if weight[x] > 0.0:
                for y in range(places):
                    tilted = _tilted(moves[x, y], others[x, y], order)
                    added = weight[x] / total * tilted
                    # Lost digits: in the power itself, or in its product with a small weight.
                    if not _is_ordinary(tilted, moves[x, y], others[x, y]) or 0.0 < tilted > added <= _TINY:
                        return _renyi_by_logarithms(person, prior, order)
                    moved[y] += added
        weight = moved
    total = weight.sum()
    if total <= 0.0 or total == np.inf:
        return np.inf
    rounding = 1e-15 * (person.steps + places)
    return max(0.0, (log_scale + np.log(total)) / (order - 1.0) + rounding / abs(order - 1.0))


@jit
def _is_ordinary(tilted: float, q: float, p: float) -> bool:
    """Whether a power of two possible steps has kept its digits."""
    return q <= 0.0 or p <= 0.0 or _TINY < tilted < 1.0 / _TINY


@jit
def _renyi_by_logarithms(person: PathLaw, prior: PathLaw, order: float) -> float:
    """The pass of :func:`renyi_divergence` with the logarithm of each weight."""
    places = person.start.size
    weight = np.empty(places)
    for x in range(places):
        weight[x] = _log_tilted(person.start[x], prior.start[x], order)
    for t in range(person.steps - 1):
        moves, others = _moves(person, t), _moves(prior, t)
        moved = np.full(places, -np.inf)
        for x in range(places):
            if weight[x] > -np.inf:
                for y in range(places):
                    added = weight[x] + _log_tilted(moves[x, y], others[x, y], order)
                    if added == np.inf:
                        return np.inf
                    if added > -np.inf:
                        moved[y] = log_sum(moved[y], added)
        weight = moved
    total = -np.inf
    for x in range(places):
        if weight[x] == np.inf:
            return np.inf
        if weight[x] > -np.inf:
            total = log_sum(total, weight[x])
    if total == -np.inf:
        return np.inf
    found = total / (order - 1.0)
    return max(0.0, found + _LOGARITHMS_ROUND * (1.0 + abs(found)))


@jit
def _log_tilted(q: float, p: float, order: float) -> float:
    """The logarithm of :func:`_tilted`."""
    if q <= 0.0:
        return -np.inf
    if p <= 0.0:
        return np.inf if order > 1.0 else -np.inf
    return order * np.log(q) + (1.0 - order) * np.log(p)


@jit
def log_largest_ratio(person: PathLaw, prior: PathLaw) -> float:
    """``D_inf = ln max Q / P`` over paths (nats): a max-product pass."""
    places = person.start.size
    best = np.full(places, -np.inf)
    for x in range(places):
        best[x] = _log_ratio(person.start[x], prior.start[x])
    for t in range(person.steps - 1):
        moves, others = _moves(person, t), _moves(prior, t)
        moved = np.full(places, -np.inf)
        for x in range(places):
            if best[x] > -np.inf:
                for y in range(places):
                    if moves[x, y] > 0.0:
                        moved[y] = max(moved[y], best[x] + _log_ratio(moves[x, y], others[x, y]))
        best = moved
    return max(0.0, best.max())


@jit
def _log_ratio(q: float, p: float) -> float:
    """``ln(q / p)``: minus infinity where the person never is, infinity where only the prior says so."""
    if q <= 0.0:
        return -np.inf
    return np.inf if p <= 0.0 else np.log(q / p)


# A bound on success under the prior, raised to one for people within a distance of it.
#
# The best adversary against a person is one fixed rule of decision. Used on somebody who moves as the prior
# says it succeeds at most as often as the bound ``B``; success is an event of path and noise, and by no
# event are two laws put further apart than by the paths themselves (data processing). Each root is taken at
# its upper end.


@jit
def _renyi_bernoulli(u: float, bound: float, order: float) -> float:
    """``d_a(u || B)``; each term is what is left of ``(q / p)^a - 1 - a (q / p - 1)``, as for ``a = 1``."""
    if u >= 1.0:
        return -np.log(bound)
    total = 0.0
    for q, p in ((u, bound), (1.0 - u, 1.0 - bound)):
        change = (q - p) / p
        total += p * (np.expm1(order * np.log1p(change)) - order * change)
    return np.log1p(total) / (order - 1.0)


def raised_by_reversed(bound: float, relative_entropy: float) -> float:
    """``sup {u : d(B || u) <= KL(P || Q)}``."""
    if bound >= 1.0 or relative_entropy <= 0.0:
        return min(1.0, bound)

    def is_near(u: float) -> bool:
        apart = relative_entropy_term(bound, u) + relative_entropy_term(1.0 - bound, 1.0 - u)
        return bool(apart <= relative_entropy)

    root = bracket(is_near, bound, 1.0).first_false
    return min(1.0, root * (1.0 + ROOT_MARGIN))


def raised_by_renyi(bound: float, divergence: float, order: float) -> float:
    """``sup {u : d_a(u || B) <= D_a(Q || P)}``."""
    if bound >= 1.0 or divergence <= 0.0:
        return min(1.0, bound)
    if divergence >= -np.log(bound):
        return 1.0
    root = bracket(lambda u: _renyi_bernoulli(u, bound, order) <= divergence, bound, 1.0).first_false
    return min(1.0, root * (1.0 + ROOT_MARGIN))


@pjit(lambda _, bounds, __: bounds.size)
def raise_each(begin: int, end: int, relative_entropy: float, bounds: Floats, raised: Floats) -> None:
    """``sup {u : d(u || B) <= KL(Q || P)}`` of each bound; a bound of 0 stays 0."""
    for k in range(begin, end):
        raised[k] = divergence_root(relative_entropy, bounds[k]) if bounds[k] > 0.0 else 0.0


# How far people may be from their prior, and the ceiling that still holds for them.

RENYI_ORDERS = (0.5, 2.0, 5.0)


@dataclass(frozen=True, slots=True)
class RadiusCeiling:
    """``value`` bounds any adversary's success against everybody within the radius; ``by`` which formula."""

    value: float
    by: str


@checked(HorizonError, infinite=("kl", "kl_reversed", "renyi", "log_max_ratio"))
@dataclass(frozen=True, slots=True)
class Radius:
    """How far the law of a person's places may be from the prior's, over steps ``first..last`` of a log.

    ``Q`` is the person's law of the places in *all* these steps, ``P`` the prior's; nats. ``kl`` is
    ``KL(Q || P)``, ``kl_reversed`` is ``KL(P || Q)``, ``renyi`` holds ``D_a(Q || P)`` by order ``a``,
    ``log_max_ratio`` is ``D_inf``. What is not known is infinite (a total variation is at most 1) and raises
    no ceiling's formula but its own. A ceiling may be raised by a radius only if no release or goal that it
    depends on lies outside ``first..last``: :func:`~accounting.bounds.radius` sees to that.
    Steps before the log's first count from it backwards, -1 and so on: a horizon may begin there.

    ``is_markov`` declares more of the person than a distance: given the place in step ``first``, what comes
    after it does not depend on what was before, and given the one in step ``last`` what was before it not on
    what comes after. A radius that leaves out steps of the log needs it. A person who repeats the last four
    steps for ever may have exactly the prior's law over any four steps, and four of them reveal all others.
    """

    first: int
    last: int
    kl: float = inf
    kl_reversed: float = inf
    tv: float = 1.0
    renyi: Mapping[float, float] = field(default_factory=dict)
    log_max_ratio: float = inf
    is_markov: bool = False

    def __post_init__(self) -> None:
        """:class:`HorizonError` for steps out of order or a distance below 0."""
        if not self.first <= self.last:
            raise HorizonError(
                "a radius must count steps in order",
                f"{self.first}..{self.last}",
                "name the first and the last step",
            )
        if any(not 0.0 < order < inf or order == 1.0 for order in self.renyi):
            raise HorizonError(
                "an order of Renyi divergence must be above 0, finite and not 1",
                list(self.renyi),
                "give order 1 as kl",
            )
        distances = (self.kl, self.kl_reversed, self.tv, *self.renyi.values(), self.log_max_ratio)
        wrong = [distance for distance in distances if not distance >= 0.0]
        if wrong:
            raise HorizonError("a radius must be 0 or more", wrong[0], "give nats, 0.1 say")

    @classmethod
    @checked(HorizonError, infinite=("nats",))
    def of_rows(
        cls, first: int, last: int, *, start: float, nats: float | None = None, tv: float | None = None
    ) -> Radius:
        """Every row of every move within ``nats`` of relative entropy, or ``tv`` of total variation.

        ``start`` is the distance of the first place's law, in the same measure. It is 0 only for people who
        start as the prior says: a person whose rows differ settles elsewhere.
        :class:`HorizonError` unless one of the two measures is given, and none is below 0.
        """
        if (nats is None) == (tv is None):
            raise HorizonError(
                "rows must be near the prior's in one measure",
                "both" if tv is not None else "none",
                "give nats=0.01 or tv=0.01, and start in the same",
            )
        each = (nats if tv is None else tv) or 0.0
        wrong = [distance for distance in (start, each) if not distance >= 0.0]
        if wrong:
            raise HorizonError("the distances of start and rows must be 0 or more", wrong[0], "give 0.01 say")
        far = start + (last - first) * each if last > first else start
        return cls(first, last, kl=far) if tv is None else cls(first, last, tv=min(1.0, far))

    @classmethod
    @checked(HorizonError)
    def between(cls, prior: Exposure, person: Exposure, first: int = 0, last: int | None = None) -> Radius:
        """How far one person's chain is from another's over steps of the same schedule, each exactly but TV.

        The total variation is bounded: by telescoping, from either side, and by ``sqrt(1 - BC^2)`` of the
        Bhattacharyya coefficient. Both are chains, so the radius ``is_markov``. Steps before the schedule
        (``first`` below 0) are those of chains that have settled: :class:`HorizonError` for a person who
        starts otherwise.
        """
        last = prior.steps - 1 if last is None else last
        steps = min(prior.steps, person.steps)
        if not first <= last or not 0 <= last < steps:
            raise HorizonError(
                f"a radius must count steps in order, the last of them in 0..{steps - 1}",
                f"{first}..{last}",
                "choose others",
            )
        places = np.union1d(prior.chain.places, person.chain.places)
        p, q = (_path_law(each, places, first, last) for each in (prior, person))
        forwards, backwards = expected_distances(q, p), expected_distances(p, q)
        renyi = {order: float(renyi_divergence(q, p, order)) for order in RENYI_ORDERS}
        bhattacharyya = sqrt(-expm1(-renyi[0.5])) if renyi[0.5] < inf else 1.0
        return cls(
            first,
            last,
            kl=float(forwards.relative_entropy),
            kl_reversed=float(backwards.relative_entropy),
            tv=min(float(forwards.total_variation), float(backwards.total_variation), bhattacharyya),
            renyi=renyi,
            log_max_ratio=float(log_largest_ratio(q, p)),
            is_markov=True,
        )

    @checked(HorizonError)
    def ceilings(self, bound: float) -> dict[str, float]:
        """A bound on success under the prior, raised to everybody within the radius, formula by formula."""
        raised = {
            "tv": min(1.0, bound + self.tv),
            "kl": float(divergence_root(self.kl, bound)),
            "kl_reversed": float(raised_by_reversed(bound, self.kl_reversed)),
        }
        for order, divergence in self.renyi.items():
            raised[f"renyi_{order:g}"] = float(raised_by_renyi(bound, divergence, order))
        raised["max_ratio"] = min(1.0, bound * exp(min(self.log_max_ratio, 700.0)))  # e^700: no overflow
        return raised

    @checked(HorizonError)
    def ceiling(self, bound: float) -> RadiusCeiling:
        """The least of them."""
        raised = self.ceilings(bound)
        by = min(raised, key=raised.__getitem__)
        return RadiusCeiling(raised[by], by)


def _path_law(exposure: Exposure, places: Integers32, first: int, last: int) -> PathLaw:
    """The law of the places in ``first..last``, on ``places``, of which the person's own are some.

    A place where the person never is is never left: its row in the matrix has no weight.
    """
    own = np.searchsorted(places, exposure.chain.places)
    start = np.zeros(places.size)
    start[own] = exposure.marginal[first] if first >= 0 else _settled_before(exposure, first)
    slots = exposure.chain.start.shape[0]
    matrices = np.zeros((slots, places.size, places.size))
    for slot in range(slots):
        matrices[slot] = np.eye(places.size)
        matrices[slot][np.ix_(own, own)] = dense_matrix(exposure.chain, slot)
    return PathLaw(start, matrices, exposure.slot(first), last - first + 1)


def _settled_before(exposure: Exposure, step: int) -> Floats:
    """The law of the place in a ``step`` before the log."""
    if exposure.is_unrolled:
        raise HorizonError(
            "a radius must count from step 0 on where a clock is changed or a holiday is near",
            f"from step {step} on",
            "begin the log so many steps earlier, with nothing released",
        )
    if not np.array_equal(exposure.start, exposure.chain.start[exposure.slot(0)]):
        raise HorizonError(
            "a radius can count steps before the log only of people who started long before it",
            f"a start of their own, from step {step} on",
            "count from step 0 on: no horizon of theirs begins earlier",
        )
    return exposure.chain.start[exposure.slot(step)]


# Bounds on success under the prior, raised for many people at once, and limits lowered to match.


def ceilings_within(nats: float, bounds: Floats) -> Floats:
    """Each bound (N,), raised to everybody within so many nats; as :class:`Radius` raises a single one."""
    if nats == 0.0:
        return bounds
    raised = np.empty(bounds.size)
    raise_each(nats, np.ascontiguousarray(bounds), raised)
    return raised


def ceiling_within(nats: float, bound: float) -> float:
    """:func:`ceilings_within` of one bound."""
    return float(ceilings_within(nats, np.array([bound]))[0])


def bound_for(nats: float, level: float) -> float:
    """The largest bound under the prior that is raised to no more than a level; 0 where none is."""
    if nats == 0.0 or level <= 0.0 or level >= 1.0:
        return level
    return bracket(lambda bound: ceiling_within(nats, bound) <= level, 0.0, level).last_true


def budget_within(nats: float, limit: RiskBudget) -> RiskBudget:
    """The budget on bounds under the prior that keeps this one within so many nats.

    What releases may add is limited under the prior: raised ceilings have no *added*. Whether a person is
    over the limit by habit alone is decided by the guess under the prior and the limit as it was set.
    """
    return limit if limit.risk is None else replace(limit, risk=bound_for(nats, limit.risk))


# The ceiling of one horizon of a log for everybody within a radius of the prior.
#
# History counts: a person who forgets more slowly than the prior says is given away by old releases, and
# nothing in the horizon's own steps shows it. So the bound that is raised never uses the prior for what
# lies outside the radius's steps: the adversary is *shown* the place at which the radius begins (and in
# hindsight the one at which it ends). For a person who is Markov there (:attr:`Radius.is_markov`) that is
# worth more than all releases beyond it. For other people only a radius over the whole log helps.


@dataclass(frozen=True, slots=True)
class HorizonWithin:
    """``ceiling`` holds for everybody within the radius, ``certified`` for the prior itself.

    ``knows_place``: whether ``certified`` is that of an adversary to whom one of those places is shown; the
    ceiling then holds for those within the radius who are Markov there.
    """

    ceiling: float
    by: str
    certified: float
    certified_by: str
    knows_place: bool
    confidence: float


def horizon_within(
    exposure: Exposure,
    horizon: tuple[int, int],
    mistakes: int,
    radius: Radius,
    *,
    in_hindsight: bool = False,
    effort: bounds.Effort | None = None,
) -> HorizonWithin:
    """The ceiling of the steps ``horizon`` (both included) of the log in ``exposure``, within the radius.

    :class:`~accounting.exceptions.HorizonError` where the radius does not count the whole horizon, or less
    than the whole log although steps share noise or nothing is said of how the person moves outside it.
    """
    first, last = horizon
    seen = exposure.steps - 1 if in_hindsight else last
    begin, end = max(radius.first, 0), min(radius.last, seen)
    if not begin <= first <= last <= end:
        raise HorizonError(
            f"a radius must count every step of the horizon {first}..{last}",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log, or from a step at which the adversary is shown the place",
        )
    knows_place = begin > 0 or end < seen
    if knows_place and not radius.is_markov:
        raise HorizonError(
            f"a radius must count every step of the log until {seen}, or be of people Markov at its ends",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log, or is_markov=True if steps outside tell no more than the place",
        )
    if knows_place and not exposure.has_independent_noise:
        raise HorizonError(
            "a radius must count the whole log where noise is shared between steps",
            f"{radius.first}..{radius.last}",
            "declare it over the whole log",
        )
    known = Exposure(
        exposure.chain, exposure.marginal[begin], exposure.slot(begin), _seen(exposure, begin, end, seen)
    )
    risk = bounds.horizon_risk(
        known, first - begin, last - begin, mistakes, in_hindsight=in_hindsight, effort=effort
    )
    raised = radius.ceiling(risk.certified)
    return HorizonWithin(raised.value, raised.by, risk.certified, risk.by, knows_place, risk.confidence)


def _seen(exposure: Exposure, begin: int, end: int, seen: int) -> tuple[StepObservation, ...]:
    """What is seen in ``begin..end``: the place where the log goes on outside, elsewhere the releases."""
    shown = list(exposure.observations[begin : end + 1])
    places = exposure.chain.places.tolist()
    releases = tuple(SensorRelease(Sensor(f"place {place}", (place,)), Raw()) for place in places)
    shown_place = observe(StepSchedule(0, releases), exposure.observations[0].labels.size)
    if begin > 0:
        shown[0] = shown_place
    if end < seen:
        shown[-1] = shown_place
    return tuple(shown)
