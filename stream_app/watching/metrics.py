"""Prometheus metrics of a running engine: an observer that counts, never a person in a label.

``templates/metrics.toml`` has all of them with their meaning. Every child exists at 0 from the start, so that
a rate or an alert sees the first event. The labels are fixed lists (outcomes, reasons, mechanisms,
thresholds, quantiles) or the deployment's own sensors and their groups.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from accounting.continuous import QUANTILES
from accounting.decisions import BudgetReason
from accounting.ledgers import PrivacyAccount, ZcdpSpend
from accounting.settings import RiskBudget
from models.mechanisms import MECHANISMS, errors_of_recipients, public_error
from models.releases import Sensor, StepSchedule
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import own_version
from stream_app.watching.events import Observer, PanelChecked, RunStarted, RunStopped, StepClosed
from stream_app.watching.glossary import texts
from stream_app.watching.people import PeopleView, Standing
from stream_app.watching.view import ABOUT_NOTHING, About, Moment, View
from stream_app.wire import (
    PRIVATE_REASONS,
    ClockOff,
    CrowdSummary,
    DecisionReason,
    Outcome,
    OverLimitCounts,
    Reason,
    RiskSummary,
)

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary

LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_KINDS: Mapping[str, Any] = {
    "gauge": Gauge,
    "counter": Counter,
    "histogram": partial(Histogram, buckets=LATENCY_BUCKETS_SECONDS),
}
_TABLE = texts("metrics.toml")


class Meters:
    """The metrics of some parts of the table, registered; each by its name without ``tallyguard_``."""

    def __init__(self, registry: CollectorRegistry, *parts: str) -> None:
        self._all: dict[str, Any] = {
            name: _KINDS[kind](f"tallyguard_{name}", words, labels, registry=registry)
            for part in parts
            for name, (kind, words, *labels) in _TABLE[part].items()
        }

    def __getitem__(self, name: str) -> Any:
        return self._all[name]

    def show(self, name: str, value: float, *labels: str) -> None:
        """Set a gauge, or the child of it with these labels."""
        found = self._all[name]
        (found.labels(*labels) if labels else found).set(value)

    def show_each(self, name: str, values: Mapping[str, float] | Mapping[str, int]) -> None:
        """Set a child for each value of the label."""
        for label_value, value in values.items():
            self.show(name, value, label_value)

    def at_zero(self, name: str, values: Iterable[str]) -> None:
        """Let a child be there for each of these."""
        for value in values:
            self._all[name].labels(str(value))


# The limit, how many people are over it, and how many may be. These exist from the start, so that an alert
# can be written before a limit is set: the limit is then +Inf.

_BY = ("releases", "habits")


class BudgetMetrics:
    """Shows ``release.budget``; without one, nobody is over the limit.

    The accounts say who is over the limit now, by the ceilings against the adversary that the settings name.
    Where the limit decides, the forecast is what the last decision expected. On Kafka account workers have
    the former and the release worker the latter.
    """

    def __init__(self, registry: CollectorRegistry, settings: Settings | None) -> None:
        self._meters = meters = Meters(registry, "budget")
        self._limit = limit = None if settings is None else settings.release.budget.limit
        meters.at_zero("decisions", BudgetReason)
        meters.show("budget_share", 0.0 if limit is None else limit.share)
        for name in ("risk", "added"):
            meters.show("budget_limit", _or_unlimited(getattr(limit, name, None)), name)
        self.show_nobody()

    def show_nobody(self) -> None:
        """Nobody is accounted."""
        for name in ("people_over_limit", "people_over_limit_forecast"):
            self._meters.show_each(name, dict.fromkeys(_BY, 0.0))
        for name in ("people_ever_over_limit", "people_allowed_over_limit"):
            self._meters.show(name, 0.0)

    def decided(self, why: DecisionReason, *, is_replayed: bool) -> None:
        """A step was decided under the budget; a restart walks over it again without counting it."""
        if not is_replayed:
            self._meters["decisions"].labels(why.reason.value).inc()
        self._meters.show_each(
            "people_over_limit_forecast", dict(zip(_BY, (why.over, why.natural), strict=True))
        )

    def accounted(self, summary: RiskSummary) -> None:
        """A step was accounted: its summary says who is over the limit."""
        counts = summary.over_limit
        if self._limit is None or counts is None:
            return
        over = counts.by_releases, counts.by_habits
        self._meters.show_each("people_over_limit", dict(zip(_BY, over, strict=True)))
        self._meters.show("people_ever_over_limit", counts.ever)
        # The share as it was written: 0.07 of 100 people are 7, and not 7.000000000000001 as in floats.
        allowed = float(Fraction(repr(self._limit.share)) * summary.people)
        self._meters.show("people_allowed_over_limit", allowed)


def over_limit_counts(standing: Standing, limit: RiskBudget, *, in_crowd: bool = False) -> OverLimitCounts:
    """How many are over the limit now, and how many ever were: what page, metrics and records say."""
    judged = standing.judged(in_crowd=in_crowd)
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
    """Who is over the limit because of releases, and who because of habits alone, (N,) each.

    With ``habits_apart`` the latter do not count, but for those whose guess is over the limit only because it
    is raised to a radius.
    """
    most_risk, most_added = _or_unlimited(limit.risk), _or_unlimited(limit.added)
    is_added_to = standing.added > most_added
    is_habitual = standing.habits > most_risk
    by_releases = is_added_to | (~is_habitual & (standing.risk > most_risk))
    is_spared = limit.habits_apart & (standing.baseline > most_risk)
    by_habits = is_habitual & ~by_releases & ~is_spared
    return by_releases, by_habits


def _or_unlimited(limit: float | None) -> float:
    return inf if limit is None else limit


# What the crowd hides of each sensor's counts, and what it does to the ceilings, for metrics and page.

HOURS = 24
MOST_SIGMA = 99.9  # more than this is shown as this


HiddenByHour = Mapping[str, Sequence[float | None]]
"""By sensor and hour of the day: noise, in people, that would hide as much as the crowd did at its least.

