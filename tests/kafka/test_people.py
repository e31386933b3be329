"""People who come, leave and change while steps flow; workers who join and leave; dead letters sent again."""

from __future__ import annotations

import dataclasses
import json
import re
import signal
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import numpy as np
import pytest

from models.prior_files import save_population
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, Process, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow

DYING = """
import os, signal, sys
from stream_app.cli import main
from stream_app.kafka.broker.clients import Sender

left, send = [int(sys.argv.pop(1))], Sender.send

def counted(sender, *arguments, **named):
    send(sender, *arguments, **named)
    left[0] -= 1
    if left[0] == 0:
        sender.flush()
        os.kill(os.getpid(), signal.SIGKILL)

Sender.send = counted
main()
"""  # the command line, killed once it has sent so many records


def test_people_come_and_leave_between_two_steps(kafka: Broker, tmp_path: Path) -> None:
    """Also when who loads them is killed, first among those who come, then among those who leave."""
    population, sensors, messages = small_city(30)
    early, late = population.subset(np.arange(20)), population.subset(np.arange(10, 30))
    lines, enough = messages(30), 10**12  # of work: or fewer people would have more of it each
    with OnKafka(
        tmp_path / "people", kafka.address, population, sensors, sharpen_operations=enough
    ) as deployment:
        deployment.load_people(early)
        deployment.start("release")
        account = deployment.start("account")
        deployment.produce(lines[:50])
        deployment.wait_for_steps(10)
        assert people_at(deployment, 9) == 20
        save_population(late, tmp_path / "late.json")
        for sent in (10, 25):
            load = (str(sent), "persons", "load", str(tmp_path / "late.json"), "--remove-others")
            killed = deployment.run_code(DYING, load)
            assert killed.ended() == -signal.SIGKILL, killed.text
        deployment.load_people(late, remove_others=True)
        wait_until("all are known", lambda: deletions(account.text) == 10)
        deployment.produce(lines[50:])
        deployment.wait_for_steps(30)
        assert people_at(deployment, 29) == 20
        expected = deployment.embedded(lines)[1]
        written = [line for line in deployment.person_risks() if json.loads(line)["step"] == 20]
        assert len(written) == 20
        assert set(written) <= set(expected)


def test_a_new_prior_in_force_from_a_later_step_forgets_nothing(kafka: Broker, tmp_path: Path) -> None:
    """The same priors again, "from step 10 on": every risk stays what it is without the load.

    Also for a worker that reads the compacted records afterwards, without any snapshot.
    """
    population, sensors, messages = small_city(12)
    lines = messages(30)
    options = {"snapshot_seconds": 0, "sharpen_operations": 10**10}
    with OnKafka(tmp_path / "again", kafka.address, population, sensors, **options) as deployment:
        deployment.load_people()
        deployment.start("release")
        account = deployment.start("account")
        deployment.produce(lines[:50])
        deployment.wait_for_steps(10)
        save_population(population, tmp_path / "again.json")
        load = deployment.command("persons", "load", str(tmp_path / "again.json"), "--effective-from", "10")
        assert load.ended() == 0
        assert "12 were there before and keep their first step" in " ".join(load.text.split())
        wait_until("all are known again", lambda: people_taken(account.text) == 12)
        deployment.produce(lines[50:75])
        deployment.wait_for_steps(15)
        assert account.stop() == 0
        deployment.start("account")
        deployment.produce(lines[75:])
        deployment.wait_for_steps(30)
        assert deployment.person_risks() == deployment.embedded(lines)[1]


