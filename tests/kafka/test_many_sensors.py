"""Thousands of sensors in one step on a real broker: every record fits, releases are the embedded run's."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from models.priors import MovementPrior, Population
from stream_app.kafka.deployment.deployment import Deployment, largest_bytes
from stream_app.wire.messages import Activation, Reading
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka

pytestmark = pytest.mark.slow

SENSORS, PEOPLE, STEPS = 5_000, 6, 2
NAMES = tuple(f"corner of street {number}" for number in range(SENSORS))


def people() -> Population:
    """A few people, each on some places of their own."""
    random = np.random.default_rng(1)
    priors = []
    for number in range(PEOPLE):
        places = np.sort(random.choice(SENSORS, 4, replace=False))
        matrix = random.dirichlet(np.ones(4), size=4)
        priors.append(MovementPrior.from_dense(f"p{number}", matrix, places=places))
    return Population.pack(priors, NAMES)


def lines() -> list[bytes]:
    """Every sensor counts in every step."""
    found = []
    for step in range(STEPS):
        found.append(Activation(v=1, step=step, sensors=NAMES).line().rstrip())
        found += [Reading(v=1, step=step, sensor=name, count=step + 3).line().rstrip() for name in NAMES]
    return found


def test_five_thousand_sensors_walk_through_every_topic(kafka: Broker, tmp_path: Path) -> None:
    sensors = [(name, (number,)) for number, name in enumerate(NAMES)]
    with OnKafka(tmp_path / "many", kafka.address, people(), sensors, risk_every=1) as deployment:
        deployment.load_people()
        deployment.start("account")
        deployment.start("release")
        deployment.produce(lines())
        deployment.wait_for_steps(STEPS)
        topics = deployment.topics
        releases, risks = deployment.embedded(lines())
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        reckoned = largest_bytes(Deployment.of(deployment.settings).registry, topics, deployment.settings)
        for topic in (topics.activations, topics.releases, topics.decisions):
            largest = max(map(len, deployment.values(topic)))
            assert reckoned[topic] / 8 < largest <= reckoned[topic]
        assert deployment.values(topics.rejected) == []


def test_a_broker_that_hangs_up_on_such_a_step_is_named_before_anything_is_taken(tmp_path: Path) -> None:
    """``socket.request.max.bytes`` of a real broker is seen at the start, not at the first large step."""
    sensors = [(name, (number,)) for number, name in enumerate(NAMES)]
    with (
        broker(tmp_path / "broker", extra={"socket.request.max.bytes": str(2**21)}) as small,
        OnKafka(tmp_path / "many", small.address, people(), sensors) as deployment,
    ):
        deployment.load_people()
        release = deployment.start("release")
        assert release.ended() == 1
        assert "broker 1 must accept requests of " in release.text
        assert "(socket.request.max.bytes)" in release.text
        assert "got at most 2097152; raise it" in release.text
        assert deployment.values(deployment.topics.progress) == []
