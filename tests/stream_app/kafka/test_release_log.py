"""What the release worker writes to each topic of a step, without a broker."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiokafka.errors import KafkaError, KafkaTimeoutError, ProducerFenced, UnknownError

from models.keys import NoiseKey
from models.mechanisms import Tiered
from models.releases import SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.broker.clients import BrokerError, FencedError
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_log import TransactionLog
from stream_app.setup.settings import KafkaSettings, Settings
from stream_app.steps import Results
from stream_app.steps.engine import ClosedStep, release_of
from stream_app.steps.plan import KeyedPublisher
from tests.stream_app.engine_support import NOISE_SECRET, REGISTRY
from tests.stream_app.memory_log import MemoryLog


def written(topics: Topics, closed: ClosedStep) -> dict[str, bytes]:
    log = MemoryLog(topics=topics)
    Results(log).close(closed)
    log.commit({}, {})
    return {record.topic: record.value or b"" for record in log.written}


@pytest.mark.parametrize("named", [("public", "partner"), ("partner", "public")])
def test_every_record_of_a_tiered_step_tells_its_readers_what_they_may_know(named: tuple[str, str]) -> None:
    """A tier without a topic keeps the whole transaction from being written."""
    epsilons = {"public": 0.2, "partner": 1.0}
    release = {"mechanism": "tiered", "tiers": {name: epsilons[name] for name in named}}
    servers = {"servers": ("nowhere:9092",)}
    configured = Settings.model_validate({"release": release, "kafka": servers, "late": 1})
    mechanism = Tiered(tuple(epsilons.items()))
    schedule = StepSchedule(0, tuple(SensorRelease(REGISTRY.get(name), mechanism) for name in "AB"))
    publisher = KeyedPublisher(NoiseKey.parse(NOISE_SECRET), "test", 0, 60, clamp_negative=True)
    released = release_of(schedule, publisher.publish(schedule, [0, 0]))
    accounts: Any = None  # are elsewhere
    closed = ClosedStep(schedule, released, (), accounts, ())
    topics = Topics.of(configured)
    written_to = written(topics, closed)
    readings = [entry.tiers or {} for entry in released.releases]
    values = {name: [tiers[name].value for tiers in readings] for name in epsilons}
    read = {
        topic: [entry["value"] for entry in json.loads(written_to[topic])["releases"]]
        for topic in (topics.releases, topics.tier("public"), topics.tier("partner"))
    }
    assert list(read.values()) == [values["public"], values["public"], values["partner"]]
    late = written(topics, replace(closed, revised=(released,)))
    written_to |= late
    own = (topics.revised, topics.revised_tier("public"), topics.revised_tier("partner"))
    assert [late[topic] for topic in own] == [written_to[topic] for topic in read]
    assert not any(b"tiers" in value or b"drawn" in value for value in written_to.values())
    with pytest.raises(SettingsError, match=r"log of its own.*partner"):
        written(Topics(tiers=("public",)), closed)


class FailingProducer:
    """Its transactions fail as aiokafka's do: with the broker's error, or with one of its own made of it."""

    def __init__(self, error: KafkaError) -> None:
        self._error = error

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        yield
        raise self._error

    async def send_and_wait(self, *record: Any) -> None:
        raise self._error


def failing(error: KafkaError) -> TransactionLog:
    log = TransactionLog(Connection(KafkaSettings(servers=("nowhere:9092",))), "name", "topic")
    log._producer = FailingProducer(error)
    return log


def from_task(cause: KafkaError) -> KafkaError:
    error = KafkaError("Unexpected error during batch delivery")
    error.__cause__ = cause
    return error


@pytest.mark.parametrize("error", [ProducerFenced(), UnknownError(), from_task(UnknownError())])
def test_a_broker_that_has_no_word_for_it_has_fenced_the_writer(error: KafkaError) -> None:
    """Of some thousand writers that are fenced while they commit, a few are told -1 and nothing else."""
    for call in (failing(error).write([]), failing(error).broker_seconds()):
        with pytest.raises(FencedError, match=r"only one release worker may write, got .*newer one"):
            asyncio.run(call)


def test_another_failure_of_a_transaction_says_its_cause() -> None:
    with pytest.raises(BrokerError, match="must be committed, got KafkaTimeoutError") as raised:
        asyncio.run(failing(from_task(KafkaTimeoutError())).write([]))
    assert not isinstance(raised.value, FencedError)
