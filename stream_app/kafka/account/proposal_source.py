"""The proposals put to the partitions a worker owns."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.deployment.background_listener import BackgroundListener
from stream_app.kafka.deployment.log_reader import reading
from stream_app.kafka.deployment.records import PROPOSAL
from stream_app.steps.policy.crowd_sums import CrowdQuestion
from stream_app.steps.policy.proposals import Proposal

_RECENT = 20  # proposals looked back at: one may wait for who has just taken a partition over

Hand = Callable[[int, Proposal | CrowdQuestion], Awaitable[None]]


class ProposalSource(BackgroundListener):
    """Hands on every proposal with its partition; which of them are answered, the accounts decide."""

    def __init__(self, connection: Connection, topic: str, hand: Hand) -> None:
        super().__init__()
        self._connection = connection
        self._topic = topic
        self._hand = hand

    async def follow(self, partitions: Iterable[int]) -> None:
        """From now on hear what is proposed to these partitions only."""
        await self.stop()
        followed = sorted(partitions)
        if followed:
            await self.begin(self._follow(followed))

    async def _follow(self, partitions: list[int]) -> None:
        from aiokafka import TopicPartition

        where = [TopicPartition(self._topic, each) for each in partitions]
        async with reading(self._connection) as consumer:
            consumer.assign(where)
            ends, begins = await consumer.end_offsets(where), await consumer.beginning_offsets(where)
            for each in where:
                consumer.seek(each, max(begins[each], ends[each] - _RECENT))
            async for record in consumer:
                proposal = PROPOSAL.read_or_warn(record)
                if proposal is not None:
                    await self._hand(record.partition, proposal)
