"""Records in, transactions out: what workers do with the records of their input logs, without a broker.

An :class:`ArrivalOrder` puts the records of several logs in one order. A :class:`Core` enters them, closes
steps, and says which records have to be written in one transaction. :class:`Progress` is the record by which
the next run continues. :class:`ReleaseCore` is the core of a single release worker; those of regions are in
:mod:`stream_app.kafka.regions`.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal, NamedTuple, TypeVar

from pydantic import Field, ValidationError, field_validator
from pydantic_core import to_json

from accounting.ledgers import PrivacyAccount
from stream_app.exceptions import first_fault, restoring
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.records import ACTIVATION, READING, RefusedRecord
from stream_app.kafka.release.release_log import LogRecord, records_of
from stream_app.setup.run_folder.progress import DECISIONS, RELEASES, REVISED
from stream_app.steps import DeviceWatch, Intake, Origin, Position, StepClock, StepEngine, StepWindow
from stream_app.watching.events import StepClosed
from stream_app.wire import (
    MAX_COUNT,
    PRIVATE_REASONS,
    DeviceFinding,
    Exact,
    Name,
    Outcome,
    Rejected,
    Step,
    Version,
)

SILENCE_SECONDS = 2.0
"""After which the broker is asked whether a log that holds others back has more."""

_MOST_RECORDS = 16_000
_MOST_BYTES = 64 * 2**20  # several fetches of each log, so that a log is read on while another is held back


class InputRecord(NamedTuple):
    """One record: the name of its log, the broker's time stamp, its offset and its bytes."""

    log: str
    timestamp: float
    offset: int
    value: bytes
    key: bytes = b""


class ArrivalOrder:
    """Records of several logs in the order in which the broker received them.

    A worker that catches up fetches one log far ahead of another. Entered as fetched, activations would seem
    to be announced years ahead, or counts to come without their activation. So logs are merged by the
    broker's time stamps; of records with the same stamp, the one of the log named first comes first. A log
    without a waiting record holds the others back until it is known to have nothing earlier, however long
    that takes: a busy machine may not hear of it for seconds.

    Records of ``priority_logs``, further logs, come before all others and never wait for them.
    """

    def __init__(
        self,
        logs: Sequence[str],
        is_at_end: Callable[[str], bool],
        offsets: Mapping[str, int] | None = None,
        priority_logs: Sequence[str] = (),
    ) -> None:
        """``offsets`` are the first records of each log that no earlier run has processed.

        ``is_at_end`` says of a log whether it is known to have no record that was not added.
        """
        self._waiting: dict[str, deque[InputRecord]] = {log: deque() for log in (*logs, *priority_logs)}
        self._merged, self._priority_logs = tuple(logs), tuple(priority_logs)
        self._bytes = dict.fromkeys(self._waiting, 0)
        self._is_at_end = is_at_end
        self.next_offsets = {log: (offsets or {}).get(log, 0) for log in self._waiting}
        """Of each log, the offset after the last record that was added."""
        self._held_since: dict[str, float] = {}  # since when each silent log holds others back, in seconds
        self._passed: dict[str, dict[str, int]] = {}  # up to which records of others, as it had nothing more

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._waiting.values()))

    def is_full(self, log: str, share: float = 1.0) -> bool:
        """Whether so many records of a log wait that no more of it should be fetched for now.

        Each log has room of its own: one that others wait for is never kept out by them.
        """
        room = share / len(self._waiting)
        return len(self._waiting[log]) > _MOST_RECORDS * room or self._bytes[log] > _MOST_BYTES * room

    def lacks(self, log: str, offset: int) -> bool:
        """Whether the record at this offset has not been added."""
        return offset >= self.next_offsets[log]

    def add(self, record: InputRecord) -> None:
        """Add a record; those of one log come in the order of their offsets."""
        self._waiting[record.log].append(record)
        self._bytes[record.log] += len(record.value)
        self.next_offsets[record.log] = max(self.next_offsets[record.log], record.offset + 1)

    def take(self, most: int, now_seconds: float, *, priority_logs_only: bool = False) -> list[InputRecord]:
        """The next records in order, at most ``most``."""
        taken: list[InputRecord] = []
        for log in self._priority_logs:
            while self._waiting[log] and len(taken) < most:
                taken.append(self._pop(log))
        while len(taken) < most and not priority_logs_only:
            heads = [self._waiting[log][0] for log in self._merged if self._waiting[log]]
            first = min(heads, key=lambda record: record.timestamp, default=None)
            if first is None or not all(self._may_pass(log, first, now_seconds) for log in self._merged):
                break
            taken.append(self._pop(first.log))
        return taken

    def silent(self, now_seconds: float) -> list[str]:
        """The logs that have held others back for :data:`SILENCE_SECONDS`."""
        return [log for log, since in self._held_since.items() if now_seconds - since >= SILENCE_SECONDS]

    def has_no_more(self, log: str, asked_at: Mapping[str, int]) -> None:
        """The broker has said that every record of a log was added: others may pass it up to these offsets.

        They are the :attr:`next_offsets` from before it was asked: what came since may be later than a record
        that the log has got since.
        """
        self._passed[log] = dict(asked_at)
        self._held_since.pop(log, None)

    def _pop(self, log: str) -> InputRecord:
        record = self._waiting[log].popleft()
        self._bytes[log] -= len(record.value)
        return record

    def _may_pass(self, log: str, record: InputRecord, now_seconds: float) -> bool:
        """Whether a log has a record to compare this one with, or surely none that is earlier."""
        if self._waiting[log] or self._is_at_end(log):
            self._held_since.pop(log, None)
            return True
        if record.offset < self._passed.get(log, {}).get(record.log, 0):
            return True
        self._held_since.setdefault(log, now_seconds)
        return False


