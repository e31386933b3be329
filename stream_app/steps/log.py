"""The log of a deployment, as the roles that take counts in, decide and publish write it; whatever keeps it.

A folder keeps it (:class:`stream_app.embedded.journal.Journal`), or topics of a broker
(:class:`stream_app.kafka.release.release_log.TopicLog`). One owner at a time adds what came of some messages
and the position behind them, all of it or nothing; the next owner goes on there, and whoever was there before
is refused, or fenced. Tests hold both to the same promises, and topics in memory.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

from models.calendar import Days
from models.releases import StepSchedule
from stream_app.setup.run_folder.progress import DECISIONS, QUALITY, REJECTED, RELEASES, REVISED, SavedStep
from stream_app.steps.engine import ClosedStep, StepEngine
from stream_app.steps.intake import Receipt
from stream_app.steps.policy import Decided
from stream_app.steps.position import Position, Spent
from stream_app.watching.events import Observer, StepClosed
from stream_app.wire import (
    PRIVATE_REASONS,
    BaseMessage,
    DeviceFinding,
    Outcome,
    Reason,
    Rejected,
    StepDecision,
)

logger = logging.getLogger(__name__)


class Log(Protocol):
    """What an owner of a log does with it; on one thread."""

    @property
    def position(self) -> Position:
        """The last position that is durable: at the start that of the owner before."""

    def keep(self, log: str, written: BaseMessage | bytes) -> None:
        """Take a message, or whole lines, of the log with this name for the next commit."""

    def commit(self, reached: Mapping[str, Any], changed: Mapping[int, SavedStep | None]) -> float | None:
        """Make durable what was taken, with the position behind it: all or nothing.

        ``reached`` are the fields of the position that may have changed, ``changed`` the open steps that
        have, None for one that is forgotten. Returns the time by the log's clock in seconds, if it told it.
        """

    def decisions(self, first: int, until: int) -> Iterable[StepDecision]:
        """What was decided on the steps ``first..until - 1``."""

    def wrong(self, found: str) -> Exception:
        """What to raise where the position is not that of the decided steps, but what was ``found``."""


class Results:
    """What came of messages since the last commit: taken by the log, and told to observers once durable.

    ``findings`` are suspected devices, ``refused`` counts dead letters but for private reasons, because a
    total of those would show a count. ``is_awaited`` says whether somebody waits for the commit. Private dead
    letters wait, as repetitions do: the time of a write must not depend on counts.
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self.events: list[StepClosed] = []
        self.outcomes: Counter[Outcome] = Counter()
        self.refused: Counter[Reason] = Counter()
        self.findings: list[DeviceFinding] = []
        self.is_awaited = False

    @property
    def releases(self) -> int:
        """Releases of all closed steps: the size of a commit grows with their number."""
        return sum(len(event.schedule.releases) for event in self.events)

    def keep(self, log: str, written: BaseMessage | bytes) -> None:
        """Take what somebody waits for."""
        self.log.keep(log, written)
        self.is_awaited = True

    def receive(self, receipt: Receipt) -> None:
        """Take what intake says of a message."""
        self.outcomes.update(receipt.outcomes)
        self.refuse(receipt.rejected)

    def refuse(self, letters: Iterable[Rejected]) -> None:
        """Take dead letters."""
        for letter in letters:
            self.log.keep(REJECTED, letter)
            logger.debug("rejected %s: %s", letter.source, letter.reason.value)
            if letter.reason not in PRIVATE_REASONS:
                self.refused[letter.reason] += 1
                self.is_awaited = True

    def suspect(self, findings: Sequence[DeviceFinding]) -> None:
        """Take what is suspected of devices."""
        for finding in findings:
            self.log.keep(QUALITY, finding)
        self.findings += findings

    def close(
        self,
        closed: ClosedStep,
        people: int = 0,
        *,
        deployment: str | None = None,
        logs: Container[str] = (DECISIONS, RELEASES, REVISED),
    ) -> None:
        """Take all that follows from a step, for these ``logs``; ``people`` are accounted here."""
        for log, message in closed.messages(deployment):
            if log in logs:
                self.keep(log, message)
        self.refuse(closed.rejected)
        self.suspect(closed.findings)
        self.events.append(closed.event(people))

    def tell(self, observer: Observer, latency_seconds: float, watermark: int) -> None:
        """Tell an observer, after the commit; ``watermark`` is the last step that most sensors have reached.

        Which devices are suspected now is told by whoever has all of them.
        """
        for outcome, readings in self.outcomes.items():
            observer.received(outcome, readings)
        for reason in self.refused.elements():
            observer.rejected(reason)
        for event in self.events:
            lag_steps = max(0, watermark - event.step)
            observer.closed(replace(event, latency_seconds=latency_seconds, lag_steps=lag_steps))


def carried(
    log: Log, read: Callable[[StepDecision], Decided], note: Callable[[StepSchedule], object]
) -> Spent:
    """What the steps before a log's position have spent on privacy, as far as the position says it.

    ``note`` gets the last step. :meth:`Log.wrong` where the position is not that of the decided steps: it was
    lost or belongs to others, and to go on from it would publish steps a second time.
    """
    position, last = log.position, None
    for decision in log.decisions(max(0, position.next_step - 1), position.next_step):
        last = read(decision).schedule
        note(last)
    try:
        return Spent.carried(position, last)
    except ValueError as error:
        raise log.wrong(str(error)) from error


def charge_rest(
    spent: Spent,
    log: Log,
    read: Callable[[StepDecision], Decided],
    groups: Iterable[str],
    days: Days | None,
) -> None:
    """Charge the steps that a position of an earlier version lacks; ``days`` are those of bounds over a day.

    From here on the account has all of these ``groups`` of sensors.
    """
    spent.account.open(groups, days)
    for decision in log.decisions(spent.next_step, log.position.next_step):
        spent.charge(read(decision).schedule)


def resume(engine: StepEngine, log: Log, read: Callable[[StepDecision], Decided], spent: Spent) -> None:
    """Bring an engine with a log's window to its position: late values of recent steps may still come."""
    engine.resume(log.position, spent)
    window = engine.intake.window
    engine.recall(read(each).schedule for each in log.decisions(window.first_revisable, window.next_step))
