"""Metrics: the documented names, all there from the start, bounded, and never a person among them."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from accounting.decisions import BudgetReason
from models.mechanisms import MECHANISMS, Tiered, parse
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.worker_metrics import AccountMetrics, IntakeMetrics
from stream_app.setup.settings import Settings
from stream_app.steps import ClosedStep
from stream_app.watching.events import RunStarted, StepClosed
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.people import PeopleView
from stream_app.watching.web import StatusBoard
from stream_app.wire.messages import (
    PRIVATE_REASONS,
    DecisionReason,
    Outcome,
    Reason,
    SampledRisks,
    StepRelease,
)
from tests.stream_app.events_for_tests import GAUSSIAN, SENSORS, STATION, closed, summary

THRESHOLDS = (0.01, 0.5)
QUANTILES = {"0.5", "0.9", "0.99", "1"}
LABELS = {  # the contract: name, label and every value it may have
    "tallyguard_readings_total": ("outcome", {outcome.value for outcome in Outcome}),
    "tallyguard_rejected_total": ("reason", {reason.value for reason in set(Reason) - PRIVATE_REASONS}),
    "tallyguard_steps_closed_total": ("", {""}),
    "tallyguard_releases_total": ("mechanism", set(MECHANISMS)),
    "tallyguard_people": ("", {""}),
    "tallyguard_person_steps_total": ("", {""}),
    "tallyguard_people_at_risk": ("threshold", {"0.01", "0.5"}),
    "tallyguard_people_added_risk": ("threshold", {"0.01", "0.5"}),
    "tallyguard_risk_quantile": ("quantile", QUANTILES),
    "tallyguard_added_risk_quantile": ("quantile", QUANTILES),
    "tallyguard_baseline_quantile": ("quantile", QUANTILES),
    "tallyguard_dp_epsilon": ("group", {"all", "public", "homes"}),
    "tallyguard_dp_rho": ("group", {"all", "public", "homes"}),
    "tallyguard_published_error_expected": ("sensor", {sensor.name for sensor in SENSORS}),
    "tallyguard_accountant_lag_steps": ("", {""}),
    "tallyguard_last_step": ("", {""}),
    "tallyguard_attack_mean": ("", {""}),
    "tallyguard_attack_mean_low": ("", {""}),
    "tallyguard_attack_mean_high": ("", {""}),
    "tallyguard_people_not_reached": ("", {""}),
    "tallyguard_sampled_added_risk": ("", {""}),
    "tallyguard_people_within_limit_sampled": ("", {""}),
    "tallyguard_headline": ("figure", {"guess", "attack", "ceiling", "added"}),
    "tallyguard_headline_step": ("", {""}),
    "tallyguard_highest_risk": ("", {""}),
    "tallyguard_highest_added_risk": ("", {""}),
}


class Watched:
    """Metrics of three sensors in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.metrics = EngineMetrics(self.registry, SENSORS, THRESHOLDS, delta=1e-6)

    def value(self, name: str, label: str = "") -> float:
        """One sample."""
        key = LABELS[name][0] if name in LABELS else ""
        found = self.registry.get_sample_value(name, {key: label} if key else {})
        assert found is not None, (name, label)
        return found

    def children(self) -> dict[str, set[str]]:
        """Label values of every exposed metric, as Prometheus would read them."""
        text = generate_latest(self.registry).decode()
        found: dict[str, set[str]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                found.setdefault(sample.name, set()).add(next(iter(sample.labels.values()), ""))
        return found


@pytest.fixture
def watched() -> Watched:
    """Fresh metrics."""
    return Watched()


def test_every_documented_metric_is_there_at_zero_from_the_start(watched: Watched) -> None:
    """Before anything happened each child exists with value 0, so the first event is seen as a change."""
    children = watched.children()
    for name, (_, values) in LABELS.items():
        assert children[name] == values, name
        assert all(watched.value(name, value) == 0.0 for value in values), name
    assert watched.value("tallyguard_step_latency_seconds_count") == 0.0
    assert "tallyguard_build_info" in children


def test_a_closed_step_is_counted_and_its_risks_shown(watched: Watched) -> None:
    """Counters move by what the step held; gauges take the summary's figures."""
    watched.metrics.started(RunStarted(people=200, next_step=0))
    watched.metrics.closed(closed(0))
    watched.metrics.closed(closed(1))
    assert watched.value("tallyguard_steps_closed_total") == 2
    assert watched.value("tallyguard_person_steps_total") == 400
    assert watched.value("tallyguard_releases_total", "gaussian") == 2
    assert watched.value("tallyguard_releases_total", "suppressed") == 4  # two suppressed, two missing
    assert watched.value("tallyguard_people_at_risk", "0.5") == 7
    assert watched.value("tallyguard_people_added_risk", "0.01") == 90
    assert watched.value("tallyguard_risk_quantile", "1") == 0.97
    assert watched.value("tallyguard_added_risk_quantile", "0.9") == 0.2
    assert watched.value("tallyguard_baseline_quantile", "0.99") == 0.2
    assert watched.value("tallyguard_last_step") == 1
    assert watched.value("tallyguard_highest_added_risk") == 0.66
    ends = [watched.value(f"tallyguard_attack_mean{end}") for end in ("", "_low", "_high")]
    assert ends == [0.06, 0.05, 0.08]
    assert watched.value("tallyguard_accountant_lag_steps") == 2
    assert watched.value("tallyguard_step_latency_seconds_count") == 2


def test_an_attack_that_was_not_measured_is_no_number(watched: Watched) -> None:
    """Infinite, so that nobody takes it for none; and nobody's attack is nobody's."""
    event = closed(0)
    without = summary(0).model_copy(update={"attack": None})
    watched.metrics.closed(replace(event, summary=without))
    assert watched.value("tallyguard_attack_mean") == watched.value("tallyguard_attack_mean_low") == math.inf
    watched.metrics.closed(replace(event, summary=without.model_copy(update={"people": 0})))
    assert watched.value("tallyguard_attack_mean") == 0.0


def test_what_sampling_says_of_the_most_exposed_is_shown_and_said(watched: Watched) -> None:
    """Beside the rule's figures; infinite, and no sentence, where nobody is looked at."""
    found = SampledRisks(confidence=0.95, people=3, most_added=0.0412, within_limit=2)
    event = closed(0)
    assert event.summary is not None
    sampled = replace(event, summary=event.summary.model_copy(update={"sampled": found}))
    board = StatusBoard(delta=1e-6)
    for each, most, within in ((event, math.inf, math.inf), (sampled, 0.0412, 2)):
        watched.metrics.closed(each)
        assert watched.value("tallyguard_sampled_added_risk") == most
        assert watched.value("tallyguard_people_within_limit_sampled") == within
        board.closed(each)
        said = board.read().decision or ""
        assert ("by sampling" in said) == (each is sampled)
    assert said.endswith(
        "If habits are as the priors say, against whoever knows where everybody else is, and with 95% "
        "confidence by sampling 3 people: releases add at most 5 in 100 to anybody's risk now, and 2 of "
        "those over the limit because of releases are within it."
    )


def test_readings_and_dead_letters_are_counted_by_outcome_and_reason(watched: Watched) -> None:
    """One event, one count, under its own label."""
    watched.metrics.received(Outcome.DUPLICATE)
    watched.metrics.rejected(Reason.LATE_READING)
    watched.metrics.rejected(Reason.LATE_READING)
    assert watched.value("tallyguard_readings_total", "duplicate") == 1
    assert watched.value("tallyguard_rejected_total", "late_reading") == 2
    assert watched.value("tallyguard_rejected_total", "not_json") == 0


def test_steps_walked_over_again_after_a_restart_are_no_new_events(watched: Watched) -> None:
    """A replayed step brings risk and privacy spend back, and counts nothing twice."""
    watched.metrics.closed(closed(0, is_replayed=True))
    assert watched.value("tallyguard_steps_closed_total") == 0
    assert watched.value("tallyguard_releases_total", "gaussian") == 0
    assert watched.value("tallyguard_people_at_risk", "0.01") == 120
    assert watched.value("tallyguard_dp_rho", "public") == 1 / 8


def test_the_privacy_spend_grows_by_group_and_raw_is_infinite(watched: Watched) -> None:
    """Two steps at sigma 2 cost 1/8 each; a raw count costs infinity, in its group and over all."""
    watched.metrics.closed(closed(0))
    watched.metrics.closed(closed(1))
    for group in ("public", "homes", "all"):
        assert watched.value("tallyguard_dp_rho", group) == 1 / 4
        assert 0 < watched.value("tallyguard_dp_epsilon", group) < 10
    raw = StepSchedule(2, (SensorRelease(STATION, parse("raw", {})),))
    watched.metrics.closed(StepClosed(2, raw, {"station": 40}, (), 200, summary(2), 0.001, 0))
    assert math.isinf(watched.value("tallyguard_dp_epsilon", "public"))
    assert math.isinf(watched.value("tallyguard_dp_rho", "all"))
    assert watched.value("tallyguard_dp_rho", "homes") == 1 / 4


def test_the_expected_error_is_that_of_the_last_step(watched: Watched) -> None:
    """Who published nothing has no error: infinite, never NaN, and never a figure of an earlier step."""
    watched.metrics.closed(closed(0))
    error = watched.value("tallyguard_published_error_expected", "station")
    assert error == GAUSSIAN.expected_absolute_error() > 1.5
    for sensor in ("mill street", "school"):  # missing, and suppressed
        assert watched.value("tallyguard_published_error_expected", sensor) == math.inf
    off = replace(closed(1), schedule=StepSchedule(1, ()), published={}, missing=())
    for event in (off, replace(closed(2), missing=("station",), published={})):
        watched.metrics.closed(closed(1))
        assert watched.value("tallyguard_published_error_expected", "station") == error
        watched.metrics.closed(event)
        assert watched.value("tallyguard_published_error_expected", "station") == math.inf
    raw = StepSchedule(3, (SensorRelease(STATION, parse("raw", {})),))
    watched.metrics.closed(replace(closed(3), schedule=raw, missing=()))
    assert watched.value("tallyguard_published_error_expected", "station") == 0


def test_a_region_speaks_of_its_own_sensors_and_those_of_one_that_is_gone_are_forgotten() -> None:
    """A step of one region says nothing of another's sensors; a worker that loses one shows it no more."""
    registry = CollectorRegistry()
    metrics = IntakeMetrics(registry, SENSORS, (0.01, 0.5), 1e-6)

    def errors() -> list[float | None]:
        name = "tallyguard_published_error_expected"
        return [registry.get_sample_value(name, {"sensor": sensor.name}) for sensor in SENSORS]

    error = GAUSSIAN.expected_absolute_error()
    metrics.closed(replace(closed(0), sensors=frozenset({"station", "school"})))
    assert errors() == [error, math.inf, 0.0]
    street = StepSchedule(0, (SensorRelease(SENSORS[2], GAUSSIAN),))
    metrics.closed(replace(closed(0), schedule=street, missing=(), sensors=frozenset({"mill street"})))
    assert errors() == [error, math.inf, error]
    metrics.started(RunStarted(0, 1))
    assert errors() == [0.0, 0.0, 0.0]


def test_a_sensor_that_is_switched_off_reveals_nothing() -> None:
    """Its bits are those of the last step, and gone with the people they were about."""
    registry = CollectorRegistry()
    metrics = AccountMetrics(registry, SENSORS, (0.01, 0.5), 1e-6)
    bits = {"station": 1.5}
    view = cast(PeopleView, SimpleNamespace(sensor_information_bits=lambda schedule: bits, assumed=None))

    def shown() -> float | None:
        return registry.get_sample_value("tallyguard_sensor_information_bits", {"sensor": "station"})

    metrics.started(RunStarted(people=200, next_step=0, view=view))
    metrics.closed(closed(0))
    assert shown() == 1.5
    bits = {"school": 0.5}
    metrics.closed(closed(1))
    assert shown() == 0
    bits = {"station": 1.5}
    metrics.closed(closed(2))
    metrics.started(RunStarted(people=0, next_step=3))
    assert shown() == 0


def test_the_error_of_a_tiered_count_is_that_of_the_value_everybody_reads() -> None:
    """The partner's 0.85 stood beside a public value that is off by ten; each recipient has a figure."""
    own = {"public": 0.1, "partner": 1.0}
    watched, tiered = Watched(), Tiered(tuple(own.items()))
    settings = Settings.model_validate({"release": {"mechanism": "tiered", "tiers": own}})
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry, SENSORS, THRESHOLDS, delta=1e-6, settings=settings)
    labels = [{"sensor": sensor.name, "tier": tier} for sensor in SENSORS for tier in own]
    assert [registry.get_sample_value("tallyguard_tier_error_expected", each) for each in labels] == [0.0] * 6
    step = StepSchedule(0, (SensorRelease(STATION, tiered),))
    event = StepClosed(0, step, {"station": 41}, (), 200, summary(0), 0.001, 0)
    for each in (watched.metrics, metrics):
        each.closed(event)
    public = watched.value("tallyguard_published_error_expected", "station")
    assert public == pytest.approx(9.98, abs=0.01)
    shown = [registry.get_sample_value("tallyguard_tier_error_expected", each) for each in labels[:2]]
    assert shown == [public, pytest.approx(0.851, abs=0.001)]
    board = StatusBoard(SENSORS)
    board.closed(event)
    (line,) = board.read().releases
    assert line.error == public
    assert line.tiers == {"public": public, "partner": pytest.approx(0.851, abs=0.001)}


