"""Metrics of the risk budget: the limit that was set, how many people are over it, how many may be.

There from the start: without a limit its gauges say +Inf, and nobody is over it nor may be.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge

from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.watching.people import PeopleView, Standing
from stream_app.wire import DecisionReason, OverLimitCounts

_BY = ("releases", "habits")


class BudgetMetrics:
    """Shows ``release.budget``; None where there is none.

    Who is over its limit now the accounts say, by the ceilings that the rule is kept by: those against the
    adversary that the settings name. Where the limit decides, the forecast is what its decisions foresaw. On
    Kafka the account workers have the one, the release worker the other.
    """

    def __init__(self, registry: CollectorRegistry, settings: Settings | None) -> None:
        release = None if settings is None else settings.release
        self._in_crowd = settings is not None and settings.adversary == CROWD
        limit = None if release is None else release.budget.limit
        self._limit = limit
        self._show_people(registry)
        self._show_limit(registry, limit)
        self.show_nobody()

    def _show_people(self, registry: CollectorRegistry) -> None:
        self._decisions = Counter(
            "tallyguard_decisions",
            "Steps decided under a risk budget, by reason",
            ["because"],
            registry=registry,
        )
        self._over = Gauge(
            "tallyguard_people_over_limit",
            "People over the limit of the risk budget now, by the ceilings that decide: because of releases "
            "or by habit alone; 0 where none is set",
            ["by"],
            registry=registry,
        )
        self._forecast = Gauge(
            "tallyguard_people_over_limit_forecast",
            "People whom the last decision counted against the budget: over it then, or in silence after it, "
            "largely by the fast bound, so more than are over it; 0 where a budget decides nothing",
            ["by"],
            registry=registry,
        )
        self._ever = Gauge(
            "tallyguard_people_ever_over_limit",
            "People who were over the limit of the risk budget after any step so far, whatever the reason",
            registry=registry,
        )
        self._allowed = Gauge(
            "tallyguard_people_allowed_over_limit",
            "People who may be over the limit of the risk budget; 0 where none is set",
            registry=registry,
        )
        for reason in BudgetReason:
            self._decisions.labels(reason.value)

    def _show_limit(self, registry: CollectorRegistry, limit: RiskBudget | None) -> None:
        share = Gauge(
            "tallyguard_budget_share",
            "Share of people who may be over the limit; 0 where no limit is set",
            registry=registry,
        )
        most = Gauge(
            "tallyguard_budget_limit",
            "Limit of the certified risk and of the added risk; +Inf where it is not limited",
            ["of"],
            registry=registry,
        )
        share.set(0.0 if limit is None else limit.share)
        most.labels("risk").set(_or_unlimited(None if limit is None else limit.risk))
        most.labels("added").set(_or_unlimited(None if limit is None else limit.added))

    def show_nobody(self) -> None:
        """Nobody is accounted."""
        for by in _BY:
            self._over.labels(by).set(0.0)
            self._forecast.labels(by).set(0.0)
        self._ever.set(0.0)
        self._allowed.set(0.0)

    def decided(self, why: DecisionReason, *, is_replayed: bool) -> None:
        """A step was decided under the budget; a restart walks over it again without counting it."""
        if not is_replayed:
            self._decisions.labels(why.reason.value).inc()
        for by, people in zip(_BY, (why.over, why.natural), strict=True):
            self._forecast.labels(by).set(people)

    def accounted(self, view: PeopleView) -> None:
        """A step was accounted: see who is over the limit."""
        if self._limit is None:
            return
        standing = view.standing()
        counts = over_limit_counts(standing, self._limit, in_crowd=self._in_crowd)
        for by, people in zip(_BY, (counts.by_releases, counts.by_habits), strict=True):
            self._over.labels(by).set(people)
        self._ever.set(counts.ever)
        self._allowed.set(float(Fraction(repr(self._limit.share)) * standing.people))


def over_limit_counts(standing: Standing, limit: RiskBudget, *, in_crowd: bool = False) -> OverLimitCounts:
    """How many are over the limit now, and how many ever were: what page, metrics and records say."""
    judged = standing.crowd if in_crowd and standing.crowd is not None else standing
    worst = judged.worst
    is_ever = (worst.added > _or_unlimited(limit.added)) | (worst.highest_risk > _or_unlimited(limit.risk))
    by_releases, by_habits = map(judged.count, who_is_over(judged, limit))
    return OverLimitCounts(
        risk=limit.risk,
        added=limit.added,
        habits_apart=limit.habits_apart,
        adversary=None if judged is standing else "crowd",
        by_releases=by_releases,
        by_habits=by_habits,
        ever=max(judged.count(is_ever), by_releases + by_habits),
    )


def who_is_over(standing: Standing, limit: RiskBudget) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Who is over the limit by releases, and who by habit alone, (N,) each; the budget's ``habits`` apart.

    Within a radius a raised guess may be over the limit where the guess is not: that counts in any case.
    """
    most_risk, most_added = _or_unlimited(limit.risk), _or_unlimited(limit.added)
    is_added_to = standing.added > most_added
    is_habitual = standing.habits > most_risk
    by_releases = is_added_to | (~is_habitual & (standing.risk > most_risk))
    is_spared = limit.habits_apart & (standing.baseline > most_risk)
    by_habits = is_habitual & ~by_releases & ~is_spared
    return by_releases, by_habits


def _or_unlimited(limit: float | None) -> float:
    return math.inf if limit is None else limit
