"""Prometheus metrics of a running engine: an observer that counts, never a person in a label.

Every child exists at 0 from the start, so that a rate or an alert sees the first event. The labels are fixed
lists (outcomes, reasons, mechanisms, thresholds, quantiles) or the deployment's own sensors and their groups.
"""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from math import inf
from typing import TYPE_CHECKING

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
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import own_version
from stream_app.watching.events import Observer, PanelChecked, RunStarted, RunStopped, StepClosed
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


# Metrics of the risk budget: the limit, how many people are over it, and how many may be. They exist from
# the start, so that an alert can be written before a limit is set: the limit is then +Inf.

_BY = ("releases", "habits")


class BudgetMetrics:
    """Shows ``release.budget``; without one, nobody is over the limit.

    The accounts say who is over the limit now, by the ceilings against the adversary that the settings name.
    Where the limit decides, the forecast is what the last decision expected. On Kafka account workers have
    the former and the release worker the latter.
    """

    def __init__(self, registry: CollectorRegistry, settings: Settings | None) -> None:
        gauge = partial(Gauge, registry=registry)
        limit = None if settings is None else settings.release.budget.limit
        self._limit = limit
        self._in_crowd = settings is not None and settings.adversary == CROWD
        self._decisions = Counter(
            "tallyguard_decisions",
            "Steps decided under a risk budget, by reason",
            ["because"],
            registry=registry,
        )
        self._over = gauge(
            "tallyguard_people_over_limit",
            "People over the limit of the risk budget now, by the ceilings that decide: because of releases "
            "or because of habits alone; 0 without a limit",
            ["by"],
        )
        self._forecast = gauge(
            "tallyguard_people_over_limit_forecast",
            "People whom the last decision expected over the limit, in its step or if nothing is released "
            "after it; mostly by the fast bound, so more than are over it; 0 where a budget decides nothing",
            ["by"],
        )
        self._ever = gauge(
            "tallyguard_people_ever_over_limit",
            "People who were over the limit of the risk budget after any step so far, for whatever reason",
        )
        self._allowed = gauge(
            "tallyguard_people_allowed_over_limit",
            "People who may be over the limit of the risk budget; 0 without a limit",
        )
        share = gauge(
            "tallyguard_budget_share", "Share of people who may be over the limit; 0 without a limit"
        )
        most = gauge(
            "tallyguard_budget_limit",
            "Limit on the certified risk and on the added risk; +Inf where there is none",
            ["of"],
        )
        share.set(0.0 if limit is None else limit.share)
        most.labels("risk").set(_or_unlimited(None if limit is None else limit.risk))
        most.labels("added").set(_or_unlimited(None if limit is None else limit.added))
        _at_zero(self._decisions, BudgetReason)
        self.show_nobody()

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
        # The share as it was written: 0.07 of 100 people are 7, and not 7.000000000000001 as in floats.
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
    return math.inf if limit is None else limit


# What the crowd hides of each sensor's counts, and what it does to the ceilings, for metrics and page.

HOURS = 24
MOST_SIGMA = 99.9  # more than this is shown as this


@dataclass(frozen=True)
class HiddenLine:
    """One sensor by hour of the day: noise, in people, that would hide as much as the crowd did at its least.

    0 where nobody is hidden, None for an hour that has not come yet.
    """

    sensor: str
    sigmas: tuple[float | None, ...] = (None,) * HOURS


def adversary_of(settings: Settings | None) -> CrowdAdversary | None:
    """The crowd adversary of the settings; None where no ceilings against one are computed."""
    return settings.crowd_adversary if settings is not None and settings.has_crowd else None


def sigmas_of(event: StepClosed, adversary: CrowdAdversary | None) -> dict[str, float]:
    """Noise that would hide as much as the crowd does in this step, in people, by sensor."""
    if event.crowds is None or adversary is None:
        return {}
    from accounting.exposure.crowd import equivalent_sigma

    counting = (event.schedule if event.accounted is None else event.accounted).counting
    return {
        sensor.name: min(equivalent_sigma(crowd, adversary), MOST_SIGMA)
        for sensor, crowd in zip(counting, event.crowds, strict=True)
        if sensor.window is None
    }


def with_step(lines: Sequence[HiddenLine], sigmas: Mapping[str, float], hour: int) -> tuple[HiddenLine, ...]:
    """The lines after a step that began in this hour of the day: the least that was hidden then."""
    found = {line.sensor: line for line in lines}
    for name, sigma in sigmas.items():
        known = list(found.get(name, HiddenLine(name)).sigmas)
        before = known[hour]
        known[hour] = sigma if before is None else min(before, sigma)
        found[name] = HiddenLine(name, tuple(known))
    return tuple(found[name] for name in sorted(found))