def test_workers_join_and_leave_under_load_and_no_step_is_missing(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(60)
    lines = messages(120)
    with OnKafka(tmp_path / "rebalance", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("release")
        first = deployment.start("account")
        deployment.produce(lines[:100])
        deployment.wait_for_steps(20)
        second = deployment.start("account")
        deployment.produce(lines[100:300], per_second=40.0)
        wait_until("the second has its share", lambda: second.says("next step"))
        assert first.stop() == 0
        deployment.produce(lines[300:])
        deployment.wait_for_steps(120)
        assert deployment.person_risks() == deployment.embedded(lines)[1]
        assert all(len(written) == 1 for written in deployment.summaries().values())
        assert len(deployment.summaries()) == 120 * 4


def test_dead_letters_are_listed_and_sent_again(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(20)
    with OnKafka(tmp_path / "letters", kafka.address, population, sensors, max_ahead=12) as deployment:
        deployment.load_people()
        deployment.start("account")
        deployment.start("release")
        ahead = [line for line in lines if json.loads(line)["step"] == 19]
        deployment.produce(ahead)  # more than max_ahead steps too early
        wait_until("refused", lambda: len(deployment.values(deployment.topics.rejected)) == len(ahead))
        listed = deployment.command("rejected", "list", "--json")
        assert listed.ended() == 0
        assert {letter["reason"] for letter in json.loads(listed.text)} == {"too_far_ahead"}
        deployment.produce([line for line in lines if line not in ahead], per_second=100.0)
        deployment.wait_for_steps(19)
        again = deployment.command("rejected", "resubmit", "--reason", "too_far_ahead")
        assert again.ended() == 0
        assert f"{len(ahead)} sent again, 0 left" in again.text
        deployment.wait_for_steps(20)
        assert deployment.releases() == deployment.embedded(lines)[0]


def test_assumed_habits_are_told_with_every_risk_until_measured_ones_come(
    kafka: Broker, tmp_path: Path
) -> None:
    """And before anybody is loaded, counts are published all the same."""
    population, sensors, messages = small_city(12)
    assumed = dataclasses.replace(population, assumed="everybody is a commuter")
    save_population(assumed, tmp_path / "assumed.json")
    lines = messages(15)
    with OnKafka(tmp_path / "assumed", kafka.address, population, sensors) as deployment:
        deployment.start("release")
        account = deployment.start("account", "--listen", "127.0.0.1:0")
        deployment.produce(lines[:25])
        deployment.wait_for_steps(5)
        assert "nobody is loaded" in page(account)
        load = deployment.command("persons", "load", str(tmp_path / "assumed.json"))
        assert load.ended() == 0
        assert "assumed, not measured (everybody is a commuter)" in load.text
        wait_until("all are known", lambda: people_taken(account.text) == 12)
        assert "everybody is a commuter" in page(account)
        deployment.produce(lines[25:50])
        deployment.wait_for_steps(10)
        assert {each.get("assumed") for each in summaries_at(deployment, 9)} == {"everybody is a commuter"}
        deployment.load_people()
        wait_until("all are others", lambda: people_taken(account.text) == 24)
        deployment.produce(lines[50:])
        deployment.wait_for_steps(15)
        assert {each.get("assumed") for each in summaries_at(deployment, 14)} == {None}
        assert "assumed" not in page(account)
        assert len(deployment.releases()) == 15


def page(worker: Process) -> str:
    """The note on a worker's page, which is no other text with the same words."""
    found = re.search(r"http://\S+", worker.text)
    assert found is not None
    text = urlopen(found.group() + "plain", timeout=10).read().decode()
    return " ".join(re.findall(r"<strong>(.*?)</strong>", text))


def people_taken(text: str) -> int:
    """How many records of people a worker says it has taken."""
    return sum(map(int, re.findall(r"(\d+) records of people", text)))


def summaries_at(deployment: OnKafka, step: int) -> list[dict[str, Any]]:
    """The summaries of a step that count anybody."""
    found = deployment.summaries()
    written = [json.loads(next(iter(found[step, part]))) for part in range(4)]
    return [each for each in written if each["people"]]


def deletions(text: str) -> int:
    """How many people a worker says were deleted."""
    return sum(map(int, re.findall(r"(\d+) deletions", text)))


def people_at(deployment: OnKafka, step: int) -> int:
    """How many people the summaries of a step count."""
    found = deployment.summaries()
    return sum(json.loads(next(iter(found[step, part])))["people"] for part in range(4))
