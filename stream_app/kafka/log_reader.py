"""Reading logs outside any group: the decided steps of a range, the last record, everything there is.

Only committed transactions are read. Marks of transactions take offsets too, so a step is found by bisection:
steps and offsets rise together.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from stream_app.kafka.connection import Connection

_LAST_RECORDS = 64  # marks of transactions at the end of a log are fewer than that
_POLL_MILLISECONDS = 500


@asynccontextmanager
async def reading(connection: Connection, **options: Any) -> AsyncIterator[Any]:
    """A consumer without a group while the block runs."""
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        **connection.aiokafka(),
        isolation_level="read_committed",
        enable_auto_commit=False,
        max_partition_fetch_bytes=8 * 2**20,
        **options,
    )
    try:
        await consumer.start()
        yield consumer
    finally:
        await consumer.stop()


async def read_partition(
    connection: Connection, topic: str, partition: int, start: int | None = None
) -> AsyncIterator[Any]:
    """Every record from an offset (None: the first) to what is the end at the time of the call."""
    async with _assigned(connection, topic, partition) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        consumer.seek(where, max(begin, begin if start is None else start))
        async for record in _until(consumer, where, end):
            yield record


async def last_record(connection: Connection, topic: str, partition: int = 0) -> Any | None:
    """The last record of a partition; None if it is empty."""
    async with _assigned(connection, topic, partition) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        return await _last(consumer, where, begin, end)


async def first_pending_step(connection: Connection, topic: str, partition: int, start: int) -> int:
    """The step of the first record from an offset on; behind the last one where there is none yet.

    Both are judged by one look at the end: a record that comes in between would seem to be neither.
    """
    async with _assigned(connection, topic, partition) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        consumer.seek(where, max(begin, start))
        pending = await _first(consumer, where, end)
        if pending is not None:
            return step_key(pending.key)
        last = await _last(consumer, where, begin, end)
        return 0 if last is None else step_key(last.key) + 1


async def committed_offset(connection: Connection, group: str, topic: str, partition: int) -> int:
    """The first offset of a partition that a group has not acknowledged."""
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    admin = AIOKafkaAdminClient(**connection.aiokafka())
    await admin.start()
    try:
        offsets = await admin.list_consumer_group_offsets(group)
    finally:
        await admin.close()
    found = offsets.get(TopicPartition(topic, partition))
    return 0 if found is None else max(0, found.offset)


async def read_steps(connection: Connection, topic: str, first: int, until: int) -> AsyncIterator[bytes]:
    """The records of the steps ``first..until - 1`` of a log with one record a step, in order."""
    if first >= until:
        return
    async with _assigned(connection, topic, 0) as (consumer, where):
        begin, end = await _bounds(consumer, where)
        consumer.seek(where, await _find(consumer, where, begin, end, first))
        async for record in _until(consumer, where, end):
            step = step_key(record.key)
            if step >= until:
                return
            if step >= first:
                yield record.value


def step_key(key: bytes | None) -> int:
    """The step in a log's key."""
    return int(key or b"-1")


@asynccontextmanager
async def _assigned(connection: Connection, topic: str, partition: int) -> AsyncIterator[tuple[Any, Any]]:
    """A consumer of one partition, and the partition."""
    from aiokafka import TopicPartition

    where = TopicPartition(topic, partition)
    async with reading(connection) as consumer:
        consumer.assign([where])
        yield consumer, where


async def _bounds(consumer: Any, where: Any) -> tuple[int, int]:
    """First offset of a partition, and the one behind its last committed record."""
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
    """An offset at or before the record of a step, and not far before it."""
    while end - begin > _LAST_RECORDS:
        middle = (begin + end) // 2
        consumer.seek(where, middle)
        found = await _first(consumer, where, end)
        if found is None or step_key(found.key) > step:
            end = middle
        else:
            begin = middle
    return begin


async def _first(consumer: Any, where: Any, end: int) -> Any | None:
    """The next record before an offset."""
    async for record in _until(consumer, where, end):
        return record
    return None


async def _until(consumer: Any, where: Any, end: int) -> AsyncIterator[Any]:
    """Records of a partition up to an offset, past marks and whatever was aborted."""
    while await consumer.position(where) < end:
        batch = await consumer.getmany(where, timeout_ms=_POLL_MILLISECONDS, max_records=1000)
        for record in batch.get(where, ()):
            if record.offset >= end:
                return
            yield record
        await asyncio.sleep(0)
