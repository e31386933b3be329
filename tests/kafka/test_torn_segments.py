"""A broker that died while it wrote: a torn end of its logs costs nothing, a lost record stops the worker."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow

STEPS, LINES_A_STEP = 20, 5
TORN_BYTES = 45  # of a batch: its header is longer


def test_what_a_dying_broker_wrote_in_half_is_cut_off_and_nothing_is_lost(tmp_path: Path) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(STEPS)
    half = len(lines) // 2
    with (
        broker(tmp_path / "broker") as server,
        OnKafka(tmp_path / "torn", server.address, population, sensors) as deployment,
    ):
        deployment.load_people()
        workers = [deployment.start("account"), deployment.start("release")]
        deployment.produce(lines[:half])
        deployment.wait_for_steps(STEPS // 2)
        for worker in workers:
            worker.kill()
        server.kill()
        for topic in (deployment.topics.releases, deployment.topics.decisions, deployment.topics.progress):
            segment = last_segment(server, topic)
            segment.write_bytes(segment.read_bytes() + segment.read_bytes()[:TORN_BYTES])
        server.start()
        deployment.start("account")
        deployment.start("release")
        deployment.produce(lines[half:])
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks


def test_a_decision_that_the_broker_lost_stops_the_release_worker(tmp_path: Path) -> None:
    """With one copy only, a machine that dies can lose what it had acknowledged; no step comes twice then."""
    population, sensors, messages = small_city(20)
    lines = messages(STEPS)
    half = len(lines) // 2
    with (
        broker(tmp_path / "broker") as server,
        OnKafka(tmp_path / "lost", server.address, population, sensors) as deployment,
    ):
        deployment.load_people()
        workers = [deployment.start("account"), deployment.start("release")]
        deployment.produce(lines[:half])
        deployment.wait_for_steps(STEPS // 2)
        for worker in workers:
            worker.kill()
        before = deployment.releases()
        server.kill()
        segment = last_segment(server, deployment.topics.decisions)
        content = segment.read_bytes()
        segment.write_bytes(content[: len(content) // 2])
        server.start()
        deployment.produce(lines[half:])
        release = deployment.start("release")
        assert release.ended() == 1
        assert deployment.topics.decisions in release.text
        assert deployment.releases() == before


def last_segment(server: Broker, topic: str) -> Path:
    """The file to which a topic's only partition is written."""
    return max((server.folder / "data" / f"{topic}-0").glob("*.log"))
