"""kafka-python's clients as the commands use them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from stream_app.kafka.broker_errors import broker_errors
from stream_app.kafka.connection import Connection

_BOOTSTRAP_MILLISECONDS = 10_000


@contextmanager
def writing(connection: Connection) -> Iterator[Any]:
    """A producer that has delivered everything when the block is left."""
    from kafka import KafkaProducer

    with broker_errors(connection):
        producer = KafkaProducer(
            **connection.kafka_python(),
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            max_request_size=16 * 2**20,
            bootstrap_timeout_ms=_BOOTSTRAP_MILLISECONDS,
        )
        try:
            yield producer
            producer.flush()
        finally:
            producer.close()


@contextmanager
def consuming(connection: Connection) -> Iterator[Any]:
    """A consumer without a group that sees committed transactions only."""
    from kafka import KafkaConsumer

    with broker_errors(connection):
        consumer = KafkaConsumer(
            **connection.kafka_python(),
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            bootstrap_timeout_ms=_BOOTSTRAP_MILLISECONDS,
        )
        try:
            yield consumer
        finally:
            consumer.close()


def records(
    consumer: Any, topic: str, *, follow: bool = False, last: int | None = None, idle_seconds: float = 0.2
) -> Iterator[Any]:
    """The records of a topic up to its end, or on and on with ``follow``; the ``last`` of each partition.

    Partition by partition as they come; within one in order.
    """
    from kafka import TopicPartition

    where = [TopicPartition(topic, each) for each in sorted(consumer.partitions_for_topic(topic) or ())]
    consumer.assign(where)
    ends, begins = consumer.end_offsets(where), consumer.beginning_offsets(where)
    for each in where:
        start = begins[each] if last is None else max(begins[each], ends[each] - last)
        consumer.seek(each, start)
    while follow or any(consumer.position(each) < ends[each] for each in where):
        polled = consumer.poll(timeout_ms=500)
        for batch in polled.values():
            yield from (record for record in batch if follow or record.offset < ends[_where(record)])
        if follow and not polled:
            time.sleep(idle_seconds)


def _where(record: Any) -> Any:
    from kafka import TopicPartition

    return TopicPartition(record.topic, record.partition)
