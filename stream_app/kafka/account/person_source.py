"""The people of a worker's partitions from the topic ``persons``: all records first, then changes."""

from __future__ import annotations

import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing
from typing import Any, NamedTuple

from stream_app.kafka.broker.clients import is_transient, start_producer
from stream_app.kafka.broker.streams import Batch
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import last_record, read_partition
from stream_app.kafka.deployment.records import (
    TOGETHER_BYTES,
    PersonEntry,
    RefusedRecord,
    bytes_of,
    digest_of,
    person_kind,
    pseudonym_in,
)

logger = logging.getLogger(__name__)

MARK = b"mark"
LOOK_SECONDS = 600.0


class SegmentMarks:
    """Marks quiet partitions of ``persons`` and ``accounts``, so that deleted people leave the disks.

    A broker removes a deleted record only from closed segments, and closes a segment only if something is
    written after its time (``segment.ms``, ``max.compaction.lag.ms``). In a topic to which nothing is written
    any more a deletion would stay in the open segment, and the person on the disk, for ever. So the owner of
    a partition looks when it was last written to, and if that is too long ago, deletes a key that nobody has.
    """

    def __init__(self, deployment: Deployment) -> None:
        self._connection = deployment.connection
        self._looked_seconds: dict[int, float] = {}
        topics = deployment.topics
        self._quiet_seconds = {
            name: int(topics.plan(name).configuration["max.compaction.lag.ms"]) / 1000.0
            for name in (topics.persons, topics.accounts)
        }

    async def look(self, partitions: Iterable[int]) -> None:
        """Mark those of these partitions that are quiet; each is looked at every :data:`LOOK_SECONDS`."""
        looked, now = self._looked_seconds, time.time()
        due = [each for each in partitions if now - looked.get(each, -LOOK_SECONDS) >= LOOK_SECONDS]
        looked.update(dict.fromkeys(due, now))
        for topic, quiet_seconds in self._quiet_seconds.items():
            try:
                for partition in due:
                    await self._mark_if_quiet(topic, partition, quiet_seconds)
            except Exception as error:  # the client's and sockets' own
                remedy = "; apply the rules that `tallyguard topics access` prints"
                logger.warning(
                    "deleted people may stay on the disks of %s: no mark was written: %s%s",
                    *(topic, str(error) or type(error).__name__),
                    "" if is_transient(error) else remedy,
                )

    async def _mark_if_quiet(self, topic: str, partition: int, quiet_seconds: float) -> None:
        last: Any = await last_record(self._connection, topic, partition, patient=False)
        if last is None or time.time() - last.timestamp / 1000.0 <= quiet_seconds:
            return
        producer = await start_producer(self._connection, acks="all")
        try:
            await producer.send_and_wait(topic, None, MARK, partition)
        finally:
            await producer.stop()


Changes = dict[str, PersonEntry | None]
"""By pseudonym; None where a person was deleted."""


class Loaded(NamedTuple):
    """The people of a partition whose record is new, and the pseudonyms of those whose record was known."""

    changes: Changes
    unchanged: set[str]


Refuse = Callable[[RefusedRecord], Awaitable[None]]


class PersonSource:
    """Loads partitions; later changes wait until the worker takes them between two steps."""

    def __init__(self, deployment: Deployment, refuse: Refuse) -> None:
        self._connection = deployment.connection
        self._topic = deployment.topics.persons
        self._deployment = deployment  # whose digest is known once it has begun
        self._refuse = refuse
        self._changes: dict[int, Changes] = {}
        self.next_offsets: dict[int, int] = {}
        """Where each partition is read on after :meth:`load`."""

    async def load(
        self, partition: int, on_progress: Callable[[], None], known: Mapping[str, bytes] | None = None
    ) -> Loaded:
        """All people of a partition as of now; ``on_progress`` is called for each record.

        A record with the ``known`` digest of its person is not parsed.
        """
        people: Changes = {}
        unchanged: set[str] = set()
        known = known or {}
        last = -1
        waiting: dict[str, Any] = {}
        size = 0
        async with aclosing(read_partition(self._connection, self._topic, partition)) as records:
            async for record in records:
                last = record.offset
                if record.key == MARK:
                    continue
                name = pseudonym_in(record)
                if name in waiting or size >= TOGETHER_BYTES:
                    await self._enter(people, [*waiting.values()])
                    waiting, size = {}, 0
                if record.value and known.get(name) == digest_of(record.value):
                    unchanged.add(name)
                    people.pop(name, None)
                else:
                    waiting[name] = record
                    size += bytes_of(record)
                on_progress()
        await self._enter(people, [*waiting.values()])
        self.next_offsets[partition] = last + 1
        self._changes.pop(partition, None)
        return Loaded(people, unchanged)

    def take(self, partition: int) -> Changes:
        """What has changed since the last call."""
        return self._changes.pop(partition, {})

    def waiting(self) -> tuple[int, ...]:
        """Partitions with changes."""
        return tuple(self._changes)

    async def change(self, batch: Batch) -> None:
        """Note the changes in a batch of records."""
        by_partition: dict[int, list[Any]] = {}
        for record in batch.records:
            if record.key != MARK:
                by_partition.setdefault(record.partition, []).append(record)
        for partition, some in by_partition.items():
            await self._enter(self._changes.setdefault(partition, {}), some)

    async def _enter(self, people: Changes, records: Sequence[Any]) -> None:
        """Enter some records; those that are no persons become dead letters."""
        for refused in enter_records(people, records, self._deployment):
            await self._refuse(refused)


def enter_records(
    people: Changes, records: Sequence[Any], deployment: Deployment, draws: int | None = None
) -> list[RefusedRecord]:
    """Enter some records of ``persons``; those that are no person are returned, and change nothing.

    People have so many chains (None: as many as the settings say).

    An entry is in force no later than the person's earlier records, which it replaces. When a deleted person
    was first here is not known any more: for them the whole log counts.
    """
    settings = deployment.settings
    kind = person_kind(deployment.digest, draws or settings.draws)
    entries = iter(kind.read_all([record for record in records if record.value]))
    refused: list[RefusedRecord] = []
    for record in records:
        name = pseudonym_in(record)
        if not record.value:
            people[name] = None
            continue
        entry = next(entries)
        if isinstance(entry, RefusedRecord):
            refused.append(entry)
            continue
        if name in people:
            earlier = people[name]
            entry = entry.begins_by(0 if earlier is None else earlier.effective_from)
        people[name] = entry._replace(offset=record.offset)
    return refused
