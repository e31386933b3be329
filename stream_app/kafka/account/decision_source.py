"""The log of decisions, followed by a worker from the first step that its partitions have not accounted."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.deployment.background_listener import BackgroundListener
from stream_app.kafka.deployment.log_reader import LogFollower, offset_before
from stream_app.kafka.deployment.records import DECISION
from stream_app.wire import StepDecision

Hand = Callable[[StepDecision], Awaitable[None]]


class DecisionSource(BackgroundListener):
    """Hands on each decision once, however many partitions are owned.

    What is no decision is passed over with a warning: whoever accounts notices that a step is missing.
    """

    def __init__(self, connection: Connection, topic: str, hand: Hand) -> None:
        super().__init__()
        self._connection = connection
        self._topic = topic
        self._hand = hand
        self._is_followed = False

    async def follow(self, first: int | None) -> None:
        """Hear of the steps from ``first`` on, unless they are followed already; None: of none any more."""
        if first is None:
            await self.stop()
        elif not self._is_followed:
            await self.begin(self._follow(first))
        self._is_followed = first is not None

    async def _follow(self, first: int) -> None:
        start = await offset_before(self._connection, self._topic, first)
        async for records in LogFollower(self._connection).records({(self._topic, 0): start}):
            for record in records:
                decision = DECISION.read_or_warn(record)
                if decision is not None and decision.step >= first:
                    await self._hand(decision)
