"""What the public sees of the log of releases, and when: one reader that stays for the whole test."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from itertools import pairwise
from typing import NamedTuple

from stream_app.kafka.broker.connection import Connection

_POLL_MILLISECONDS = 200
_REQUEST_MILLISECONDS = 5_000  # a broker that is cut off is given up after that


class Seen(NamedTuple):
    """A release as it came."""

    seconds: float
    """By this process' clock."""
    step: int
    line: bytes


class PublicReader:
    """Reads committed releases as they become visible; a context manager."""

    def __init__(self, connection: Callable[[], Connection], topic: str) -> None:
        """``connection`` is asked for at each beginning, as passwords and authorities may change."""
        self._connection = connection
        self._topic = topic
        self._ends, self._anew = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._read, name="public", daemon=True)
        self.seen: list[Seen] = []

    def __enter__(self) -> PublicReader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ends.set()
        self._thread.join(60.0)

    @property
    def steps(self) -> int:
        """How many releases were seen."""
        return len(self.seen)

    def connect_anew(self) -> None:
        """As whoever reads must once its password or the authority it trusts is another."""
        self._anew.set()

    def longest_pause(self, since: float, until: float) -> float:
        """Seconds without a release, at most, between two times."""
        times = [since, *(each.seconds for each in self.seen if since <= each.seconds <= until), until]
        return max(later - earlier for earlier, later in pairwise(times))

    def between(self, since: float, until: float) -> int:
        """How many became visible between two times."""
        return sum(since < each.seconds < until for each in self.seen)

    def _read(self) -> None:
        from kafka import KafkaConsumer, TopicPartition
        from kafka.errors import KafkaError

        from stream_app.kafka.broker.clients import resilient_client

        where = TopicPartition(self._topic, 0)
        while not self._ends.is_set():
            self._anew.clear()
            try:
                consumer = KafkaConsumer(
                    **self._connection().kafka_python(),
                    isolation_level="read_committed",
                    enable_auto_commit=False,
                    auto_offset_reset="earliest",
                    request_timeout_ms=_REQUEST_MILLISECONDS,
                    metadata_max_age_ms=_REQUEST_MILLISECONDS,
                    bootstrap_timeout_ms=_REQUEST_MILLISECONDS,
                    kafka_client=resilient_client,
                )
            except KafkaError:
                continue
            consumer.assign([where])
            try:
                consumer.seek(where, self._next_offset)
                while not (self._ends.is_set() or self._anew.is_set()):
                    for record in consumer.poll(timeout_ms=_POLL_MILLISECONDS).get(where, ()):
                        step = int(json.loads(record.value)["step"])
                        self._next_offset = record.offset + 1
                        self.seen.append(Seen(time.monotonic(), step, record.value))
            except KafkaError:
                pass
            finally:
                consumer.close(autocommit=False)

    _next_offset = 0
