"""The embedded runner: one process that reads messages, runs the engine and keeps the output folder.

For every line: intake, then every step that became due, one after the other; each step's release is durable
before its risks are written and before the next step is looked at. Commits follow a few times a second.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from accounting.ledgers import PrivacyAccount
from accounting.settings import RiskBudget
from models.releases import StepSchedule
from stream_app.embedded.journal import Commit, Journal
from stream_app.exceptions import InputError
from stream_app.steps import (
    Backlog,
    ClosedStep,
    Origin,
    RiskWriter,
    StepClock,
    StepEngine,
    crowd_message,
    summary_message,
    with_worst,
)
from stream_app.watching.events import Observer, RunStarted, RunStopped, StepClosed
from stream_app.watching.metrics import over_limit_counts
from stream_app.watching.people import PeopleView
from stream_app.wire import (
    FIRST_LOOK,
    MAX_LINE_BYTES,
    PRIVATE_REASONS,
    Clock,
    InputMessage,
    Line,
    LineParser,
    LineReader,
    Readings,
    Reason,
    Rejected,
    RiskSummary,
    SteadyTime,
    StepRelease,
    decision_of,
    fingerprint_of,
    mostly_refused,
    parse,
    reading_parser,
    reject,
)

# The messages of an input: its lines, each parsed as JSON or as CSV below a header.


class Incoming(NamedTuple):
    """One message, or its dead letter, and where it came from."""

    content: InputMessage | Rejected
    origin: Origin


class MessageReader:
    """Reads messages from ``lines``; those of a CSV stand below its header line."""

    def __init__(self, lines: LineReader, *, is_csv: bool = False) -> None:
        self.lines = lines
        self._is_csv = is_csv
        self._parser: LineParser | None = None if is_csv else parse

    def read(self, line: Line, data: bytes) -> Incoming | None:
        """The message in a line; None for the header of a CSV."""
        origin = Origin(f"{self.lines.name}:{line.number}", data)
        if len(data) >= MAX_LINE_BYTES:
            hint = f"a line is shorter than {MAX_LINE_BYTES} bytes"
            return Incoming(reject(origin.source, data, Reason.TOO_LONG, hint), origin)
        if self._is_csv and line.number == 1 and self._begins_with_header(data):
            return None
        if self._parser is None:
            self._parser = reading_parser(self.lines.header or data)
        return Incoming(self._parser(data, origin.source), origin)

    def _begins_with_header(self, data: bytes) -> bool:
        """Take the columns of a CSV; the next file of one that is followed may go on without a header."""
        try:
            self._parser = reading_parser(data)
        except InputError:
            if self._parser is None:
                raise
            return False
        return True


# What a run leaves in its output folder: releases, decisions, risks, dead letters, the privacy account.

MOST_EXPOSED = 10
"""People whom the risk summaries of an output folder name, unless the settings say otherwise."""


class RunOutput:
    """Writes steps in the order that makes a run safe to kill: the release first, then what follows of it.

    ``account`` is what the steps before have spent. ``most_exposed`` people are named by pseudonym in every
    risk summary, by the figures of ``view``. ``limit`` is the rule's, of ceilings in the crowd where these
    decide. ``snapshot`` is given the time after every commit.
    """

    def __init__(
        self,
        journal: Journal,
        risks: RiskWriter,
        account: PrivacyAccount,
        view: PeopleView,
        *,
        most_exposed: int | None = None,
        limit: RiskBudget | None = None,
        decides_in_crowd: bool = False,
        snapshot: Callable[[float], None] | None = None,
    ) -> None:
        self.rejected: Counter[str] = Counter()
        self._journal = journal
        self._risks = risks
        self._account = account
        self.view = view
        self._most_exposed = MOST_EXPOSED if most_exposed is None else most_exposed
        self._limit, self._in_crowd = limit, decides_in_crowd
        self._snapshot = snapshot
        self._last_closed: StepSchedule | None = None

    def begin(self, next_step: int) -> None:
        """Remove what an interrupted run wrote of this step and later ones."""
        self._risks.discard_from(next_step)

    def publish(self, closed: ClosedStep) -> RiskSummary | None:
        """Make a step durable, then write its risks; its summary, where there are people."""
        if not closed.is_replayed:
            decision = decision_of(closed.schedule, closed.why, crowds=closed.crowds)
            self._journal.publish(decision, closed.release)
        self.publish_revised(closed.revised)
        self._account.charge(closed.schedule)
        self._last_closed = closed.schedule
        summary = None
        if self.view.people:
            adversary, crowd = self.view.adversary, None
            if closed.in_crowd is not None and adversary is not None:
                crowd = crowd_message(closed.in_crowd, adversary)
            over = None
            if self._limit is not None:
                over = over_limit_counts(self.view.standing(), self._limit, in_crowd=self._in_crowd)
            summary = summary_message(closed.summary, 0, self.view.assumed, closed.attack, crowd, over)
            self._journal.append_risks(self._naming(summary).line())
        for block in self._risks.blocks(closed.schedule.step, closed.records):
            self._journal.append_risks(block)
        return summary

    def publish_revised(self, releases: Sequence[StepRelease]) -> None:
        """Make late and corrected values durable."""
        for release in releases:
            self._journal.publish_revised(release)

    def reject(self, rejected: Rejected) -> None:
        """Write a dead letter."""
        self._journal.append_rejected(rejected.line())
        if rejected.reason not in PRIVATE_REASONS:
            self.rejected[rejected.reason.value] += 1

    def commit(
        self,
        engine: StepEngine,
        position: Mapping[str, Any],
        now_seconds: float,
        *,
        marks: Sequence[int] = (),
        is_last: bool = False,
    ) -> None:
        """Nothing up to this ``position`` of the input need be done again; ``marks`` belong to it.

        Where nothing changed since the last time, nothing is written.
        """
        decided = self._journal.last_commit.decided
        if self._last_closed is not None:
            decided = fingerprint_of(self._last_closed)
        window = engine.intake.window
        reached = Commit(
            engine.next_step,
            position,
            window.save_position(),
            account=self._account.save(),
            decided=decided,
            marks=marks,
        )
        self._journal.commit(reached, window.take_changed(), whole=is_last)
        if self._snapshot is not None:
            self._snapshot(now_seconds)

    def end(self, outcome: str) -> None:
        """The run ended by itself, with everything committed."""
        self._journal.end(outcome)

    def bytes_written(self) -> Mapping[str, int]:
        """Bytes of this run by file."""
        return self._journal.bytes_written()

    def _naming(self, summary: RiskSummary) -> RiskSummary:
        """The summary as the owner's file has it; observers get it without names."""
        return with_worst(summary, self.view.accountant, self.view.pseudonyms, self._most_exposed)


