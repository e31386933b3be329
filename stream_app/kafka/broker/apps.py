"""Faust apps with every setting said, and one agent that hands on events for somebody else to acknowledge.

Faust knows who owns which partition and keeps the group alive; what a record means is decided elsewhere. Its
agents acknowledge an event when they go on, an exception included, so ours never does: an event is
acknowledged by whoever has made its consequences durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import faust
from faust.transport.drivers import aiokafka as driver

from stream_app.kafka.broker.connection import Connection
from stream_app.setup.settings import KafkaSettings

COMMIT_SECONDS = 0.5
_REQUEST_SECONDS = 40.0
_FETCH_BYTES = 4 * 2**20


class _CommittedThread(driver.AIOKafkaConsumerThread):
    """Reads what was committed, whatever guarantee Faust itself gives."""

    def _create_worker_consumer(self, transport: Any) -> Any:
        consumer = self.consumer
        before, consumer.in_transaction = consumer.in_transaction, True
        try:
            return super()._create_worker_consumer(transport)
        finally:
            consumer.in_transaction = before


class _CommittedConsumer(driver.Consumer):
    """Commits behind the last acknowledged event: ours are acknowledged in the order of their offsets.

    Faust looks for runs of offsets without a gap instead, which the mark of a transaction ends at every step:
    its commits fall behind for ever, and what it keeps in memory grows.
    """

    def _new_consumer_thread(self) -> Any:
        return _CommittedThread(self, loop=self.loop, beacon=self.beacon)

    def _new_offset(self, tp: Any) -> int | None:
        acknowledged = self._acked[tp]
        if not acknowledged:
            return None
        behind = max(acknowledged) + 1
        acknowledged.clear()
        self._acked_index[tp].clear()
        return behind

    async def _add_gap(self, tp: Any, offset_from: int, offset_to: int) -> None:
        """Nothing to keep."""


class CommittedTransport(driver.Transport):
    """Faust's transport on aiokafka, reading only committed transactions."""

    Consumer = _CommittedConsumer


def make_app(group: str, settings: KafkaSettings, folder: Path) -> Any:
    """An app of one consumer group that declares no topic, serves nothing and leads nobody.

    ``folder`` is where Faust may keep files. Every setting that has an environment variable is said here.
    """
    connection = Connection.of(settings)
    app = faust.App(
        group,
        id_format="{id}",
        version=1,
        autodiscover=False,
        datadir=str(folder),
        store="memory://",
        key_serializer="raw",
        value_serializer="raw",
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=settings.partitions,
        topic_replication_factor=settings.replication,
        processing_guarantee="at_least_once",
        table_standby_replicas=0,
        broker_client_id=group,
        broker_commit_interval=COMMIT_SECONDS,
        broker_commit_every=100_000,
        broker_session_timeout=settings.session_seconds,
        broker_heartbeat_interval=settings.session_seconds / 4,
        broker_rebalance_timeout=max(60.0, settings.session_seconds),
        broker_request_timeout=max(_REQUEST_SECONDS, settings.session_seconds),
        broker_max_poll_interval=3600.0,
        consumer_auto_offset_reset="earliest",
        consumer_max_fetch_size=_FETCH_BYTES,
        stream_wait_empty=False,
        stream_buffer_maxsize=16_384,
        stream_publish_on_commit=False,
        web_enabled=False,
        worker_redirect_stdouts=False,
        cython_optimizations=False,
        **connection.faust(),
    )
    app.in_worker = True
    app.transport = CommittedTransport(app.conf.broker_consumer, app)
    return app


def deliver(app: Any, topics: Sequence[str], take: Callable[[Any], Awaitable[None]]) -> None:
    """Give every event of these topics to ``take``, which owes each one an ``ack()``."""
    topic = app.topic(*topics, value_type=bytes, value_serializer="raw", key_serializer="raw")

    async def events(stream: Any) -> None:
        async for event in stream.noack().events():
            await take(event)

    app.agent(topic, name=f"{app.conf.id}.events", concurrency=1)(events)
