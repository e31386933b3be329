"""The parts of the workers that need no broker: order of arrival, entering records, people, signs of life."""

from __future__ import annotations

import asyncio
import json
import socket
import ssl
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.errors import KafkaConnectionError as AiokafkaConnectionError
from aiokafka.errors import MessageSizeTooLargeError
from aiokafka.structs import BrokerMetadata
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.protocol.metadata import MetadataResponse
from prometheus_client import CollectorRegistry

from models.priors import Population
from models.releases import Sensor, SensorRegistry
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.account.person_source import Changes, PersonSource
from stream_app.kafka.broker import clients
from stream_app.kafka.broker.clients import (
    BrokerError,
    LogError,
    is_refusal,
    resilient_client,
)
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.silent_brokers import _Client, resilient
from stream_app.kafka.broker.topic_checks import access_rules, commands, roles
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import (
    RefusedRecord,
    people_of,
    person_records,
)
from stream_app.kafka.release.release_core import SILENCE_SECONDS, ArrivalOrder, InputRecord, ReleaseCore
from stream_app.kafka.release.release_log import PROGRESS_KEY, LogRecord, Progress, TopicLog, restore
from stream_app.kafka.release.stream_task import InputLogs, StreamTask, TaskMonitor
from stream_app.kafka.tools.producing import Pace, produce
from stream_app.kafka.worker_metrics import InputCounters
from stream_app.kafka.worker_process import EXIT_STALLED, Pulse
from stream_app.setup.settings import KafkaSettings, Settings
from stream_app.steps import Intake, Origin
from stream_app.steps.policy import Decided
from stream_app.steps.ticks import StepClock
from stream_app.steps.window import StepWindow
from stream_app.watching.events import Observer
from stream_app.wire import Activation, Rejected, parse
from stream_app.wire.messages import Reading, Reason
from tests.stream_app.engine_support import (
    activation,
    engine,
    messages_of_a_day,
    no_prior,
    outputs_of,
    population,
    reading,
    resume,
    run_on,
)
from tests.stream_app.kafka.deployments import deployment_in, enter, parse_person, parsed
from tests.stream_app.memory_log import MemoryLog, Took, took

A, R = "activations", "readings"


def arrived(topic: str, timestamp: float, offset: int, value: bytes = b"") -> InputRecord:
    return InputRecord(topic, timestamp, offset, value)


@settings(max_examples=60)
@given(
    times=st.lists(st.tuples(st.sampled_from([A, R]), st.integers(0, 20)), max_size=40),
    most=st.integers(1, 9),
    random=st.randoms(use_true_random=False),
)
def test_records_come_in_the_order_in_which_the_broker_got_them(
    times: list[tuple[str, int]], most: int, random: object
) -> None:
    offsets = {A: 0, R: 0}
    records = []
    for topic, timestamp in sorted(times, key=lambda each: each[1]):
        records.append(arrived(topic, timestamp, offsets[topic]))
        offsets[topic] += 1
    order = ArrivalOrder((A, R), lambda topic: order.next_offsets[topic] >= offsets[topic])
    waiting = {topic: [each for each in records if each.log == topic] for topic in (A, R)}
    taken: list[InputRecord] = []
    while waiting[A] or waiting[R] or len(order):
        topic = random.choice([each for each in (A, R) if waiting[each]] or [A])  # type: ignore[attr-defined]
        if waiting[topic]:
            order.add(waiting[topic].pop(0))
        taken += order.take(most, 0.0)
    assert all(one.timestamp <= other.timestamp for one, other in pairwise(taken))
    assert sorted(taken, key=lambda each: (each.log, each.offset)) == sorted(
        records, key=lambda each: (each.log, each.offset)
    )


