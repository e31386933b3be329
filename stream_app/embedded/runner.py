"""The embedded runner: one process that reads messages, runs the engine and keeps the output folder.

For every line: intake, then every step that became due, one after the other; each step's release is durable
before its risks are written and before the next step is looked at. Commits follow a few times a second.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accounting.ledgers import PrivacyAccount
from models.releases import StepSchedule
from stream_app.embedded.journal import Commit, Journal
from stream_app.steps.engine import ClosedStep, StepEngine
from stream_app.steps.risk_output import RiskWriter, summary_message, with_worst
from stream_app.steps.ticks import Backlog, StepClock
from stream_app.steps.window import Origin
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.watching.people import PeopleView
from stream_app.wire.clock import Clock, SteadyTime
from stream_app.wire.csv_messages import LineParser, reading_parser
from stream_app.wire.decision_messages import decision_of, fingerprint_of
from stream_app.wire.inputs import MAX_LINE_BYTES, Line, LineReader
from stream_app.wire.messages import Activation, Reading, Reason, Rejected, RiskSummary, parse, reject
from stream_app.wire.refusals import FIRST_LOOK, mostly_refused

logger = logging.getLogger(__name__)

COMMIT_SECONDS = 0.2
END_OF_INPUT = "end of input"
MOST_EXPOSED = 10
"""People whom the risk summaries of an output folder name, unless the settings say otherwise."""

_LINES_BETWEEN_LOOKS = 256


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``steps`` and ``lines`` are this run's, ``next_step`` where the next one continues.

    ``note`` is what must be said of the priors, where they are not the measured habits of people.
    """

    steps: int
    next_step: int
    lines: int
    rejected: Mapping[str, int]
    reason: str
    seconds: float
    bytes_written: Mapping[str, int]
    note: str | None = None

    @property
    def is_in_vain(self) -> bool:
        """Whether the input was read to its end and no step closed, none earlier either or all refused."""
        if self.reason != END_OF_INPUT or self.steps:
            return False
        return self.next_step == 0 or mostly_refused(self.lines, self.rejected) is not None