@dataclass
class BatchResult:
    """What came of a batch of records.

    ``records`` are to be written, in this order, beside the dead letters in ``rejected``, what is suspected
    of devices in ``findings``, and the position. ``events`` are for observers, once all of it is durable;
    their latency and lag are filled in then.
    """

    records: list[LogRecord] = field(default_factory=list)
    events: list[StepClosed] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    findings: list[DeviceFinding] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    @property
    def releases(self) -> int:
        """Releases of all closed steps: the size of a transaction grows with their number."""
        return sum(len(event.schedule.releases) for event in self.events)

    @property
    def is_idle(self) -> bool:
        """Whether a commit can wait, as nobody waits for anything in it.

        Private dead letters wait too, as repetitions do: the time of a write must not depend on counts.
        """
        return not self.records and all(each.reason in PRIVATE_REASONS for each in self.rejected)

    def clear(self) -> None:
        """Empty it, after it was committed."""
        for each in vars(self).values():
            each.clear()


class Core(ABC):
    """Turns records of input logs into the records to be written; runs on one thread at a time.

    ``offsets`` are the next records of each log by its name. The result of a record depends only on the
    records before it, never on how records were cut into batches. ``continues`` is the topic of its position,
    ``partition`` the one that it writes to; ``devices`` are watched, or None. ``on_progress`` is called for
    each record and each step that closes, as a batch may take long.
    """

    continues = "progress"
    partition = 0
    devices: DeviceWatch | None = None

    def __init__(
        self, window: StepWindow, clock: StepClock, offsets: Mapping[str, int], topics: Topics
    ) -> None:
        self._window = window
        self._clock = clock
        self._offsets = dict(offsets)
        self._topics = topics
        self.on_progress: Callable[[], None] = lambda: None

    @property
    def offsets(self) -> dict[str, int]:
        """The next record of each log."""
        return dict(self._offsets)

    @property
    def next_step(self) -> int:
        """The step that closes next."""
        return self._window.next_step

    @property
    def watermark(self) -> int:
        """The last step that most sensors have reached; -1 for none."""
        return self._window.watermark

    @property
    def next_published(self) -> int:
        """The step that is published next."""
        return self.next_step

    def records(self, result: BatchResult) -> Iterator[LogRecord]:
        """Everything that has to become durable now."""
        yield from result.records
        for letter in result.rejected:
            yield LogRecord(self._topics.rejected, None, letter.line().rstrip())
        for finding in result.findings:
            line = finding.line().rstrip()
            yield LogRecord(self._topics.quality, finding.sensor.encode(), line, self.partition)
        changed, topic = step_records(self._window.take_changed()), f"{self._topics.prefix}{self.continues}"
        for key, value in {**changed, PROGRESS_KEY: self._position().record()}.items():
            yield LogRecord(topic, key, value, self.partition)

    def events(self, result: BatchResult, latency_seconds: float) -> Iterator[StepClosed]:
        """What observers are sent, once the batch is durable."""
        lag_steps = max(0, self.watermark + 1 - self.next_published)
        for event in result.events:
            yield replace(event, latency_seconds=latency_seconds, lag_steps=lag_steps)

    @abstractmethod
    def _position(self) -> Progress:
        """The position to continue from."""

    @abstractmethod
    def _receive(self, record: InputRecord, result: BatchResult) -> None:
        """Enter one new record."""

    @abstractmethod
    def _close_due(self, result: BatchResult) -> None:
        """Close every step that is due."""

    @property
    def takes_priority_logs_only(self) -> bool:
        """Whether only records of priority logs should be taken for now."""
        return False

    def is_over(self, now_seconds: float) -> bool:
        """Whether the tick of the next step has come."""
        return self._clock.due_step(now_seconds) >= self.next_step

    def take(
        self, records: Sequence[InputRecord], now_seconds: float, *, has_read_all: bool = False
    ) -> BatchResult:
        """Enter new records, and close steps as they become due; records entered before are skipped.

        With a clock, steps whose tick is earlier than the broker's stamp of a record close before it is
        entered. A stamp from the future counts as ``now_seconds``. The present time itself closes steps only
        if the inputs held nothing more at that time (``has_read_all``).
        """
        result = BatchResult()
        for record in records:
            if record.offset >= self._offsets.get(record.log, 0):
                self._reach(min(record.timestamp, now_seconds), result)  # steps over by its stamp
                self._offsets[record.log] = record.offset + 1
                self._receive(record, result)
                self._close_due(result)
                self.on_progress()
        if has_read_all:
            self._reach(now_seconds, result)
        self._close_due(result)
        return result

    def _reach(self, seconds: float, result: BatchResult) -> None:
        """Close the steps whose tick has come by this time; all that was sent before has come, too."""
        if self.is_over(seconds):
            self._clock.check(seconds, self.next_step)
            self._window.close_through = max(self._window.close_through, self._clock.due_step(seconds))
            self._close_due(result)


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