def test_a_silent_topic_holds_the_other_back_until_the_broker_says_that_it_has_no_more() -> None:
    """Asked once it has done so for long; until a worker is a member of its group, every topic is silent.

    Were it taken to be at its end by itself, a busy machine would enter activations ahead of all readings.
    """
    order = ArrivalOrder((A, R), lambda topic: False)
    assert order.take(10, 0.0) == []
    order.add(arrived(R, 1.0, 0))
    assert order.take(10, 100.0) == order.take(10, 100.0 + SILENCE_SECONDS / 2) == []
    assert order.silent(100.0 + SILENCE_SECONDS / 2) == []
    assert order.silent(100.0 + SILENCE_SECONDS) == [A]
    assert order.take(10, 1000.0) == []  # the broker has not answered, or says that there is more
    asked_at = dict(order.next_offsets)
    order.add(arrived(R, 3.0, 1))  # which came while the broker was asked
    order.has_no_more(A, asked_at)
    assert [each.offset for each in order.take(10, 1000.0)] == [0]
    assert order.take(10, 2000.0) == []
    order.add(arrived(A, 2.0, 0))
    assert [(each.log, each.offset) for each in order.take(10, 2000.0)] == [(A, 0)]


def test_a_few_large_batches_fill_the_order_as_many_readings_do() -> None:
    """So that what waits in memory is bounded, whatever senders put into a record."""
    order = ArrivalOrder((R,), lambda topic: True)
    batch = b" " * 2**20
    for offset in range(64):
        order.add(arrived(R, 1.0, offset, batch))
    assert not order.is_full(R)
    order.add(arrived(R, 1.0, 64, batch))
    assert order.is_full(R)
    order.take(1, 0.0)
    assert not order.is_full(R)
    assert order.is_full(R, share=0.5)


def test_a_log_that_others_wait_for_has_room_however_many_of_them_wait() -> None:
    """Else a worker that catches up stood still: full of activations, with no room for a reading."""
    order = ArrivalOrder((A, R), lambda topic: False)
    for offset in range(20_000):
        order.add(arrived(A, 1.0, offset))
    assert order.is_full(A)
    assert not order.is_full(R)


def records_of_a_day(steps: int, seed: int) -> list[InputRecord]:
    """A day's messages with faults, as they lie on the two topics."""
    offsets = {A: 0, R: 0}
    records = []
    for number, message in enumerate(messages_of_a_day(steps, seed, faults=True)):
        topic = A if message.type == "activation" else R
        records.append(arrived(topic, float(number), offsets[topic], message.line().rstrip()))
        offsets[topic] += 1
    return records


def core(progress: Progress | None = None, grace_seconds: float | None = None) -> ReleaseCore:
    progress = progress or Progress()
    target = engine(by_clock=grace_seconds is not None)
    if progress.window:
        target.intake.window.load(progress.window)
        resume(target, progress)
    return ReleaseCore(target, StepClock(0, 60, grace_seconds, 100), MemoryLog(progress))


def test_a_batch_that_takes_long_is_no_stall(deployment: Deployment) -> None:
    """Each record of it is progress: a worker that catches up on a starved machine is not ended for it."""
    seconds, stalled = [0.0], []
    pulse = Pulse(lambda: seconds[0])

    class Slow(ReleaseCore):
        def _receive(self, record: InputRecord) -> None:
            seconds[0] += 10.0
            stalled.append(pulse.stalled_seconds())
            super()._receive(record)

    async def written(records: Iterable[LogRecord]) -> None:
        list(records)

    async def work() -> None:
        monitor = TaskMonitor(Observer(), InputCounters(CollectorRegistry()), pulse)
        inputs, log = InputLogs(deployment, {A: (A, 0), R: (R, 0)}), SimpleNamespace(write=written)
        task = StreamTask("engine", deployment, inputs, log, monitor, SimpleNamespace())  # type: ignore[arg-type]
        clock = StepClock(0, 60, None, 100)
        await task.begin(Slow(engine(), clock, TopicLog(Topics(), Progress(), task.write)), clock, [])
        await task._step(records_of_a_day(12, 3), 0.0, False)

    asyncio.run(work())
    assert len(stalled) > 20
    assert set(stalled) == {10.0}


def latest(taken: Took) -> dict[bytes | None, bytes | None]:
    """The last record of each key of the progress topic."""
    return {each.key: each.value for each in taken.progress}


def progress_of(taken: Took) -> Progress:
    """Where to continue."""
    return restore(latest(taken), "progress", Progress)


