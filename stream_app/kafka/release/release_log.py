"""What the release worker writes, one transaction at a time, and the fence that keeps a second one out."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import BrokerError, FencedError
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.kafka.release.progress import KEY, Progress
from stream_app.steps import ClosedStep, public_release, release_for_tier
from stream_app.wire import Rejected, decision_of

_TRANSACTION_MILLISECONDS = 30_000
_REQUEST_MILLISECONDS = 40_000


@dataclass(frozen=True)
class Transaction:
    """Closed steps, dead letters and where to continue: all of it becomes visible, or nothing."""

    closed: Sequence[ClosedStep]
    rejected: Sequence[Rejected]
    progress: Progress
    steps: Mapping[bytes, bytes | None]


class ReleaseLog:
    """The only writer of releases, decisions and progress.

    Starting it fences whoever wrote before: the broker refuses the older one's next transaction.
    """

    def __init__(self, connection: Connection, topics: Topics, deployment: str | None = None) -> None:
        """``deployment`` is the digest that decisions carry."""
        self._connection = connection
        self._topics = topics
        self._tiers = topics.tiers
        self._deployment = deployment
        self._producer: Any = None

    async def start(self) -> None:
        """Take over the log."""
        from aiokafka import AIOKafkaProducer

        self._producer = AIOKafkaProducer(
            **self._connection.aiokafka(),
            transactional_id=f"{self._topics.prefix}release",
            transaction_timeout_ms=_TRANSACTION_MILLISECONDS,
            request_timeout_ms=_REQUEST_MILLISECONDS,
            max_request_size=LARGE_BYTES,
        )
        await self._producer.start()

    async def stop(self) -> None:
        """Leave the log; what was not committed was never there."""
        if self._producer is not None:
            await self._producer.stop()

    async def broker_seconds(self) -> float:
        """The broker's time, by its stamp on a record that is never committed."""
        await self._producer.begin_transaction()
        try:
            sent = await self._producer.send_and_wait(self._topics.decisions, b"", None, 0)
        finally:
            await self._producer.abort_transaction()
        return float(sent.timestamp) / 1000.0

    async def write(self, transaction: Transaction) -> float | None:
        """Commit; :class:`FencedError` when another worker has taken over.

        Gives the broker's time, where a step was closed.
        """
        from aiokafka.errors import KafkaError, ProducerFenced

        records = tuple(self.records(transaction))
        try:
            async with self._producer.transaction():
                stamped = None
                for topic, key, value, partition in records:
                    sent = await self._producer.send(topic, value, key, partition)
                    stamped = sent if topic == self._topics.decisions else stamped
            return None if stamped is None else float((await stamped).timestamp) / 1000.0
        except ProducerFenced as error:
            raise FencedError(
                "only one release worker may write",
                "a newer one has taken over",
                "this one ends and has published nothing since; stop whichever was started by mistake",
            ) from error
        except KafkaError as error:
            raise BrokerError(
                "a transaction of the release log must be committed",
                str(error) or type(error).__name__,
                "all of it is visible or nothing; started again, the worker continues where the log ends",
            ) from error

    def records(self, transaction: Transaction) -> Iterable[tuple[str, bytes | None, bytes | None, int]]:
        """Every record of a transaction: topic, key, value, partition; none with a tier that has no topic."""
        for closed in transaction.closed:
            yield from self._step_records(closed)
        for rejected in transaction.rejected:
            yield self._topics.rejected, None, rejected.line().rstrip(), 0
        for key, value in transaction.steps.items():
            yield self._topics.progress, key, value, 0
        yield self._topics.progress, KEY, transaction.progress.record(), 0

    def _step_records(self, closed: ClosedStep) -> Iterable[tuple[str, bytes | None, bytes, int]]:
        """The release, what each tier receives of it, and its internal twin.

        Late and corrected values of earlier steps are published with it.
        """
        key = str(closed.schedule.step).encode()
        public = public_release(closed.release, self._tiers)
        yield self._topics.releases, key, public.line().rstrip(), 0
        for revised in closed.revised:
            yield self._topics.revised, str(revised.step).encode(), revised.line().rstrip(), 0
        for tier in self._tiers:
            yield self._topics.tier(tier), key, release_for_tier(closed.release, tier).line().rstrip(), 0
        decision = decision_of(closed.schedule, closed.why, self._deployment, closed.crowds).line().rstrip()
        yield self._topics.decisions, key, decision, 0
