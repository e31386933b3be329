"""Marks on quiet topics, so that whoever was deleted also leaves the brokers' disks there.

A broker removes the record of a deleted person from segments that are closed, and closes a segment only when
something is written after its time (`segment.ms`, `max.compaction.lag.ms`). On a topic to which nothing is
written any more a deletion would stay in the open segment, and the person on the disk, for ever. So whoever
owns a partition looks when something was written to it last, and writes a mark when that is too long ago: the
deletion of a key that nobody has.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from typing import Any

from stream_app.kafka.broker.broker_errors import is_passing
from stream_app.kafka.broker.reachable import reachable
from stream_app.kafka.deployment.background_listener import BackgroundListener
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import last_record

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
