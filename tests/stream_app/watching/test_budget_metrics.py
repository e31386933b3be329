"""The metrics of the risk budget carry the limit of the settings, and the people over it."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from accounting.bounds.radius import ceilings_within
from accounting.continuous import no_moments
from accounting.decisions import BudgetReason
from accounting.settings import RiskBudget
from stream_app.kafka.worker_metrics import AccountMetrics
from stream_app.setup.settings import Settings
from stream_app.watching.events import RunStarted, StepClosed
from stream_app.watching.metrics import BudgetMetrics, EngineMetrics, over_limit_counts
from stream_app.watching.people import PeopleView, Standing
from stream_app.watching.wording import decision_in_words
from stream_app.wire.messages import DecisionReason
from tests.stream_app.events_for_tests import SENSORS, closed

BASELINE = np.array([0.1, 0.1, 0.1, 0.6, 0.6])
RISK = np.array([0.1, 0.2, 0.55, 0.62, 0.9])


def standing() -> Standing:
    """Little added to the first, a second and a fourth; a good deal to the third and the last."""
    names, added = [str(k) for k in range(5)], RISK - BASELINE
    return Standing(0, names, np.ones(5, dtype=np.int64), RISK, BASELINE, added, BASELINE, no_moments(5))


VIEW = cast(PeopleView, SimpleNamespace(sensor_information_bits=lambda schedule: {}, assumed=None))


def accounted() -> StepClosed:
    """A step whose summary says who of the five is over the limit."""
    event = closed(0, people=5)
    assert event.summary is not None
    over = over_limit_counts(standing(), RiskBudget(added=0.25))
    return replace(event, summary=event.summary.model_copy(update={"over_limit": over}))


class Shown:
    """Metrics under some settings."""

    def __init__(
        self, kind: type[EngineMetrics] = EngineMetrics, mechanism: str = "gaussian", **budget: Any
    ) -> None:
        settings = Settings(release={"mechanism": mechanism, "budget": budget})  # type: ignore[arg-type]
        self.registry = CollectorRegistry()
        self.metrics = kind(self.registry, SENSORS, (0.5,), 1e-6, settings=settings)

    def value(self, name: str, **labels: str) -> float | None:
        return self.registry.get_sample_value(f"tallyguard_{name}", labels)

    @property
    def limit(self) -> tuple[float | None, ...]:
        of = (self.value("budget_limit", of="risk"), self.value("budget_limit", of="added"))
        return (self.value("budget_share"), *of)

    @property
    def people(self) -> tuple[float | None, ...]:
        over = (self.value("people_over_limit", by=by) for by in ("releases", "habits"))
        return (*over, self.value("people_allowed_over_limit"))


def test_the_limit_is_there_from_the_start_and_says_where_there_is_none() -> None:
    assert Shown().limit == (0.0, math.inf, math.inf)
    assert Shown(share=0.2, added=0.25).limit == (0.2, math.inf, 0.25)
    assert Shown(mechanism="budget", share=0.01, risk=0.5).limit == (0.01, 0.5, math.inf)
    assert Shown(share=0.2, added=0.25).people == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("kind", [EngineMetrics, AccountMetrics])
def test_a_limit_that_decides_nothing_is_watched_by_the_accounts(kind: type[EngineMetrics]) -> None:
    """Embedded and on Kafka, until an account worker's people are gone; without a limit nobody is over it."""
    shown, unlimited = Shown(kind, share=0.29, added=0.25), Shown(kind)
    for each in (shown, unlimited):
        each.metrics.started(RunStarted(5, 0, VIEW))
        each.metrics.closed(accounted())
    assert shown.people == (2.0, 0.0, 0.29 * 5)
    assert unlimited.people == (0.0, 0.0, 0.0)
    if kind is AccountMetrics:
        shown.metrics.started(RunStarted(0, 1))
        assert shown.people == (0.0, 0.0, 0.0)


