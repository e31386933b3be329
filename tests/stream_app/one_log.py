"""What a log of a deployment promises, whatever it is kept in: a folder, topics of a broker, or memory.

One owner at a time adds what came of some steps and the position behind them, all of it or nothing; the next
owner goes on there, and reads of the steps before what was written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import pytest

from stream_app.embedded.journal import Journal
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_core import BatchResult, Progress, ReleaseCore, restore
from stream_app.kafka.release.release_log import LogRecord, records_of
from stream_app.setup.run_folder.progress import DECISIONS, RELEASES, log_lines
from stream_app.steps import ClosedStep, Position, Spent, StepClock, StepEngine
from stream_app.steps.policy import Decided
from stream_app.steps.window import Origin
from stream_app.wire import StepDecision, schedule_of
from tests.stream_app.engine_support import REGISTRY, close_all, engine, feed, messages_of_a_day

NO_TICKS = StepClock(0, 60, None, 100)
STEPS = 12


class Owner(Protocol):
    """Whoever writes to a log now; ``position`` is where the last one was."""

    position: Position

    def write(self, closed: Iterable[ClosedStep], target: StepEngine) -> None:
        """Add what came of some steps, and where the engine is."""

    def lines(self, log: str) -> list[bytes]:
        """What readers of a log see."""

    def die(self) -> None:
        """Leave as who is killed."""


class InFolder:
    def __init__(self, folder: Path) -> None:
        self._journal = Journal(folder, {})
        self.position = self._journal.last_commit

    def write(self, closed: Iterable[ClosedStep], target: StepEngine) -> None:
        for step in closed:
            for log, message in step.messages():
                self._journal.keep(log, message)
        reached = self.position.model_copy(update=target.position())
        self._journal.commit(reached, target.intake.window.take_changed())

    def lines(self, log: str) -> list[bytes]:
        return [line.rstrip() for line in log_lines(self._journal.folder / f"{log}.jsonl")]

    def die(self) -> None:
        self._journal.close()


class InTopics:
    """The records of a release worker; ``records`` are those of each topic so far, ``send`` adds to them."""

    def __init__(
        self,
        topics: Topics,
        records: Callable[[str], Sequence[tuple[bytes | None, bytes | None]]],
        send: Callable[[Iterable[LogRecord]], None],
        leave: Callable[[], None] = lambda: None,
    ) -> None:
        self._topics, self._records, self._send, self.die = topics, records, send, leave
        latest: Mapping[bytes | None, bytes | None] = dict(records(topics.progress))
        self.position: Progress = restore(latest, topics.progress, Progress)

    def write(self, closed: Iterable[ClosedStep], target: StepEngine) -> None:
        messages = [each for step in closed for each in step.messages()]
        result = BatchResult([each for message in messages for each in records_of(self._topics, *message)])
        core = ReleaseCore(target, NO_TICKS, self.position, {}, topics=self._topics)
        self._send(core.records(result))

    def lines(self, log: str) -> list[bytes]:
        return [value or b"" for _, value in self._records(f"{self._topics.prefix}{log}")]

    def die(self) -> None:
        """Replaced by what the test gives."""


def resumed(owner: Owner) -> StepEngine:
    """The engine at an owner's position, by what the log says of the steps before."""
    decisions = map(StepDecision.model_validate_json, owner.lines(DECISIONS))
    schedules = [schedule_of(decision, REGISTRY) for decision in decisions]
    target, position = engine(), owner.position
    for schedule in schedules:
        target.accounts.apply(Decided(schedule))
    if position.window:
        target.intake.window.load(position.window)
    spent = Spent.carried(position, schedules[-1] if schedules else None)
    if len(schedules) > 1:
        with pytest.raises(ValueError, match="another last step"):
            Spent.carried(position, schedules[-2])
    spent.account.open([each.group for each in REGISTRY.sensors])
    target.resume(position, spent)
    assert spent.next_step == position.next_step == len(schedules)
    return target


def check_owners_who_die(own: Callable[[], Owner], seed: int) -> None:
    """Owners die before and after they write, and the log is that of one who lived; so is the position."""
    random, messages = np.random.default_rng(seed), messages_of_a_day(STEPS, seed, faults=True)
    whole = engine()
    closed, _ = feed(whole, messages, finish=False)
    wanted = [message for step in closed for message in step.messages()]
    taken, deaths, owner = 0, 0, own()
    target = resumed(owner)
    while taken < len(messages):
        until, found = taken + int(random.integers(1, 6)), []
        for number, message in enumerate(messages[taken:until]):
            target.receive(message, Origin(f"test:{taken + number}", message.line().rstrip()))
            found += close_all(target)
        if is_written := random.random() < 0.7:
            owner.write(found, target)
            taken = until
        if not is_written or random.random() < 0.3:
            deaths += 1
            owner.die()
            owner = own()
            target = resumed(owner)
    owner.die()
    owner = own()
    assert deaths > 3
    assert len(closed) > STEPS // 2
    for log in (DECISIONS, RELEASES):
        assert owner.lines(log) == [message.line().rstrip() for name, message in wanted if name == log]
    reached = whole.position()
    assert [owner.position.account, owner.position.decided] == [reached["account"], reached["decided"]]
    owner.die()
