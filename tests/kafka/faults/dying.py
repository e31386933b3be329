"""A worker that kills itself at one point of a transaction: ``main`` of a process of its own.

``POINT NUMBER`` stand before the arguments of the command line. The process dies as by ``kill -9`` when it
comes to the point for the ``NUMBER``-th time in its life that it publishes, so nothing is flushed, closed or
said. A release worker publishes closed steps in a transaction, an account worker the risks of one step; that
has no commit, so before and after it are the same moment.

Instead of a point one of the ``TOPICS`` may be named: then it dies before its ``NUMBER``-th record there.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from stream_app.kafka.release.release_log import LogRecord, TransactionLog

BEFORE, BETWEEN, PRODUCED, COMMITTED = POINTS = (
    "before the first record",
    "between two records",
    "before the commit",
    "after the commit",
)
TOPICS = ("accounts", "answers", "proposals", "whole")
"""That are written outside transactions, one record after the other, or in those that close nothing."""
CODE = "from tests.kafka.faults.dying import main; main()"
Call = Callable[..., Awaitable[Any]]
_STEPS = ("decisions", "releases", "sealed")  # topics: what a transaction of closed steps writes


class _Countdown:
    """Dies at the given point of the given publication."""

    def __init__(self, point: str, number: int) -> None:
        self._point = point
        self._left = number
        self._is_open = False
        self._records = 0

    def begin(self) -> None:
        """Something is published now."""
        self._left, self._is_open, self._records = self._left - 1, True, 0

    def reach(self, point: str) -> None:
        """Die if it is this one."""
        if point == self._point and self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def steps(self, write: Call) -> Call:
        """Around what writes a transaction."""

        async def counted(log: Any, records: Iterable[LogRecord]) -> Any:
            written = tuple(records)
            if any(record.topic.endswith(_STEPS) for record in written):
                self.begin()
            return await write(log, written)

        return counted

    def send(self, send: Call) -> Call:
        """Around what sends one record: the first one is with the broker before the second is sent."""

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

        async def counted(topic: Any, *arguments: Any) -> None:
            self.begin()
            await write(topic, *arguments)
            self._is_open = False
            self.reach(PRODUCED)
            self.reach(COMMITTED)

        return counted


def _watch_topic(topic: str, number: int) -> None:
    """Let the records of this process to a topic be counted; those before the last are with the broker."""
    from aiokafka import AIOKafkaProducer

    send, seen = AIOKafkaProducer.send, 0

    async def counted(client: Any, to: str, *arguments: Any, **named: Any) -> Any:
        nonlocal seen
        seen += to.endswith(f".{topic}")
        if seen == number:
            await client.flush()
            os.kill(os.getpid(), signal.SIGKILL)
        return await send(client, to, *arguments, **named)

    setattr(AIOKafkaProducer, "send", counted)  # noqa: B010 - of a class of the client


def _watch(countdown: _Countdown) -> None:
    """Let the clients of this process come by the countdown."""
    from aiokafka import AIOKafkaProducer
    from aiokafka.producer.message_accumulator import BatchBuilder

    from stream_app.kafka.account.account_worker import RiskTopic

    def batch_of_one(create: Callable[[Any], BatchBuilder]) -> Callable[[Any], BatchBuilder]:
        """What an account worker puts records into is full with one, so that there is a point between two."""
        serializers = {"key_serializer": None, "value_serializer": None}
        return lambda client: BatchBuilder(1, 0, is_transactional=False, **serializers)

    around: tuple[tuple[Any, str, Callable[[Any], Any]], ...] = (
        (AIOKafkaProducer, "send", countdown.send),
        (AIOKafkaProducer, "send_batch", countdown.send),
        (AIOKafkaProducer, "create_batch", batch_of_one),
        (AIOKafkaProducer, "commit_transaction", countdown.commit),
        (TransactionLog, "write", countdown.steps),
        (RiskTopic, "write", countdown.risks),
    )
    for owner, name, wrap in around:
        setattr(owner, name, wrap(getattr(owner, name)))


def main() -> None:
    """The command line, in a process that will die."""
    point, number, *arguments = sys.argv[1:]
    assert point in (*POINTS, *TOPICS), point
    if point in TOPICS:
        _watch_topic(point, int(number))
    else:
        _watch(_Countdown(point, int(number)))
    from stream_app.cli import main as command_line

    sys.argv[1:] = arguments
    command_line()
