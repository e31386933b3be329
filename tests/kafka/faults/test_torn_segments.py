"""A broker that died while it wrote: a torn end of its logs costs nothing, a lost record stops the worker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow

STEPS = 20
TORN_BYTES = 45  # of a batch: its header is longer


class Died(NamedTuple):
    """A broker that died half-way, its deployment, what was published by then and what is still to come."""

    server: Broker
    deployment: OnKafka
    lines: list[bytes]
    published: list[bytes]

    @property
    def rest(self) -> list[bytes]:
        """The messages of the second half."""
        return self.lines[len(self.lines) // 2 :]


@pytest.fixture
def died(tmp_path: Path) -> Iterator[Died]:
    """Half of the steps are published; then workers and broker are killed."""
    population, sensors, messages = small_city(20)
    lines = messages(STEPS)
    with (
        broker(tmp_path / "broker") as server,
        OnKafka(tmp_path / "torn", server.address, population, sensors) as deployment,
    ):
        deployment.load_people()
        workers = [deployment.start("account"), deployment.start("release")]
        deployment.produce(lines[: len(lines) // 2])
        deployment.wait_for_steps(STEPS // 2)
        for worker in workers:
            worker.kill()
        published = deployment.releases()
        server.kill()
        yield Died(server, deployment, lines, published)


def test_what_a_dying_broker_wrote_in_half_is_cut_off_and_nothing_is_lost(died: Died) -> None:
    deployment = died.deployment
    for topic in (deployment.topics.releases, deployment.topics.decisions, deployment.topics.progress):
        segment = last_segment(died.server, topic)
        segment.write_bytes(segment.read_bytes() + segment.read_bytes()[:TORN_BYTES])
    died.server.start()
    deployment.start("account")
    deployment.start("release")
    deployment.produce(died.rest)
    deployment.wait_for_steps(STEPS)
    releases, risks = deployment.embedded(died.lines)
    assert deployment.releases() == releases
    assert deployment.person_risks() == risks


def test_a_decision_that_the_broker_lost_stops_the_release_worker(died: Died) -> None:
    """With one copy only, a machine that dies can lose what it had acknowledged; no step comes twice then."""
    deployment = died.deployment
    segment = last_segment(died.server, deployment.topics.decisions)
    content = segment.read_bytes()
    segment.write_bytes(content[: len(content) // 2])
    died.server.start()
    deployment.produce(died.rest)
    release = deployment.start("release")
    assert release.ended() == 1
    assert deployment.topics.decisions in release.text
    assert deployment.releases() == died.published


def last_segment(server: Broker, topic: str) -> Path:
    """The file to which a topic's only partition is written."""
    return max((server.folder / "data" / f"{topic}-0").glob("*.log"))
