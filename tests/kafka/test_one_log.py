"""The promises of :mod:`tests.stream_app.one_log`, kept by topics of a broker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from stream_app.kafka.broker.clients import FencedError
from stream_app.kafka.deployment.log_reader import latest_records, read_partition, read_steps
from stream_app.kafka.release.release_log import LogRecord, Progress, TopicLog, TransactionLog, restore
from stream_app.wire import StepDecision
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.stream_app.one_log import Owner, check_owners_who_die


@pytest.mark.slow
def test_topics_of_a_broker_go_on_whoever_dies_and_have_one_owner(kafka: Broker, tmp_path: Path) -> None:
    """Owners leave without a word, as who is killed: the next one fences them."""
    left: list[TransactionLog] = []
    with OnKafka(tmp_path / "log", kafka.address, *small_city(5)[:2]) as deployment, asyncio.Runner() as loop:
        topics, connection = deployment.topics, deployment.connection

        async def values(topic: str) -> list[bytes]:
            return [record.value async for record in read_partition(connection, topic, 0)]

        async def decided(first: int, until: int) -> list[StepDecision]:
            return [each async for each in read_steps(connection, topics.decisions, first, until)]

        def own() -> Owner:
            writer = TransactionLog(connection, f"{topics.prefix}release", topics.decisions)
            left.append(writer)
            loop.run(writer.start())

            def write(records: Sequence[LogRecord]) -> float | None:
                return loop.run(writer.write(records))

            latest = loop.run(latest_records(connection, topics.progress))
            position = restore(latest, topics.progress, Progress)
            log = TopicLog(topics, position, write, lambda *steps: loop.run(decided(*steps)))
            return Owner(log, lambda name: loop.run(values(f"{topics.prefix}{name}")))

        check_owners_who_die(own, 2)
        with pytest.raises(FencedError):
            loop.run(left[-2].write([LogRecord(topics.decisions, None, b"too late")]))
        for writer in left:
            loop.run(writer.stop())
