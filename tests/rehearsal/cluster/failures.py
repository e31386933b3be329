"""Brokers that are killed, cut off, restarted; workers that are restarted."""

from __future__ import annotations

import re
import time

from tests.kafka.cluster.brokers import NUMBERS
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.saying import RehearsalError, say, wait_until

_WITHOUT_MAJORITY_SECONDS = 75.0
_SAYINGS = ("have not acknowledged", "broker does not answer", "waiting for the broker", "must answer")


def one_broker_killed(stage: Stage) -> None:
    """The one that decisions are written to."""
    number = stage.leader()
    stage.event("the leader of the logs killed (SIGKILL)", stage.cluster.brokers[number].kill)
    stage.event("that broker started again", lambda: stage.cluster.start(number))
    stage.fact("the broker that was killed had every record again", f"{stage.wait_for_copies():.1f} s later")


def one_broker_cut_off(stage: Stage) -> None:
    """As when its machine loses its network: it runs, and believes it leads."""
    number = stage.leader()
    stage.event("the leader cut off from brokers, workers, everybody", lambda: stage.cluster.cut_off(number))
    stage.event("that broker reached again", lambda: stage.cluster.bring_back(number))
    stage.fact("the broker that was cut off had every record again", f"{stage.wait_for_copies():.1f} s later")


def two_brokers_gone(stage: Stage) -> None:
    """Nothing may be published without a second copy; workers say so; one more broker is enough then."""
    left = stage.leader()
    gone = [number for number in NUMBERS if number != left]
    names = tuple(stage.fleet.workers)

    def lose_and_regain() -> None:
        said = {name: stage.fleet.said(name) for name in names}
        for number in gone:
            stage.cluster.brokers[number].kill()
        time.sleep(1.0)  # what was acknowledged before is still on its way to the public
        since = time.monotonic()
        time.sleep(_WITHOUT_MAJORITY_SECONDS)
        seen = stage.public.between(since, time.monotonic())
        if seen:
            raise RehearsalError(f"nothing may be published with one broker of three, got {seen} steps")
        words = stage.fleet.words("release", last=200_000)[said["release"] :]
        if not any(each in words for each in _SAYINGS):
            raise RehearsalError(f"the release worker must say that brokers are missing, got {words[-800:]}")
        last = next(line for line in reversed(words.splitlines()) if any(each in line for each in _SAYINGS))
        stage.fact(f"published in {_WITHOUT_MAJORITY_SECONDS:.0f} s with one broker of three", "nothing")
        stage.fact("said by the release worker meanwhile", _plain(last))
        stage.cluster.start(gone[0])

    stage.event("two of three brokers gone (SIGKILL), one started again", lose_and_regain)
    stage.event("the third broker started again", lambda: stage.cluster.start(gone[1]))
    stage.fact("the third broker had every record again", f"{stage.wait_for_copies():.1f} s later")


def _plain(line: str) -> str:
    """What a line of a log says, without time, level and place."""
    return re.sub(r"^(tallyguard: |\S+ \[\w+ *\] )", "", line).split(" [stream_app")[0]


def brokers_restarted(stage: Stage, why: str = "rolling restart of the brokers") -> None:
    """One after the other, each once the one before has caught up."""

    def restart_all() -> None:
        for number in NUMBERS:
            stage.cluster.brokers[number].stop()
            stage.cluster.start(number)
            stage.wait_for_copies()

    stage.event(why, restart_all)


def workers_restarted(stage: Stage, *arguments: str) -> None:
    """Account workers first, then the release worker; each once the others have its work."""
    for name in ("account-1", "account-2", "release"):
        stage.fleet.restart(name, *(arguments if name == "release" else ()))
        wait_until_working(stage, name)


def wait_until_working(stage: Stage, name: str) -> None:
    """A worker says that it has its part, in what it has said last."""
    word = "continues at step" if name == "release" else "partitions given"
    try:
        wait_until(f"{name} works", lambda: word in stage.fleet.words_of_this(name), 300.0)
    except RehearsalError as error:
        raise RehearsalError(f"{error}: {stage.fleet.words(name)}") from error
    say(f"{name} works")
