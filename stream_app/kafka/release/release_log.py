"""The log of a worker on topics: one transaction at a time, and the fence that keeps a second writer out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_core import to_json

from accounting.ledgers import PrivacyAccount
from stream_app.exceptions import first_fault, restoring
from stream_app.kafka.broker.clients import BrokerError, FencedError, LogError, Writer, log_while_waiting
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import LARGE_BYTES, Topics
from stream_app.setup.run_folder.progress import DECISIONS, QUALITY, RELEASES, REVISED, SavedStep
from stream_app.steps import Position, StepWindow, public_release, release_for_tier
from stream_app.wire import MAX_COUNT, BaseMessage, Exact, Name, Step, StepDecision, StepRelease, Version


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


# The records of the topic ``progress``, written with every transaction: one says the position, and one for
# each open step what is known of it, so that no record grows with the number of open steps. The topic is
# compacted: the last record of each key counts. A step that is forgotten is deleted.

PROGRESS_KEY = b"release"
_STEP_KEY = b"step-"
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class OpenStepRecord(Exact):
    """An open step with its counts, so secret; :class:`stream_app.steps.window.StepWindow` saves it."""

    step: Step
    sensors: tuple[Name, ...] | None
    counts: Mapping[Name, _Count]
    waiting: Mapping[Name, tuple[_Count, str]]
    corrected: Mapping[Name, tuple[_Count, ...]] = Field(default_factory=dict)


_FIRST = ("v", "type", "next_step", "offsets", "window", "basis")  # as records always began


class Progress(Position):
    """The position as a record; ``offsets`` are the next records of each input log.

    ``basis`` holds fingerprints of the settings that the log was begun with.
    """

    v: Version = 1
    type: Literal["progress"] = "progress"
    offsets: Mapping[str, int] = Field(default_factory=dict)
    basis: Mapping[str, Any] = Field(default_factory=dict)

    @field_validator("account")
    @classmethod
    def _is_account(cls, account: Mapping[str, Any]) -> Mapping[str, Any]:
        if account:
            PrivacyAccount.load(account)
        return account

    @field_validator("window")
    @classmethod
    def _is_window(cls, window: Mapping[str, Any]) -> Mapping[str, Any]:
        if window:
            StepWindow(grace=0).load({"steps": (), **window})
        return window

    def record(self) -> bytes:
        """The value of the record."""
        fields = self.model_dump()
        return to_json({name: fields.pop(name) for name in _FIRST} | fields)


def step_records(changed: Mapping[int, Mapping[str, Any] | None]) -> dict[bytes, bytes | None]:
    """Key and value of each step that has changed; no value for a step that is forgotten."""
    return {
        _STEP_KEY + str(step).encode(): (
            None if saved is None else json.dumps(saved, separators=(",", ":")).encode()
        )
        for step, saved in changed.items()
    }


At = TypeVar("At", bound=Progress)


def restore(latest: Mapping[bytes | None, bytes | None], topic: str, kind: type[At]) -> At:
    """The position with its open steps, from the last record of each key; a new deployment has none."""
    try:
        saved = latest.get(PROGRESS_KEY)
        progress = kind() if saved is None else kind.model_validate_json(saved)
        steps = [
            OpenStepRecord.model_validate_json(value).model_dump()
            for key, value in latest.items()
            if value is not None and key is not None and key.startswith(_STEP_KEY)
        ]
    except ValidationError as error:
        raise LogError(
            f"the last records of {topic} must be a progress of this version",
            first_fault(error),
            f"run the version that wrote it, or {restoring(topic)}",
        ) from error
    if not progress.window:
        return progress
    known = progress.window.get("steps", ())  # earlier versions kept all steps in one record
    return progress.model_copy(update={"window": {**progress.window, "steps": [*known, *steps]}})


SEALED_STEPS, WHOLE_STEPS = "sealed", "whole"
_OWN_PARTITION = (RELEASES, REVISED, QUALITY, SEALED_STEPS)
_KEYS = {DECISIONS: "step", RELEASES: "step", REVISED: "step", WHOLE_STEPS: "step", QUALITY: "sensor"}
"""The field of a message by which its record is found."""


class TopicLog:
    """The log of a worker, or of one of its regions; see :class:`stream_app.steps.Log`.

    ``position`` is that of the owner before, with what this one adds to it. It is written to the topic
    ``continues`` (None: ``progress``), and what is a region's own to its ``partition``. ``write`` makes
    records durable in one transaction, and ``read`` reads decisions; both are called on the core's thread.
    """

    def __init__(
        self,
        topics: Topics,
        position: Progress,
        write: Callable[[Sequence[LogRecord]], float | None],
        read: Callable[[int, int], Iterable[StepDecision]] = lambda first, until: (),
        *,
        continues: str | None = None,
        partition: int = 0,
    ) -> None:
        self.topics, self.position, self.partition = topics, position, partition
        self.decisions = read
        self._write = write
        self._topic = continues or topics.progress
        self._kept: list[LogRecord] = []

    def keep(self, log: str, written: BaseMessage | bytes) -> None:
        """Take a message for whoever reads its log: what is published, for the public and for each tier."""
        assert isinstance(written, BaseMessage)  # lines are a folder's
        read, topics = {log: written}, self.topics
        if isinstance(written, StepRelease):
            read = {log: public_release(written, topics.tiers)}
            read |= {f"{log}-{tier}": release_for_tier(written, tier) for tier in topics.tiers}
        partition = self.partition if log in _OWN_PARTITION else 0
        key = str(getattr(written, _KEYS[log])).encode() if log in _KEYS else None
        for name, own in read.items():
            self._kept.append(LogRecord(f"{topics.prefix}{name}", key, own.line().rstrip(), partition))

    def commit(self, reached: Mapping[str, Any], changed: Mapping[int, SavedStep | None]) -> float | None:
        """Write what was taken and the position in one transaction; :class:`FencedError` of another owner.

        Returns the broker's time, if a record of the timed topic was among them.
        """
        position = type(self.position).model_validate({**dict(self.position), **reached})
        progress = {**step_records(changed), PROGRESS_KEY: position.record()}
        records = [LogRecord(self._topic, *each, self.partition) for each in progress.items()]
        stamp_seconds = self._write([*self._kept, *records])
        self.position = position
        self._kept.clear()
        return stamp_seconds

    def wrong(self, found: str) -> LogError:
        """See :meth:`stream_app.steps.Log.wrong`."""
        decisions = self.topics.decisions
        return LogError(
            f"{self._topic} must belong to the steps of {decisions}",
            found,
            "both are written together, so one of them was changed or lost: "
            + restoring(f"{self._topic} and {decisions}"),
        )
