"""The release worker without a broker: records in, transactions out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from accounting.ledgers import PrivacyAccount
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.records import ACTIVATION, READING
from stream_app.kafka.deployment.refused_record import RefusedRecord
from stream_app.kafka.release.arrival_order import Arrived
from stream_app.kafka.release.progress import Progress, step_records
from stream_app.kafka.release.release_log import Transaction
from stream_app.steps import ClosedStep, Origin, StepClock, StepEngine
from stream_app.wire import Outcome, Rejected, fingerprint_of


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

    def clear(self) -> None:
        """All of it was dealt with."""
        self.closed.clear()
        self.rejected.clear()
        self.outcomes.clear()


class Flush(NamedTuple):
    """``write`` makes durable, and takes out, what was taken so far.

    It is called before a step is decided once those closed since release ``above`` sensors; 0 where deciding
    a step needs the steps before to be known.
    """

    write: Callable[[Taken], None]
    above: int = 0


class ReleaseCore:
    """Engine and positions in the inputs; on one thread at a time."""

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        progress: Progress,
        basis: Mapping[str, object],
        flush: Flush | None = None,
        topics: Topics = Topics(),  # noqa: B008 - frozen
    ) -> None:
        self.engine = engine
        self._clock = clock
        self._offsets = dict(progress.offsets)
        self._basis = dict(basis)
        self._account = (
            PrivacyAccount.load(progress.account)
            if progress.account
            else PrivacyAccount(sensor.group for sensor in engine.intake.registry.sensors)
        )
        self._decided = progress.decided
        self._flush = flush
        self._activations = topics.activations

    def is_over(self, now_seconds: float) -> bool:
        """Whether the tick of the next step has come."""
        return self._clock.due_step(now_seconds) >= self.engine.next_step

    def take(self, records: Sequence[Arrived], now_seconds: float, *, has_read_all: bool = False) -> Taken:
        """Enter records that were not entered before, closing steps as they become due.

        What comes of a record depends on those before it only, never on how they were cut into batches.
        With a clock, steps whose tick lies before the broker's stamp of a record close before it is entered.
        A stamp from the future counts as ``now_seconds``, which itself closes steps only where the inputs
        held nothing more at that time.
        """
        taken = Taken()
        for record in records:
            if record.offset >= self._offsets.get(record.topic, 0):
                self._reach(min(record.timestamp, now_seconds), taken)
                self._offsets[record.topic] = record.offset + 1
                self._receive(record, taken)
                self._close_due(taken)
        if has_read_all:
            self._reach(now_seconds, taken)
        self._close_due(taken)
        return taken

    def _reach(self, seconds: float, taken: Taken) -> None:
        """It is so late: close whatever is missing in steps whose tick has come."""
        if self.is_over(seconds):
            self._clock.check(seconds, self.engine.next_step)
            self.engine.close_through(self._clock.due_step(seconds))
            self._close_due(taken)

    def _close_due(self, taken: Taken) -> None:
        while self.engine.is_due():
            if self._flush is not None and taken.closed and taken.releases >= self._flush.above:
                self._flush.write(taken)
            closed = self.engine.close_next()
            if closed is None:
                return
            taken.closed.append(closed)
            self._account.charge(closed.schedule)
            self._decided = fingerprint_of(closed.schedule)
            taken.rejected += closed.rejected

    def transaction(self, taken: Taken) -> Transaction:
        """All that has to become durable now, and was not before."""
        window = self.engine.intake.window
        progress = Progress(
            next_step=self.engine.next_step,
            offsets=self._offsets,
            window=window.save_position(),
            basis=self._basis,
            account=self._account.save(),
            decided=self._decided,
        )
        steps = step_records(window.take_changed())
        return Transaction(taken.closed, taken.rejected, progress, steps)

    def _receive(self, record: Arrived, taken: Taken) -> None:
        """One record: a message, or a dead letter."""
        source = f"{record.topic}:{record.offset}"
        kind = ACTIVATION if record.topic == self._activations else READING
        message = kind.read(record, source)
        if isinstance(message, RefusedRecord):
            taken.rejected.append(message.letter())
            return
        receipt = self.engine.receive(message, Origin(source, record.value))
        taken.outcomes.update(receipt.outcomes)
        taken.rejected += receipt.rejected
