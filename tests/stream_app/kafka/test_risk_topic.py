"""What an account worker writes after a step, without a broker: the client's own batches are read back."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.default_records import DefaultRecordBatch

from stream_app.kafka.account.account_worker import RiskTopic
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.setup.settings import KafkaSettings
from stream_app.steps import RiskRecords
from tests.stream_app.events_for_tests import summary

PARTITION = 3


class Producer:
    """Takes batches as aiokafka's producer does; ``unsettled`` were not acknowledged yet."""

    def __init__(self, batch_bytes: int) -> None:
        self._batch_bytes = batch_bytes
        self.sent: list[list[tuple[bytes, bytes]]] = []
        self.unsettled: list[asyncio.Future[None]] = []

    def create_batch(self) -> Any:
        return BatchBuilder(
            self._batch_bytes, 0, is_transactional=False, key_serializer=None, value_serializer=None
        )

    async def send_batch(self, batch: Any, topic: str, *, partition: int) -> asyncio.Future[None]:
        assert (topic, partition) == ("city.risks", PARTITION)
        batch.close()
        records = DefaultRecordBatch(bytes(batch._build()))
        self.sent.append([(record.key, record.value) for record in records])
        self.unsettled.append(asyncio.get_running_loop().create_future())
        return self.unsettled[-1]


def written(people: int, batch_bytes: int) -> list[list[tuple[bytes, bytes]]]:
    """The batches of a step with a record of everybody."""
    producer = Producer(batch_bytes)
    names = tuple(f"{number:016x}" for number in range(people))
    figures = np.linspace(0.1, 0.9, people)
    records = RiskRecords(np.arange(people), figures, figures / 2, figures / 2, ("fano",) * people)

    async def write() -> None:
        topic = RiskTopic(Connection.of(KafkaSettings(servers=("nowhere:9092",))), Topics("city.", 4))
        topic._producer = producer
        writing = asyncio.create_task(topic.write(PARTITION, summary(7), names, records))
        while len(producer.unsettled) < len(producer.sent) or not producer.sent:
            await asyncio.sleep(0)
        await asyncio.sleep(0)
        for future in producer.unsettled:
            assert not writing.done(), "a step is done once the broker has all of it"
            future.set_result(None)
        await writing

    asyncio.run(write())
    return producer.sent


def test_people_come_in_order_in_full_batches_and_the_summary_last() -> None:
    batches = written(1000, 8192)
    assert len(batches) > 10
    records = [record for batch in batches for record in batch]
    assert [key.decode() for key, _ in records[:-1]] == [f"{number:016x}" for number in range(1000)]
    assert all(f'"person":"{key.decode()}"'.encode() in value for key, value in records[:-1])
    assert records[-1] == (b"7", summary(7).line().rstrip())


def test_a_record_that_is_longer_than_a_batch_is_a_batch_of_its_own() -> None:
    batches = written(3, 100)
    assert [len(batch) for batch in batches] == [1, 1, 1, 1]


def test_a_step_without_records_of_people_is_its_summary() -> None:
    assert written(0, 8192) == [[(b"7", summary(7).line().rstrip())]]
