"""A worker that kills itself at one point of a transaction: ``main`` of a process of its own.

``POINT NUMBER`` stand before the arguments of the command line. The process dies as by ``kill -9`` when it
comes to the point in the ``NUMBER``-th transaction of its life, so nothing is flushed, closed or said.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

BEFORE, BETWEEN, PRODUCED, COMMITTED, OFFSETS = POINTS = (
    "before the first record",
    "between two records",
    "before the commit",
    "after the commit",
    "after the group's offsets",
)
CODE = "from tests.kafka.dying import main; main()"
Call = Callable[..., Awaitable[Any]]


class _Countdown:
    """Dies at the given point of the given transaction; for account workers that is the risks of a step."""

    def __init__(self, point: str, number: int) -> None:
        self._point = point
        self._left = number
        self._is_open = False
        self._records = 0

    def reach(self, point: str) -> None:
        """Die if it is this one."""
        if point == self._point and self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def transaction(self, begin: Call) -> Call:
        """Around what begins a transaction."""

        async def counted(client: Any, *arguments: Any, **named: Any) -> Any:
            self._left, self._is_open, self._records = self._left - 1, True, 0
            return await begin(client, *arguments, **named)

        return counted

    def send(self, send: Call) -> Call:
        """Around what sends a record: the first one is with the broker before the second is sent."""

        async def counted(client: Any, *arguments: Any, **named: Any) -> Any:
            if not self._is_open:
                return await send(client, *arguments, **named)
            self.reach(BETWEEN if self._records else BEFORE)
            sent = await send(client, *arguments, **named)
            self._records += 1
            if self._records == 1:
                await client.flush()
            return sent

        return counted

    def commit(self, commit: Call) -> Call:
        """Around what makes a transaction visible."""

        async def counted(client: Any) -> None:
            await client.flush()
            self.reach(PRODUCED)
            await commit(client)
            self._is_open = False
            self.reach(COMMITTED)

        return counted

    def risks(self, write: Call) -> Call:
        """Around what writes the risks of a step."""
        begun = self.transaction(write)

        async def counted(topic: Any, *arguments: Any) -> None:
            await begun(topic, *arguments)
            self._is_open = False
            self.reach(PRODUCED)

        return counted

    def offsets(self, commit: Call) -> Call:
        """Around what tells the group how far its member has come."""

        async def counted(client: Any, *arguments: Any, **named: Any) -> None:
            await commit(client, *arguments, **named)
            self.reach(OFFSETS)

        return counted


def _watch(countdown: _Countdown) -> None:
    """Let the clients of this process come by the countdown."""
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

    from stream_app.kafka.risk_topic import RiskTopic

    around: tuple[tuple[Any, str, Callable[[Call], Call]], ...] = (
        (AIOKafkaProducer, "begin_transaction", countdown.transaction),
        (AIOKafkaProducer, "send", countdown.send),
        (AIOKafkaProducer, "commit_transaction", countdown.commit),
        (AIOKafkaConsumer, "commit", countdown.offsets),
        (RiskTopic, "write", countdown.risks),
    )
    for owner, name, wrap in around:
        setattr(owner, name, wrap(getattr(owner, name)))


def main() -> None:
    """The command line, in a process that will die."""
    point, number, *arguments = sys.argv[1:]
    assert point in POINTS, point
    _watch(_Countdown(point, int(number)))
    from stream_app.cli import main as command_line

    sys.argv[1:] = arguments
    command_line()
