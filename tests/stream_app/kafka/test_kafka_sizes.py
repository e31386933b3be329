"""Ten thousand sensors fit in every record, and a deployment that outgrows one is told before it starts."""

from __future__ import annotations

import json

import pytest

from accounting.decisions.step_decision import most_candidates
from accounting.exposure.crowd import SensorCrowd
from models.mechanisms import Gaussian, Tiered
from models.releases import SensorRegistry, SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.deployment.deployment import (
    largest_bytes,
    largest_crowd_answer_bytes,
    largest_proposal_bytes,
    largest_request_bytes,
    require_record_sizes,
)
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, policy_from
from stream_app.steps.policy.proposals import CrowdAnswer, CrowdQuestion, Negotiation, Source
from stream_app.wire.messages import MAX_COUNT, Activation, SensorValue, StepRelease, decision_of

TOPICS = Topics("city.", tiers=("partner", "public"), has_revised=True)


def registry(count: int, name: str = "sensor at the corner {}") -> SensorRegistry:
    return SensorRegistry.one_per_location([name.format(number) for number in range(count)])


@pytest.mark.slow
def test_ten_thousand_sensors_in_one_step_fit_in_every_record() -> None:
    sizes = largest_bytes(registry(10_000), TOPICS, Settings())
    assert max(sizes.values()) <= LARGE_BYTES
    require_record_sizes(registry(10_000), TOPICS, Settings())
    for topic in sizes:
        assert TOPICS.plan(topic).configuration["max.message.bytes"] == str(LARGE_BYTES)


def test_real_records_are_never_larger_than_what_is_reckoned_with() -> None:
    sensors = registry(300, "näher {}").sensors
    names = tuple(sensor.name for sensor in sensors)
    sizes = largest_bytes(registry(300, "näher {}"), TOPICS, Settings())
    tiered = Tiered((("partner", 1.0 / 3.0), ("public", 0.1 / 3.0)))
    for mechanism in (Gaussian(1.0 / 3.0), tiered):
        schedule = StepSchedule(10**9, tuple(SensorRelease(sensor, mechanism) for sensor in sensors))
        assert len(decision_of(schedule).line()) <= sizes[TOPICS.decisions]
    values = tuple(
        SensorValue(sensor=name, mechanism="gaussian", sigma=1.0 / 3.0, value=-(10**15)) for name in names
    )
    assert len(StepRelease(step=10**9, releases=values).line()) <= sizes[TOPICS.releases]
    assert len(Activation(v=1, step=10**9, sensors=names).line()) <= sizes[TOPICS.activations]
    step = {"step": 10**9, "sensors": names, "counts": dict.fromkeys(names, MAX_COUNT), "waiting": {}}
    assert len(json.dumps(step)) <= sizes[TOPICS.progress]


def budget_settings(look_ahead: int) -> Settings:
    budget = {"added": 0.3, "look_ahead": look_ahead}
    return Settings.model_validate({"release": {"mechanism": "budget", "budget": budget}})


@pytest.mark.slow
def test_a_question_about_ten_thousand_sensors_fits_and_is_never_larger_than_reckoned() -> None:
    sensors, settings = registry(10_000), budget_settings(0)
    policy = policy_from(settings.release, sensors)
    assert isinstance(policy, BudgetPolicy)
    names = [sensor.name for sensor in sensors.sensors]
    decider = policy.decider(0, names)
    proposal = Negotiation(decider, policy.limit, 4, source=Source(deployment="d", session="s")).proposal
    assert proposal is not None
    widest = proposal.model_copy(
        update={"candidates": (proposal.candidates[0],) * most_candidates(len(names))}
    )
    assert 2**20 < len(widest.line()) <= largest_proposal_bytes(sensors, settings) <= LARGE_BYTES
    require_record_sizes(sensors, TOPICS, settings)


def test_sums_of_a_crowd_are_reckoned_with_and_too_many_are_refused_before_the_start() -> None:
    """The answer of a partition, and the decision with its totals."""
    settings = Settings.model_validate({"crowd": {"on": True}})
    crowd = SensorCrowd((-(2**62) - 1,) * len(SensorCrowd().units))
    sensors = registry(300, "näher {}")
    step = StepSchedule(10**9, tuple(SensorRelease(each, Gaussian(1.0 / 3.0)) for each in sensors.sensors))
    logged = decision_of(step, crowds=(crowd,) * 300).line()
    without = largest_bytes(sensors, TOPICS, Settings())[TOPICS.decisions]
    assert without < len(logged) <= largest_bytes(sensors, TOPICS, settings)[TOPICS.decisions]
    question = CrowdQuestion(
        source=Source(deployment="d", session="s"),
        step=10**9,
        sensors=tuple(each.name for each in sensors.sensors),
    )
    answer = CrowdAnswer.of(question, 10**6, ((crowd,) * 300,))
    assert len(answer.line()) <= largest_crowd_answer_bytes(sensors, settings)
    assert largest_crowd_answer_bytes(sensors, Settings()) == 0
    require_record_sizes(registry(2_500), TOPICS, settings)
    with pytest.raises(SettingsError, match=r"at most 1048576 bytes, got up to .*; turn crowd\.on off"):
        require_record_sizes(registry(10_000), TOPICS, settings)


@pytest.mark.slow
def test_a_question_that_would_outgrow_a_record_is_refused_before_the_start() -> None:
    with pytest.raises(SettingsError, match=r"at most 16777216 bytes .*; lower release\.budget\.look_ahead"):
        require_record_sizes(registry(10_000), TOPICS, budget_settings(100))


@pytest.mark.slow
def test_more_sensors_than_a_record_holds_are_refused_with_the_limit_and_what_to_do() -> None:
    with pytest.raises(
        SettingsError, match=r"at most 16777216 bytes \(max\.message\.bytes\).*shorten the names"
    ):
        require_record_sizes(registry(40_000, "x" * 240 + "{}"), TOPICS, Settings())


def test_a_request_does_not_grow_with_the_partitions_of_people() -> None:
    """A decision is written once, whoever follows it."""
    settings = Settings()
    sizes = largest_bytes(registry(300), TOPICS, settings)
    few, many = (
        largest_request_bytes(registry(300), Topics("city.", partitions, tiers=TOPICS.tiers), settings)
        for partitions in (1, 50)
    )
    assert few == many > sizes[TOPICS.decisions] + 3 * sizes[TOPICS.releases]


@pytest.mark.slow
def test_a_question_to_every_partition_counts_where_it_is_larger() -> None:
    topics, settings = Topics(partitions=8), budget_settings(24)
    question_bytes = 8 * largest_proposal_bytes(registry(10_000), settings)
    assert largest_request_bytes(registry(10_000), topics, settings) == question_bytes


@pytest.mark.slow
def test_fifty_thousand_sensors_with_names_of_twenty_characters_fit_without_splitting() -> None:
    topics = Topics(tiers=("partner", "public"))
    require_record_sizes(registry(50_000, "corner of str. {:05d}"), topics, Settings())
