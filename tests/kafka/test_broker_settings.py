"""Brokers and senders that are a little different from ours: codecs, sizes, keys, headers, other settings."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from kafka import KafkaProducer
from kafka.admin import ConfigResource, ConfigResourceType

from stream_app.kafka.broker.clients import connected
from stream_app.kafka.broker.topic_checks import configuration_of
from stream_app.kafka.deployment.deployment import administration
from tests.copies import COMMAND_LINE
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow
CODECS = ("gzip", "snappy", "lz4", "zstd")


def configure(deployment: OnKafka, topics: Iterable[str], **values: str) -> None:
    """Set values of topics, with underscores for the dots in their names."""
    configs = {key.replace("_", "."): value for key, value in values.items()}
    with administration(deployment.connection) as admin:
        admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, topic, configs) for topic in topics])


def send(deployment: OnKafka, lines: Iterable[bytes], **producer: Any) -> None:
    """Messages to their topics, as another program's producer would; one batch where they fit in one."""
    sender = connected(KafkaProducer, deployment.connection, **{"linger_ms": 200, **producer})
    try:
        for line in lines:
            is_reading = json.loads(line)["type"] in ("reading", "readings")
            topic = deployment.topics.readings if is_reading else deployment.topics.activations
            sender.send(topic, line, partition=0)
        sender.flush()
    finally:
        sender.close()


def of_steps(lines: Iterable[bytes], steps: range) -> list[bytes]:
    return [line for line in lines if json.loads(line)["step"] in steps]


def test_every_codec_of_senders_and_of_brokers_is_read(kafka: Broker, tmp_path: Path) -> None:
    """Inputs as their senders compressed them, other topics as the broker was told to; by every client."""
    population, sensors, messages = small_city(20)
    lines = messages(10)
    with OnKafka(tmp_path / "codecs", kafka.address, population, sensors) as deployment:
        inputs = (deployment.topics.activations, deployment.topics.readings)
        ours = [plan.name for plan in deployment.topics.plans() if plan.name not in inputs]
        configure(deployment, ours, compression_type="zstd")
        deployment.load_people()
        workers = [deployment.start("release"), deployment.start("account")]
        for number, codec in enumerate(CODECS):
            configure(deployment, ours, compression_type=codec)
            send(deployment, of_steps(lines, range(2 * number, 2 * number + 2)), compression_type=codec)
            deployment.wait_for_steps(2 * number + 1)
        for worker in workers:
            assert worker.stop() == 0, worker.text[-2000:]
        for kind in ("release", "account"):  # which read all of their logs again
            deployment.start(kind)
        send(deployment, of_steps(lines, range(8, 10)), compression_type="lz4")
        last = json.loads(lines[-1])["step"]
        deployment.wait_for_steps(last)
        expected, _ = deployment.embedded(lines)
        assert deployment.releases() == expected[: len(deployment.releases())]
        assert len(deployment.releases()) >= last
        assert deployment.command("topics", "check").ended() == 0


WITHOUT_CODECS = "import aiokafka.codec, kafka.codec; aiokafka.codec.cramjam = None; kafka.codec.lz4 = None\n"


