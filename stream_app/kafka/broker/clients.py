"""kafka-python's clients as the commands use them."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar, cast

from stream_app.kafka.broker.broker_errors import broker_errors
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import BrokerError, TopicError
from stream_app.kafka.broker.topics import LARGE_BYTES

Client = TypeVar("Client")

_BOOTSTRAP_MILLISECONDS = 10_000
_FIRST_MILLISECONDS = 5_000  # where other servers can be asked
_FLUSH_SECONDS, _LOOK_SECONDS = 150.0, 1.0  # it gives a record up after 120 s
_LOOK_UP_MILLISECONDS = 120_000  # as long as for a record: a broker that was cut off costs half a minute
_MOST_LOST = 3  # brokers, while a topic is looked up
_MARKS = 3  # offsets looked at for each record wanted: marks of transactions take some


def connected(make: Callable[..., Client], connection: Connection, **settings: Any) -> Client:
    """A client of kafka-python that one of the servers has answered.

    It begins with any of them, and would wait for that one only, however silent: then each is tried alone.
    """
    from kafka.errors import KafkaTimeoutError

    from stream_app.kafka.broker.silent_brokers import undeterred_client

    servers = connection.servers
    single_servers = [[server] for server in servers] if len(servers) > 1 else []
    arguments = {**connection.kafka_python(), "kafka_client": undeterred_client, **settings}
    for number, chosen in enumerate([servers, *single_servers]):
        milliseconds = _FIRST_MILLISECONDS if number < len(single_servers) else _BOOTSTRAP_MILLISECONDS
        try:
            return make(**{**arguments, "bootstrap_servers": chosen, "bootstrap_timeout_ms": milliseconds})
        except KafkaTimeoutError:
            if number == len(single_servers):
                raise
    raise AssertionError


class CheckedProducer:
    """Sends what it is given; once a record was not taken, with all its trying again, it says so."""

    def __init__(self, producer: Any) -> None:
        self._producer = producer
        self._failures: list[BaseException] = []

    def send(self, topic: str, value: bytes | None, **more: Any) -> Any:
        """Begin to send a record."""
        self._check()
        sent = self._producer.send(topic, value, **more)
        sent.add_errback(self._failures.append)
        return sent

    def flush(self) -> None:
        """Return once the brokers have everything; :class:`BrokerError` if they do not take it.

        kafka-python waits for ever for other records once it has given one up after trying again.
        """
        deadline = time.monotonic() + _FLUSH_SECONDS
        while not self._is_flushed():
            self._check()
            if time.monotonic() > deadline:
                raise _not_taken(f"not acknowledged within {_FLUSH_SECONDS:.0f} s")
        self._check()

    def _is_flushed(self) -> bool:
        from kafka.errors import KafkaTimeoutError

        try:
            self._producer.flush(_LOOK_SECONDS)
        except KafkaTimeoutError:
            return False
        return True

    def _check(self) -> None:
        if self._failures:
            raise _not_taken(self._failures[0])


def _not_taken(why: object) -> BrokerError:
    return BrokerError(
        "the brokers must take every record",
        f"some were not taken: {why}",
        "give the same command again once they do; what has come already does no harm twice",
    )


@contextmanager
def writing(connection: Connection) -> Iterator[CheckedProducer]:
    """A producer that has delivered everything when the block is left, or raises :class:`BrokerError`."""
    from kafka import KafkaProducer
    from kafka.errors import KafkaError

    with broker_errors(connection):
        producer = connected(
            KafkaProducer,
            connection,
            acks="all",
            enable_idempotence=True,
            linger_ms=5,
            max_block_ms=_LOOK_UP_MILLISECONDS,
            max_request_size=LARGE_BYTES,
        )
        checked = CheckedProducer(producer)
        try:
            yield checked
            checked.flush()
        except (BrokerError, KafkaError):
            producer._sender.force_close()  # what was not taken is forgotten: close() would wait for it
            raise
        finally:
            producer.close()


@contextmanager
def consuming(connection: Connection) -> Iterator[Any]:
    """A consumer without a group that sees committed transactions only."""
    from kafka import KafkaConsumer

    with broker_errors(connection):
        consumer = connected(
            KafkaConsumer,
            connection,
            isolation_level="read_committed",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        try:
            yield consumer
        finally:
            consumer.close()


def records(consumer: Any, topic: str, *, last: int | None = None) -> Iterator[Any]:
    """The records of a topic up to its present end; with ``last`` from that many offsets before it.

    Partition by partition as they come; within one in order.
    """
    where = _partitions(consumer, topic)
    ends, begins = consumer.end_offsets(where), consumer.beginning_offsets(where)
    for each in where:
        start = begins[each] if last is None else max(begins[each], ends[each] - last)
        consumer.seek(each, start)
    while any(consumer.position(each) < ends[each] for each in where):
        for each, batch in consumer.poll(timeout_ms=500).items():
            yield from (record for record in batch if record.offset < ends[each])


def recent(consumer: Any, topic: str, last: int, *, follow: bool = False) -> Iterator[Any]:
    """The ``last`` records of each partition in order of time, then with ``follow`` whatever comes."""
    kept: dict[int, deque[Any]] = {}
    if last:
        for record in records(consumer, topic, last=_MARKS * last):
            kept.setdefault(record.partition, deque(maxlen=last)).append(record)
        found = (record for batch in kept.values() for record in batch)
        yield from sorted(found, key=lambda record: (record.timestamp, record.partition, record.offset))
    if follow:
        if not last:
            consumer.seek_to_end(*_partitions(consumer, topic))
        while True:
            for batch in consumer.poll(timeout_ms=1000).values():
                yield from batch


def _partitions(consumer: Any, topic: str) -> list[Any]:
    """Every partition of a topic, assigned to the consumer."""
    from kafka import TopicPartition

    numbers = _numbers(consumer, topic)
    if not numbers:
        raise TopicError("a topic must exist", topic, "run `tallyguard topics create`")
    where = [TopicPartition(topic, number) for number in sorted(numbers)]
    consumer.assign(where)
    return where


def _numbers(consumer: Any, topic: str) -> set[int] | None:
    """Those of a topic's partitions; asked again where a broker is lost while it is asked."""
    from kafka.errors import KafkaConnectionError

    for again in reversed(range(_MOST_LOST + 1)):
        try:
            return cast("set[int] | None", consumer.partitions_for_topic(topic))
        except KafkaConnectionError:
            if not again:
                raise
            time.sleep(_LOOK_SECONDS)
    raise AssertionError
