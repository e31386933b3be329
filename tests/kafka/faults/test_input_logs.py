"""Inputs that are not what was read before: the worker says so, or goes on as it was told."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.kafka.broker.topic_checks import create_topics
from stream_app.kafka.deployment.deployment import administration
from tests.copies import COMMAND_LINE
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow

BUSY = f"""
import asyncio
from stream_app.kafka.broker.streams import App
from stream_app.kafka.release import release_core, stream_task
release_core._MOST_RECORDS, release_core.SILENCE_SECONDS = 200, 0.01
stream_task.SILENCE_SECONDS = 0.01
following = App._following
async def late(stream):
    async for batch in stream:
        await asyncio.sleep(0.3 * batch.topic.endswith("readings"))
        yield batch
App._following = lambda self, stream: following(self, late(stream))
{COMMAND_LINE}"""
"""A release worker as on a machine that is far too busy: logs are full and silent, and readings come late."""


def test_steps_that_are_sent_at_once_are_all_decided_where_there_is_little_room(
    kafka: Broker, tmp_path: Path
) -> None:
    """A log that others wait for is fetched however many of them wait, and never taken for ended too early.

    Else activations would run ahead of their readings, and be refused.
    """
    population, sensors, messages = small_city(20)
    steps, more = 1_200, {"risk_every": 1000, "max_ahead": 100}
    with OnKafka(tmp_path / "flood", kafka.address, population, sensors, **more) as deployment:
        deployment.load_people()
        deployment.produce(messages(steps))
        worker = deployment.run_code(BUSY, ("worker", "release"))
        wait_until("every step decided", lambda: deployment.steps_decided() == steps, 300.0)
        assert worker.stop() == 0
        assert deployment.values(deployment.topics.rejected) == []


@pytest.mark.parametrize("kind", ["anew", "cut"])
def test_a_topic_made_anew_or_cut_before_it_was_read_is_not_passed_over(
    kafka: Broker, tmp_path: Path, kind: str
) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(30)
    with OnKafka(tmp_path / kind, kafka.address, population, sensors) as deployment:
        topics = deployment.topics
        first = deployment.start("release")
        deployment.produce(lines[:50])
        wait_until("10 steps", lambda: len(deployment.releases()) == 10)
        assert first.stop() == 0
        if kind == "cut":
            deployment.produce(lines[50:75])
            cut(deployment, topics.readings)
        else:
            make_anew(deployment, topics.readings)
        deployment.produce(lines[50:] if kind == "anew" else lines[75:])
        refused = deployment.start("release")
        assert refused.ended() == 1
        assert "must hold every record that was not read yet" in refused.text
        assert len(deployment.releases()) == 10
        deployment.start("release", "--accept-changes")
        wait_until("a dead letter", lambda: deployment.values(topics.rejected) != [])
        letters = [json.loads(line) for line in deployment.values(topics.rejected)]
        assert ("records_lost", f"{topics.readings}:40") in {
            (letter["reason"], letter["source"]) for letter in letters
        }
        wait_until("what there is", lambda: len(deployment.releases()) >= (30 if kind == "anew" else 15))


def test_a_topic_made_anew_under_a_running_worker_stops_it(kafka: Broker, tmp_path: Path) -> None:
    """As many records as were read before must not be taken for them."""
    population, sensors, messages = small_city(20)
    lines = messages(20)
    with OnKafka(tmp_path / "running", kafka.address, population, sensors) as deployment:
        # Only this one looks often: those after it may wait 10 s for its session to run out.
        worker = deployment.start("release", TALLYGUARD_KAFKA__STALL_SECONDS="8")
        deployment.produce(lines[:50])
        wait_until("10 steps", lambda: len(deployment.releases()) == 10)
        make_anew(deployment, deployment.topics.readings)
        deployment.produce(lines[50:])
        assert worker.ended() == 1  # by its own look, or because the group had a partition less for a moment
        anew = f"{deployment.topics.readings} was read up to 40, but it was deleted and made again"
        assert anew in worker.text or "input topic was deleted" in worker.text
        again = deployment.start("release")
        assert again.ended() == 1
        assert anew in again.text
        deployment.start("release", "--accept-changes")
        wait_until("the rest", lambda: len(deployment.releases()) == 20)


def make_anew(deployment: OnKafka, topic: str) -> None:
    """With more records than were read before, so that offsets tell nothing."""
    with administration(deployment.connection) as admin:
        admin.delete_topics([topic])
        wait_until("deleted", lambda: topic not in admin.list_topics())
        create_topics(admin, deployment.topics)


def cut(deployment: OnKafka, topic: str) -> None:
    """As retention does: everything up to the end goes."""
    from kafka import TopicPartition

    with administration(deployment.connection) as admin:
        admin.delete_records({TopicPartition(topic, 0): -1})