def test_who_is_over_a_limit_that_decides_is_no_forecast() -> None:
    """Now and ever are the accounts', the forecast is the decision's: on Kafka each has one worker."""
    why = DecisionReason(
        reason=BudgetReason.CONTRADICTION, people=5, allowed=1, natural=2, over=3, cleared=0, rounds=1
    )
    worker = Shown(AccountMetrics, mechanism="budget", share=0.2, added=0.25)
    worker.metrics.started(RunStarted(5, 0, VIEW))
    worker.metrics.closed(accounted())
    assert worker.people == (2.0, 0.0, 0.2 * 5)
    assert worker.value("people_ever_over_limit") == 2
    assert worker.value("people_over_limit_forecast", by="releases") == 0
    both = Shown(EngineMetrics, mechanism="budget", share=0.2, added=0.25)
    both.metrics.started(RunStarted(5, 0, VIEW))
    both.metrics.closed(replace(accounted(), why=why))
    assert both.people == (2.0, 0.0, 1.0)
    assert both.value("people_over_limit_forecast", by="releases") == 3
    assert both.value("people_over_limit_forecast", by="habits") == 2
    budget = BudgetMetrics(registry := CollectorRegistry(), None)
    budget.decided(why, is_replayed=True)
    budget.decided(why, is_replayed=False)
    settled = {"because": "contradiction"}
    assert registry.get_sample_value("tallyguard_decisions_total", settled) == 1
    assert registry.get_sample_value("tallyguard_people_over_limit_forecast", {"by": "habits"}) == 2
    assert registry.get_sample_value("tallyguard_people_over_limit", {"by": "releases"}) == 0
    assert registry.get_sample_value("tallyguard_people_allowed_over_limit") == 0


def test_whoever_was_over_once_is_ever_over() -> None:
    """Two are over now, and a third was; the words say the three figures apart."""
    worst = no_moments(5)
    worst.note(0, np.array([0.1, 0.2, 0.55, 0.95, 0.9]), BASELINE, np.zeros(5, dtype=np.int64))
    counts = over_limit_counts(replace(standing(), worst=worst), RiskBudget(added=0.25))
    assert (counts.by_releases, counts.by_habits, counts.ever) == (2, 0, 3)
    why = DecisionReason(
        reason=BudgetReason.BUDGET, people=5, allowed=4, natural=1, over=4, cleared=0, rounds=1
    )
    words = decision_in_words(why, counts)
    assert (
        "Over the limit now: 2 people because of releases and 0 because of habits alone; ever so far: 3."
        in words
    )
    assert "Forecast when it was decided: of 5 people 4 over the limit because of releases" in words
    assert "are over" not in decision_in_words(why)
    more = why.model_copy(update={"over": 6})
    assert "6 or more over the limit" in decision_in_words(more), "not counted to the end"


@pytest.mark.parametrize(
    ("limit", "over"),
    [
        (RiskBudget(risk=0.5), (1, 2)),
        (RiskBudget(risk=0.5, habits_apart=True), (1, 0)),
        (RiskBudget(added=0.25), (2, 0)),
        (RiskBudget(added=0.05), (3, 0)),
        (RiskBudget(risk=0.5, added=0.25), (2, 1)),
        (RiskBudget(risk=0.5, added=0.25, habits_apart=True), (2, 0)),
        (RiskBudget(risk=1.0), (0, 0)),
    ],
)
def test_whoever_is_over_either_limit_counts_once(limit: RiskBudget, over: tuple[int, int]) -> None:
    counts = over_limit_counts(standing(), limit)
    assert (counts.by_releases, counts.by_habits) == over


@pytest.mark.parametrize("is_apart", [False, True])
def test_a_larger_radius_never_puts_fewer_people_over_the_limit(*, is_apart: bool) -> None:
    """Who is spared as over by habit alone is whoever the guess under the prior puts there."""
    limit, found = RiskBudget(risk=0.5, habits_apart=is_apart), []
    for nats in (0.0, 0.01, 0.05, 0.14, 0.5, 2.0):
        habits, risk = (ceilings_within(nats, each) for each in (BASELINE, RISK))
        raised = replace(standing(), risk=risk, habits=habits)
        found.append(over_limit_counts(raised, limit).now)
    assert found == sorted(found)
    assert (found[0], found[-1]) == ((1, 3) if is_apart else (3, 5))
