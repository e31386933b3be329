"""Steps that close by the clock on a real broker: after an absence, and whatever the worker's clock says."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from stream_app.kafka.broker.clients import consuming, records
from stream_app.steps.ticks import StepClock
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import POINTS
from tests.kafka.support import OnKafka, Process, small_city
from tests.watching.services import wait_until
from tests.wrong_clock import TRUE, YEAR_AHEAD, WrongClock

pytestmark = pytest.mark.slow

STEP_SECONDS, GRACE_SECONDS = 4, 3.5
MINUTES_AHEAD, YEAR_BEHIND = "+10m", "-365d"
REPORTED = 300  # steps of a second; the ten minutes of a clock would close all of them


def deployment_of(
    kafka: Broker,
    folder: Path,
    origin: int,
    step_seconds: int = STEP_SECONDS,
    grace_seconds: float = GRACE_SECONDS,
) -> OnKafka:
    population, sensors, _ = small_city(20)
    ticks: dict[str, Any] = {"step_seconds": step_seconds, "grace_seconds": grace_seconds, "origin": origin}
    ticks["max_ahead_seconds"] = 2.0 * REPORTED  # some report long before a step ends
    return OnKafka(folder, kafka.address, population, sensors, **ticks)


def of_step(deployment: OnKafka, step: int) -> list[bytes]:
    """Two sensors that report everything."""
    listed = json.loads((deployment.folder / "sensors.json").read_text())["sensors"]
    names = [sensor["name"] for sensor in listed[:2]]
    announced = {"v": 1, "type": "activation", "step": step, "sensors": names}
    counts = [{"v": 1, "type": "reading", "step": step, "sensor": name, "count": 3} for name in names]
    return [json.dumps(message).encode() for message in (announced, *counts)]


def report(deployment: OnKafka, origin: int, first: int, until: int) -> None:
    """Each step about when it ends."""
    for step in range(first, until):
        end = origin + (step + 1) * STEP_SECONDS
        wait_until(f"the end of step {step}", lambda end=end: time.time() >= end - 1.0, 60.0)
        deployment.produce(of_step(deployment, step))


def published(deployment: OnKafka) -> list[list[Any]]:
    """Of each step what is said of its sensors."""
    return [json.loads(line)["releases"] for line in deployment.releases()]


def test_a_worker_that_was_away_takes_its_backlog_and_publishes_no_step_before_its_tick(
    kafka: Broker, tmp_path: Path
) -> None:
    origin = int(time.time()) + 5
    with deployment_of(kafka, tmp_path / "away", origin) as deployment:
        report(deployment, origin, 0, 6)
        worker = deployment.start("release")
        wait_until("6 steps", lambda: len(deployment.releases()) >= 6, 120.0)
        assert [len(said) for said in published(deployment)[:6]] == [2] * 6
        assert all("value" in said for step in published(deployment)[:6] for said in step)
        assert deployment.values(deployment.topics.rejected) == []
        wait_until("a step nobody reports", lambda: len(deployment.releases()) >= 8, 60.0)
        assert worker.stop() == 0, worker.text
        assert_on_ticks(deployment)


def test_a_worker_whose_own_clock_jumps_closes_no_step_before_its_tick_and_loses_nothing(
    kafka: Broker, tmp_path: Path
) -> None:
    """From its start on and while it runs, ahead and back. Steps are reported long before they end."""
    clock, steps = WrongClock(tmp_path), 0
    with deployment_of(kafka, tmp_path / "wrong", int(time.time()) + 5, 1, 0.5) as deployment:
        deployment.produce(line for step in range(REPORTED) for line in of_step(deployment, step))
        clock.set(MINUTES_AHEAD)
        worker = deployment.start("release", **clock.environment)
        for ahead in (MINUTES_AHEAD, TRUE, YEAR_AHEAD, YEAR_BEHIND, MINUTES_AHEAD):
            clock.set(ahead)
            steps = wait_for_steps(deployment, worker, steps + 3)
        assert worker.stop() == 0, worker.text
        assert_on_ticks(deployment)
        late = steps_over_when_reported(deployment)
        said = published(deployment)[late:REPORTED]
        assert said and all(len(each) == 2 and all("value" in one for one in each) for each in said)
        assert len(deployment.values(deployment.topics.rejected)) <= 3 * late


def test_a_release_worker_killed_at_every_point_publishes_each_step_once_and_on_its_tick(
    kafka: Broker, tmp_path: Path
) -> None:
    """Values and risks are those of an undisturbed run on the same reports."""
    with deployment_of(kafka, tmp_path / "killed", int(time.time()) + 30, 1, 0.5) as deployment:
        lines = [line for step in range(REPORTED) for line in of_step(deployment, step)]
        deployment.produce(lines)
        assert steps_over_when_reported(deployment) == 0
        deployment.load_people()
        deployment.start("account")
        for point in POINTS:
            dying = deployment.start_dying("release", point, 2)
            wait_until(f"a death {point}", lambda dying=dying: has_ended(deployment, dying), 120.0)
            assert dying.ended() == -signal.SIGKILL, dying.text
        worker = deployment.start("release")
        steps = wait_for_steps(deployment, worker, len(deployment.releases()) + 3)
        deployment.wait_for_steps(steps)
        assert worker.stop() == 0, worker.text
        assert_on_ticks(deployment)
        releases, risks = deployment.embedded(lines)
        until = min(steps, REPORTED)
        assert deployment.releases()[:until] == releases[:until]
        assert before(until, deployment.person_risks()) == before(until, risks) != []


def has_ended(deployment: OnKafka, worker: Process) -> bool:
    """Whether it has; if not, there is something to acknowledge for it: a report that it has already."""
    deployment.produce(of_step(deployment, REPORTED - 1))
    return not worker.is_running


def before(step: int, risks: list[bytes]) -> list[bytes]:
    """The records of earlier steps."""
    return [line for line in risks if json.loads(line)["step"] < step]


def steps_over_when_reported(deployment: OnKafka) -> int:
    """How many ticks had come when the last reading arrived: none, but on a slow machine."""
    with consuming(deployment.connection) as consumer:
        (last,) = records(consumer, deployment.topics.readings, last=1)
    return max(0, StepClock.of(deployment.settings).due_step(last.timestamp / 1000) + 1)


def wait_for_steps(deployment: OnKafka, worker: Process, steps: int) -> int:
    """Until at least so many are published; how many are."""

    def is_so() -> bool:
        assert worker.is_running, worker.text
        return len(deployment.releases()) >= steps

    wait_until(f"{steps} steps", is_so, 120.0)
    return len(deployment.releases())


def assert_on_ticks(deployment: OnKafka) -> None:
    """By the broker's stamps."""
    clock = StepClock.of(deployment.settings)
    with consuming(deployment.connection) as consumer:
        for record in records(consumer, deployment.topics.releases):
            assert clock.due_step(record.timestamp / 1000 + 0.05) >= int(record.key), record.key
