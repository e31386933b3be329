"""Faust apps with every setting said: who is alive, and who owns which partition of people.

Faust keeps the group: it joins, sends heartbeats, shares partitions out and says what is owned now. Records
are not read through it. Its agents acknowledge an event even when its body has failed, and cost ten times
what reading does; workers follow the logs themselves, from where what they have written ends.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import faust

from stream_app.kafka.broker.connection import Connection
from stream_app.setup.settings import KafkaSettings

COMMIT_SECONDS = 0.5
_REQUEST_SECONDS = 40.0
_FETCH_BYTES = 2**20


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
        stream_buffer_maxsize=64,
        stream_publish_on_commit=False,
        web_enabled=False,
        worker_redirect_stdouts=False,
        cython_optimizations=False,
        **connection.faust(),
    )
    app.in_worker = True
    return app


def share_out(app: Any, topic: str) -> None:
    """Let the group share out the partitions of a topic; a record that lies there is passed over."""
    shared = app.topic(topic, value_type=bytes, value_serializer="raw", key_serializer="raw")

    async def pass_over(stream: Any) -> None:
        async for _ in stream:
            pass

    app.agent(shared, name=f"{app.conf.id}.shares", concurrency=1)(pass_over)