def hour_of(step: int, settings: Settings) -> int:
    """The hour of the day, UTC, that a step begins in."""
    return (settings.origin_seconds + step * settings.step_seconds) // 3600 % HOURS


class CrowdMetrics:
    """Gauges of the ceilings in the crowd; +Inf where they are not computed."""

    def __init__(
        self, registry: CollectorRegistry, sensors: Sequence[Sensor], settings: Settings | None
    ) -> None:
        gauge = partial(Gauge, registry=registry)
        self._adversary = adversary_of(settings)
        self._mean = gauge(
            "tallyguard_crowd_risk_mean",
            "Mean ceiling against an adversary who does not know where the others are; +Inf if not computed",
        )
        self._added = gauge(
            "tallyguard_crowd_added_risk_mean",
            "Mean added risk against that adversary; +Inf if not computed",
        )
        self._at_risk = gauge(
            "tallyguard_people_at_crowd_risk",
            "People whose ceiling against that adversary is at or above the threshold; +Inf if not computed",
            ["threshold"],
        )
        self._sigma = gauge(
            "tallyguard_sensor_crowd_sigma",
            "Noise, in people, that would hide as much as the crowd in the sensor's count of the last step; "
            "0 if it hides nobody or no crowd is computed, +Inf if the sensor counted nothing",
            ["sensor"],
        )
        self._levels: tuple[str, ...] = ()
        self._sensors = tuple(sensor.name for sensor in sensors)
        for name in self._sensors:
            self._sigma.labels(name).set(0.0)

    def show_nobody(self, levels: Iterable[str]) -> None:
        """Before the first step, or where nobody is accounted."""
        self._levels = tuple(levels)
        self.accounted(None)

    def closed(self, event: StepClosed) -> None:
        """Show what the crowd hid; +Inf for a sensor without a count, which revealed nothing."""
        if event.crowds is None or self._adversary is None:
            return
        for name, sigma in (dict.fromkeys(self._sensors, inf) | sigmas_of(event, self._adversary)).items():
            self._sigma.labels(name).set(sigma)

    def accounted(self, summary: CrowdSummary | None) -> None:
        """What a step did to the ceilings; None where they are not computed."""
        self._mean.set(inf if summary is None else summary.mean_risk)
        self._added.set(inf if summary is None else summary.mean_added)
        for level in self._levels:
            people = inf if summary is None else _at(summary, level)
            self._at_risk.labels(level).set(people)


def _at(summary: CrowdSummary, level: str) -> float:
    return float(next((count for text, count in summary.at_risk.items() if float(text) == float(level)), 0))


# Metrics of how far priors can be trusted: refuted by a check, or by volunteers while the engine runs.


class PriorMetrics:
    """What real traces said of the priors; 0 everywhere where none were asked."""

    def __init__(self, registry: CollectorRegistry, check: PriorsVerdict | None) -> None:
        gauge = partial(Gauge, registry=registry)
        self._refuted = gauge(
            "tallyguard_priors_refuted",
            "1 where real traces refuted the priors as too low: found by priors_check, or by the panel",
            ["found_by"],
        )
        self._guesses = gauge(
            "tallyguard_panel_guesses",
            "Guesses about volunteers that were compared with their true places; counted in twenties",
        )
        self._evidence = gauge(
            "tallyguard_panel_evidence",
            "Evidence of volunteers against the priors: refuted from 1 / panel_level on; 0 without a panel",
        )
        self._refuted.labels("check").set(check is not None and check.is_too_low)
        self._refuted.labels("panel").set(0)

    def panel_checked(self, event: PanelChecked) -> None:
        """Twenty guesses more, or the beginning."""
        self._refuted.labels("panel").set(event.is_refuted)
        self._guesses.set(event.guesses)
        self._evidence.set(event.evidence)