def test_no_person_and_nothing_unbounded_is_ever_a_label(watched: Watched) -> None:
    """After many steps with many people the exposed children are those of the start, and no value is NaN."""
    before = watched.children()
    for step in range(30):
        watched.metrics.closed(closed(step, people=10_000))
        for reason in set(Reason) - PRIVATE_REASONS:
            watched.metrics.rejected(reason)
    assert watched.children() == before
    text = generate_latest(watched.registry).decode().lower()
    assert "nan" not in text
    assert "person=" not in text
    assert "pseudonym" not in text


def test_an_account_worker_that_stands_by_shows_nobody_and_does_not_run() -> None:
    """Its partitions were taken: neither their risks nor a lag stay behind, and nothing calls it stuck."""
    registry = CollectorRegistry()
    metrics = AccountMetrics(registry, SENSORS, (0.01, 0.5), 1e-6)
    view = cast(PeopleView, SimpleNamespace(sensor_information_bits=lambda schedule: {}, assumed=None))
    metrics.started(RunStarted(people=200, next_step=0, view=view))
    metrics.lag.set(7)
    metrics.closed(closed(0))
    assert registry.get_sample_value("tallyguard_running") == 1
    assert registry.get_sample_value("tallyguard_risk_mean") == 0.11
    metrics.started(RunStarted(people=0, next_step=0))
    for name in ("running", "people", "risk_mean", "added_risk_mean", "accountant_lag_steps"):
        assert registry.get_sample_value(f"tallyguard_{name}") == 0, name
    for name, labels in (
        ("people_at_risk", {"threshold": "0.01"}),
        ("added_risk_quantile", {"quantile": "0.99"}),
    ):
        assert registry.get_sample_value(f"tallyguard_{name}", labels) == 0, name


def test_the_release_worker_counts_what_settled_its_decisions() -> None:
    """Above all those that nobody answered for in time."""
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry, SENSORS, (0.5,), 1e-6)
    settled = {"because": "no_answer"}
    assert registry.get_sample_value("tallyguard_decisions_total", settled) == 0
    counts = dict.fromkeys(("people", "allowed", "natural", "over", "cleared", "rounds"), 0)
    why = DecisionReason(reason=BudgetReason.NO_ANSWER, **counts)
    release = StepRelease(step=0, releases=())
    step = ClosedStep(StepSchedule(0, ()), release, (), None, (), why=why)
    metrics.closed(step.event())
    assert registry.get_sample_value("tallyguard_decisions_total", settled) == 1
