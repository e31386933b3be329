"""What a desk asks of the work it does: records in, transactions out, without a broker."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from stream_app.kafka.release.arrival_order import Arrived
from stream_app.steps import ClosedStep, StepClock
from stream_app.watching.events import StepClosed
from stream_app.wire import PRIVATE_REASONS, Outcome, Rejected


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
