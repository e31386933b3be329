"""Writing one transaction at a time, with the fence that keeps a second writer out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import NamedTuple

from stream_app.kafka.broker.clients import BrokerError, FencedError, Writer, log_while_waiting
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.steps import public_release, release_for_tier
from stream_app.wire import StepDecision, StepRelease


class LogRecord(NamedTuple):
    """One record to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0


_TRANSACTION_MILLISECONDS = 60_000  # a leader and a coordinator that are silent take some 10 s each


class _Uncommitted(Exception):  # noqa: N818 - no error
    """Leaves a transaction without committing it."""


class TransactionLog(Writer):
    """The writer under one transactional id: a worker's, or that of one of its regions.

    Starting it fences the writer that had the id before: the broker refuses its next transaction. ``timed``
    is a topic whose records carry the broker's time.
    """

    def __init__(self, connection: Connection, transactional_id: str, timed: str, partition: int = 0) -> None:
        super().__init__(
            connection,
            transactional_id=transactional_id,
            transaction_timeout_ms=_TRANSACTION_MILLISECONDS,
            max_request_size=LARGE_BYTES,
        )
        self._timed = timed, partition

    async def stop(self) -> None:
        """Leave the log; what was not committed is never visible."""
        from aiokafka.errors import ProducerFenced

        try:
            await super().stop()
        except ProducerFenced:  # aiokafka 0.14 raises it before it has closed its connections
            await self._producer.client.close()

    async def broker_seconds(self) -> float:
        """The broker's time, from its stamp on a record that is never committed.

        Raises :class:`FencedError` if another writer has taken over.
        """
        topic, partition = self._timed
        with _broker_errors(), suppress(_Uncommitted):
            async with self._producer.transaction():
                sent = await self._producer.send_and_wait(topic, b"", None, partition)
                raise _Uncommitted
        return float(sent.timestamp) / 1000.0

    async def write(self, records: Iterable[LogRecord]) -> float | None:
        """Commit these records; :class:`FencedError` if another writer has taken over.

        Returns the broker's time, if a record of the timed topic was among them.
        """
        written = tuple(records)  # before the transaction: an error while they are made must not open one
        with _broker_errors():
            async with (
                log_while_waiting("a transaction", "nothing is published"),
                self._producer.transaction(),
            ):
                stamped = None
                for topic, key, value, partition in written:
                    sent = await self._producer.send(topic, value, key, partition)
                    stamped = sent if topic == self._timed[0] else stamped
            return None if stamped is None else float((await stamped).timestamp) / 1000.0


@contextmanager
def _broker_errors() -> Iterator[None]:
    """Turn errors of a transaction into :class:`FencedError` or :class:`BrokerError`."""
    from aiokafka.errors import KafkaError, ProducerFenced, UnknownError

    try:
        yield
    except KafkaError as error:
        cause = error.__cause__ or error  # the outer error often names no cause
        said = ": ".join(filter(None, (type(cause).__name__, str(cause))))
        if isinstance(cause, ProducerFenced):
            raise FencedError(
                "only one release worker may write",
                "a newer one has taken over",
                "this one ends and has published nothing since; stop whichever was started by mistake",
            ) from error
        if isinstance(cause, UnknownError):  # a broker's answer to a commit during a takeover
            raise FencedError(
                "only one release worker may write",
                f"{said}, as where a newer one takes over in the middle of a commit",
                "this one ends; if it was the only one, start it again: it continues where the log ends",
            ) from error
        raise BrokerError(
            "a transaction of the release log must be committed",
            said,
            "all of it is visible or nothing; started again, the worker continues where the log ends",
        ) from error


def records_of(
    topics: Topics, log: str, message: StepDecision | StepRelease, partition: int = 0
) -> Iterator[LogRecord]:
    """A message of a step for whoever reads its log: what is published, for the public and for each tier."""
    read = {log: message}
    if isinstance(message, StepRelease):
        read = {log: public_release(message, topics.tiers)}
        read |= {f"{log}-{tier}": release_for_tier(message, tier) for tier in topics.tiers}
    for name, own in read.items():
        key, line = str(message.step).encode(), own.line().rstrip()
        yield LogRecord(f"{topics.prefix}{name}", key, line, partition)
