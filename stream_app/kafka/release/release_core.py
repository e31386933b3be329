"""Records in, transactions out: what workers do with the records of their input logs, without a broker.

An :class:`ArrivalOrder` puts the records of several logs in one order. A :class:`Core` enters them, closes
steps, and gives its log what comes of them, to be written in one transaction with the position by which the
next run continues. :class:`ReleaseCore` is the core of a single release worker; those of regions are in
:mod:`stream_app.kafka.regions`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Container, Mapping, Sequence
from typing import Any, NamedTuple

from stream_app.kafka.deployment.records import ACTIVATION, READING, RefusedRecord
from stream_app.kafka.release.release_log import Progress, TopicLog
from stream_app.setup.run_folder.progress import DECISIONS, RELEASES, REVISED
from stream_app.steps import DeviceWatch, Intake, Origin, Results, StepClock, StepEngine, StepWindow

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


class Core(ABC):
    """What a worker does with the records of its input logs; runs on one thread at a time.

    What comes of a record depends only on the records before it, never on how records were cut into batches.
    It is taken by ``log``, whose position has the next record of each input by its name, and made durable by
    :meth:`commit`. ``devices`` are watched, or None. ``on_progress`` is called for each record and each step
    that closes, as a batch may take long, ``on_commit`` with what is durable and the broker's time.
    """

    devices: DeviceWatch | None = None

    def __init__(self, window: StepWindow, clock: StepClock, log: TopicLog) -> None:
        self._window = window
        self._clock = clock
        self.log, self._topics = log, log.topics
        self.results = Results(log)
        self._offsets = dict(log.position.offsets)
        self.on_progress: Callable[[], None] = lambda: None
        self.on_commit: Callable[[Results, float | None], object] = lambda results, stamp_seconds: None

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

    def commit(self) -> None:
        """Make durable all that came of the records so far, and the position after them."""
        stamp_seconds = self.log.commit(self._position(), self._window.take_changed())
        done, self.results = self.results, Results(self.log)
        self.on_commit(done, stamp_seconds)

    @abstractmethod
    def _position(self) -> Mapping[str, Any]:
        """The fields of the position to continue from that may have changed."""

    @abstractmethod
    def _receive(self, record: InputRecord) -> None:
        """Enter one new record."""

    @abstractmethod
    def _close_due(self) -> None:
        """Close every step that is due."""

    @property
    def takes_priority_logs_only(self) -> bool:
        """Whether only records of priority logs should be taken for now."""
        return False

    def is_over(self, now_seconds: float) -> bool:
        """Whether the tick of the next step has come."""
        return self._clock.due_step(now_seconds) >= self.next_step

    def take(self, records: Sequence[InputRecord], now_seconds: float, *, has_read_all: bool = False) -> None:
        """Enter new records, and close steps as they become due; records entered before are skipped.

        With a clock, steps whose tick is earlier than the broker's stamp of a record close before it is
        entered. A stamp from the future counts as ``now_seconds``. The present time itself closes steps only
        if the inputs held nothing more at that time (``has_read_all``).
        """
        for record in records:
            if record.offset >= self._offsets.get(record.log, 0):
                self._reach(min(record.timestamp, now_seconds))  # steps over by its stamp
                self._offsets[record.log] = record.offset + 1
                self._receive(record)
                self._close_due()
                self.on_progress()
        if has_read_all:
            self._reach(now_seconds)
        self._close_due()

    def _reach(self, seconds: float) -> None:
        """Close the steps whose tick has come by this time; all that was sent before has come, too."""
        if self.is_over(seconds):
            self._clock.check(seconds, self.next_step)
            self._window.close_through = max(self._window.close_through, self._clock.due_step(seconds))
            self._close_due()


class DecidingCore(Core):
    """Closes steps with an engine, and keeps the privacy account.

    ``writes`` are the logs of closed steps that it keeps, ``continues`` is the topic of its position. What
    came so far is committed before a step is decided, once the steps closed so far have ``commit_above``
    releases: 0 if a decision needs all earlier steps committed, None for never.
    """

    writes: Container[str] = (DECISIONS, RELEASES, REVISED)
    continues = "progress"
    position_kind: type[Progress] = Progress

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        log: TopicLog,
        commit_above: int | None = None,
        *,
        deployment: str | None = None,
    ) -> None:
        super().__init__(engine.intake.window, clock, log)
        self._deployment = deployment
        self.engine, self.devices = engine, engine.devices
        self._commit_above = commit_above
        self._go_on(log.position)

    def _go_on(self, position: Progress) -> None:
        """Take what else the position says."""

    def _close_due(self) -> None:
        while self.engine.is_due():
            above = self._commit_above
            if above is not None and self.results.events and self.results.releases >= above:
                self.commit()
            closed = self.engine.close_next()
            if closed is None:
                return
            self.results.close(closed, deployment=self._deployment, logs=self.writes)
            self.on_progress()

    def _position(self) -> Mapping[str, Any]:
        return {"offsets": self.offsets, **self.engine.position()}


class ReleaseCore(DecidingCore):
    """The core of a worker that takes in counts, decides and publishes."""

    def _receive(self, record: InputRecord) -> None:
        is_activation = record.log == self._topics.activations
        receive_message(self.engine.intake, record, self._clock, is_activation, self.results)


def receive_message(
    intake: Intake, record: InputRecord, clock: StepClock, is_activation: bool, results: Results
) -> None:
    """Enter an activation, a reading or a batch of readings; anything else becomes a dead letter.

    Whether a step was over when its count came is decided by the broker's time stamp, so that a record that
    is read again is treated the same way.
    """
    source = f"{record.log}:{record.offset}"
    intake.over_through = clock.over_step(record.timestamp)
    message = (ACTIVATION if is_activation else READING).read(record, source)
    if isinstance(message, RefusedRecord):
        results.refuse((message.letter(),))
    else:
        results.receive(intake.receive(message, Origin(source, record.value)))