LATENCY_BUCKETS_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


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
        self._delta = delta
        self._now_seconds = now_seconds
        self._view: PeopleView | None = None
        self._count_events(registry)
        self._budget = BudgetMetrics(registry, settings)
        self._priors = PriorMetrics(registry, None if settings is None else settings.priors_check)
        self._crowd = CrowdMetrics(registry, sensors, settings)
        self._figures = View(About.of(settings) if settings else ABOUT_NOTHING)
        self._show_state(registry)
        self._show_noise(registry, sensors, () if settings is None else tuple(settings.release.tiers))
        self._show_risks(registry, [label(level) for level in thresholds])
        _show_build(registry)
        if settings is not None:
            _show_configuration(registry, settings)

    def _count_events(self, registry: CollectorRegistry) -> None:
        counter = partial(Counter, registry=registry)
        self._readings = counter(
            "tallyguard_readings",
            "Readings by outcome; duplicate: sent again, with the same or another count",
            ["outcome"],
        )
        self._rejected = counter(
            "tallyguard_rejected",
            "Messages sent to the dead letters, by reason; readings that were sent again do not count",
            ["reason"],
        )
        self._steps = counter("tallyguard_steps_closed", "Steps closed and published")
        self._releases = counter(
            "tallyguard_releases",
            "Sensor-steps released, by mechanism; a missing reading is released as nothing (suppressed)",
            ["mechanism"],
        )
        self.person_steps = counter("tallyguard_person_steps", "Steps accounted, times people")
        self._latency = Histogram(
            "tallyguard_step_latency_seconds",
            "From the message that closed a step to its durable release and risks",
            buckets=LATENCY_BUCKETS_SECONDS,
            registry=registry,
        )
        _at_zero(self._readings, Outcome)
        _at_zero(self._rejected, (reason for reason in Reason if reason not in PRIVATE_REASONS))
        _at_zero(self._releases, MECHANISMS)

    def _show_state(self, registry: CollectorRegistry) -> None:
        gauge = partial(Gauge, registry=registry)
        self._people = gauge("tallyguard_people", "People whose risk is accounted")
        self._assumed = gauge(
            "tallyguard_habits_assumed",
            "1 where habits of people are assumed, not measured: their risks hold for such habits only",
        )
        self.lag = gauge("tallyguard_accountant_lag_steps", "Steps seen but not yet closed and accounted")
        self._last_step = gauge("tallyguard_last_step", "The last closed step")
        self._running = gauge("tallyguard_running", "1 while steps are being closed, 0 before and after")
        self._progress = gauge(
            "tallyguard_last_progress_timestamp_seconds",
            "When the last step was closed, or the run started; unix seconds",
        )
        self._clock_off = gauge(
            "tallyguard_clock_off_seconds",
            "With grace_seconds: seconds the clock is ahead (jump ignored) or behind (steps wait); else 0",
            ["direction"],
        )
        self.clock_read(ClockOff())

    def _show_risks(self, registry: CollectorRegistry, levels: Sequence[str]) -> None:
        gauge = partial(Gauge, registry=registry)
        self._at_risk = gauge(
            "tallyguard_people_at_risk",
            "People whose certified reconstruction risk is at or above the threshold",
            ["threshold"],
        )
        self._at_added = gauge(
            "tallyguard_people_added_risk",
            "People whose added risk is at or above the threshold",
            ["threshold"],
        )
        self._risk = gauge(
            "tallyguard_risk_quantile",
            "Certified reconstruction risk: this share of people is at or below",
            ["quantile"],
        )
        self._added = gauge(
            "tallyguard_added_risk_quantile",
            "Risk added by the releases: this share of people is at or below",
            ["quantile"],
        )
        self._baseline = gauge(
            "tallyguard_baseline_quantile",
            "Success of the best guess without any release: this share of people is at or below",
            ["quantile"],
        )
        self._means = {
            "risk": gauge("tallyguard_risk_mean", "Mean certified risk over people"),
            "added": gauge("tallyguard_added_risk_mean", "Mean risk added by the releases"),
            "baseline": gauge(
                "tallyguard_baseline_mean", "Mean success of the best guess without any release"
            ),
        }
        self._attack = {
            end: gauge(f"tallyguard_attack_mean{name}", f"{words}; +Inf where none was measured")
            for end, name, words in (
                ("success", "", "Mean success of the attack tried on simulated people"),
                ("low", "_low", "Lower end of the interval of the mean attack"),
                ("high", "_high", "Upper end of the interval of the mean attack"),
            )
        }
        self._most = {
            "risk": gauge(
                "tallyguard_highest_risk", "Highest certified risk of any person at any step so far"
            ),
            "added": gauge(
                "tallyguard_highest_added_risk", "Highest added risk of any person at any step so far"
            ),
        }
        self._headline = gauge(
            "tallyguard_headline",
            "The headline of page, report and terminal: mean guess, attack, ceiling and added risk over "
            "people at the step where releases added most since this process started; +Inf where none was "
            "measured",
            ["figure"],
        )
        self._headline_step = gauge("tallyguard_headline_step", "The step that the headline is of")
        self._not_reached = gauge(
            "tallyguard_people_not_reached",
            "People for whom only the fast, larger bound was computed because the work of the step "
            "(sharpen_operations) was spent",
        )
        self._levels = levels
        self._show_nobody()

    def _show_nobody(self) -> None:
        """The risks of no people at all."""
        for gauge in (self._at_risk, self._at_added):
            _set_all(gauge, dict.fromkeys(self._levels, 0.0))
        for gauge in (self._risk, self._added, self._baseline):
            _set_all(gauge, dict.fromkeys(map(label, QUANTILES), 0.0))
        means, most = self._means.values(), self._most.values()
        for gauge in (*means, *most, *self._attack.values(), self._not_reached, self._headline_step):
            gauge.set(0.0)
        for name in HEADLINE:
            self._headline.labels(name).set(0.0)
        self._budget.show_nobody()
        self._crowd.show_nobody(self._levels)
        for name in self._sensors:
            self._step_information.labels(name).set(0.0)

    def _show_noise(
        self, registry: CollectorRegistry, sensors: Sequence[Sensor], tiers: Sequence[str]
    ) -> None:
        gauge = partial(Gauge, registry=registry)
        self._rho = gauge(
            "tallyguard_dp_rho",
            "zCDP rho spent since the log began, adding or removing one person: the unit of privacy is the "
            "whole log; +Inf after a raw count",
            ["group"],
        )
        self._epsilon = gauge(
            "tallyguard_dp_epsilon",
            "Differential-privacy epsilon certified at the deployment's delta: the unit of privacy is the "
            "whole log; +Inf: nothing is promised",
            ["group"],
        )
        self._error = gauge(
            "tallyguard_published_error_expected",
            "Expected absolute error, from the noise alone, in people, of what the sensor published in the "
            "last step; with tiers, of the value that everybody may read; +Inf where it published nothing",
            ["sensor"],
        )
        self._tier_error = gauge(
            "tallyguard_tier_error_expected",
            "Expected absolute error of what a tier of recipients last read of the sensor, in people",
            ["sensor", "tier"],
        )
        self._step_information = gauge(
            "tallyguard_sensor_information_bits",
            "Bits that the sensor's release of the last step, taken alone, reveals about where an average "
            "person is; 0 where it released nothing",
            ["sensor"],
        )
        self._sensors = frozenset(sensor.name for sensor in sensors)
        self._account = PrivacyAccount(sensor.group for sensor in sensors)
        _at_zero(self._rho, self._account.spends)
        _at_zero(self._epsilon, self._account.spends)
        for sensor in sensors:
            for tier in tiers:
                self._tier_error.labels(sensor.name, tier)
        self._forget_errors()

    def _forget_errors(self) -> None:
        """Before the first step."""
        for name in self._sensors:
            self._error.labels(name).set(0.0)

    def started(self, event: RunStarted) -> None:
        """People are loaded; the log continues after its last step."""
        self._people.set(event.people)
        self._view = event.view
        self._assumed.set(event.view is not None and event.view.assumed is not None)
        self._running.set(1)
        self._progress.set(self._now_seconds())

    def carried(self, account: PrivacyAccount) -> None:
        """Earlier runs have spent this in all; go on from there."""
        self._account = PrivacyAccount.load(account.save())
        self._show_spent(group for group, spend in account.spends.items() if spend != ZcdpSpend())

    def stopped(self, event: RunStopped) -> None:
        """No more steps will be closed."""
        self._running.set(0)

    def received(self, outcome: Outcome, readings: int = 1) -> None:
        """Count readings."""
        self._readings.labels(outcome.value).inc(readings)

    def rejected(self, reason: Reason) -> None:
        """Count a dead letter."""
        self._rejected.labels(reason.value).inc()

    def clock_read(self, off: ClockOff) -> None:
        """Show whether the clock is followed."""
        self._clock_off.labels("ahead").set(off.ahead_seconds)
        self._clock_off.labels("behind").set(off.behind_seconds)

    def panel_checked(self, event: PanelChecked) -> None:
        """Show what volunteers say of the priors."""
        self._priors.panel_checked(event)

    def closed(self, event: StepClosed) -> None:
        """A step is durable: count it, and show what it did to the risks."""
        self._last_step.set(event.step)
        self.lag.set(event.lag_steps)
        self._people.set(event.people)
        self._charge(event.schedule)
        self._show_budget(event)
        self._show_errors(event)
        self._show_information(event.schedule)
        self._crowd.closed(event)
        if event.summary is not None:
            self._show_summary(event.summary)
            self._show_headline(event.summary)
        if not event.is_replayed:
            self._count_step(event)

    def _count_step(self, event: StepClosed) -> None:
        self._steps.inc()
        self._progress.set(self._now_seconds())
        self._latency.observe(event.latency_seconds)
        self.person_steps.inc(event.people)
        for release in event.schedule.releases:
            missing = release.sensor.name in event.missing
            self._releases.labels("suppressed" if missing else release.mechanism.name).inc()

    def _show_budget(self, event: StepClosed) -> None:
        """Who is over the limit: the forecast of the decision, and what the accounts say."""
        if event.why is not None:
            self._budget.decided(event.why, is_replayed=event.is_replayed)
        if self._view is not None:
            self._budget.accounted(self._view)

    def _show_errors(self, event: StepClosed) -> None:
        """Of each sensor whose step this is; infinite where it published nothing: 0 is a raw count."""
        errors = dict.fromkeys(self._sensors if event.sensors is None else event.sensors, inf)
        for release in event.schedule.releases:
            if release.mechanism.is_released and release.sensor.name not in event.missing:
                errors[release.sensor.name] = public_error(release.mechanism)
                for tier, error in errors_of_recipients(release.mechanism).items():
                    self._tier_error.labels(release.sensor.name, tier).set(error)
        for name, error in errors.items():
            self._error.labels(name).set(error)

    def _show_information(self, schedule: StepSchedule) -> None:
        if self._view is not None:
            found = dict.fromkeys(self._sensors, 0.0) | self._view.sensor_information_bits(schedule)
            for sensor, bits in found.items():
                self._step_information.labels(sensor).set(bits)

    def _charge(self, schedule: StepSchedule) -> None:
        self._show_spent(self._account.charge(schedule))

    def _show_spent(self, groups: Iterable[str]) -> None:
        for group in groups:
            spend = self._account.spends[group]
            self._rho.labels(group).set(spend.rho_value())
            self._epsilon.labels(group).set(spend.epsilon(self._delta))

    def _show_headline(self, summary: RiskSummary) -> None:
        if not summary.people:
            return
        self._figures.note(Moment.of(summary))
        for each in self._figures.group("headline"):
            if each.kind.name in HEADLINE:
                self._headline.labels(each.kind.name).set(inf if each.value is None else each.value)
            self._headline_step.set(each.over.last)

    def _show_summary(self, summary: RiskSummary) -> None:
        _set_all(self._at_risk, summary.at_risk)
        _set_all(self._at_added, summary.at_added_risk)
        _set_all(self._risk, summary.risk)
        _set_all(self._added, summary.added)
        _set_all(self._baseline, summary.baseline)
        self._means["risk"].set(summary.mean_risk)
        self._means["added"].set(summary.mean_added)
        self._means["baseline"].set(summary.mean_baseline)
        for end, gauge in self._attack.items():
            gauge.set(getattr(summary.attack, end, inf) if summary.people else 0.0)
        self._most["risk"].set(summary.most_risk or 0.0)
        self._most["added"].set(summary.most_added or 0.0)
        self._not_reached.set(summary.not_reached)
        self._crowd.accounted(summary.crowd)


