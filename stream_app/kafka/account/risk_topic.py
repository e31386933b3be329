"""What an account worker writes: a packed summary a step and partition, single people now and then."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.reachable import reachable
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.broker.waiting import said_while_waiting
from stream_app.steps import JsonlRisks, RiskRecords
from stream_app.steps.policy.crowd_sums import CrowdAnswer
from stream_app.steps.policy.proposals import Answer
from stream_app.wire import Rejected, RiskSummary


class RiskTopic:
    """Writes ``risks`` and ``rejected``; a call returns once the broker has everything.

    A step accounted again after a crash is written again, with the same bytes: readers keep the first.
    """

    def __init__(self, connection: Connection, topics: Topics) -> None:
        self._connection = connection
        self._topics = topics
        self._producer: Any = None

    async def start(self) -> None:
        """Connect."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **await reachable(self._connection),
            enable_idempotence=True,
            linger_ms=2,
            max_batch_size=256 * 1024,
        )
        await self._producer.start()

    async def stop(self) -> None:
        """Disconnect."""
        if self._producer is not None:
            await self._producer.stop()

    async def write(
        self, partition: int, summary: RiskSummary, people: tuple[str, ...], records: RiskRecords
    ) -> None:
        """The risks of a partition after a step: people first, so that a summary says that all are there.

        Batches of records are put together here: there may be 100,000 people, each of whom would be handed
        to the client for ten times as long.
        """
        sent: list[Any] = []
        batch = self._producer.create_batch()
        async with said_while_waiting(f"risks of step {summary.step}", "no further step is accounted"):
            for key, line in _keyed(summary, people, records):
                if batch.append(key=key, value=line, timestamp=None) is None:  # it is full
                    sent.append(await self._send(batch, partition))
                    batch = self._producer.create_batch()
                    batch.append(key=key, value=line, timestamp=None)
            sent.append(await self._send(batch, partition))
            for future in sent:
                await future

    async def _send(self, batch: Any, partition: int) -> Any:
        return await self._producer.send_batch(batch, self._topics.risks, partition=partition)

    async def answer(self, answer: Answer | CrowdAnswer) -> None:
        """One partition's answer to a proposal or to a question about the crowd."""
        await self._producer.send_and_wait(self._topics.answers, answer.line().rstrip())

    async def reject(self, letter: Rejected) -> None:
        """One dead letter."""
        await self._producer.send_and_wait(self._topics.rejected, letter.line().rstrip())


def _keyed(
    summary: RiskSummary, people: tuple[str, ...], records: RiskRecords
) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of each record; the summary last."""
    persons = iter(records.person.tolist())
    for block in JsonlRisks(people).blocks(summary.step, records):
        for line in block.splitlines():
            yield people[next(persons)].encode(), line
    yield str(summary.step).encode(), summary.line().rstrip()