@pytest.mark.slow
@settings(max_examples=20)
@given(seed=st.integers(0, 1000), cuts=st.lists(st.integers(0, 80), max_size=6))
def test_what_comes_of_records_does_not_depend_on_batches_nor_on_repetition(
    seed: int, cuts: list[int]
) -> None:
    records = records_of_a_day(12, seed)
    whole = took(core(), records, 0.0)
    target, written, rejected = core(), [], []
    bounds = sorted({0, len(records), *(min(cut, len(records)) for cut in cuts)})
    for first, last in pairwise(bounds):
        for again in (records[first:last], records[:last]):
            taken = took(target, again, 0.0)
            written += taken.records
            rejected += taken.rejected
    assert written == whole.records
    assert rejected == whole.rejected


@pytest.mark.slow
@pytest.mark.parametrize("cut", [1, 7, 20])
def test_a_worker_that_takes_over_goes_on_as_if_nothing_had_happened(cut: int) -> None:
    """The accounts are elsewhere: only releases and dead letters are the release worker's."""
    records = records_of_a_day(12, 3)
    first = core()
    before = took(first, records[:cut], 0.0)
    second = core(progress_of(before))
    for step in before.events:
        second.engine.accounts.apply(Decided(step.schedule))
    after = took(second, records, 0.0)  # everything is delivered again
    whole = took(core(), records, 0.0)
    assert before.records + after.records == whole.records
    wanted, got = progress_of(whole), progress_of(after)
    assert (got.account, got.decided) == (wanted.account, wanted.decided)
    assert got.account["steps"] == got.next_step
    assert before.rejected + after.rejected == whole.rejected


@pytest.mark.slow
@pytest.mark.parametrize("every", [1, 3])
def test_what_the_progress_topic_holds_is_what_is_open_after_every_transaction(every: int) -> None:
    """A step is written when it changes and deleted when it is forgotten; nothing else is needed to go on."""
    records, target, written = records_of_a_day(12, 4), core(), {}
    for first in range(0, len(records), every):
        written |= latest(took(target, records[first : first + every], 0.0))
        restored = restore(written, "progress", Progress).window
        copy = StepWindow(target.engine.intake.window.grace)
        copy.load(restored)
        position, steps = copy.save_position(), copy.take_changed()
        saved = target.engine.intake.window.save_position()
        assert position == saved
        target.engine.intake.window.load({**saved, "steps": restored["steps"]})
        assert target.engine.intake.window.take_changed() == steps
    forgotten = [key for key, value in written.items() if value is None]
    assert forgotten


def test_no_record_of_progress_grows_with_the_steps_that_are_open_or_with_what_senders_pad() -> None:
    """Hundreds of unannounced steps, and readings of nearly a megabyte each."""
    target = core()
    names = [sensor.name for sensor in target.engine.intake.registry.sensors]
    padding = b" " * 16_000
    records = [
        arrived(R, 0.0, len(names) * step + k, padding + Reading(v=1, step=step, sensor=name, count=1).line())
        for step in range(90)
        for k, name in enumerate(names)
    ]
    written = latest(took(target, records, 0.0))
    assert len(written.keys() - {PROGRESS_KEY}) == 90
    assert max(map(len, written.values())) < 500


def live_records(steps: int, seconds_late: float) -> list[InputRecord]:
    """Two sensors that report each step so long after its end, as the broker stamped it."""
    records = []
    for step in range(steps):
        end = 60.0 * (step + 1)
        for topic, offset, message in (
            (A, step, activation(step, "A", "B")),
            (R, 2 * step, reading(step, "A", 4)),
            (R, 2 * step + 1, reading(step, "B", 4)),
        ):
            late = -30.0 if topic == A else seconds_late
            records.append(arrived(topic, end + late, offset, message.line().rstrip()))
    return sorted(records, key=lambda record: record.timestamp)


def test_a_backlog_is_closed_by_the_broker_s_stamps_and_nothing_of_it_is_late() -> None:
    """After ten steps away: what was stamped before a tick is taken, what came after it is late."""
    now_seconds = 60.0 * 10 + 10.0
    taken = took(core(grace_seconds=10.0), live_records(10, 9.0), now_seconds, has_read_all=True)
    assert [step.missing for step in taken.events] == [()] * 10
    assert taken.rejected == []
    taken = took(core(grace_seconds=10.0), live_records(10, 11.0), now_seconds + 5.0)
    assert {letter.reason for letter in taken.rejected} == {Reason.LATE_READING}
    assert len(taken.rejected) == 20