def _show_build(registry: CollectorRegistry) -> None:
    labels = {"version": own_version(), "python": platform.python_version()}
    text = "Constant 1; the labels say what is running"
    Gauge("tallyguard_build_info", text, list(labels), registry=registry).labels(**labels).set(1)


def _show_configuration(registry: CollectorRegistry, settings: Settings) -> None:
    gauge = partial(Gauge, registry=registry)
    gauge("tallyguard_step_seconds", "Configured length of a step").set(settings.step_seconds)
    partitions = gauge(
        "tallyguard_partitions_configured",
        "Partitions of people that the account workers share; 0 without Kafka",
    )
    partitions.set(settings.kafka.partitions if settings.kafka.servers else 0)
    shown = {
        "deployment": settings.deployment,
        "horizon": str(settings.horizon),
        "mistakes": str(settings.mistakes),
        "delta": f"{settings.delta:g}",
    }
    text = "Constant 1; the labels say what the risks refer to"
    gauge("tallyguard_config_info", text, list(shown)).labels(**shown).set(1)


HEADLINE = ("guess", "attack", "ceiling", "added")
"""The figures of the headline that are metrics."""


def label(number: float | str) -> str:
    """A threshold or quantile as a label: the shortest decimal form, 0.5 and 1."""
    return f"{float(number):g}"


def _set_all(gauge: Gauge, values: Mapping[str, float] | Mapping[str, int]) -> None:
    for key, value in values.items():
        gauge.labels(label(key)).set(value)


def _at_zero(metric: Counter | Gauge, values: Iterable[str]) -> None:
    for value in values:
        metric.labels(str(value))
