"""What a log of a deployment promises, whatever it is kept in: a folder, topics of a broker, or memory.

One owner at a time adds what came of some steps and the position behind them, all of it or nothing; the next
owner goes on there, and reads of the steps before what was written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest

from models.exceptions import TallyguardError
from stream_app.setup.run_folder.progress import DECISIONS, RELEASES
from stream_app.steps import Log, Results, StepEngine, carried, charge_rest, resume
from stream_app.steps.policy import Decided
from stream_app.steps.window import Origin
from stream_app.wire import StepDecision
from tests.stream_app.engine_support import REGISTRY, close_all, engine, feed, messages_of_a_day

STEPS = 12


class Owner(NamedTuple):
    """Whoever writes to a log now: ``lines`` is what its readers see, ``die`` to leave as who is killed."""

    log: Log
    lines: Callable[[str], list[bytes]]
    die: Callable[[], None] = lambda: None


def resumed(log: Log) -> StepEngine:
    """The engine at an owner's position, by what the log says of the steps before."""

    def read(decision: StepDecision) -> Decided:
        return Decided.logged(decision, REGISTRY, has_crowd=False)

    target = engine()
    spent = carried(log, read, lambda last: None)
    for decision in log.decisions(0, log.position.next_step):
        target.accounts.apply(read(decision))
    if log.position.window:
        target.intake.window.load(log.position.window)
    charge_rest(spent, log, read, [each.group for each in REGISTRY.sensors], None)
    resume(target, log, read, spent)
    assert spent.next_step == log.position.next_step
    return target


def check_owners_who_die(own: Callable[[], Owner], seed: int) -> None:
    """Owners die before and after they write, and the log is that of one who lived; so is the position."""
    random, messages = np.random.default_rng(seed), messages_of_a_day(STEPS, seed, faults=True)
    whole = engine()
    closed, _ = feed(whole, messages, finish=False)
    wanted = [message for step in closed for message in step.messages()]
    taken, deaths, owner = 0, 0, own()
    target = resumed(owner.log)
    while taken < len(messages):
        until, results = taken + int(random.integers(1, 6)), Results(owner.log)
        for number, message in enumerate(messages[taken:until]):
            results.receive(
                target.receive(message, Origin(f"test:{taken + number}", message.line().rstrip()))
            )
            for step in close_all(target):
                results.close(step)
        if is_written := random.random() < 0.7:
            owner.log.commit(target.position(), target.intake.window.take_changed())
            taken = until
        if not is_written or random.random() < 0.3:
            deaths += 1
            owner.die()
            owner = own()
            target = resumed(owner.log)
    owner.die()
    owner = own()
    assert deaths > 3
    assert len(closed) > STEPS // 2
    for log in (DECISIONS, RELEASES):
        assert owner.lines(log) == [message.line().rstrip() for name, message in wanted if name == log]
    reached = whole.position()
    assert [owner.log.position.account, owner.log.position.decided] == [
        reached["account"],
        reached["decided"],
    ]
    check_another_position_is_refused(owner.log)
    owner.die()


def check_another_position_is_refused(log: Log) -> None:
    """Nobody goes on from a position that is not that of the decided steps."""
    log.commit({"decided": "0" * 64}, {})
    with pytest.raises(TallyguardError, match="another last step"):
        resumed(log)