def test_time_closes_a_step_only_where_the_inputs_were_read_to_their_end() -> None:
    target = core(grace_seconds=10.0)
    assert took(target, live_records(1, 5.0), 500.0).events == []
    assert [step.step for step in took(target, [], 69.9, has_read_all=True).events] == []
    assert [step.step for step in took(target, [], 70.0, has_read_all=True).events] == [0]


def test_a_stamp_from_the_future_closes_nothing_before_its_time() -> None:
    target = core(grace_seconds=10.0)
    first, *others = live_records(3, 5.0)
    taken = took(target, [first._replace(timestamp=5e9)], 31.0)
    assert taken.events == []
    taken = took(target, others, 200.0, has_read_all=True)
    assert [step.missing for step in taken.events] == [()] * 3
    assert taken.rejected == []


def test_a_progress_of_another_version_is_refused() -> None:
    with pytest.raises(LogError, match="must be a progress of this version"):
        restore({PROGRESS_KEY: b'{"v":2}'}, "progress", Progress)
    with pytest.raises(LogError, match="must be a progress of this version"):
        restore({b"step-3": b"poison"}, "progress", Progress)


def test_people_come_out_of_their_records_bit_for_bit() -> None:
    before = population(5)
    names = [f"{index:032x}" for index in range(5)]
    entries = parsed(person_records(before, names, 7, "d"))
    people = people_of(filter(None, reversed(entries.values())), before.location_names)
    assert people.population.people == tuple(names)
    assert people.effective_from.tolist() == [7] * 5
    for one, other in zip(people.population.arrays, before.arrays, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_wrong_person_is_refused_by_name_and_the_others_stay() -> None:
    before = population(2)
    records = dict(person_records(before, ["a", "b"], 0, "d"))
    records["a"] = no_prior(records["a"])
    entries = [parse_person(name.encode(), value, "d") for name, value in records.items()]
    entries[0] = entries[0]._replace(offset=12)
    people = people_of(entries, before.location_names)
    assert people.population.people == ("b",)
    assert [(refused.pseudonym, refused.offset) for refused in people.refused] == [("a", 12)]
    assert "4711" not in people.refused[0].reason
    assert "persons load" in people.refused[0].reason
    assert isinstance(people.population, Population)


@pytest.mark.parametrize(
    ("key", "payload"), [(b"0f" * 16, "0f" * 16), (b"Erika Mustermann", ""), (None, ""), (b"", "")]
)
def test_a_refused_prior_is_written_nowhere_else(tmp_path: Path, key: bytes | None, payload: str) -> None:
    """Who reads dead letters learns whose prior it is by pseudonym, where it lies and why; it stays there."""
    refused: list[RefusedRecord] = []

    async def refuse(letter: RefusedRecord) -> None:
        refused.append(letter)

    source = PersonSource(deployment_in(tmp_path), refuse)
    record = SimpleNamespace(
        topic="persons", partition=3, offset=17, key=key, value=b'{"transition":[[0.4711'
    )
    people: Changes = {}
    asyncio.run(source._enter(people, [record]))
    letter = refused[0].letter()
    assert people == {}
    assert letter.source == "persons/3:17"
    assert letter.payload == payload
    assert "4711" not in letter.hint


def test_whoever_is_known_stays_when_a_record_follows_whose_lists_do_not_fit(tmp_path: Path) -> None:
    """Also where both are read one after the other, as by whoever takes a partition over."""
    refused: list[RefusedRecord] = []

    async def refuse(letter: RefusedRecord) -> None:
        refused.append(letter)

    deployment = deployment_in(tmp_path)
    source, people = PersonSource(deployment, refuse), {}
    ((name, good),) = person_records(population(1), ["a"], 0, deployment.digest)
    wrong = json.dumps({**json.loads(good), "transition": [[0.5, 0.5]]}).encode()
    for offset, value in enumerate((good, wrong)):
        record = SimpleNamespace(topic="persons", partition=0, offset=offset, key=name.encode(), value=value)
        asyncio.run(source._enter(people, [record]))
    assert [each.source for each in refused] == ["persons/0:1"]
    assert people["a"].offset == 0


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (b"a", b"not json", "Invalid JSON"),
        (b"a", b"[]", "should be an object"),
        (b"a", b'{"v":1,"type":"reading","person":"a"}', "should be 'person'"),
        (b"b", b'{"v":1,"type":"person","person":"a"}', "key must be the person's pseudonym"),
        (b"a", b'{"v":1,"type":"person","person":"a","effective_from":-1}', "greater than or equal to 0"),
        (
            b"a",
            b'{"v":1,"type":"person","deployment":"other","person":"a"}',
            "must belong to this deployment",
        ),
    ],
)
def test_what_is_no_person_is_named(key: bytes, value: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        parse_person(key, value, "d")


@pytest.mark.parametrize(
    "window",
    [
        {"next_step": 1},
        {"close_through": -1},
        {"next_step": "1", "close_through": -1},
        {"next_step": 1, "close_through": -1, "heard": [3]},
        {"next_step": 1, "close_through": -1, "steps": [{"step": 1}]},
    ],
)
def test_a_progress_whose_window_is_none_is_refused(window: dict[str, Any]) -> None:
    record = json.dumps({"v": 1, "type": "progress", "window": window}).encode()
    with pytest.raises(LogError, match="must be a progress of this version"):
        restore({PROGRESS_KEY: record}, "progress", Progress)


def test_a_deleted_person_leaves_the_accounts_also_when_another_record_is_refused(tmp_path: Path) -> None:
    accounts = PartitionAccounts(0, deployment_in(tmp_path))
    records = dict(person_records(population(2), ["a", "b"], 0, "d"))
    assert enter(accounts, parsed(records)) == ()
    strangers = dict(person_records(population(1), ["z"], 0, "d"))
    stranger = parse_person(b"z", no_prior(strangers["z"]), "d")
    refused = enter(accounts, {"a": None, "z": stranger})
    assert [each.pseudonym for each in refused] == ["z"]
    assert accounts.pseudonyms == ("b",)
    worse = parse_person(b"b", no_prior(records["b"]), "d")
    assert [each.pseudonym for each in enter(accounts, {"b": worse})] == ["b"]
    assert accounts.pseudonyms == ("b",)


def test_a_pulse_is_stalled_by_work_that_does_not_move_and_by_a_loop_that_does_not_turn() -> None:
    now = [0.0]
    pulse = Pulse(lambda: now[0])
    now[0] = 10.0
    assert pulse.stalled_seconds() == 10.0
    pulse.beat(has_work=False)
    now[0] = 12.0
    pulse.beat(has_work=True)
    assert pulse.stalled_seconds() == 2.0
    pulse.progress()
    assert pulse.stalled_seconds() == 0.0


@pytest.mark.slow
def test_the_watchdog_ends_a_process_in_which_nothing_moves() -> None:
    """However slow the machine is: the limit counts in the process, and only failing takes long."""
    program = (
        "import time\n"
        "from stream_app.kafka.worker_process import Pulse, Watchdog\n"
        "pulse = Pulse()\n"
        "Watchdog(pulse, 0.4).start()\n"
        "pulse.beat(has_work=True)\n"
        "time.sleep(600)\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert ended.returncode == EXIT_STALLED
    assert b"nothing has moved for" in ended.stderr


def test_messages_go_to_their_topics_at_the_pace_asked_for() -> None:
    sent: list[str] = []
    now = [0.0]

    class Producer:
        def send(self, topic: str, value: bytes, partition: int) -> None:
            sent.append(topic)

        def flush(self) -> None:
            pass

    def sleep(seconds: float) -> None:
        now[0] += seconds

    lines = [message.line().rstrip() for message in messages_of_a_day(5, 1)]
    counted = produce(Producer(), Topics("x."), lines, Pace(10.0, lambda: now[0], sleep))
    assert counted.activations + counted.readings == len(lines) == len(sent)
    assert now[0] == pytest.approx((len(lines) - 1) / 10.0)
    assert set(sent) == {"x.activations", "x.readings"}
    lines = [
        b'{"v":1,"type":"reading","step":0,"sensor":"activation","count":1}',
        b'{"v":1,"type":"readings","step":0,"counts":{"activation":1,"B":2}}',
        b'{"type": "activation"}',
    ]
    counted = produce(Producer(), Topics("y."), lines, Pace(None))
    assert sent[-3:] == ["y.readings", "y.readings", "y.activations"]
    assert (counted.activations, counted.readings) == (1, 3)


@pytest.mark.parametrize("max_ahead", [1, 2, 7, 1000])
def test_activations_never_come_so_far_ahead_of_their_readings_that_they_are_refused(max_ahead: int) -> None:
    """An archive of few sensors, as fast as it goes: the broker may have all activations of a flush first."""
    window, refused = StepWindow(grace=0), 0
    registry = SensorRegistry(("A",), (Sensor("s", (0,)),))
    intake = Intake(registry, window, max_ahead)
    waiting: dict[str, list[bytes]] = {"z.activations": [], "z.readings": []}

    class Producer:
        def send(self, topic: str, value: bytes, partition: int) -> None:
            waiting[topic].append(value)

        def flush(self) -> None:
            nonlocal refused
            for lines in waiting.values():
                for line in lines:
                    message = parse(line, "")
                    assert not isinstance(message, Rejected)
                    refused += len(intake.receive(message, Origin("", line)).rejected)
                    while window.is_due():
                        window.close()
                lines.clear()

    lines = [
        line
        for step in range(3000)
        for line in (
            Activation(v=1, step=step, sensors=("s",)).line().rstrip(),
            Reading(v=1, step=step, sensor="s", count=1).line().rstrip(),
        )
    ]
    produce(Producer(), Topics("z."), lines, Pace(None), max_ahead=max_ahead)
    assert refused == 0 and window.next_step >= 2999


def test_secrets_of_the_connection_are_in_no_command_and_no_repr() -> None:
    kafka = KafkaSettings(
        servers=("broker:9092",), security="SASL_PLAINTEXT", username="u", password="hunter2hunter2"
    )
    assert "hunter2" not in repr(Connection.of(kafka))
    assert "hunter2" not in json.dumps(Settings.model_validate({"kafka": kafka}).masked())
    assert not any("hunter2" in command for command in commands(Topics(), "broker:9092"))


def test_only_the_release_worker_reads_counts_and_only_the_loader_and_accounts_read_priors() -> None:
    topics = Topics("p.")
    readers = {
        topic: {role.name for role in roles(topics) if topic in role.reads}
        for topic in (topics.readings, topics.progress, topics.persons, topics.risks)
    }
    assert readers[topics.readings] == readers[topics.progress] == {"release"}
    assert readers[topics.persons] == {"account", "loader", "officer", "archive"}
    # two see how far they were written; the loader has the priors, from which risks follow
    assert readers[topics.risks] == {"account", "loader", "officer", "archive"}
    public = {rule.name for rule in access_rules(topics) if rule.role == "public"}
    assert public == {topics.releases}


def test_of_the_cluster_only_the_release_worker_sees_the_settings() -> None:
    found = [command for command in commands(Topics(), "broker:9093") if " --cluster" in command]
    assert found == [
        "kafka-acls.sh --bootstrap-server broker:9093 --command-config admin.properties --add "
        "--allow-principal User:release --operation DescribeConfigs --cluster"
    ]


@pytest.mark.slow
def test_the_embedded_run_of_the_same_messages_releases_the_same(tmp_path: Path) -> None:
    """The worker's core and the embedded runner are two adapters of one engine."""
    messages = messages_of_a_day(12, 5)
    run_on(tmp_path, [b"".join(message.line() for message in messages)])
    records = [
        arrived(A if message.type == "activation" else R, float(k), k, message.line().rstrip())
        for k, message in enumerate(messages)
    ]
    target = core()
    written = took(target, records, 0.0).records
    target.engine.finish()
    written += took(target, [], 0.0).records
    lines = b"".join((each.value or b"") + b"\n" for each in written if each.topic == Topics().releases)
    assert lines == outputs_of(tmp_path)["releases.jsonl"]


_LOOK_FOUR_TIMES = """
import gc, logging, os, threading
import kafka
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.deployment.deployment import administration
from stream_app.kafka.broker.clients import BrokerError
from stream_app.setup.settings import KafkaSettings

class Impatient(kafka.KafkaAdminClient):
    def __init__(self, **arguments):
        super().__init__(**arguments | {"bootstrap_timeout_ms": 100})

kafka.KafkaAdminClient = Impatient
logging.disable(logging.CRITICAL)
for _ in range(4):
    try:
        with administration(Connection.of(KafkaSettings(servers=("127.0.0.1:9",)))):
            pass
    except BrokerError:
        gc.collect()
        print(threading.active_count(), len(os.listdir("/proc/self/fd")))
"""


@pytest.mark.slow
def test_an_absent_broker_leaves_no_thread_and_no_file_behind() -> None:
    """A worker looks at its topics again and again while the broker is away."""
    command = [sys.executable, "-c", _LOOK_FOUR_TIMES]
    used = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    assert len(used) == 4
    assert len(set(used)) == 1


class Brokers:
    """aiokafka's producer; ``answers`` are what becomes of each record: None, an error, or "never"."""

    def __init__(self, *answers: BaseException | str | None) -> None:
        self.answers = list(answers)
        self.sent: list[tuple[Any, ...]] = []

    async def send(self, *record: Any) -> asyncio.Future[None]:
        answer = self.answers.pop(0)
        if isinstance(answer, ConnectionError | AiokafkaConnectionError):
            raise answer
        self.sent.append(record)
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if isinstance(answer, BaseException):
            future.set_exception(answer)
        elif answer is None:
            future.set_result(None)
        return future

    async def stop(self) -> None:
        pass


@contextmanager
def sending(brokers: Brokers, monkeypatch: pytest.MonkeyPatch) -> Iterator[clients.Sender]:
    """A command that writes to these brokers."""

    async def start(*_: object, **__: object) -> Brokers:
        return brokers

    monkeypatch.setattr(clients, "start_producer", start)
    with clients.writing(Connection.of(KafkaSettings(servers=("nowhere:9092",)))) as producer:
        yield producer


def test_a_record_that_the_brokers_do_not_take_is_an_error_and_not_lost_in_silence(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Above all a deletion: whoever was told that a person is removed must be able to rely on it."""
    brokers = Brokers(None, MessageSizeTooLargeError("too large"))
    with (
        pytest.raises(BrokerError, match="must accept every record"),
        sending(brokers, monkeypatch) as sender,
    ):
        sender.send("persons", b"prior", key=b"one")
        sender.flush()
        sender.send("persons", None, key=b"two")
        with pytest.raises(BrokerError, match="too large"):
            sender.flush()
        sender.send("persons", None, key=b"three")
    assert [record[2] for record in brokers.sent] == [b"one", b"two"]


def test_records_wait_for_a_broker_that_is_away_in_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    brokers = Brokers(None, AiokafkaConnectionError("away"), ConnectionError("away"), None, None)
    with sending(brokers, monkeypatch) as sender:
        for number in range(3):
            sender.send("readings", b"%d" % number, partition=0)
    assert [record[1] for record in brokers.sent] == [b"0", b"1", b"2"]


def test_brokers_that_never_acknowledge_are_not_waited_for_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(clients, "_SILENT_SECONDS", 0.05)
    with (
        pytest.raises(BrokerError, match="none was acknowledged"),
        sending(Brokers("never"), monkeypatch) as s,
    ):
        s.send("readings", b"count")


_ASK_A_SILENT_BROKER = """
import logging, socket
from concurrent.futures import ThreadPoolExecutor
from stream_app.kafka.broker import clients
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.clients import BrokerError
from stream_app.kafka.deployment.deployment import administration
from stream_app.setup.settings import KafkaSettings

logging.disable(logging.CRITICAL)
clients._FIRST_MILLISECONDS = clients._BOOTSTRAP_MILLISECONDS = 1_000
with socket.create_server(("127.0.0.1", 0)) as silent:  # its kernel accepts, and nobody ever answers
    server = f"127.0.0.1:{silent.getsockname()[1]}"
    connection = Connection.of(KafkaSettings(servers=(server, server), security="SSL"))

    def ask(client):
        try:
            with client(connection):
                return ""
        except BrokerError as error:
            return f"{error}\\n"

    with ThreadPoolExecutor() as asking:  # each waits for half a minute
        print(*asking.map(ask, (administration, clients.writing, clients.consuming)), sep="")
"""


@pytest.mark.slow
def test_a_broker_that_accepts_and_never_answers_does_not_keep_a_client_for_ever() -> None:
    """As one whose process hangs does: over TLS kafka-python would wait for its handshake without an end."""
    command = [sys.executable, "-c", _ASK_A_SILENT_BROKER]
    said = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert said.count("must answer") == 3


def test_clients_are_of_the_versions_that_their_patches_were_written_for() -> None:
    """With a later one, see by the comment above the patches whether upstream has made them needless."""
    assert clients.is_patched()
    assert asyncio.run(_is_patched())


async def _is_patched() -> bool:
    return isinstance(resilient(AIOKafkaConsumer())._client, _Client)


def test_with_another_version_of_aiokafka_who_joins_a_group_is_as_patient(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("aiokafka.__version__", "0.15.0")

    async def made() -> Any:
        return resilient(AIOKafkaConsumer(request_timeout_ms=10_000), 20.0)._client

    client = asyncio.run(made())
    assert not isinstance(client, _Client)
    assert client._request_timeout_ms == 20_000


def test_a_silent_broker_is_asked_once_and_holds_up_no_other() -> None:
    """As aiokafka is, whoever waits for its connection would try once more, and the other would wait."""
    assert asyncio.run(_connections_to_silent_brokers()) == ([1, 2], [None] * 6, [1, 2])


async def _connections_to_silent_brokers() -> tuple[list[int], list[Any], list[int]]:
    """Which brokers were connected to; what six that ask two got; which ones, after one was asked again."""
    connected: list[int] = []
    servers, client = [], resilient(AIOKafkaConsumer(request_timeout_ms=1500))._client
    for number in (1, 2):

        def accept(*_: Any, number: int = number) -> None:
            connected.append(number)

        servers.append(await asyncio.start_server(accept, "127.0.0.1", 0))
        host, port = servers[-1].sockets[0].getsockname()
        client.cluster._brokers[number] = BrokerMetadata(number, host, port, None)
    asking = [asyncio.create_task(client._get_conn(number)) for number in (1, 1, 1, 1, 1, 2)]
    while len(connected) < 2 and not any(each.done() for each in asking):
        await asyncio.sleep(0.01)
    first = sorted(connected)
    found = [await each for each in asking]
    assert not await client.ready(1)
    await client.close()
    for server in servers:
        server.close()
    return first, found, sorted(connected)


def test_where_the_only_broker_known_is_silent_the_servers_of_the_settings_are_asked() -> None:
    """One that was cut off may have been the only one that the last answer named."""
    with socket.create_server(("127.0.0.1", 0)) as silent:  # accepts, and never answers
        client = resilient_client(bootstrap_servers=["127.0.0.1:1"], request_timeout_ms=100)
        connections = client._manager
        address = silent.getsockname()
        connections.cluster._brokers = {3: MetadataResponse.MetadataResponseBroker(3, *address, None)}
        assert connections.least_loaded_node() == 3
        with pytest.raises(KafkaError):
            connections.run(lambda: connections.get_connection(3).init_future)
        assert connections.least_loaded_node() == "bootstrap-0"
        client.close()


def test_a_handshake_that_ends_is_a_broker_that_is_away_and_a_refused_one_is_not() -> None:
    """A worker waits for the one, and ends at the other."""
    ended = KafkaConnectionError("Handshake failed: EOF occurred in violation of protocol")
    ended.__cause__ = ssl.SSLEOFError(8, "EOF occurred in violation of protocol")
    assert not is_refusal(ended)
    assert not is_refusal(ssl.SSLZeroReturnError(6, "TLS/SSL connection has been closed (EOF)"))
    refused = KafkaConnectionError("Handshake failed")
    refused.__cause__ = ssl.SSLCertVerificationError(1, "certificate verify failed: self-signed certificate")
    assert is_refusal(refused)
    assert is_refusal(ssl.SSLError(1, "tlsv1 alert protocol version"))
