"""Late and corrected counts on Kafka: published once and as the embedded engine does, whatever is killed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.embedded.journal import REVISED_FILE
from stream_app.wire import Reading
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import BEFORE, BETWEEN, COMMITTED, POINTS, PRODUCED
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow
EACH = 6  # steps sent to one worker
DEATHS = (COMMITTED, BEFORE, BETWEEN, COMMITTED, PRODUCED)  # what one loses comes with the next
STEPS = EACH * len(DEATHS)
LATE = {"late": 3, "grace": 0, "watermark_share": 0.0, "risk_every": 5}


def with_late_and_corrected(lines: list[bytes]) -> list[list[bytes]]:
    """By step; each third loses its last reading. It comes two steps later, and a correction of the first."""
    steps: list[list[bytes]] = [[] for _ in range(STEPS)]
    for line in lines:
        steps[json.loads(line)["step"]].append(line)
    held: list[bytes] = []
    for number, step in enumerate(steps):
        first, *_, last = (line for line in step if b'"reading"' in line)
        if number % 3 == 0 and number < STEPS - 3:  # a step must close after what comes late
            step.remove(last)
            reading = json.loads(first)
            again = Reading(**{**reading, "count": reading["count"] + 1, "version": 2})
            held = [last, again.line().rstrip()]
        elif number % 3 == 2:
            step.extend(held)
            held = []
    return steps


def declare_corrections(deployment: OnKafka) -> None:
    """Every sensor may correct each count once."""
    path = deployment.folder / "sensors.json"
    path.write_text(json.dumps({"corrections": 1, **json.loads(path.read_text())}))


def test_late_and_corrected_counts_are_published_once_whenever_the_worker_dies(
    kafka: Broker, tmp_path: Path
) -> None:
    """Killed at every point of a transaction: releases, revised values and risks are the embedded run's."""
    assert set(DEATHS) == set(POINTS)
    population, sensors, messages = small_city(12)
    sent = with_late_and_corrected(messages(STEPS))
    with OnKafka(tmp_path / "late", kafka.address, population, sensors, **LATE) as deployment:
        declare_corrections(deployment)
        deployment.load_people()
        deployment.start("account")
        for number, point in enumerate(DEATHS):
            dying = deployment.start_dying("release", point, 1)
            for step in sent[number * EACH : (number + 1) * EACH]:
                deployment.produce(step)  # by itself: the broker stamps what it gets at once as one
            assert dying.ended() != 0
        deployment.start("release")
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded([line for step in sent for line in step])
        revised = (deployment.folder / "embedded" / REVISED_FILE).read_bytes().splitlines()
        assert deployment.releases() == releases
        assert deployment.values(deployment.topics.revised) == revised
        assert deployment.person_risks() == risks
        values = [entry for line in revised for entry in json.loads(line)["releases"]]
        assert {entry.get("version", 1) for entry in values} == {1, 2}
        assert len(values) >= STEPS // 3
        assert not deployment.values(deployment.topics.rejected)
