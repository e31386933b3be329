"""The promises of :mod:`tests.stream_app.one_log`, kept by topics of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from stream_app.kafka.broker.clients import FencedError
from stream_app.kafka.deployment.log_reader import read_partition
from stream_app.kafka.release.release_log import LogRecord, TransactionLog
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.stream_app.one_log import InTopics, check_owners_who_die


@pytest.mark.slow
def test_topics_of_a_broker_go_on_whoever_dies_and_have_one_owner(kafka: Broker, tmp_path: Path) -> None:
    """Owners leave without a word, as who is killed: the next one fences them."""
    left: list[TransactionLog] = []
    with OnKafka(tmp_path / "log", kafka.address, *small_city(5)[:2]) as deployment, asyncio.Runner() as loop:
        topics, connection = deployment.topics, deployment.connection

        async def read(topic: str) -> list[tuple[bytes | None, bytes | None]]:
            return [(record.key, record.value) async for record in read_partition(connection, topic, 0)]

        def own() -> InTopics:
            log = TransactionLog(connection, f"{topics.prefix}release", topics.decisions)
            left.append(log)
            loop.run(log.start())

            def send(records: Iterable[LogRecord]) -> None:
                loop.run(log.write(records))

            return InTopics(topics, lambda topic: loop.run(read(topic)), send)

        check_owners_who_die(own, 2)
        with pytest.raises(FencedError):
            loop.run(left[-2].write([LogRecord(topics.decisions, None, b"too late")]))
        for log in left:
            loop.run(log.stop())
