"""A place in the log of decisions that no other log has: what a snapshot of accounts is bound to.

Nothing is ever removed from the log, so a topic that has the same id, and at the same offset the same record
with the same stamp of the broker, holds the same steps before it. A topic made again has another id; a log
that lost its end, or was restored, has another record there, or none.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from pydantic import BaseModel, ConfigDict

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import BrokerError
from stream_app.kafka.deployment.deployment import administration
from stream_app.kafka.deployment.log_reader import record_at, step_record


class LogPlace(BaseModel):
    """Where a step stands in a log, and the SHA-256 of its decision."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    topic: str
    """The broker's id of the topic, not its name."""
    offset: int
    stamp: int
    """Milliseconds by the broker's clock."""
    decision: str

    @classmethod
    def of(cls, topic: str, record: Any) -> LogPlace:
        """The place of a record."""
        return cls(
            topic=topic,
            offset=record.offset,
            stamp=record.timestamp,
            decision=hashlib.sha256(record.value or b"").hexdigest(),
        )


async def place_of_step(connection: Connection, decisions: str, identity: str, step: int) -> LogPlace | None:
    """The place of a step in the log, whose topic has this id; None where the log has no such step."""
    record = await step_record(connection, decisions, step)
    return None if record is None else LogPlace.of(identity, record)


async def is_there(connection: Connection, decisions: str, identity: str, place: LogPlace) -> bool:
    """Whether the log, whose topic has this id, holds that place."""
    if place.topic != identity:
        return False
    record = await record_at(connection, decisions, place.offset)
    return record is not None and LogPlace.of(identity, record) == place


class TopicSeen(NamedTuple):
    """A topic as the broker has it: its id, another one after it was deleted and made again, and its size."""

    identity: str
    partitions: int


def topics_seen(connection: Connection, topics: Iterable[str]) -> dict[str, TopicSeen]:
    """Each of these topics there is."""
    from kafka.errors import UnknownTopicOrPartitionError

    try:
        with administration(connection) as admin:
            described = admin.describe_topics(list(topics))
    except BrokerError as error:  # away: whoever can wait asks again
        raise ConnectionError(str(error)) from error
    missing = UnknownTopicOrPartitionError.errno
    return {
        each["name"]: TopicSeen(str(each["topic_id"]), len(each["partitions"]))
        for each in described
        if each["error_code"] != missing
    }


def topic_ids(connection: Connection, topics: Iterable[str]) -> dict[str, str]:
    """The broker's id of each of these topics there is."""
    return {name: seen.identity for name, seen in topics_seen(connection, topics).items()}
