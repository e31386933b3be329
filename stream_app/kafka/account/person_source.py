"""The records of ``persons`` for the partitions a worker owns: all of them first, then what changes."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, NamedTuple

from stream_app.kafka.broker.clients import is_passing, reachable
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import BackgroundListener, last_record, read_partition, reading
from stream_app.kafka.deployment.records import PersonEntry, RefusedRecord, person_kind

# Marks on quiet topics, so that whoever was deleted also leaves the brokers' disks there.
#
# A broker removes the record of a deleted person from segments that are closed, and closes a segment only
# when something is written after its time (`segment.ms`, `max.compaction.lag.ms`). On a topic to which
# nothing is written any more a deletion would stay in the open segment, and the person on the disk, for
# ever. So whoever owns a partition looks when something was written to it last, and writes a mark when that
# is too long ago: the deletion of a key that nobody has.

logger = logging.getLogger(__name__)

MARK = b"mark"
LOOK_SECONDS = 600.0


class SegmentMarks(BackgroundListener):
    """Looks after ``persons`` and ``accounts`` in the partitions of one worker."""

    def __init__(self, deployment: Deployment, now_seconds: Callable[[], float] = time.time) -> None:
        super().__init__()
        self._connection = deployment.connection
        self._now_seconds = now_seconds
        topics = deployment.topics
        self._quiet_seconds = {
            name: int(topics.plan(name).configuration["max.compaction.lag.ms"]) / 1000.0
            for name in (topics.persons, topics.accounts)
        }

    async def follow(self, partitions: Iterable[int]) -> None:
        """From now on look after these partitions only."""
        await self.stop()
        followed = sorted(partitions)
        if followed:
            await self.begin(self._watch(followed))

    async def _watch(self, partitions: list[int]) -> None:
        while True:
            for topic, quiet_seconds in self._quiet_seconds.items():
                try:
                    for partition in partitions:
                        await self._mark_if_quiet(topic, partition, quiet_seconds)
                except Exception as error:  # the client's and sockets' own
                    _warn(topic, error)
            await asyncio.sleep(LOOK_SECONDS)

    async def _mark_if_quiet(self, topic: str, partition: int, quiet_seconds: float) -> None:
        last: Any = await last_record(self._connection, topic, partition, patient=False)
        if last is not None and self._now_seconds() - last.timestamp / 1000.0 > quiet_seconds:
            await self._write(topic, partition)

    async def _write(self, topic: str, partition: int) -> None:
        from aiokafka import AIOKafkaProducer

        producer = AIOKafkaProducer(**await reachable(self._connection), acks="all")
        try:
            await producer.start()
            await producer.send_and_wait(topic, None, MARK, partition)
        finally:
            await producer.stop()


def _warn(topic: str, error: Exception) -> None:
    said = str(error) or type(error).__name__
    remedy = "" if is_passing(error) else "; apply the rules that `tallyguard topics access` prints"
    logger.warning(
        "deleted people may stay on the disks of %s: no mark was written: %s%s", topic, said, remedy
    )


Changes = dict[str, PersonEntry | None]
"""By pseudonym; None where a person was deleted."""

DIGEST_BYTES = 16


class Loaded(NamedTuple):
    """Everybody of a partition but those whose record was known, and the pseudonyms of these."""

    changes: Changes
    unchanged: set[str]


Refuse = Callable[[RefusedRecord], Awaitable[None]]


class PersonSource(BackgroundListener):
    """Reads outside any group. Changes wait in :meth:`take` until the worker is between two steps."""

    def __init__(self, deployment: Deployment, refuse: Refuse) -> None:
        super().__init__()
        self._connection = deployment.connection
        self._topic = deployment.topics.persons
        self._kind = person_kind(deployment.digest, deployment.settings.has_crowd)
        self._refuse = refuse
        self._changes: dict[int, Changes] = {}
        self._next: dict[int, int] = {}

    async def load(
        self, partition: int, moved: Callable[[], None], known: Mapping[str, bytes] | None = None
    ) -> Loaded:
        """Everybody of a partition as of now; ``moved`` is called for each record.

        A record whose digest is the ``known`` one of its person is not read: it says nothing new.
        """
        people: Changes = {}
        unchanged: set[str] = set()
        known = known or {}
        last = -1
        async for record in read_partition(self._connection, self._topic, partition):
            last = record.offset
            if record.key == MARK:
                continue
            name = _name(record)
            if record.value and known.get(name) == digest_of(record.value):
                unchanged.add(name)
                people.pop(name, None)
            else:
                await self._enter(people, record)
            moved()
        self._next[partition] = last + 1
        return Loaded(people, unchanged)

    def take(self, partition: int) -> Changes:
        """What has changed since the last call."""
        return self._changes.pop(partition, {})

    def waiting(self) -> tuple[int, ...]:
        """Partitions of which something has changed."""
        return tuple(self._changes)

    async def follow(self, partitions: Iterable[int]) -> None:
        """From now on hear of changes in these partitions only; each must have been loaded."""
        await self.stop()
        followed = set(partitions)
        self._changes = {each: changes for each, changes in self._changes.items() if each in followed}
        if followed:
            await self.begin(self._follow(followed))

    async def _follow(self, partitions: set[int]) -> None:
        from aiokafka import TopicPartition

        where = {TopicPartition(self._topic, each): self._next[each] for each in partitions}
        async with reading(self._connection) as consumer:
            consumer.assign(list(where))
            for each, offset in where.items():
                consumer.seek(each, offset)
            async for record in consumer:
                self._next[record.partition] = record.offset + 1
                if record.key == MARK:
                    continue
                await self._enter(self._changes.setdefault(record.partition, {}), record)

    async def _enter(self, people: Changes, record: Any) -> None:
        """One record; what is no person goes to the dead letters, and whoever was known stays."""
        if not record.value:
            people[_name(record)] = None
            return
        entry = self._kind.read(record)
        if isinstance(entry, RefusedRecord):
            await self._refuse(entry)
            return
        people[entry.pseudonym] = entry._replace(
            effective_from=_first_step(entry, people),
            offset=record.offset,
            digest=digest_of(record.value),
        )


def _first_step(entry: PersonEntry, people: Changes) -> int:
    """From when an entry is in force: as the person's earlier records, which it replaces, or before.

    Who was deleted has been here, nobody knows since when: for them the whole log counts.
    """
    if entry.pseudonym not in people:
        return entry.effective_from
    earlier = people[entry.pseudonym]
    return 0 if earlier is None else min(entry.effective_from, earlier.effective_from)


def digest_of(record: bytes) -> bytes:
    """By which a person's record is recognised."""
    return hashlib.sha256(record).digest()[:DIGEST_BYTES]


def _name(record: Any) -> str:
    """Whose record it is."""
    return (record.key or b"").decode("utf-8", "replace")
