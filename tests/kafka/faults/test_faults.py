"""What a broker that is away, bad records and wrong topics lead to: a clear word, and nothing lost."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from stream_app.kafka.broker.topic_checks import check_topics, create_topics
from stream_app.kafka.deployment.deployment import Deployment, administration
from stream_app.kafka.deployment.log_reader import last_risk_step
from stream_app.kafka.release.release_log import PROGRESS_KEY, Progress
from stream_app.kafka.tools.replay import compare
from tests.hex_keys import hex_key
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow


def test_workers_wait_for_a_broker_that_is_absent_and_outlive_one_that_restarts(tmp_path: Path) -> None:
    population, sensors, messages = small_city(20)
    lines, steps = messages(60), 60
    looks_often = {"stall_seconds": 24}
    with (
        broker(tmp_path / "broker") as kafka,
        OnKafka(tmp_path / "away", kafka.address, population, sensors, kafka=looks_often) as deployment,
    ):
        deployment.load_people()
        kafka.stop()
        workers = [deployment.start("release"), deployment.start("account")]
        for worker in workers:
            wait_until("it waits", lambda worker=worker: worker.says("waiting for the broker"))
        kafka.start()
        deployment.produce(lines[:150])
        deployment.wait_for_steps(30)
        kafka.kill()
        for worker in workers:
            wait_until("it notices", lambda worker=worker: worker.says("the broker does not answer"))
        kafka.start()
        deployment.produce(lines[150:])
        deployment.wait_for_steps(steps)
        assert all(worker.is_running for worker in workers)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks


def test_a_poison_message_in_each_topic_becomes_a_dead_letter_and_stops_nothing(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(20)
    with OnKafka(tmp_path / "poison", kafka.address, population, sensors) as deployment:
        topics = deployment.topics
        deployment.load_people()
        deployment.send(topics.persons, b"not a person", key=b"stranger")
        deployment.send(topics.persons, b'{"v":1,"type":"person","person":"s"}', key=b"s")
        workers = [deployment.start("release"), deployment.start("account")]
        deployment.send(topics.activations, b"\xff\xfe not json")
        deployment.send(topics.readings, b'{"v":1,"type":"reading","step":0,"sensor":"nowhere","count":1}')
        deployment.produce(lines[:50])
        deployment.wait_for_steps(10)
        deployment.produce(lines[50:])
        deployment.wait_for_steps(20)
        assert all(worker.is_running for worker in workers)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        letters = [json.loads(line) for line in deployment.values(topics.rejected)]
        sources = [letter["source"].removeprefix(topics.prefix) for letter in letters]
        for topic, expected in (("activations", 1), ("readings", 1), ("persons", 2)):
            assert sum(source.startswith(topic) for source in sources) == expected, sources
        assert all(letter["reason"] and letter["hint"] for letter in letters)
        priors = [letter for letter in letters if letter["source"].startswith(topics.persons)]
        assert [letter["payload"] for letter in priors] == ["", ""]  # what is no prior stays in persons


def test_poison_that_waits_for_a_worker_or_lies_in_the_log_misleads_nobody(
    kafka: Broker, tmp_path: Path
) -> None:
    """A worker resumes by what the logs hold, whatever a stranger has written among it."""
    population, sensors, messages = small_city(20)
    lines = messages(26)
    with OnKafka(tmp_path / "among", kafka.address, population, sensors) as deployment:
        topics = deployment.topics

        def poison(key: bytes) -> None:
            deployment.send(topics.decisions, b"poison", key=key)

        deployment.load_people()
        poison(b"15")
        release = deployment.start("release")
        deployment.produce(lines[:100])
        wait_until("20 steps", lambda: len(deployment.releases()) == 20)
        poison(b"no step")
        account = deployment.start("account")
        deployment.wait_for_steps(20)
        assert account.stop() == 0
        assert release.stop() == 0
        poison(b"24")
        deployment.start("release")
        deployment.produce(lines[100:])
        deployment.start("account")
        deployment.wait_for_steps(26)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert all(len(written) == 1 for written in deployment.summaries().values())
        assert deployment.values(topics.rejected) == []
        assert account.says("is not a decision")
        assert compare(Deployment.of(deployment.settings)).is_same
        for partition in range(topics.partitions):
            for poisoned in (b"poison", b'{"type":"risk_summary"}', b'{"type":"risk","person":"p"}'):
                deployment.send(topics.risks, poisoned, key=b"24", partition=partition)
            written = asyncio.run(last_risk_step(deployment.connection, topics.risks, partition))
            assert written == 25


def test_a_release_worker_whose_progress_was_lost_publishes_nothing_a_second_time(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, messages = small_city(20)
    with OnKafka(tmp_path / "lost", kafka.address, population, sensors) as deployment:
        first = deployment.start("release")
        deployment.produce(messages(10))
        wait_until("10 steps", lambda: len(deployment.releases()) == 10)
        assert first.stop() == 0
        releases = deployment.releases()
        deployment.send(deployment.topics.progress, Progress().record(), key=PROGRESS_KEY)
        again = deployment.start("release")
        assert again.ended() == 1
        assert "must say to go on at step 10" in again.text
        assert deployment.releases() == releases


def test_topics_of_another_shape_are_explained_and_keep_workers_from_starting(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, _ = small_city(20)
    with OnKafka(tmp_path / "shape", kafka.address, population, sensors) as deployment:
        with administration(deployment.connection) as admin:
            assert check_topics(admin, deployment.topics) == []
            admin.create_partitions({deployment.topics.persons: 6})
            admin.delete_topics([deployment.topics.risks])
            wait_until("deleted", lambda: deployment.topics.risks not in admin.list_topics())
            differences = check_topics(admin, deployment.topics)
        found = {
            (each.topic.removeprefix(deployment.topics.prefix), each.must, each.got) for each in differences
        }
        assert found == {
            ("persons", "have 4 partitions", "6"),
            ("risks", "exist", "no such topic that this user may see"),
        }
        check = deployment.command("topics", "check")
        assert check.ended() == 1
        assert "persons must have 4 partitions, got 6" in check.text
        for kind in ("release", "account"):
            worker = deployment.start(kind)
            assert worker.ended() == 1
            assert "topics must be those of the settings" in worker.text
        with administration(deployment.connection) as admin:
            assert create_topics(admin, deployment.topics) == (deployment.topics.risks,)


def test_other_settings_than_the_log_was_begun_with_are_refused(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(20)
    with OnKafka(tmp_path / "other", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("account")
        first = deployment.start("release")
        deployment.produce(messages(3))
        deployment.wait_for_steps(3)
        assert first.stop() == 0
        for variable, value in (("STEP_SECONDS", "60"), ("NOISE_KEY_SECRET", hex_key("33"))):
            changed = deployment.start("release", **{f"TALLYGUARD_{variable}": value})
            assert changed.ended() == 1
            assert "must be continued with the settings it was started with" in changed.text
            assert hex_key("33") not in changed.text
