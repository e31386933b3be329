"""What a desk asks of the work it does: records in, transactions out, without a broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.steps import ClosedStep, StepClock
from stream_app.watching.events import StepClosed
from stream_app.wire import PRIVATE_REASONS, Outcome, Rejected

# Records of several logs in the order in which the broker received them.
#
# A worker that catches up fetches one log far ahead of another. Taken as fetched, activations would seem
# announced years ahead, or counts to come without their activation; by the broker's time stamps they come
# as they came. A log of which nothing waits holds the others back until it is known to have nothing
# earlier.

SILENCE_SECONDS = 2.0
"""Silence after which a log is taken to have nothing, when its end cannot be found out."""


_MOST_RECORDS = 16_000
_MOST_BYTES = 64 * 2**20  # several fetches of each log, so that none waits for what another one holds back


class Arrived(NamedTuple):
    """One record: the name of its log, the broker's time stamp, its offset and its bytes."""

    log: str
    timestamp: float
    offset: int
    value: bytes
    key: bytes = b""


class ArrivalOrder:
    """Merges logs; the first named goes first among records of the same time stamp.

    Records of the ``asides``, further logs, go before all others and wait for none of them.
    """

    def __init__(
        self,
        logs: Sequence[str],
        is_at_end: Callable[[str], bool],
        now_seconds: float,
        offsets: Mapping[str, int] | None = None,
        asides: Sequence[str] = (),
    ) -> None:
        """``offsets`` are the first records of each log that were not dealt with by an earlier run.

        ``is_at_end`` says of a log whether it is known to have no record that was not added.
        """
        self._waiting: dict[str, deque[Arrived]] = {log: deque() for log in (*logs, *asides)}
        self._merged, self._asides = tuple(logs), tuple(asides)
        self._waiting_bytes = 0
        self._is_at_end = is_at_end
        self._next_offset = {log: (offsets or {}).get(log, 0) for log in self._waiting}
        self._heard_seconds = dict.fromkeys(logs, now_seconds)

    def __len__(self) -> int:
        """How many records wait."""
        return sum(map(len, self._waiting.values()))

    @property
    def is_full(self) -> bool:
        """Whether so much waits that no more should be handed to us for now."""
        return len(self) > _MOST_RECORDS or self._waiting_bytes > _MOST_BYTES

    @property
    def next_offsets(self) -> Mapping[str, int]:
        """Of each log the record behind the last one that was handed to us."""
        return self._next_offset

    def lacks(self, log: str, offset: int) -> bool:
        """Whether the record at this offset was never handed to us."""
        return offset >= self._next_offset[log]

    def add(self, record: Arrived, now_seconds: float) -> None:
        """One more record; those of one log come in the order of their offsets."""
        self._waiting[record.log].append(record)
        self._waiting_bytes += len(record.value)
        self._next_offset[record.log] = max(self._next_offset[record.log], record.offset + 1)
        self._heard_seconds[record.log] = now_seconds

    def take(self, most: int, now_seconds: float, *, asides_only: bool = False) -> list[Arrived]:
        """At most so many records whose turn has come."""
        taken: list[Arrived] = []
        for aside in self._asides:
            while self._waiting[aside] and len(taken) < most:
                taken.append(self._pop(aside))
        while len(taken) < most and not asides_only:
            heads = [self._waiting[log][0] for log in self._merged if self._waiting[log]]
            if not heads or not all(self._may_pass(log, now_seconds) for log in self._merged):
                break
            taken.append(self._pop(min(heads, key=lambda record: record.timestamp).log))
        return taken

    def _pop(self, log: str) -> Arrived:
        record = self._waiting[log].popleft()
        self._waiting_bytes -= len(record.value)
        return record

    def _may_pass(self, log: str, now_seconds: float) -> bool:
        """Whether a log has a record to compare with, or none to wait for."""
        if self._waiting[log]:
            return True
        return now_seconds - self._heard_seconds[log] >= SILENCE_SECONDS or self._is_at_end(log)


