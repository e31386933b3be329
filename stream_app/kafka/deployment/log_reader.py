"""Reading logs outside any consumer group: the last record, a range of steps, everything there is.

Only committed transactions are read. Marks of transactions take offsets, too, so a step is found by
bisection: steps and offsets rise together. A record that is no decision is skipped; account workers notice
the gap.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Sequence
from contextlib import aclosing, asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from models.keys import NoiseKey
from stream_app.kafka.broker.clients import BrokerError, retry_until_answered, start_consumer
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment, administration
from stream_app.kafka.deployment.records import DECISION, IS_SUMMARY, RISK_STEP, RiskStep
from stream_app.setup.run_folder.key_record import claim_for_kafka, record_file
from stream_app.wire import Exact, StepDecision

_LAST_RECORDS = 64  # marks of transactions at the end of a log are fewer than that
_POLL_MILLISECONDS = 500
_FOLLOWED_RECORDS = 2000  # in one batch


@asynccontextmanager
async def reading(connection: Connection, *, patient: bool = True) -> AsyncIterator[Any]:
    """A consumer without a group while the block runs; if ``patient``, it waits for a broker that is away."""
    consumer = await (
        retry_until_answered(connection, lambda: start_consumer(connection))
        if patient
        else start_consumer(connection)
    )
    try:
        yield consumer
    finally:
        await consumer.stop()


async def read_partition(
    connection: Connection, topic: str, partition: int, start: int | None = None
) -> AsyncGenerator[Any, None]:
    """Every record from an offset (None: the first) to the end at the time of the call."""
    async with _assigned(connection, topic, partition) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        consumer.seek(where, max(begin, begin if start is None else start))
        async for record in _until(consumer, where, end):
            yield record


async def last_record(
    connection: Connection, topic: str, partition: int = 0, *, patient: bool = True
) -> Any | None:
    """The last record of a partition; None if it is empty."""
    async with _assigned(connection, topic, partition, patient=patient) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        return await _last(consumer, where, begin, end)


async def latest_records(
    connection: Connection, topic: str, partition: int = 0
) -> dict[bytes | None, bytes | None]:
    """The last value of each key of a partition; None where it was deleted."""
    return {record.key: record.value async for record in read_partition(connection, topic, partition)}


async def bounds(connection: Connection, topic: str, partition: int = 0) -> tuple[int, int]:
    """First offset of a partition, and the offset after its last committed record."""
    async with _assigned(connection, topic, partition) as (consumer, where):
        return await _bounds(consumer, where)


async def last_decision(connection: Connection, topic: str, *, patient: bool = True) -> StepDecision | None:
    """The last decision of a log; None while there is none."""
    async with _assigned(connection, topic, 0, patient=patient) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        while (last := await _last(consumer, where, begin, end)) is not None:
            decision = DECISION.read_or_warn(last)
            if decision is not None:
                return decision
            end = last.offset
    return None


async def last_step(connection: Connection, topic: str, *, patient: bool = True) -> int:
    """The last decided step of a log; -1 while there is none."""
    last = await last_decision(connection, topic, patient=patient)
    return -1 if last is None else last.step


async def last_risk_step(connection: Connection, topic: str, partition: int) -> int:
    """The last step with risks in a partition of ``risks``; -1 while there are none."""
    last = await last_summary(connection, topic, partition)
    return -1 if last is None else last.step


async def last_summary(connection: Connection, topic: str, partition: int) -> RiskStep | None:
    """The last summary in a partition of ``risks``; None while there is none.

    A summary is written after the records of single people, so it shows that all of them were written.
    """
    async with _assigned(connection, topic, partition) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        records = _LAST_RECORDS
        while end > begin:
            start, last = max(begin, end - records), None
            consumer.seek(where, start)
            async for record in _until(consumer, where, end):
                summary = RISK_STEP.read_or_warn(record) if IS_SUMMARY in (record.value or b"") else None
                last = last if summary is None else summary
            if last is not None:
                return last
            end, records = start, 8 * records  # records of many people may come before a missing summary
        return None


async def accounted_steps(connection: Connection, topics: Topics) -> int:
    """How many steps every partition has accounted."""
    partitions = range(topics.partitions)
    return 1 + min([await last_risk_step(connection, topics.risks, each) for each in partitions])


async def offset_before(connection: Connection, topic: str, step: int) -> int:
    """An offset at or shortly before the record of a step in a log of decisions."""
    async with _assigned(connection, topic, 0) as (consumer, where):
        return await _find(consumer, where, *await _bounds(consumer, where), step)


async def follow(connection: Connection, topic: str, start: int) -> AsyncGenerator[Sequence[Any], None]:
    """Committed records of a topic with one partition from an offset on, as they come; empty while none do.

    For a log that several workers need: a group would give its partition to one of them.
    """
    async with _assigned(connection, topic, 0) as (consumer, where):
        consumer.seek(where, start)
        while True:
            found = await consumer.getmany(timeout_ms=_POLL_MILLISECONDS, max_records=_FOLLOWED_RECORDS)
            yield found.get(where, ())


async def read_steps(
    connection: Connection, topic: str, first: int, until: int
) -> AsyncGenerator[StepDecision, None]:
    """The decisions of the steps ``first..until - 1`` of a log with one record a step, in order."""
    async with aclosing(_step_records(connection, topic, first, until)) as found:
        async for _, decision in found:
            yield decision


async def _step_records(
    connection: Connection, topic: str, first: int, until: int
) -> AsyncGenerator[tuple[Any, StepDecision], None]:
    """As :func:`read_steps`, each after its record."""
    if first >= until:
        return
    async with _assigned(connection, topic, 0) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        consumer.seek(where, await _find(consumer, where, begin, end, first))
        async for record in _until(consumer, where, end):
            decision = DECISION.read_or_warn(record)
            if decision is None or decision.step < first:
                continue
            if decision.step >= until:
                return
            yield record, decision


@asynccontextmanager
async def _assigned(
    connection: Connection, topic: str, partition: int, *, patient: bool = True
) -> AsyncIterator[tuple[Any, Any]]:
    """A consumer of one partition, and the partition."""
    from aiokafka import TopicPartition

    where = TopicPartition(topic, partition)
    async with reading(connection, patient=patient) as consumer:
        consumer.assign([where])
        yield consumer, where


async def _bounds(consumer: Any, where: Any) -> tuple[int, int]:
    """See :func:`bounds`."""
    begin = (await consumer.beginning_offsets([where]))[where]
    return begin, (await consumer.end_offsets([where]))[where]


async def _last(consumer: Any, where: Any, begin: int, end: int) -> Any | None:
    """The last record between two offsets."""
    start = end
    while start > begin:
        start = max(begin, start - _LAST_RECORDS)
        consumer.seek(where, start)
        last = None
        async for record in _until(consumer, where, end):
            last = record
        if last is not None:
            return last
    return None


async def _find(consumer: Any, where: Any, begin: int, end: int, step: int) -> int:
    """See :func:`offset_before`."""
    while end - begin > _LAST_RECORDS:
        middle = (begin + end) // 2
        consumer.seek(where, middle)
        found = None
        async for record in _until(consumer, where, end):
            found = DECISION.read_or_warn(record)
            if found is not None:
                break
        if found is None or found.step > step:
            end = middle
        else:
            begin = middle
    return begin


async def _until(consumer: Any, where: Any, end: int) -> AsyncIterator[Any]:
    """Committed records of a partition up to an offset; the position also passes marks of transactions."""
    while await consumer.position(where) < end:
        batch = await consumer.getmany(where, timeout_ms=_POLL_MILLISECONDS, max_records=1000)
        for record in batch.get(where, ()):
            if record.offset >= end:
                return
            yield record
        await asyncio.sleep(0)  # other tasks' turn: a batch that is fetched already comes without a pause


class LogPlace(Exact):
    """The place of a step in the log of decisions, which snapshots of accounts are bound to.

    Nothing is ever removed from the log. So a topic with the same id, and at the same offset the same record
    with the same time stamp of the broker, holds the same steps before it. A topic that was made again has
    another id; a log that lost its end, or was restored, has another record there, or none.
    """

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


async def place_of_step(connection: Connection, decisions: str, step: int) -> LogPlace | None:
    """The place of a step in the log; None if the log has no such step."""
    identity = await _topic_id(connection, decisions)
    async with aclosing(_step_records(connection, decisions, step, step + 1)) as found:
        async for record, _ in found:
            return LogPlace.of(identity, record)
    return None


async def holds_place(connection: Connection, decisions: str, place: LogPlace) -> bool:
    """Whether the log holds the place."""
    identity = await _topic_id(connection, decisions)
    if place.topic != identity:
        return False
    async with aclosing(read_partition(connection, decisions, 0, place.offset)) as found:
        async for record in found:
            return LogPlace.of(identity, record) == place
    return False


async def _topic_id(connection: Connection, topic: str) -> str:
    """The broker's id of a topic; empty if it does not exist."""
    ask = partial(asyncio.to_thread, topic_ids, connection, [topic])
    return (await retry_until_answered(connection, ask)).get(topic, "")


