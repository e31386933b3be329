"""On Kafka the same input gives the same releases and the same risks as embedded, bit for bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker import OLDER_VERSION, Broker, broker
from tests.kafka.support import OnKafka, small_city

STEPS = 40


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2, 4])
def test_releases_and_risks_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, workers: int
) -> None:
    compare(kafka, tmp_path / f"same{workers}", workers)


@pytest.mark.slow
def test_they_are_on_an_older_broker_too(tmp_path: Path) -> None:
    with broker(tmp_path / "broker", OLDER_VERSION) as older:
        compare(older, tmp_path / "older", workers=2)


def compare(kafka: Broker, folder: Path, workers: int) -> None:
    """Run both, hold every byte of the one against the other."""
    population, sensors, messages = small_city(60)
    lines = messages(STEPS)
    with OnKafka(folder, kafka.address, population, sensors) as deployment:
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