0 where nobody is hidden, None for an hour that has not come yet.
"""


def adversary_of(settings: Settings | None) -> CrowdAdversary | None:
    """The crowd adversary of the settings; None where no ceilings against one are computed."""
    return settings.crowd_adversary if settings is not None and settings.has_crowd else None


def sigmas_of(event: StepClosed, adversary: CrowdAdversary | None) -> dict[str, float]:
    """Noise that would hide as much as the crowd does in this step, in people, by sensor."""
    if event.crowds is None or adversary is None:
        return {}
    from accounting.exposure.crowd import crowds_by_sensor

    step = event.schedule if event.accounted is None else event.accounted
    found = crowds_by_sensor(step, event.crowds, adversary)
    return {name: min(crowd.sigma, MOST_SIGMA) for name, crowd in found.items()}


def with_step(before: HiddenByHour, sigmas: Mapping[str, float], hour: int) -> HiddenByHour:
    """The same after a step that began in this hour of the day: the least that was hidden then."""
    found = {name: list(known) for name, known in before.items()}
    for name, sigma in sigmas.items():
        known = found.setdefault(name, [None] * HOURS)
        least = known[hour]
        known[hour] = sigma if least is None else min(least, sigma)
    return dict(sorted(found.items()))


def hour_of(step: int, settings: Settings) -> int:
    """The hour of the day, UTC, that a step begins in."""
    return (settings.origin_seconds + step * settings.step_seconds) // 3600 % HOURS


class CrowdMetrics:
    """Gauges of the ceilings in the crowd; +Inf where they are not computed."""

    def __init__(
        self, registry: CollectorRegistry, sensors: Sequence[Sensor], settings: Settings | None
    ) -> None:
        self._meters = Meters(registry, "crowd")
        self._adversary = adversary_of(settings)
        self._levels: tuple[str, ...] = ()
        self._sensors = tuple(sensor.name for sensor in sensors)
        self._meters.at_zero("sensor_crowd_sigma", self._sensors)

    def show_nobody(self, levels: Iterable[str]) -> None:
        """Before the first step, or where nobody is accounted."""
        self._levels = tuple(levels)
        self.accounted(None)

    def closed(self, event: StepClosed) -> None:
        """Show what the crowd hid; +Inf for a sensor without a count, which revealed nothing."""
        if event.crowds is not None and self._adversary is not None:
            found = dict.fromkeys(self._sensors, inf) | sigmas_of(event, self._adversary)
            self._meters.show_each("sensor_crowd_sigma", found)

    def accounted(self, summary: CrowdSummary | None) -> None:
        """What a step did to the ceilings; None where they are not computed."""
        at_risk = {} if summary is None else {float(text): n for text, n in summary.at_risk.items()}
        self._meters.show("crowd_risk_mean", inf if summary is None else summary.mean_risk)
        self._meters.show("crowd_added_risk_mean", inf if summary is None else summary.mean_added)
        for level in self._levels:
            people = inf if summary is None else at_risk.get(float(level), 0.0)
            self._meters.show("people_at_crowd_risk", people, level)


class PriorMetrics:
    """What real traces said of the priors, in a check or a panel; 0 everywhere where none were asked."""

    def __init__(self, registry: CollectorRegistry, check: PriorsVerdict | None) -> None:
        self._meters = Meters(registry, "priors")
        self._meters.show("priors_refuted", check is not None and check.is_too_low, "check")
        self._meters.show("priors_refuted", 0, "panel")

    def panel_checked(self, event: PanelChecked) -> None:
        """Twenty guesses more, or the beginning."""
        self._meters.show("priors_refuted", event.is_refuted, "panel")
        self._meters.show("panel_guesses", event.guesses)
        self._meters.show("panel_evidence", event.evidence)


HEADLINE = ("guess", "attack", "ceiling", "added")
"""The figures of the headline that are metrics."""

_BY_LEVEL = {"people_at_risk": "at_risk", "people_added_risk": "at_added_risk"}
_BY_QUANTILE = {"risk_quantile": "risk", "added_risk_quantile": "added", "baseline_quantile": "baseline"}
_OF_SUMMARY = {
    **{"risk_mean": "mean_risk", "added_risk_mean": "mean_added", "baseline_mean": "mean_baseline"},
    **{"highest_risk": "most_risk", "highest_added_risk": "most_added", "people_not_reached": "not_reached"},
}
_ATTACK = {"attack_mean": "success", "attack_mean_low": "low", "attack_mean_high": "high"}
_SAMPLED = {"sampled_added_risk": "most_added", "people_within_limit_sampled": "within_limit"}


class EngineMetrics(Observer):
    """The metrics of one engine, registered in ``registry``.

    ``thresholds`` are the deployment's risk thresholds and ``delta`` the one its epsilon is reported at;
    ``settings`` are shown as configuration where they are given. ``now_seconds`` is the clock.
    Steps walked over again after a restart bring gauges and the privacy account up to date, but are no new
    events: they are not counted.
    """

    def __init__(
        self,
        registry: CollectorRegistry,
        sensors: Sequence[Sensor],
        thresholds: Iterable[float],
        delta: float,
        *,
        settings: Settings | None = None,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        self._delta, self._now_seconds = delta, now_seconds
        self._view: PeopleView | None = None
        self.meters = meters = Meters(registry, "engine", "build")
        self.person_steps, self.lag = meters["person_steps"], meters["accountant_lag_steps"]
        self._budget = BudgetMetrics(registry, settings)
        self._priors = PriorMetrics(registry, None if settings is None else settings.priors_check)
        self._crowd = CrowdMetrics(registry, sensors, settings)
        self._figures = View(About.of(settings) if settings else ABOUT_NOTHING)
        self._levels = [label(level) for level in thresholds]
        self._sensors = frozenset(sensor.name for sensor in sensors)
        self._account = PrivacyAccount(sensor.group for sensor in sensors)
        meters.at_zero("readings", Outcome)
        meters.at_zero("rejected", (reason for reason in Reason if reason not in PRIVATE_REASONS))
        meters.at_zero("releases", MECHANISMS)
        for name in ("dp_rho", "dp_epsilon"):
            meters.at_zero(name, self._account.spends)
        for sensor in sensors:
            for tier in () if settings is None else settings.release.tiers:
                meters["tier_error_expected"].labels(sensor.name, tier)
        meters.show("build_info", 1, own_version(), platform.python_version())
        self.clock_read(ClockOff())
        self._forget_errors()
        self._show_nobody()
        if settings is not None:
            configured = Meters(registry, "configuration")
            configured.show("step_seconds", settings.step_seconds)
            on_kafka = settings.kafka.partitions if settings.kafka.servers else 0
            configured.show("partitions_configured", on_kafka)
            shown = settings.deployment, str(settings.horizon), str(settings.mistakes), f"{settings.delta:g}"
            configured.show("config_info", 1, *shown)

    def _show_nobody(self) -> None:
        """The risks of no people at all."""
        for name in _BY_LEVEL:
            self.meters.show_each(name, dict.fromkeys(self._levels, 0.0))
        for name in _BY_QUANTILE:
            self.meters.show_each(name, dict.fromkeys(map(label, QUANTILES), 0.0))
        for name in (*_OF_SUMMARY, *_ATTACK, *_SAMPLED, "headline_step"):
            self.meters.show(name, 0.0)
        self.meters.show_each("headline", dict.fromkeys(HEADLINE, 0.0))
        self.meters["question_mean"].clear()
        self._budget.show_nobody()
        self._crowd.show_nobody(self._levels)
        self.meters.show_each("sensor_information_bits", dict.fromkeys(self._sensors, 0.0))

    def _forget_errors(self) -> None:
        self.meters.show_each("published_error_expected", dict.fromkeys(self._sensors, 0.0))

    def started(self, event: RunStarted) -> None:
        """People are loaded; the log continues after its last step."""
        self._view = event.view
        self.meters.show("people", event.people)
        self.meters.show("habits_assumed", event.view is not None and event.view.assumed is not None)
        self.meters.show("running", 1)
        self._show_progress()

    def _show_progress(self) -> None:
        self.meters.show("last_progress_timestamp_seconds", self._now_seconds())

    def carried(self, account: PrivacyAccount) -> None:
        """Earlier runs have spent this in all; go on from there."""
        self._account = PrivacyAccount.load(account.save())
        self._show_spent(group for group, spend in account.spends.items() if spend != ZcdpSpend())

    def stopped(self, event: RunStopped) -> None:
        """No more steps will be closed."""
        self.meters.show("running", 0)

    def received(self, outcome: Outcome, readings: int = 1) -> None:
        """Count readings."""
        self.meters["readings"].labels(outcome.value).inc(readings)

    def rejected(self, reason: Reason) -> None:
        """Count a dead letter."""
        self.meters["rejected"].labels(reason.value).inc()

    def clock_read(self, off: ClockOff) -> None:
        """Show whether the clock is followed."""
        self.meters.show("clock_off_seconds", off.ahead_seconds, "ahead")
        self.meters.show("clock_off_seconds", off.behind_seconds, "behind")

    def panel_checked(self, event: PanelChecked) -> None:
        """Show what volunteers say of the priors."""
        self._priors.panel_checked(event)

    def closed(self, event: StepClosed) -> None:
        """A step is durable: count it, and show what it did to the risks."""
        self.meters.show("last_step", event.step)
        self.meters.show("accountant_lag_steps", event.lag_steps)
        self.meters.show("people", event.people)
        self._show_spent(self._account.charge(event.schedule))
        self._show_budget(event)
        self._show_errors(event)
        self._show_information(event.schedule)
        self._crowd.closed(event)
        if event.summary is not None:
            self._show_summary(event.summary)
            self._show_headline(event.summary)
        if event.is_replayed:
            return
        self.meters["steps_closed"].inc()
        self._show_progress()
        self.meters["step_latency_seconds"].observe(event.latency_seconds)
        self.meters["person_steps"].inc(event.people)
        for release in event.schedule.releases:
            missing = release.sensor.name in event.missing
            self.meters["releases"].labels("suppressed" if missing else release.mechanism.name).inc()

    def _show_budget(self, event: StepClosed) -> None:
        """Who is over the limit: the forecast of the decision, and what the accounts say."""
        if event.why is not None:
            self._budget.decided(event.why, is_replayed=event.is_replayed)
        if event.summary is not None:
            self._budget.accounted(event.summary)

    def _show_errors(self, event: StepClosed) -> None:
        """Of each sensor whose step this is; infinite where it published nothing: 0 is a raw count."""
        errors = dict.fromkeys(self._sensors if event.sensors is None else event.sensors, inf)
        for release in event.schedule.releases:
            name, mechanism = release.sensor.name, release.mechanism
            if mechanism.is_released and name not in event.missing:
                errors[name] = public_error(mechanism)
                for tier, error in errors_of_recipients(mechanism).items():
                    self.meters.show("tier_error_expected", error, name, tier)
        self.meters.show_each("published_error_expected", errors)

    def _show_information(self, schedule: StepSchedule) -> None:
        if self._view is not None:
            found = dict.fromkeys(self._sensors, 0.0) | self._view.sensor_information_bits(schedule)
            self.meters.show_each("sensor_information_bits", found)

    def _show_spent(self, groups: Iterable[str]) -> None:
        for group in groups:
            spend = self._account.spends[group]
            self.meters.show("dp_rho", spend.rho_value(), group)
            self.meters.show("dp_epsilon", spend.epsilon(self._delta), group)

    def _show_headline(self, summary: RiskSummary) -> None:
        if not summary.people:
            return
        self._figures.note(Moment.of(summary))
        for each in self._figures.group("headline"):
            if each.kind.name in HEADLINE:
                self.meters.show("headline", inf if each.value is None else each.value, each.kind.name)
            self.meters.show("headline_step", each.over.last)

    def _show_summary(self, summary: RiskSummary) -> None:
        for name, figure in (_BY_LEVEL | _BY_QUANTILE).items():
            values = getattr(summary, figure).items()
            self.meters.show_each(name, {label(level): value for level, value in values})
        for name, figure in _OF_SUMMARY.items():
            self.meters.show(name, getattr(summary, figure) or 0.0)
        for name, end in _ATTACK.items():
            self.meters.show(name, getattr(summary.attack, end, inf) if summary.people else 0.0)
        for name, figure in _SAMPLED.items():
            found = getattr(summary.sampled, figure, None)
            self.meters.show(name, inf if found is None else found)
        self._crowd.accounted(summary.crowd)
        first, further = self._figures.about.asked[0].name, summary.questions or {}
        for name, each in ({first: summary, **further} if further else {}).items():
            means = {"guess": each.mean_baseline, "attack": getattr(each.attack, "success", inf)}
            means |= {"ceiling": each.mean_risk, "added": each.mean_added}
            for figure, value in means.items():
                self.meters.show("question_mean", value, name, figure)


def label(number: float | str) -> str:
    """A threshold or quantile as a label: the shortest decimal form, 0.5 and 1."""
    return f"{float(number):g}"