class TopicDescription(NamedTuple):
    """A topic on the broker: its id, which changes if it is deleted and made again, and its partitions."""

    identity: str
    partitions: int


def describe_topics(connection: Connection, topics: Iterable[str]) -> dict[str, TopicDescription]:
    """Those of the topics that exist."""
    from kafka.errors import UnknownTopicOrPartitionError

    try:
        with administration(connection) as admin:
            described = admin.describe_topics(list(topics))
    except BrokerError as error:  # away: a caller that can wait asks again
        raise ConnectionError(str(error)) from error
    missing = UnknownTopicOrPartitionError.errno
    return {
        each["name"]: TopicDescription(str(each["topic_id"]), len(each["partitions"]))
        for each in described
        if each["error_code"] != missing
    }


def topic_ids(connection: Connection, topics: Iterable[str]) -> dict[str, str]:
    """The broker's id of those of the topics that exist."""
    return {name: seen.identity for name, seen in describe_topics(connection, topics).items()}


async def claim_key(deployment: Deployment, key: NoiseKey, partition: int, next_step: int) -> None:
    """:class:`stream_app.exceptions.KeyUsedError` if another log or run has published with the noise key.

    The uses of a key are noted beside its file, or where ``key_record`` says; other keys cannot be checked.
    """
    settings, releases = deployment.settings, deployment.topics.releases
    if settings.noise_key is None and settings.key_record is None:
        return
    identity = (await asyncio.to_thread(topic_ids, deployment.connection, [releases]))[releases]
    path = record_file(settings, None, key)
    await asyncio.to_thread(claim_for_kafka, path, identity, partition, next_step)