@dataclass
class Taken:
    """What came of some records."""

    closed: list[ClosedStep] = field(default_factory=list)
    rejected: list[Rejected] = field(default_factory=list)
    outcomes: Counter[Outcome] = field(default_factory=Counter)

    @property
    def releases(self) -> int:
        """Sensors of all closed steps: what a transaction of them grows with."""
        return sum(len(closed.schedule.releases) for closed in self.closed)

    @property
    def is_idle(self) -> bool:
        """Whether nothing came of the records that anybody waits for.

        Private dead letters wait as repetitions do: when something is written must not depend on counts.
        """
        return not self.closed and all(each.reason in PRIVATE_REASONS for each in self.rejected)

    def clear(self) -> None:
        """All of it was dealt with."""
        self.closed.clear()
        self.rejected.clear()
        self.outcomes.clear()


class LogRecord(NamedTuple):
    """One record to be written."""

    topic: str
    key: bytes | None
    value: bytes | None
    partition: int = 0


class Core(ABC):
    """Records of input logs to what is written for them; on one thread at a time.

    ``offsets`` are the next records of each log by its name. What comes of a record depends on those before
    it only, never on how they were cut into batches.
    """

    def __init__(self, clock: StepClock, offsets: Mapping[str, int]) -> None:
        self._clock = clock
        self._offsets = dict(offsets)

    @property
    def offsets(self) -> dict[str, int]:
        """The next record of each log."""
        return dict(self._offsets)

    @property
    @abstractmethod
    def next_step(self) -> int:
        """The step that closes next."""

    @property
    @abstractmethod
    def watermark(self) -> int:
        """The last step that the inputs vouch for having come; -1 for none."""

    @abstractmethod
    def records(self, taken: Taken) -> Iterator[LogRecord]:
        """All that has to become durable now, and was not before."""

    @abstractmethod
    def events(self, taken: Taken, latency_seconds: float) -> Iterable[StepClosed]:
        """What observers get of it, once it is durable."""

    @abstractmethod
    def _receive(self, record: Arrived, taken: Taken) -> None:
        """Enter one record that was not entered before."""

    @abstractmethod
    def _close_due(self, taken: Taken) -> None:
        """Close whatever is due."""

    @abstractmethod
    def _close_through(self, step: int) -> None:
        """The ticks of the steps up to this one have come, and so has all that was sent before."""

    @property
    def takes_asides_only(self) -> bool:
        """Whether only records should be taken whose log keeps no order with the others."""
        return False

    def new_taken(self) -> Taken:
        """Nothing yet."""
        return Taken()

    def is_over(self, now_seconds: float) -> bool:
        """Whether the tick of the next step has come."""
        return self._clock.due_step(now_seconds) >= self.next_step

    def take(self, records: Sequence[Arrived], now_seconds: float, *, has_read_all: bool = False) -> Taken:
        """Enter records that were not entered before, closing steps as they become due.

        With a clock, steps whose tick lies before the broker's stamp of a record close before it is entered.
        A stamp from the future counts as ``now_seconds``, which itself closes steps only where the inputs
        held nothing more at that time.
        """
        taken = self.new_taken()
        for record in records:
            if record.offset >= self._offsets.get(record.log, 0):
                self._reach(min(record.timestamp, now_seconds), taken)
                self._offsets[record.log] = record.offset + 1
                self._receive(record, taken)
                self._close_due(taken)
        if has_read_all:
            self._reach(now_seconds, taken)
        self._close_due(taken)
        return taken

    def _reach(self, seconds: float, taken: Taken) -> None:
        """It is so late: close whatever is missing in steps whose tick has come."""
        if self.is_over(seconds):
            self._clock.check(seconds, self.next_step)
            self._close_through(self._clock.due_step(seconds))
            self._close_due(taken)
