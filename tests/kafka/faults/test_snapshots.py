"""Partitions are taken over from their snapshots, bit for bit; never from one that is not ours or whole."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

from models.keys import Pseudonymiser, SnapshotKey
from stream_app.kafka.account.snapshot_keeper import SNAPSHOT_HEAD, SnapshotHead
from stream_app.kafka.broker.clients import consuming, records
from stream_app.kafka.broker.topic_checks import create_topics
from stream_app.kafka.deployment.deployment import administration
from tests.kafka.broker import Broker
from tests.kafka.support import SECRETS, OnKafka, Process, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow
KEY = SnapshotKey.parse(SECRETS["TALLYGUARD_SNAPSHOT_KEY_SECRET"])
READ = re.compile(
    r"partition (\d+): \d+ people, next step \d+; from a snapshot (\d+) steps of (\d+) people, (\d+)"
)


def latest(deployment: OnKafka) -> dict[int, dict[bytes, bytes]]:
    """What is left of the topic once it is compacted."""
    found: dict[int, dict[bytes, bytes]] = {each: {} for each in range(deployment.topics.partitions)}
    with consuming(deployment.connection) as consumer:
        for record in records(consumer, deployment.topics.accounts):
            if record.value:
                found[record.partition][record.key] = record.value
            else:
                found[record.partition].pop(record.key, None)
    return found


def heads(deployment: OnKafka) -> dict[int, SnapshotHead]:
    kept = latest(deployment)
    return {
        each: SnapshotHead.model_validate_json(kept[each][SNAPSHOT_HEAD])
        for each in kept
        if SNAPSHOT_HEAD in kept[each]
    }


def wait_for_snapshots(deployment: OnKafka, step: int) -> None:
    """Of every partition, before this step."""
    count = deployment.topics.partitions
    wait_until("snapshots", lambda: [each.next_step for each in heads(deployment).values()] == [step] * count)


def taken_over(worker: Process) -> dict[int, tuple[int, int, int]]:
    """By partition: steps and people from a snapshot, and people who were not."""
    return {int(each[0]): (int(each[1]), int(each[2]), int(each[3])) for each in READ.findall(worker.text)}


def wait_until_taken_over(worker: Process) -> dict[int, tuple[int, int, int]]:
    wait_until("all are taken over", lambda: len(taken_over(worker)) == 4)
    return taken_over(worker)


def test_who_takes_over_goes_on_from_a_sound_snapshot_and_from_no_other(
    kafka: Broker, tmp_path: Path
) -> None:
    """After `kill -9` with a snapshot; with forged, torn, damaged ones, or another version's; with none."""
    population, sensors, messages = small_city(60)
    lines = messages(50)
    part = len(lines) // 5
    with OnKafka(tmp_path / "sound", kafka.address, population, sensors, snapshot_seconds=0.2) as deployment:
        deployment.load_people()
        deployment.start("release")
        first = deployment.start("account")
        deployment.produce(lines[:part])
        deployment.wait_for_steps(10)
        assert first.says("partition 0 has no snapshot yet")
        wait_for_snapshots(deployment, 10)
        first.kill()
        deployment.produce(lines[part : 2 * part])

        second = deployment.start("account")
        deployment.wait_for_steps(20)
        assert {each[:1] + each[2:] for each in wait_until_taken_over(second).values()} == {(10, 0)}
        assert sum(each[1] for each in taken_over(second).values()) == 60
        wait_for_snapshots(deployment, 20)
        second.kill()
        spoil(deployment, heads(deployment), latest(deployment))
        deployment.produce(lines[2 * part : 3 * part])

        third = deployment.start("account")
        deployment.wait_for_steps(30)
        assert {each[:2] for each in wait_until_taken_over(third).values()} == {(0, 0)}
        for partition, why in enumerate(
            ("not sealed with snapshot_key", "missing or damaged", "missing or damaged", "another version")
        ):
            assert re.search(rf"partition {partition}: the snapshot is not used, .*{why}", third.text)
        wait_for_snapshots(deployment, 30)
        third.kill()
        deployment.produce(lines[3 * part : 4 * part])

        fourth = deployment.start("account", TALLYGUARD_SNAPSHOT_SECONDS="0")
        deployment.wait_for_steps(40)
        assert {each[:2] for each in wait_until_taken_over(fourth).values()} == {(0, 0)}
        assert fourth.stop() == 0
        deployment.produce(lines[4 * part :])

        fifth = deployment.start("account")  # from the third one's, which none has replaced
        deployment.wait_for_steps(50)
        assert {each[0] for each in wait_until_taken_over(fifth).values()} == {30}
        assert deployment.person_risks() == deployment.embedded(lines)[1]
        assert all(len(written) == 1 for written in deployment.summaries().values())
        assert len(deployment.summaries()) == 50 * 4