class DecidingCore(Core):
    """Closes steps with an engine, and keeps the privacy account.

    ``writes`` are the logs of closed steps that it keeps. ``flush`` commits the batch so far, and empties it.
    It is called before a step is decided, once the steps closed so far have at least ``flush_above``
    releases: 0 if a decision needs all earlier steps committed.
    """

    writes: Container[str] = (DECISIONS, RELEASES, REVISED)
    position_kind: type[Progress] = Progress

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        progress: Progress,
        basis: Mapping[str, object],
        flush: Callable[[BatchResult], None] | None = None,
        flush_above: int = 0,
        *,
        topics: Topics,
        deployment: str | None = None,
    ) -> None:
        super().__init__(engine.intake.window, clock, progress.offsets, topics)
        self._deployment = deployment
        self.engine, self.devices = engine, engine.devices
        self._basis = dict(basis)
        self._flush = flush
        self._flush_above = flush_above

    def _close_due(self, result: BatchResult) -> None:
        while self.engine.is_due():
            if self._flush is not None and result.events and result.releases >= self._flush_above:
                self._flush(result)
            closed = self.engine.close_next()
            if closed is None:
                return
            for log, message in closed.messages(self._deployment):
                if log in self.writes:
                    result.records += records_of(self._topics, log, message)
            result.events.append(closed.event())
            result.rejected += closed.rejected
            result.findings += closed.findings
            self.on_progress()

    def _position(self) -> Progress:
        found = {"offsets": self._offsets, "basis": self._basis, **self.engine.position()}
        return self.position_kind.model_validate({**found, **self._own_position()})

    def _own_position(self) -> Mapping[str, Any]:
        """Fields of the position that are this core's own, or otherwise there."""
        return {}


class ReleaseCore(DecidingCore):
    """The core of a worker that takes in counts, decides and publishes."""

    def _receive(self, record: InputRecord, result: BatchResult) -> None:
        is_activation = record.log == self._topics.activations
        receive_message(self.engine.intake, record, self._clock, is_activation, result)


def receive_message(
    intake: Intake, record: InputRecord, clock: StepClock, is_activation: bool, result: BatchResult
) -> None:
    """Enter an activation, a reading or a batch of readings; anything else becomes a dead letter.

    Whether a step was over when its count came is decided by the broker's time stamp, so that a record that
    is read again is treated the same way.
    """
    source = f"{record.log}:{record.offset}"
    intake.over_through = clock.over_step(record.timestamp)
    message = (ACTIVATION if is_activation else READING).read(record, source)
    if isinstance(message, RefusedRecord):
        result.rejected.append(message.letter())
        return
    receipt = intake.receive(message, Origin(source, record.value))
    result.outcomes.update(receipt.outcomes)
    result.rejected += receipt.rejected
