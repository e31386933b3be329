"""The embedded runner: one process that reads messages, runs the engine and keeps the output folder.

For every line: intake, then every step that became due, one after the other; each step is committed with
everything that follows from it before anybody is told and before the next step is looked at. Of an archive,
which nobody waits for, several steps are committed together. The position is committed a few times a second.
"""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from stream_app.embedded.journal import Journal
from stream_app.exceptions import AccountingFailedError, InputError
from stream_app.setup.run_folder.progress import REVISED, RISKS
from stream_app.steps import (
    Backlog,
    ClosedStep,
    DeviceWatch,
    Origin,
    PeopleAccounts,
    Results,
    RiskWriter,
    StepClock,
    StepEngine,
)
from stream_app.watching.events import Observer, RunStarted, RunStopped
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
    SteadyTime,
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
    """Reads messages from ``lines``; those of a CSV come after its header line."""

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
        """Take the columns of a CSV; the next file of one that is followed may continue without a header."""
        try:
            self._parser = reading_parser(data)
        except InputError:
            if self._parser is None:
                raise
            return False
        return True


logger = logging.getLogger(__name__)

COMMIT_SECONDS = 0.2
END_OF_INPUT = "end of input"
_LINES_BETWEEN_LOOKS = 256  # at the clock for a commit, while lines come without a pause
_LOOK_SECONDS = 1e-3  # between looks at the clock for what is due or over, while lines come without a pause


@dataclass(frozen=True)
class RunReport:
    """What a run did. ``steps`` and ``lines`` are this run's, ``next_step`` where the next one continues.

    ``lines`` counts messages; each count of a batch is one. ``rejected`` leaves out private reasons and
    ``bytes_written`` leaves out dead letters, because both are shown. ``note`` is what every output must say
    of the priors, where they are not measured habits.
    """

    steps: int
    next_step: int
    lines: int
    rejected: Mapping[Reason, int]
    reason: str
    seconds: float
    bytes_written: Mapping[str, int]
    note: str | None = None

    @property
    def closed_no_step(self) -> bool:
        """Whether the whole input was read and no step closed: none ever did, or most input was refused."""
        if self.reason != END_OF_INPUT or self.steps:
            return False
        return self.next_step == 0 or mostly_refused(self.lines, self.rejected) is not None


