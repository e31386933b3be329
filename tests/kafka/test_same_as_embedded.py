"""On Kafka the same input gives the same releases and the same risks as embedded, bit for bit."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from stream_app.kafka.deployment.log_reader import last_risk_step
from stream_app.wire import batched
from tests.kafka.broker import OLDER_VERSION, Broker, broker
from tests.kafka.support import OnKafka, small_city

STEPS = 40
MANY = 7_650_000
"""Added to every count: nothing else in a log is a number like it."""
COUNTS = re.compile(r"(?<!\d)76[45]\d{4}(?!\d)")


@pytest.mark.slow
@pytest.mark.parametrize(("workers", "in_batches"), [(1, False), (2, True), (4, False)])
def test_releases_and_risks_are_those_of_the_embedded_engine(
    kafka: Broker, tmp_path: Path, workers: int, in_batches: bool
) -> None:
    """Which is given single readings, also where Kafka is given batches."""
    compare(kafka, tmp_path / f"same{workers}", workers, in_batches=in_batches)


@pytest.mark.slow
def test_they_are_on_an_older_broker_too(tmp_path: Path) -> None:
    with broker(tmp_path / "broker", OLDER_VERSION) as older:
        compare(older, tmp_path / "older", workers=2)


def compare(kafka: Broker, folder: Path, workers: int, *, in_batches: bool = False) -> None:
    """Run both, with too little work for everybody, and hold every byte of the one against the other."""
    population, sensors, messages = small_city(60)
    lines = [with_many(line) for line in messages(STEPS)]
    with OnKafka(folder, kafka.address, population, sensors) as deployment:
        deployment.load_people()
        release = deployment.start("release")
        accounts = [deployment.start("account") for _ in range(workers)]
        deployment.produce(batched(lines) if in_batches else lines)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert all(len(found) == 1 for found in deployment.summaries().values())
        summaries = [json.loads(each) for found in deployment.summaries().values() for each in found]
        assert any(summary["not_reached"] for summary in summaries), "the work was to be scarce"
        assert len(deployment.summaries()) == STEPS * deployment.topics.partitions
        assert all_risks_written(deployment)
        for process in accounts:
            assert process.stop() == 0, process.text
        people = {*population.people, *(json.loads(risk)["person"] for risk in risks)}
        for process in (release, *accounts):
            assert not [name for name in people if process.says(name)]
            assert COUNTS.findall(process.text) == []
        assert all(COUNTS.search(text) for text in (*published(releases), *published(lines, "reading")))


def with_many(line: bytes) -> bytes:
    """The message, in a city where many more people are counted."""
    message = json.loads(line)
    if message["type"] == "reading":
        message["count"] += MANY
    return json.dumps(message, separators=(",", ":")).encode()


def published(lines: list[bytes], kind: str = "release") -> list[str]:
    """What stands in the messages of a kind that hold counts."""
    texts = (line.decode() for line in lines)
    return [
        text for text in texts if f'"type":"{kind}"' in text and ('"count"' in text or '"value":' in text)
    ]


def all_risks_written(deployment: OnKafka) -> bool:
    """Whether a worker started now would write no risks a second time."""
    connection, risks = deployment.connection, deployment.topics.risks
    last = (
        asyncio.run(last_risk_step(connection, risks, each)) for each in range(deployment.topics.partitions)
    )
    return set(last) == {STEPS - 1}