logger = logging.getLogger(__name__)

COMMIT_SECONDS = 0.2
END_OF_INPUT = "end of input"
_LINES_BETWEEN_LOOKS = 256


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``steps`` and ``lines`` are this run's, ``next_step`` where the next one continues.

    ``lines`` are messages, where each count of a batch is one. ``rejected`` has no private reasons, and
    ``bytes_written`` no dead letters: both are shown.
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
    """Connects one input, one engine and one output folder, and shows ``observer`` what happens."""

    def __init__(
        self,
        engine: StepEngine,
        messages: MessageReader,
        output: RunOutput,
        *,
        clock: Clock,
        step_clock: StepClock,
        observer: Observer | None = None,
    ) -> None:
        self._engine = engine
        self._messages = messages
        self._output = output
        self._clock = clock
        self._step_clock = step_clock
        self._observer = observer or Observer()
        self._steps = self._lines = self._messages_taken = 0
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
        self._commit(is_last=True)
        self._output.end(reason)
        self._observer.stopped(RunStopped(self._engine.next_step, reason))
        self._warn_of_refusals()
        logger.info("stopped before step %d: %s", self._engine.next_step, reason)
        return RunReport(
            self._steps,
            self._engine.next_step,
            self._messages_taken,
            dict(self._output.rejected),
            reason,
            self._clock.monotonic_seconds() - started,
            self._output.bytes_written(),
            self._output.view.note,
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
        self._output.begin(self._engine.next_step)
        registry, view = self._engine.intake.registry, self._output.view
        names = tuple(sensor.name for sensor in registry.sensors)
        self._observer.started(RunStarted(view.people, self._engine.next_step, names, view))
        logger.info("start at step %d with %d people", self._engine.next_step, view.people)

    def _take_lines(self, is_stopped: Callable[[], bool]) -> None:
        """Line after line until the end or a request to stop."""
        for line in self._messages.lines:
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
            if self._messages_taken >= self._next_look:
                self._next_look *= 10
                self._warn_of_refusals()
            if is_stopped() and self._messages.lines.may_stop:
                return
        self._look_at_clock()
        self._close_by_clock()
        self._close_due(is_stopped)

    def _warn_of_refusals(self) -> None:
        """Say once, as early as it shows, that most of the input is refused."""
        waiting = self._engine.intake.window.waiting_count
        sentence = mostly_refused(self._messages_taken, self._output.rejected, waiting)
        if sentence is not None and not self._has_warned:
            self._has_warned = True
            logger.warning("%s (each message with its own hint: rejected.jsonl)", sentence)

    def _look_at_clock(self) -> None:
        """Let steps whose tick has come close on arrival."""
        self._time.vouch(self._step_clock.end_of(self._engine.intake.window.watermark))
        self._time.observe(self._clock.now_seconds())
        self._engine.intake.over_through = self._step_clock.over_step(self._time.at_most_seconds())
        due = self._step_clock.due_step(self._time.now_seconds())
        self._backlog.look(due)
        self._engine.allow_through(due)

    def _has_read_backlog(self) -> bool:
        """Whether nothing is waiting, nor still to be skipped, nor out of reach."""
        if self._messages.lines.is_behind or self._messages.lines.is_away():
            self._backlog.hear(self._received_at)
        return self._backlog.is_read(self._received_at, self._engine.intake.window.watermark)

    def _close_by_clock(self) -> None:
        """Close whatever is missing in steps whose tick has come."""
        now_seconds = self._time.now_seconds()
        self._step_clock.check(now_seconds, self._engine.next_step)
        self._engine.close_through(self._step_clock.due_step(now_seconds))

    def _take(self, line: Line, data: bytes) -> None:
        """One line: a message, or a dead letter."""
        message = self._messages.read(line, data)
        if message is None:
            return
        content = message.content
        self._messages_taken += len(content.counts) if isinstance(content, Readings) else 1
        if isinstance(content, Rejected):
            self._reject(content)
            return
        receipt = self._engine.receive(content, message.origin)
        for outcome, readings in Counter(receipt.outcomes).items():
            self._observer.received(outcome, readings)
        for rejected in receipt.rejected:
            self._reject(rejected)
        if all(rejected.reason in PRIVATE_REASONS for rejected in receipt.rejected):
            self._backlog.hear(self._received_at)

    def _reject(self, rejected: Rejected) -> None:
        """Write a dead letter."""
        self._output.reject(rejected)
        if rejected.reason not in PRIVATE_REASONS:
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
        """Make a step durable and write its risks, then show it to the observers."""
        summary = self._output.publish(closed)
        for rejected in closed.rejected:
            self._reject(rejected)
        self._steps += 1
        self._observer.closed(self._event(closed, summary))

    def _event(self, closed: ClosedStep, summary: RiskSummary | None) -> StepClosed:
        """What observers are shown of a step."""
        step = closed.schedule.step
        return StepClosed(
            step=step,
            schedule=closed.schedule,
            published=closed.release.published,
            missing=closed.missing,
            people=self._output.view.people,
            summary=summary,
            latency_seconds=self._clock.monotonic_seconds() - self._received_at,
            lag_steps=max(self._engine.intake.window.watermark - step, 0),
            is_replayed=closed.is_replayed,
            why=closed.why,
            crowds=closed.crowds,
            accounted=closed.accounted,
        )

    def _finish(self, is_stopped: Callable[[], bool]) -> None:
        """Close what is still open, and refuse what waits for an activation that cannot come any more."""
        self._engine.finish()
        self._close_due(is_stopped)
        if not self._engine.is_due():
            self._output.publish_revised(self._engine.take_revised())
            for rejected in self._engine.drain():
                self._reject(rejected)

    def _commit_sometimes(self) -> None:
        """Commit when the last one is some time ago."""
        if self._clock.monotonic_seconds() - self._committed_at >= COMMIT_SECONDS:
            self._commit()

    def _commit(self, *, is_last: bool = False) -> None:
        """Everything so far need not be done again."""
        self._committed_at = self._clock.monotonic_seconds()
        if self._step_clock.has_ticks:
            self._observer.clock_read(self._time.off)
        lines = self._messages.lines
        position = vars(lines.reached)
        self._output.commit(self._engine, position, self._committed_at, marks=lines.marks, is_last=is_last)
