"""Steps that close by the clock on a real broker: after an absence, and whatever the worker's clock says."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import program, wait_until

pytestmark = pytest.mark.slow

STEP_SECONDS, GRACE_SECONDS = 4, 3.5


def deployment_of(kafka: Broker, folder: Path, origin: int) -> OnKafka:
    population, sensors, _ = small_city(20)
    ticks: dict[str, Any] = {"step_seconds": STEP_SECONDS, "grace_seconds": GRACE_SECONDS, "origin": origin}
    return OnKafka(folder, kafka.address, population, sensors, **ticks)


def report(deployment: OnKafka, origin: int, first: int, until: int) -> None:
    """Two sensors that report each step about when it ends."""
    names = [
        sensor["name"] for sensor in json.loads((deployment.folder / "sensors.json").read_text())["sensors"]
    ]
    for step in range(first, until):
        announced = {"v": 1, "type": "activation", "step": step, "sensors": names[:2]}
        counts = [{"v": 1, "type": "reading", "step": step, "sensor": name, "count": 3} for name in names[:2]]
        end = origin + (step + 1) * STEP_SECONDS
        wait_until(f"the end of step {step}", lambda end=end: time.time() >= end - 1.0, 60.0)
        deployment.produce([json.dumps(message).encode() for message in (announced, *counts)])


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
        assert_on_ticks(deployment, origin)


def test_the_worker_s_own_clock_decides_nothing(kafka: Broker, tmp_path: Path) -> None:
    """Hours ahead from the start on; the broker's time is what counts."""
    program("faketime")
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    wrong = {"LD_PRELOAD": str(library), "FAKETIME": "+3h", "FAKETIME_DONT_FAKE_MONOTONIC": "1"}
    origin = int(time.time()) + 20
    with deployment_of(kafka, tmp_path / "wrong", origin) as deployment:
        worker = deployment.start("release", **wrong)
        report(deployment, origin, 0, 5)
        wait_until("5 steps", lambda: len(deployment.releases()) >= 5, 120.0)
        assert worker.stop() == 0, worker.text
        assert [len(said) for said in published(deployment)[:5]] == [2] * 5
        assert deployment.values(deployment.topics.rejected) == []
        assert_on_ticks(deployment, origin)


def assert_on_ticks(deployment: OnKafka, origin: int) -> None:
    """By the broker's stamps."""
    from stream_app.kafka.clients import consuming, records

    with consuming(deployment.connection) as consumer:
        for record in records(consumer, deployment.topics.releases):
            tick = origin + (int(record.key) + 1) * STEP_SECONDS + GRACE_SECONDS
            assert record.timestamp / 1000 >= tick - 0.05, record.key
