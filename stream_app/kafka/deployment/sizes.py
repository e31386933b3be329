"""How large records can become, and whether the broker takes them: looked at before a worker starts.

The largest records name every sensor of the deployment in one step. They are made from the messages
themselves, with the longest numbers there can be, so that no arithmetic is kept beside the formats.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from accounting.decisions import OPTIONS_A_ROUND
from models.mechanisms import MECHANISMS
from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES, Topics
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, policy_from
from stream_app.steps.policy.crowd_sums import CrowdAnswer
from stream_app.steps.policy.proposals import Option, SensorOptions
from stream_app.wire import (
    CROWD_SUMS,
    MAX_COUNT,
    MAX_STEP,
    MAX_VERSION,
    Activation,
    SensorDecision,
    SensorValue,
    StepDecision,
    StepRelease,
)

ENVELOPE_BYTES = 4096
"""Key, headers and what a decision says of its reason, at most."""

_LONGEST = -2.2250738585072014e-308
_LOWEST = -(2**63)
_SUMS = (_LOWEST,) * CROWD_SUMS
_SOURCE = "r" * 249 + ":" + str(2**63)
_LONGEST_NAME = max(MECHANISMS, key=len)
_FIELDS = ("sigma", "epsilon", "design", "position")
_PARAMETERS = max(
    _FIELDS, *(kind.parameter_names for kind in MECHANISMS.values()), key=lambda names: len(repr(names))
)


def largest_bytes(
    registry: SensorRegistry, topics: Topics, settings: Settings | None = None
) -> Mapping[str, int]:
    """The largest record of each topic that names sensors, with every sensor active in one step."""
    names = tuple(sensor.name for sensor in registry.sensors)
    in_crowd = settings is not None and settings.has_crowd
    sizes = {
        topics.activations: len(Activation(v=1, step=MAX_STEP, sensors=names).line()),
        topics.releases: len(_release(names).line()),
        topics.decisions: len(_decision(names, topics.tiers, in_crowd=in_crowd).line()),
        topics.progress: max(len(_announced(registry)), len(_waiting(names))),
    }
    if topics.regions:
        sizes[topics.sealed] = 2 * sizes[topics.activations]  # announced, and missing
    if topics.has_revised:
        sizes[topics.revised] = len(_release(names, {"version": MAX_VERSION}).line())
    return {topic: size + ENVELOPE_BYTES for topic, size in sizes.items()}


def largest_crowd_answer_bytes(registry: SensorRegistry, settings: Settings) -> int:
    """The largest answer of a partition about the crowd at all sensors; 0 where no crowd is configured."""
    if not settings.has_crowd:
        return 0
    rows = (_SUMS,) * len(registry.sensors)
    answer = CrowdAnswer(question="q" * 32, step=MAX_STEP, partition=MAX_STEP, sums=rows)
    return len(answer.line()) + ENVELOPE_BYTES


def largest_proposal_bytes(registry: SensorRegistry, settings: Settings) -> int:
    """The largest question about a step of all sensors under a risk budget; 0 without one.

    Each sensor may have an option of its own besides, as a schedule file may name one.
    """
    policy = policy_from(settings.release, registry)
    if not isinstance(policy, BudgetPolicy):
        return 0
    choices = policy.decider(0, [sensor.name for sensor in registry.sensors]).choices
    known = {option for choice in choices for option in choice.options}
    own = _option(_LONGEST_NAME, dict.fromkeys((*_PARAMETERS, *settings.release.tiers), _LONGEST))
    options = (*(_option(each.name, dict(each.parameters)) for each in known), *[own] * len(choices))
    places = [tuple([len(options)] * (len(choice.options) + 1)) for choice in choices]
    sensors = tuple(
        SensorOptions(sensor=choice.sensor.name, options=place)
        for choice, place in zip(choices, places, strict=True)
    )
    named = len(Activation(v=1, step=0, sensors=tuple(choice.sensor.name for choice in choices)).line())
    candidates = OPTIONS_A_ROUND * (len(str(max(map(len, places), default=0))) + 1)
    listed = sum(len(each.model_dump_json()) + 1 for each in (*options, *sensors))
    if settings.adversary == CROWD:
        listed += largest_crowd_answer_bytes(registry, settings)
    return listed + candidates + settings.release.budget.look_ahead * named + ENVELOPE_BYTES


def largest_request_bytes(registry: SensorRegistry, topics: Topics, settings: Settings) -> int:
    """The largest request of the release worker, if one broker leads every partition: one record to each.

    That is a transaction with a step of all sensors, or a question about one to each partition of people.
    """
    sizes = largest_bytes(registry, topics, settings)
    written = (topics.releases, *[topics.releases] * len(topics.tiers), topics.decisions, topics.progress)
    written += (topics.revised,) if topics.has_revised else ()
    transaction = sum(sizes[topic] for topic in written)
    question = topics.partitions * largest_proposal_bytes(registry, settings)
    return max(transaction + MEDIUM_BYTES, question)  # and a dead letter


def require_record_sizes(registry: SensorRegistry, topics: Topics, settings: Settings | None = None) -> None:
    """:class:`SettingsError` where a step of all sensors would not fit in a record."""
    question_bytes = 0 if settings is None else largest_proposal_bytes(registry, settings)
    if question_bytes > LARGE_BYTES:
        raise SettingsError(
            f"a risk budget's question about a step of all {len(registry.sensors)} sensors must fit in a "
            f"record of {topics.proposals}, which has at most {LARGE_BYTES} bytes (max.message.bytes)",
            f"up to {question_bytes} bytes",
            "lower release.budget.look_ahead, shorten the names of sensors or the list of sigmas, "
            "or let fewer sensors count",
        )
    answer = 0 if settings is None else largest_crowd_answer_bytes(registry, settings)
    if answer > MEDIUM_BYTES:
        raise SettingsError(
            f"a partition's answer about the crowd at all {len(registry.sensors)} sensors must fit in a "
            f"record of {topics.answers}, which has at most {MEDIUM_BYTES} bytes",
            f"up to {answer} bytes",
            "turn crowd.on off, or let fewer sensors count",
        )
    for topic, size in largest_bytes(registry, topics, settings).items():
        if size > LARGE_BYTES:
            raise SettingsError(
                f"a step of all {len(registry.sensors)} sensors must fit in a record of {topic}, "
                f"which has at most {LARGE_BYTES} bytes (max.message.bytes)",
                f"up to {size} bytes",
                "shorten the names of sensors, or let fewer of them count",
            )


def _option(name: str, parameters: Mapping[str, float]) -> Option:
    return Option(mechanism=name, parameters=parameters)


def _release(names: tuple[str, ...], more: Mapping[str, int] | None = None) -> StepRelease:
    parameters = dict.fromkeys(_PARAMETERS, _LONGEST)
    parameters |= {name: MAX_STEP for name in ("design", "position") if name in parameters}
    fields: dict[str, Any] = {"mechanism": _LONGEST_NAME, "value": _LOWEST, **parameters, **(more or {})}
    values = tuple(SensorValue.model_construct(sensor=name, **fields) for name in names)
    return StepRelease.model_construct(step=MAX_STEP, releases=values)  # whose noise is of no mechanism


def _decision(names: tuple[str, ...], tiers: tuple[str, ...], *, in_crowd: bool) -> StepDecision:
    parameters = dict.fromkeys((*_PARAMETERS, *tiers), _LONGEST)
    crowd = _SUMS if in_crowd else None
    decisions = (
        SensorDecision(sensor=name, mechanism="suppressed", parameters=parameters, crowd=crowd)
        for name in names
    )
    return StepDecision(step=MAX_STEP, decisions=tuple(decisions), deployment="d" * 64)


def _announced(registry: SensorRegistry) -> bytes:
    names = [sensor.name for sensor in registry.sensors]
    counts = dict.fromkeys(names, MAX_COUNT)
    corrected = {each.name: [MAX_COUNT] * each.corrections for each in registry.sensors if each.corrections}
    step = {"step": MAX_STEP, "sensors": names, "counts": counts, "waiting": {}, "corrected": corrected}
    return json.dumps(step).encode()


def _waiting(names: tuple[str, ...]) -> bytes:
    waiting = dict.fromkeys(names, (MAX_COUNT, _SOURCE))
    return json.dumps({"step": MAX_STEP, "sensors": None, "counts": {}, "waiting": waiting}).encode()