def test_a_codec_that_is_not_installed_is_named(kafka: Broker, tmp_path: Path) -> None:
    """Not the broker is away: a library is."""
    population, sensors, messages = small_city(20)
    with OnKafka(tmp_path / "none", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        send(deployment, messages(2), compression_type="lz4")
        worker = deployment.run_code(WITHOUT_CODECS + COMMAND_LINE, ("worker", "release"))
        assert worker.ended() == 1
        last = worker.text.strip().splitlines()[-1]
        assert "lz4" in last
        assert "must answer" not in last
        assert "install the codec" in last


def test_records_of_other_programs_are_read_or_refused_and_end_nothing(kafka: Broker, tmp_path: Path) -> None:
    """Without a value or a key, with headers, in transactions that were committed or given up."""
    population, sensors, messages = small_city(20)
    lines = messages(4)
    with OnKafka(tmp_path / "records", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        worker = deployment.start("release")
        deployment.start("account")
        topics = deployment.topics
        settings = {"linger_ms": 5, "transactional_id": "another program"}
        sender = connected(KafkaProducer, deployment.connection, **settings)
        sender.init_transactions()
        sender.begin_transaction()
        first = json.loads(next(line for line in lines if b'"activation"' in line))
        wrong = {
            "v": 1,
            "type": "reading",
            "step": first["step"],
            "sensor": first["sensors"][0],
            "count": 9999,
        }
        sender.send(topics.readings, json.dumps(wrong).encode(), partition=0).get(30)
        sender.abort_transaction()
        sender.begin_transaction()
        for topic in (topics.activations, topics.readings):
            sender.send(topic, None, key=b"a tombstone", partition=0)
            sender.send(topic, b"", key=None, partition=0)
            sender.send(
                topic, b"\x00\xff", key=b"\x00\xff" * 20, headers=[("a", b"b"), ("c", b"")], partition=0
            )
        for line in lines:
            topic = topics.readings if b'"reading' in line else topics.activations
            sender.send(topic, line, headers=[("trace", b"1" * 400)], key=b"any", partition=0)
        sender.commit_transaction()
        sender.close()
        deployment.wait_for_steps(3)
        expected, _ = deployment.embedded(lines)
        assert deployment.releases() == expected[: len(deployment.releases())]
        refused = [json.loads(each)["reason"] for each in deployment.values(topics.rejected)]
        assert len(refused) == 6
        assert worker.is_running


def test_more_partitions_of_an_input_end_the_worker_before_counts_are_lost(
    kafka: Broker, tmp_path: Path
) -> None:
    """Senders would put counts where nobody reads them."""
    population, sensors, messages = small_city(20)
    with OnKafka(
        tmp_path / "more", kafka.address, population, sensors, kafka={"stall_seconds": 8.0}
    ) as deployment:
        deployment.load_people()
        worker = deployment.start("release")
        deployment.produce(messages(2))
        wait_until("a step is out", lambda: len(deployment.releases()) > 0)
        with administration(deployment.connection) as admin:
            admin.create_partitions({deployment.topics.readings: 3})
        assert worker.ended(60) == 1
        assert "readings must have 1 partition, got 3" in worker.text.strip().splitlines()[-1]


def test_topics_that_a_broker_made_by_itself_are_named_with_what_to_do(tmp_path: Path) -> None:
    """auto.create.topics.enable: whoever asks for a topic gets one of the brokers' shape."""
    population, sensors, messages = small_city(20)
    extra = {"auto.create.topics.enable": "true", "num.partitions": "2"}
    with (
        broker(tmp_path / "broker", extra=extra) as itself,
        OnKafka(tmp_path / "made", itself.address, population, sensors, with_topics=False) as deployment,
    ):
        deployment.produce(messages(1))
        check = deployment.command("topics", "check")
        assert check.ended() == 1
        for sentence in ("readings must have 1 partition", "releases must exist"):
            assert sentence in check.text.replace(deployment.topics.prefix, "")
        worker = deployment.start("release")
        assert worker.ended(120) == 1
        assert "must be those of the settings" in worker.text


def test_an_advertised_name_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    """Brokers name themselves to clients (advertised.listeners); a name that only they know is no use."""
    population, sensors, _ = small_city(20)
    itself = Broker(tmp_path / "broker")
    itself.set("advertised.listeners", f"PLAINTEXT://nobody.invalid:{itself.port}")
    itself.format()
    itself.start()
    try:
        with OnKafka(
            tmp_path / "named", itself.address, population, sensors, with_topics=False
        ) as deployment:
            for command in (("topics", "check"), ("worker", "release")):
                process = deployment.command(*command)
                assert process.ended(120) == 1
                said = process.text.strip().splitlines()[-1]
                assert f"no connection to nobody.invalid:{itself.port}; set advertised.listeners" in said
    finally:
        itself.stop()


def test_a_broker_with_settings_of_its_own_serves_a_deployment(tmp_path: Path) -> None:
    """Compressing, keeping little, compacting all and late, stamps by senders: topics say otherwise."""
    population, sensors, messages = small_city(20)
    lines = messages(4)
    extra = {
        "compression.type": "lz4",
        "log.retention.bytes": str(2**20),
        "log.retention.ms": "60000",
        "log.cleanup.policy": "compact",
        "log.cleaner.min.compaction.lag.ms": str(10**10),
        "log.cleaner.max.compaction.lag.ms": str(10**11),
        "log.message.timestamp.type": "CreateTime",
        "num.partitions": "7",
    }
    with (
        broker(tmp_path / "broker", extra=extra) as itself,
        OnKafka(tmp_path / "own", itself.address, population, sensors) as deployment,
    ):
        check = deployment.command("topics", "check")
        assert check.ended() == 0, check.text
        assert held(deployment, deployment.topics.readings)["retention.bytes"] == "-1"
        assert held(deployment, deployment.topics.persons)["min.compaction.lag.ms"] == "0"
        deployment.load_people()
        deployment.start("release")
        deployment.start("account")
        send(deployment, lines)
        deployment.wait_for_steps(3)
        expected, _ = deployment.embedded(lines)
        assert deployment.releases() == expected[: len(deployment.releases())]


def held(deployment: OnKafka, topic: str) -> Mapping[str, str]:
    with administration(deployment.connection) as admin:
        return configuration_of(admin, topic)
