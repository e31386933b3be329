"""Making the topics that are missing, and comparing those of a broker with what they must be."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stream_app.kafka.broker.kafka_exceptions import TopicError
from stream_app.kafka.broker.topics import MEDIUM_BYTES, TopicPlan, Topics

# Brokers list to a user what its rights let it see: a right that is missing looks like a missing topic.
_NOT_SEEN = "no such topic that this user may see"
_MAKE_OR_GRANT = "run `tallyguard topics create`, or give the user its rights (`tallyguard topics access`)"
_SECONDS_TO_HEAR = 5.0


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it must be, and how to mend it."""

    topic: str
    must: str
    got: str
    remedy: str

    def sentence(self) -> str:
        """The difference in words."""
        return f"{self.topic} must {self.must}, got {self.got}; {self.remedy}"


def create_topics(admin: Any, topics: Topics) -> tuple[str, ...]:
    """Make the topics that are missing; the names of those made. Existing ones are left as they are."""
    existing = set(admin.list_topics())
    missing = [plan for plan in topics.plans() if plan.name not in existing]
    if missing:
        admin.create_topics(
            {
                plan.name: {
                    "num_partitions": plan.partitions,
                    "replication_factor": plan.replication,
                    "configs": dict(plan.configuration),
                }
                for plan in missing
            }
        )
    return tuple(plan.name for plan in missing)


def check_topics(admin: Any, topics: Topics) -> list[Difference]:
    """Everything in which the broker's topics are not as the deployment needs them."""
    existing = set(admin.list_topics())
    differences = []
    for plan in topics.plans():
        if plan.name in existing:
            differences += _compare(admin, plan)
        else:
            differences.append(Difference(plan.name, "exist", _NOT_SEEN, _MAKE_OR_GRANT))
    return differences


def require_topics(admin: Any, topics: Topics) -> None:
    """:class:`TopicError` with every difference that keeps workers from running soundly.

    Brokers hear of new topics and rights a moment after the controller has written them: what is not seen is
    looked for a few seconds before it counts as missing.
    """
    deadline = time.monotonic() + _SECONDS_TO_HEAR
    while differences := check_topics(admin, topics):
        is_seen = all(difference.got != _NOT_SEEN for difference in differences)
        if is_seen or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    if differences:
        raise TopicError(
            "the broker's topics must be those of the settings",
            "; ".join(difference.sentence() for difference in differences),
            "see `tallyguard topics check`",
        )


def _compare(admin: Any, plan: TopicPlan) -> list[Difference]:
    """Partitions, copies and configuration of one topic that exists."""
    found = admin.describe_topics([plan.name])[0]["partitions"]
    differences = []
    if len(found) != plan.partitions:
        differences.append(
            Difference(
                plan.name,
                f"have {plan.partitions} partitions",
                str(len(found)),
                "set kafka.partitions to that number: a topic made again forgets what it held",
            )
        )
    copies = min(len(partition["replica_nodes"]) for partition in found)
    if copies < plan.replication:
        differences.append(
            Difference(
                plan.name,
                f"have {plan.replication} copies of each partition",
                str(copies),
                "reassign its partitions, or lower kafka.replication",
            )
        )
    return differences + _compare_configuration(admin, plan)


def _compare_configuration(admin: Any, plan: TopicPlan) -> list[Difference]:
    """Settings of a topic that have another value than planned."""
    from kafka.admin import ConfigResource, ConfigResourceType

    resource = ConfigResource(ConfigResourceType.TOPIC, plan.name)
    values = _values(admin.describe_configs([resource], config_filter="all"), plan.name)
    return [*_compare_room(plan, values), *_compare_values(plan, values)]


def _compare_room(plan: TopicPlan, values: Mapping[str, str]) -> list[Difference]:
    """Where no size is planned the brokers' own holds (message.max.bytes): it must not be too small."""
    taken = values.get("max.message.bytes", "")
    if "max.message.bytes" in plan.configuration or not taken or int(taken) >= MEDIUM_BYTES:
        return []
    least = f"max.message.bytes={MEDIUM_BYTES}"
    remedy = f"kafka-configs.sh --alter --topic {plan.name} --add-config {least}"
    return [Difference(plan.name, f"have at least {least}", taken, remedy)]


def _compare_values(plan: TopicPlan, values: Mapping[str, str]) -> list[Difference]:
    return [
        Difference(
            plan.name,
            f"have {key}={wanted}",
            values.get(key, "nothing"),
            f"kafka-configs.sh --alter --topic {plan.name} --add-config {key}={wanted}",
        )
        for key, wanted in plan.configuration.items()
        if values.get(key) != wanted
    ]


def _values(described: Any, name: str) -> dict[str, str]:
    """The configuration in kafka-python's description of a topic."""
    found: dict[str, str] = {}
    for resources in described.values():
        for key, entry in resources.get(name, {}).items():
            found[key] = str(entry["value"] if isinstance(entry, Mapping) else entry)
    return found
