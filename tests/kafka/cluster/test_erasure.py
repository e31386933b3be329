"""Whoever was deleted leaves the brokers' disks, also where nothing is written any more."""

from __future__ import annotations

import re
import time
from pathlib import Path

import pytest

from stream_app.kafka.broker.clients import writing
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import person_records
from stream_app.setup.keys import load_pseudonym_key
from tests.kafka.broker import broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until

_DAY_MILLISECONDS = 86_400_000
CLEANS_AT_ONCE = {
    "log.cleaner.backoff.ms": "500",
    "log.initial.task.delay.ms": "500",
    "log.segment.delete.delay.ms": "500",
}


@pytest.mark.slow
def test_a_deleted_person_leaves_the_disk_of_a_topic_to_which_nobody_writes(tmp_path: Path) -> None:
    """Loaded three days ago, deleted a day and a half ago, nothing written since."""
    population, sensors, _ = small_city(20)
    with (
        broker(tmp_path / "broker", extra=CLEANS_AT_ONCE) as kafka,
        OnKafka(tmp_path / "quiet", kafka.address, population, sensors) as deployment,
    ):
        known = Deployment.of(deployment.settings)
        known.record.begin(known.basis)
        names = load_pseudonym_key(deployment.settings).pseudonyms(population.people)
        persons, now = deployment.topics.persons, time.time_ns() // 1_000_000
        with writing(deployment.connection) as producer:
            for name, value in person_records(population, names, 0, known.digest):
                ago = now - 3 * _DAY_MILLISECONDS
                producer.send(persons, value, key=name.encode(), timestamp_ms=ago)
            producer.flush()
            ago = now - 3 * _DAY_MILLISECONDS // 2
            producer.send(persons, None, key=names[0].encode(), timestamp_ms=ago)
        time.sleep(3)
        assert priors_on_disk(kafka.folder, persons, names[0])
        worker = deployment.start("account")
        wait_until("no prior of the deleted", lambda: not priors_on_disk(kafka.folder, persons, names[0]))
        assert priors_on_disk(kafka.folder, persons, names[1])
        assert worker.is_running
        assert not worker.says("no mark was written")

        unknown = deployment.command("persons", "remove", population.people[1], "nobody")
        assert unknown.ended() == 1
        assert "1 of 2 are not" in unknown.text
        (tmp_path / "objected.txt").write_text(f"{population.people[1]}\n\n{population.people[2]}\n")
        removing = deployment.command("persons", "remove", "--people-file", str(tmp_path / "objected.txt"))
        assert removing.ended() == 0, removing.text
        assert "2 people removed" in removing.text
        wait_until("it is heard", lambda: sum(map(int, re.findall(r"(\d+) deletions", worker.text))) == 2)


def priors_on_disk(folder: Path, topic: str, pseudonym: str) -> int:
    """How often somebody's prior stands in the segments of a topic."""
    prior = f'"person":"{pseudonym}"'.encode()
    return sum(file.read_bytes().count(prior) for file in (folder / "data").glob(f"{topic}-*/*.log*"))