def spoil(
    deployment: OnKafka, found: Mapping[int, SnapshotHead], kept: Mapping[int, Mapping[bytes, bytes]]
) -> None:
    """One partition's snapshot forged, one lacking a piece, one with a bit turned, one of another version."""
    topic = deployment.topics.accounts
    forged = found[0].model_copy(update={"next_step": 19}).sealed(SnapshotKey(b"x" * 32))
    deployment.send(topic, forged.line(), SNAPSHOT_HEAD, 0)
    deployment.send(topic, b"", found[1].state.keys()[0], 1)
    piece = bytearray(kept[2][found[2].state.keys()[0]])
    piece[len(piece) // 2] ^= 1
    deployment.send(topic, bytes(piece), found[2].state.keys()[0], 2)
    deployment.send(
        topic, found[3].model_copy(update={"basis": "0" * 64}).sealed(KEY).line(), SNAPSHOT_HEAD, 3
    )


def test_people_who_changed_since_the_snapshot_are_accounted_alone_and_who_left_is_gone(
    kafka: Broker, tmp_path: Path
) -> None:
    """Also from its topic, once there is another snapshot; the last one is written on an end in order."""
    population, sensors, messages = small_city(30)
    lines, enough = messages(30), 10**12  # of work: or fewer people would have more of it each
    early, late = population.subset(np.arange(20)), population.subset(np.arange(10, 30))
    with OnKafka(
        tmp_path / "changed", kafka.address, population, sensors, sharpen_operations=enough
    ) as deployment:
        deployment.load_people(early)
        deployment.start("release")
        first = deployment.start("account")
        deployment.produce(lines[:50])
        deployment.wait_for_steps(10)
        assert first.stop() == 0
        assert {each.next_step for each in heads(deployment).values()} == {10}
        deployment.load_people(late.subset(np.arange(10, 20)))
        deployment.load_people(late, remove_others=True)  # ten again as they were, ten new, ten gone
        deployment.produce(lines[50:])
        second = deployment.start("account")
        deployment.wait_for_steps(30)
        known = wait_until_taken_over(second).values()
        assert sum(each[1] for each in known) == 10
        assert sum(each[2] for each in known) == 20
        expected = deployment.embedded(lines)[1]
        written = [line for line in deployment.person_risks() if b'"step":20,' in line]
        assert len(written) == 20
        assert set(written) <= set(expected)
        second.send(signal.SIGTERM)
        assert second.stop() == 0
        names = Pseudonymiser.parse(SECRETS["TALLYGUARD_PSEUDONYM_KEY_SECRET"]).pseudonyms(population.people)
        whole = b"".join(value for kept in latest(deployment).values() for value in kept.values())
        assert [name.encode() in whole for name in names] == [False] * 10 + [True] * 20


def test_a_log_that_was_made_again_has_no_snapshots(kafka: Broker, tmp_path: Path) -> None:
    """Though it holds the same steps: nothing shows that those before were the same."""
    population, sensors, messages = small_city(20)
    with OnKafka(tmp_path / "again", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        release, first = deployment.start("release"), deployment.start("account")
        deployment.produce(messages(10))
        deployment.wait_for_steps(10)
        assert (first.stop(), release.stop()) == (0, 0)
        assert len(heads(deployment)) == 4
        decisions = deployment.topics.decisions
        logged = deployment.values(decisions)
        with administration(deployment.connection) as admin:
            admin.delete_topics([decisions])
            wait_until("it is gone", lambda: decisions not in admin.list_topics())
            create_topics(admin, deployment.topics)
        for step, value in enumerate(logged):
            deployment.send(decisions, value, str(step).encode())
        second = deployment.start("account")
        assert {each[:2] for each in wait_until_taken_over(second).values()} == {(0, 0)}
        assert second.text.count("is not the log it was made from") == 4