class EmbeddedRunner:
    """Connects one input, one engine and one output folder, and shows ``observer`` what happens.

    Steps are committed at most ``together`` at once, each with the position after it.
    Every risk summary in the folder names the most exposed of ``people`` by pseudonym. ``snapshot`` is called
    with the time after every commit.
    """

    def __init__(
        self,
        engine: StepEngine,
        messages: MessageReader,
        journal: Journal,
        risks: RiskWriter,
        people: PeopleAccounts,
        view: PeopleView,
        *,
        clock: Clock,
        step_clock: StepClock,
        observer: Observer,
        snapshot: Callable[[float], None],
        together: int = 1,
    ) -> None:
        self._engine = engine
        self._messages = messages
        self._journal = journal
        self._risks = risks
        self._people, self._view = people, view
        self._clock = clock
        self._step_clock = step_clock
        self._observer = observer
        self._snapshot = snapshot
        self._together = together
        self._results = Results(journal)
        self._rejected: Counter[Reason] = Counter()
        self._steps = self._lines = self._messages_taken = 0
        self._next_look, self._has_warned = FIRST_LOOK, False
        self._committed_at = clock.monotonic_seconds()
        self._received_at = self._committed_at
        self._looked_at = -math.inf
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
            if isinstance(failure, AccountingFailedError):
                self._commit()  # the steps before the one that failed are accounted
            self._observer.stopped(RunStopped(self._engine.next_step, f"failure: {type(failure).__name__}"))
            raise
        self._commit(is_last=True)
        self._journal.end(reason)
        self._observer.stopped(RunStopped(self._engine.next_step, reason))
        self._warn_of_refusals()
        logger.info("stopped before step %d: %s", self._engine.next_step, reason)
        return RunReport(
            self._steps,
            self._engine.next_step,
            self._messages_taken,
            dict(self._rejected),
            reason,
            self._clock.monotonic_seconds() - started,
            self._journal.bytes_written(),
            self._view.note,
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
        self._risks.discard_from(self._engine.next_step)  # what a killed run wrote after its last commit
        self._observer.started(RunStarted(self._view.people, self._engine.next_step, self._view))
        self._show_devices()
        logger.info("start at step %d with %d people", self._engine.next_step, self._view.people)

    def _take_lines(self, is_stopped: Callable[[], bool]) -> None:
        """Take line after line until the input ends or somebody asks to stop."""
        for line in self._messages.lines:
            self._received_at = self._clock.monotonic_seconds()
            if line.data is None or self._received_at - self._looked_at >= _LOOK_SECONDS:
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
        refused = self._rejected + self._results.refused
        sentence = mostly_refused(self._messages_taken, refused, waiting)
        if sentence is not None and not self._has_warned:
            self._has_warned = True
            logger.warning("%s (each message with its own hint: rejected.jsonl)", sentence)

    def _look_at_clock(self) -> None:
        """Let steps whose tick has come close on arrival."""
        self._looked_at = self._clock.monotonic_seconds()
        self._time.vouch(self._step_clock.end_of(self._engine.intake.window.watermark))
        self._time.observe(self._clock.now_seconds())
        self._engine.intake.over_through = self._step_clock.over_step(self._time.at_most_seconds())
        if self._step_clock.has_ticks:
            due = self._step_clock.due_step(self._time.now_seconds())
            self._backlog.looked_at(due)
            self._engine.allow_through(due)

    def _has_read_backlog(self) -> bool:
        """Whether no earlier message is still waiting, to be skipped, or out of reach."""
        if self._messages.lines.is_behind or self._messages.lines.is_away():
            self._backlog.received(self._received_at)
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
            self._results.refuse((content,))
            return
        receipt = self._engine.receive(content, message.origin)
        self._results.receive(receipt)
        if not receipt.rejected or all(each.reason in PRIVATE_REASONS for each in receipt.rejected):
            self._backlog.received(self._received_at)

    def _close_due(self, is_stopped: Callable[[], bool]) -> None:
        """Close every step that is due; a request to stop takes effect after the current step."""
        while (closed := self._engine.close_next()) is not None:
            self._keep(closed)
            if len(self._results.events) >= self._together:
                self._commit(may_wait=True)
            self._commit_sometimes()
            if is_stopped():
                return

    def _keep(self, closed: ClosedStep) -> None:
        """Keep all that follows from a step for the next commit."""
        self._results.close(closed, self._view.people)
        if self._view.people:  # named for the owner's file only: observers get the summary without names
            for block in self._people.written(closed.summary, self._risks):
                self._results.keep(RISKS, block)
        self._steps += 1

    def _show_devices(self) -> None:
        """Tell observers which devices seem broken now."""
        if self._engine.devices is not None:
            self._observer.devices_suspected(self._engine.devices.suspected)

    def _finish(self, is_stopped: Callable[[], bool]) -> None:
        """Close what is still open, and refuse what waits for an activation that cannot come any more."""
        self._engine.finish()
        self._close_due(is_stopped)
        if not self._engine.is_due():
            for release in self._engine.take_revised():
                self._results.keep(REVISED, release)
            self._results.refuse(self._engine.drain())

    def _commit_sometimes(self) -> None:
        """Commit the position, and tidy up, when that is some time ago."""
        if self._clock.monotonic_seconds() - self._committed_at >= COMMIT_SECONDS:
            self._committed_at = self._clock.monotonic_seconds()
            self._commit()

    def _commit(self, *, is_last: bool = False, may_wait: bool = False) -> None:
        """Make durable all that follows from what was read, then tell observers; no change writes nothing."""
        if self._step_clock.has_ticks:
            self._observer.clock_read(self._time.off)
        lines, window = self._messages.lines, self._engine.intake.window
        reached = {"position": vars(lines.reached), "marks": lines.marks, **self._engine.position()}
        self._journal.commit(reached, window.take_changed(), whole=is_last, may_wait=may_wait)
        done, self._results = self._results, Results(self._journal)
        self._rejected.update(done.refused)
        done.tell(self._observer, self._clock.monotonic_seconds() - self._received_at, window.watermark)
        if done.findings:
            DeviceWatch.warn(done.findings, "quality.jsonl")
            self._show_devices()
        self._snapshot(self._clock.monotonic_seconds())
