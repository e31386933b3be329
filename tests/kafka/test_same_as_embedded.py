"""On Kafka the same input gives the same releases and the same risks as embedded, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city

STEPS = 40


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_releases_and_risks_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, workers: int
) -> None:
    population, sensors, messages = small_city(60)
    lines = messages(STEPS)
    with OnKafka(tmp_path / f"same{workers}", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("release")
        accounts = [deployment.start("account") for _ in range(workers)]
        deployment.produce(lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert all(len(told) == 1 for told in deployment.summaries().values())
        assert len(deployment.summaries()) == STEPS * deployment.topics.partitions
        assert [process.stop() for process in accounts] == [0] * workers
