"""Several regions: whatever takes in, decides and publishes, everything is as in one embedded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from stream_app.wire import batched
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow

STEPS = 24
BUDGET: dict[str, Any] = {"mechanism": "budget", "budget.share": 0.5, "budget.added": 0.2}
NOISE: dict[str, Any] = {"mechanism": "gaussian", "sigma": 2.0}


def spread(sensors: list[tuple[str, Any]], count: int) -> dict[str, str]:
    """A region for each sensor, in turn."""
    return {name: f"part {number % count}" for number, (name, _) in enumerate(sensors)}


@pytest.mark.parametrize(
    ("regions", "workers", "release", "in_batches"), [(2, 1, NOISE, True), (4, 2, BUDGET, False)]
)
def test_releases_and_risks_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, regions: int, workers: int, release: dict[str, Any], in_batches: bool
) -> None:
    population, sensors, messages = small_city(60)
    lines, waits = messages(STEPS), {"answer_seconds": 60}
    folder = tmp_path / f"regions{regions}"
    with OnKafka(
        folder,
        kafka.address,
        population,
        sensors,
        regions=spread(sensors, regions),
        release=release,
        kafka=waits,
    ) as deployment:
        deployment.load_people()
        started = [deployment.start("intake") for _ in range(workers)]
        started += [deployment.start("coordinator"), deployment.start("account")]
        deployment.produce(batched(lines) if in_batches else lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        whole = [json.loads(line) for line in deployment.values(deployment.topics.whole)]
        assert [each["step"] for each in whole] == list(range(STEPS))
        assert all(len(each["regions"]) == regions for each in whole)
        for process in started:
            assert process.stop() == 0, process.text