class EmbeddedRunner:
    """Connects one input, one engine and one output folder; ``account`` is what earlier steps have spent."""

    def __init__(
        self,
        engine: StepEngine,
        journal: Journal,
        risks: RiskWriter,
        reader: LineReader,
        *,
        account: PrivacyAccount,
        clock: Clock,
        step_clock: StepClock,
        observer: Observer | None = None,
        people: int = 0,
        view: PeopleView | None = None,
        most_exposed: int | None = None,
        is_csv: bool = False,
        snapshot: Callable[[float], None] | None = None,
    ) -> None:
        self._engine = engine
        self._journal = journal
        self._risks = risks
        self._reader = reader
        self._account = account
        self._last_closed: StepSchedule | None = None
        self._clock = clock
        self._step_clock = step_clock
        self._observer = observer or Observer()
        self._people = people
        self._view = view
        self._most_exposed = MOST_EXPOSED if most_exposed is None else most_exposed
        self._is_csv = is_csv
        self._snapshot = snapshot
        self._parser: LineParser | None = None if is_csv else parse
        self._rejected: Counter[str] = Counter()
        self._steps = self._lines = 0
        self._next_look, self._has_warned = FIRST_LOOK, False
        self._committed_at = clock.monotonic_seconds()
        self._received_at = self._committed_at
        self._time = SteadyTime(clock.now_seconds(), clock.monotonic_seconds)
        self._backlog = Backlog(self._committed_at, step_clock.grace_seconds or 0.0)

    def run(self, is_stopped: Callable[[], bool], *, keep_open: bool = False) -> RunReport:
        """Take the input to its end, or until ``is_stopped``; then commit and report.

        At the end of the input the steps that are still open are closed, unless ``keep_open``.
        """
        started = self._clock.monotonic_seconds()
        try:
            reason = self._walk(is_stopped, keep_open)
        except BaseException as failure:
            self._observer.stopped(RunStopped(self._engine.next_step, f"failure: {type(failure).__name__}"))
            raise
        self._commit()
        self._observer.stopped(RunStopped(self._engine.next_step, reason))
        self._warn_of_refusals()
        logger.info("stopped before step %d: %s", self._engine.next_step, reason)
        return RunReport(
            self._steps,
            self._engine.next_step,
            self._lines,
            dict(self._rejected),
            reason,
            self._clock.monotonic_seconds() - started,
            self._journal.bytes_written(),
            None if self._view is None else self._view.note,
        )

    def _walk(self, is_stopped: Callable[[], bool], keep_open: bool) -> str:
        """Start, take all lines, finish; says why it came to an end."""
        self._start()
        self._close_due(is_stopped)
        if not is_stopped():
            self._take_lines(is_stopped)
        if not is_stopped() and not keep_open:
            self._finish(is_stopped)
        return "signal" if is_stopped() else END_OF_INPUT

    def _start(self) -> None:
        """Make sure that the run can continue, and say that it does."""
        if self._engine.next_step == 0:
            self._step_clock.check(self._clock.now_seconds(), 0)
        self._risks.discard_from(self._engine.next_step)
        registry = self._engine.intake.registry
        names = tuple(sensor.name for sensor in registry.sensors)
        self._observer.started(RunStarted(self._people, self._engine.next_step, names, self._view))
        logger.info("start at step %d with %d people", self._engine.next_step, self._people)

    def _take_lines(self, is_stopped: Callable[[], bool]) -> None:
        """Line after line until the end or a request to stop."""
        for line in self._reader:
            self._received_at = self._clock.monotonic_seconds()
            self._look_at_clock()
            if line.data is not None:
                self._lines += 1
                self._take(line, line.data)
            elif self._has_read_backlog():
                self._close_by_clock()
            self._close_due(is_stopped)
            if line.data is None or self._lines % _LINES_BETWEEN_LOOKS == 0:
                self._commit_sometimes()
            if self._lines >= self._next_look:
                self._next_look *= 10
                self._warn_of_refusals()
            if is_stopped() and self._reader.may_stop:
                return
        self._look_at_clock()
        self._close_by_clock()
        self._close_due(is_stopped)

    def _warn_of_refusals(self) -> None:
        """Say once, as early as it shows, that most of the input is refused."""
        waiting = self._engine.intake.window.waiting_count
        sentence = mostly_refused(self._lines, self._rejected, waiting)
        if sentence is not None and not self._has_warned:
            self._has_warned = True
            logger.warning("%s (each message with its own hint: rejected.jsonl)", sentence)

    def _look_at_clock(self) -> None:
        """Let steps whose tick has come close on arrival."""
        self._time.vouch(self._step_clock.end_of(self._engine.intake.window.watermark))
        self._time.observe(self._clock.now_seconds())
        due = self._step_clock.due_step(self._time.now_seconds())
        self._backlog.look(due)
        self._engine.allow_through(due)

    def _has_read_backlog(self) -> bool:
        """Whether nothing is waiting, nor still to be skipped."""
        if self._reader.is_behind:
            self._backlog.hear(self._received_at)
        return self._backlog.is_read(self._received_at, self._engine.intake.window.watermark)

    def _close_by_clock(self) -> None:
        """Close whatever is missing in steps whose tick has come."""
        now_seconds = self._time.now_seconds()
        self._step_clock.check(now_seconds, self._engine.next_step)
        self._engine.close_through(self._step_clock.due_step(now_seconds))

    def _take(self, line: Line, data: bytes) -> None:
        """One line: a message, or a dead letter."""
        source = f"{self._reader.name}:{line.number}"
        message = self._parse(line, data, source)
        if message is None:
            return
        if isinstance(message, Rejected):
            self._reject(message)
            return
        receipt = self._engine.receive(message, Origin(source, data))
        for outcome in receipt.outcomes:
            self._observer.received(outcome)
        for rejected in receipt.rejected:
            self._reject(rejected)
        if not receipt.rejected:
            self._backlog.hear(self._received_at)

    def _parse(self, line: Line, data: bytes, source: str) -> Activation | Reading | Rejected | None:
        """The message in a line; None for the header of a CSV."""
        if len(data) >= MAX_LINE_BYTES:
            return reject(source, data, Reason.TOO_LONG, f"a line is shorter than {MAX_LINE_BYTES} bytes")
        if self._parser is None:
            self._parser = reading_parser(self._reader.header or data)
        if self._is_csv and line.number == 1:
            return None
        return self._parser(data, source)

    def _reject(self, rejected: Rejected) -> None:
        """Write a dead letter."""
        self._journal.append_rejected(rejected.line())
        self._rejected[rejected.reason.value] += 1
        self._observer.rejected(rejected.reason)
        logger.debug("rejected %s: %s", rejected.source, rejected.reason.value)

    def _close_due(self, is_stopped: Callable[[], bool]) -> None:
        """Close every step that is due; a request to stop is heard after the step at hand."""
        while (closed := self._engine.close_next()) is not None:
            self._publish(closed)
            self._commit_sometimes()
            if is_stopped():
                return

    def _publish(self, closed: ClosedStep) -> None:
        """Make a step durable, then write its risks, then tell the observers."""
        if not closed.is_replayed:
            self._journal.publish(decision_of(closed.schedule, closed.why), closed.release)
        self._account.charge(closed.schedule)
        self._last_closed = closed.schedule
        assumed = None if self._view is None else self._view.assumed
        summary = summary_message(closed.summary, assumed=assumed) if closed.summary.people else None
        if summary is not None:
            self._journal.append_risks(self._naming(summary).line())
        for block in self._risks.blocks(closed.schedule.step, closed.records):
            self._journal.append_risks(block)
        for rejected in closed.rejected:
            self._reject(rejected)
        self._steps += 1
        self._observer.closed(self._event(closed, summary))

    def _naming(self, summary: RiskSummary) -> RiskSummary:
        """The summary as the owner's file has it; those who watch are told of nobody."""
        if self._view is None or not self._most_exposed:
            return summary
        standing = self._view.standing()
        return with_worst(summary, standing.worst, standing.pseudonyms, self._most_exposed)

    def _event(self, closed: ClosedStep, summary: RiskSummary | None) -> StepClosed:
        """What observers are told of a step."""
        step = closed.schedule.step
        return StepClosed(
            step=step,
            schedule=closed.schedule,
            published={
                entry.sensor: entry.value for entry in closed.release.releases if entry.value is not None
            },
            missing=closed.missing,
            people=self._people,
            summary=summary,
            latency_seconds=self._clock.monotonic_seconds() - self._received_at,
            lag_steps=max(self._engine.intake.window.watermark - step, 0),
            is_replayed=closed.is_replayed,
            why=closed.why,
        )

    def _finish(self, is_stopped: Callable[[], bool]) -> None:
        """Close what is still open, and refuse what waits for an activation that cannot come any more."""
        self._engine.finish()
        self._close_due(is_stopped)
        if not self._engine.is_due():
            for rejected in self._engine.drain():
                self._reject(rejected)

    def _commit_sometimes(self) -> None:
        """Commit when the last one is some time ago."""
        if self._clock.monotonic_seconds() - self._committed_at >= COMMIT_SECONDS:
            self._commit()

    def _commit(self) -> None:
        """Everything so far need not be done again."""
        self._committed_at = self._clock.monotonic_seconds()
        if self._step_clock.has_ticks:
            self._observer.clock_read(self._time.off)
        decided = self._journal.last_commit.decided
        if self._last_closed is not None:
            decided = fingerprint_of(self._last_closed)
        self._journal.commit(
            Commit(
                self._engine.next_step,
                vars(self._reader.reached),
                self._engine.intake.window.save(),
                account=self._account.save(),
                decided=decided,
            )
        )
        if self._snapshot is not None:
            self._snapshot(self._committed_at)
