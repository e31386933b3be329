"""Counts over windows and of moves on a broker: as in one embedded run, whoever dies in the middle of one."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from models.priors import Population
from stream_app.embedded.journal import REVISED_FILE
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.replay import compare
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import POINTS
from tests.kafka.support import OnKafka, small_city
from tests.kafka.test_fetch import assert_same_logs, fetched
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow

EACH, WINDOW = 4, 3
STEPS = EACH * (len(POINTS) + 1)
REGION_OF = {"hall": "north", "room": "north", "bridge": "south", "door": "south"}
WHOLE = {"risk_every": 1, "sharpen_operations": 1_000_000_000}


def sensors_of(population: Population) -> list[dict[str, Any]]:
    """Presence in steps and over windows, moves in steps and over windows, at places of the first people."""
    places = [population.chain(person).places.tolist() for person in range(4)]
    moves = [[places[0][0], places[0][1]], [places[0][1], places[0][0]]]
    passages = {"counts": "passages", "most_counts": 1}
    return [
        {"name": "hall", "locations": places[1][:2]},
        {"name": "room", "locations": places[2][:2], "window": WINDOW},
        {"name": "bridge", "moves": moves, **passages},
        {"name": "door", "moves": [[*places[3][:2]]], "window": WINDOW, **passages, "most_counts": WINDOW},
    ]


def messages_of(steps: int) -> list[list[bytes]]:
    """By step: every sensor whose window ends with it, and a count of each."""
    found = []
    for step in range(steps):
        ends = (step + 1) % WINDOW == 0
        names = ["hall", *(["room"] if ends else []), *(["bridge"] if step else [])]
        names += ["door"] if ends and step >= 2 * WINDOW - 1 else []
        counts = [
            {"v": 1, "type": "reading", "step": step, "sensor": name, "count": 7 * step + len(name)}
            for name in names
        ]
        activation = {"v": 1, "type": "activation", "step": step, "sensors": names}
        found.append([json.dumps(each, separators=(",", ":")).encode() for each in (activation, *counts)])
    return found


def declare(deployment: OnKafka, population: Population) -> None:
    """These sensors in the sensors file, in place of those of the city; the hall may correct a count."""
    rows = sensors_of(population)
    if deployment.regions:
        rows = [{**row, "region": REGION_OF[row["name"]]} for row in rows]
    rows[0]["corrections"] = 1
    (deployment.folder / "sensors.json").write_text(json.dumps({"sensors": rows}))


def test_both_kinds_of_workers_die_at_every_point_and_windows_are_published_once(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, _ = small_city(12)
    sent = messages_of(STEPS)
    with OnKafka(tmp_path / "windows", kafka.address, population, sensors, **WHOLE) as deployment:
        declare(deployment, population)
        deployment.load_people()
        for turn, point in enumerate(POINTS):
            account = deployment.start_dying("account", point, 1)
            worker = deployment.start_dying("release", point, 2)
            before, first = len(deployment.releases()), turn * EACH
            deployment.produce([line for step in sent[first : first + 2] for line in step])
            wait_until("a step", lambda before=before: len(deployment.releases()) > before, 240.0)
            assert account.ended(240.0) == -signal.SIGKILL, account.text[-2000:]
            deployment.produce([line for step in sent[first + 2 : first + EACH] for line in step])
            assert worker.ended(240.0) == -signal.SIGKILL, worker.text[-2000:]
        deployment.start("account")
        deployment.start("release")
        deployment.produce([line for step in sent[-EACH:] for line in step])
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded([line for step in sent for line in step])
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert compare(Deployment.of(deployment.settings)).is_same  # tallyguard replay
        assert len(risks) == STEPS * len(population)
        assert not deployment.values(deployment.topics.rejected)
        published = [each for line in releases for each in json.loads(line)["releases"]]
        assert sum(each["sensor"] == "room" and "from_step" in each for each in published) == STEPS // WINDOW


def with_late_counts(sent: list[list[bytes]]) -> list[list[bytes]]:
    """By step: every fourth count of the hall comes two steps late, and a correction of the one after it."""
    steps = [list(step) for step in sent]
    for number in range(1, len(sent) - 3, 4):
        (count,) = (line for line in sent[number] if b'"hall","count"' in line)
        corrected = {**json.loads(count), "step": number + 1, "count": 99, "version": 2}
        steps[number].remove(count)
        steps[number + 2] += [count, json.dumps(corrected, separators=(",", ":")).encode()]
    return steps


def test_regions_publish_windows_and_late_counts_once_whenever_an_intake_worker_dies(
    kafka: Broker, tmp_path: Path
) -> None:
    """Late and corrected counts come with the step that closes next in their region, as in one process."""
    population, _, _ = small_city(12)
    sent = with_late_counts(messages_of(STEPS))
    late = {"late": 3, "grace": 0, "watermark_share": 0.0, **WHOLE}
    sensors = [(name, [0]) for name in REGION_OF]
    with OnKafka(
        tmp_path / "late", kafka.address, population, sensors, regions=REGION_OF, **late
    ) as deployment:
        declare(deployment, population)
        deployment.load_people()
        deployment.start("account")
        deployment.start("coordinator")
        for turn, point in enumerate(POINTS):
            dying = deployment.start_dying("intake", point, 2)
            for step in sent[turn * EACH : (turn + 1) * EACH]:
                deployment.produce(step)  # by itself: the broker stamps what it gets at once as one
            assert dying.ended(240.0) == -signal.SIGKILL, dying.text[-2000:]
        deployment.start("intake")
        for step in sent[-EACH:]:
            deployment.produce(step)
        deployment.wait_for_steps(STEPS)
        releases, risks = deployment.embedded([line for step in sent for line in step])
        revised = (deployment.folder / "embedded" / REVISED_FILE).read_bytes().splitlines()
        assert deployment.releases() == releases
        assert deployment.values(deployment.topics.revised) == revised
        assert deployment.person_risks() == risks
        values = [entry for line in revised for entry in json.loads(line)["releases"]]
        assert [entry.get("version", 1) for entry in values] == [1, 2] * (STEPS // 4 - 1)
        assert not deployment.values(deployment.topics.rejected)
        copy = tmp_path / "copy"
        assert fetched(deployment, copy).revised == len(revised)
        assert_same_logs(copy, deployment.folder / "embedded")
        assert (copy / REVISED_FILE).read_bytes().splitlines() == revised
