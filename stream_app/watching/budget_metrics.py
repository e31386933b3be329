"""Metrics of the risk budget: the limit that was set, how many people are over it, how many may be.

There from the start: without a limit its gauges say +Inf, and nobody is over it nor may be.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge

from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.watching.people import PeopleView, Standing
from stream_app.wire import DecisionReason


class PeopleOver(NamedTuple):
    """People over a limit because of releases, and by habit alone; nobody is in both."""

    by_releases: int
    by_habits: int


class BudgetMetrics:
    """Shows ``release.budget``; None where there is none.

    Where it decides, decisions say who is over its limit. A limit under another mechanism decides nothing:
    people are held against it by their certified risks after each step, those against the adversary that the
    settings name.
    """

    def __init__(self, registry: CollectorRegistry, settings: Settings | None) -> None:
        release = None if settings is None else settings.release
        self._in_crowd = settings is not None and settings.adversary == CROWD
        limit = None if release is None else release.budget.limit
        decides = release is not None and release.mechanism == "budget"
        self._watched_limit = None if decides else limit
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
            "People over the limit of the risk budget, by releases or by habit alone; 0 where none is set",
            ["by"],
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
        self._show(PeopleOver(0, 0), 0.0)

    def decided(self, why: DecisionReason, *, is_replayed: bool) -> None:
        """A step was decided under the budget; a restart walks over it again without counting it."""
        if not is_replayed:
            self._decisions.labels(why.reason.value).inc()
        self._show(PeopleOver(why.over, why.natural), why.allowed)

    def accounted(self, view: PeopleView) -> None:
        """A step was accounted: where the limit decides nothing, see who is over it."""
        if self._watched_limit is not None:
            standing = view.standing()
            if self._in_crowd and standing.crowd is not None:
                standing = standing.crowd
            allowed = Fraction(repr(self._watched_limit.share)) * standing.people
            self._show(people_over(standing, self._watched_limit), float(allowed))

    def _show(self, over: PeopleOver, allowed: float) -> None:
        self._over.labels("releases").set(over.by_releases)
        self._over.labels("habits").set(over.by_habits)
        self._allowed.set(allowed)


def people_over(standing: Standing, limit: RiskBudget) -> PeopleOver:
    """How many are over the limit, by releases and by habit alone."""
    return PeopleOver(*map(standing.count, who_is_over(standing, limit)))


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
