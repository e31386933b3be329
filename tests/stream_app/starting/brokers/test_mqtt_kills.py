"""The command killed with kill -9 at many moments, the broker restarted: nothing lost, nothing twice."""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.copies import Copy
from tests.stream_app.starting.brokers import killed_connector
from tests.stream_app.starting.brokers.mosquitto import Mosquitto, Other, wait_online
from tests.watching.services import heeds_sigterm, wait_until

SENSORS = tuple(f"s{number}" for number in range(8))


def settings_file(folder: Path, broker: Mosquitto, most_unacknowledged: int = 20) -> Path:
    """A deployment of hourly steps whose counts come on ``counts/<sensor>``."""
    path = folder / "tallyguard.toml"
    names = "\n".join(f'{name} = "{name}"' for name in SENSORS)
    path.write_text(
        f"""
origin = 2026-01-01T00:00:00Z
[connect.mqtt]
broker = "mqtt://127.0.0.1:{broker.port}"
topics = ["counts/+"]
most_unacknowledged = {most_unacknowledged}
[connect.mqtt.map]
topic = "counts/{{sensor}}"
start = "start"
interval_seconds = 3600
count = "count"
[connect.mqtt.map.names]
{names}
"""
    )
    return path


def payload(step: int, count: int) -> bytes:
    """A count as a device sends it."""
    return json.dumps({"start": 1767225600 + 3600 * step, "count": count}).encode()


def counted(step: int, sensor: str) -> int:
    """What is counted: of each sensor and step another number."""
    return 8 * step + SENSORS.index(sensor)


def publish(broker: Mosquitto, steps: int, is_due: Callable[[int], bool] = lambda step: True) -> None:
    """All counts of so many steps, in order, each step once it is due; a count is there before the next."""
    sender = Other(broker.port)
    for step in range(steps):
        wait_until(f"step {step} is due", partial(is_due, step), 300)
        for sensor in SENSORS:
            sender.publish(f"counts/{sensor}", payload(step, counted(step, sensor)))
    sender.close()


def connector(config: Path, folder: Path, log: str) -> Copy:
    """The command, until it is ended."""
    program = "import sys; from stream_app.cli import main; sys.exit(main())"
    words = ["connect", "mqtt", "--config", str(config), "--output", str(folder)]
    return Copy(program, words, os.environ, config.with_name(log))


def readings(folder: Path) -> Counter[tuple[int, str, int]]:
    """How often each reading stands in the journal; none before its activation."""
    found: Counter[tuple[int, str, int]] = Counter()
    announced: Counter[int] = Counter()
    path = folder / "messages.jsonl"
    for line in path.read_bytes().splitlines() if path.exists() else ():
        message = json.loads(line)
        if message["type"] == "activation":
            announced[message["step"]] += 1
        else:
            assert announced[message["step"]]
            found[message["step"], message["sensor"], message["count"]] += 1
    assert set(announced.values()) <= {1}
    return found


def stop(process: Copy) -> str:
    """End it as an operator does, once it has started so far that it ends in order; what it said."""
    wait_until("it heeds SIGTERM", lambda: process.poll() is not None or heeds_sigterm(process.pid), 120)
    process.terminate()
    assert process.wait(60) == 0, process.log.read_text()
    return process.log.read_text()


def take_the_rest(config: Path, folder: Path, steps: int) -> None:
    """Start once more, undisturbed, until all counts are there; then each is there once, and no other."""
    expected = Counter({(step, name, counted(step, name)): 1 for step in range(steps) for name in SENSORS})
    process = connector(config, folder, "rest.log")
    try:
        wait_until("all counts are taken", lambda: len(readings(folder)) == len(expected), 120)
    finally:
        said = stop(process)
    assert "0 payloads refused" in said
    assert readings(folder) == expected


def kill(broker: Mosquitto, folder: Path, steps: int, kills: int, seed: int) -> tuple[int, int]:
    """Kill the connector so often while the counts come, then let it finish.

    Some steps come after each kill, so that each connector has counts to take.
    """
    config, output = settings_file(folder, broker), folder / "from-broker"
    first = connector(config, output, "first.log")  # the broker keeps what comes from now on
    wait_online(broker.port)
    stop(first)
    words = [str(config), str(output), str(kills), str(seed)]
    killing = Copy(killed_connector.CODE, words, os.environ, folder / "killed.log")

    def is_due(step: int) -> bool:
        return killing.log.read_text().count("killed") >= step * kills // steps

    sender = threading.Thread(target=publish, args=(broker, steps, is_due))
    sender.start()
    assert killing.wait(1000) == 0, killing.log.read_text()
    sender.join(300)
    take_the_rest(config, output, steps)
    at_random, exactly = map(int, killing.log.read_text().split()[-2:])
    return at_random, exactly


@pytest.mark.slow
def test_killed_between_commit_and_acknowledgement(tmp_path: Path) -> None:
    """Twelve kills, five and more of them just when messages are durable and not acknowledged yet."""
    broker = Mosquitto(tmp_path)
    with broker.running():
        at_random, exactly = kill(broker, tmp_path, 100, 12, 5)
    assert at_random + exactly == 12
    assert exactly >= 5


@pytest.mark.slow
def test_killed_at_many_random_moments(tmp_path: Path) -> None:
    """Sixty kills while 2,400 counts come."""
    broker = Mosquitto(tmp_path)
    with broker.running():
        at_random, exactly = kill(broker, tmp_path, 300, 60, random.SystemRandom().randrange(10**6))
    assert at_random + exactly == 60
    assert exactly >= 30


@pytest.mark.slow
def test_the_broker_restarts_under_the_connector(tmp_path: Path) -> None:
    """Counts before and after two restarts of the broker are all taken, each once, by one process."""
    broker = Mosquitto(tmp_path)
    config, output = settings_file(tmp_path, broker), tmp_path / "from-broker"
    with broker.running():
        process = connector(config, output, "connector.log")
        try:
            wait_online(broker.port)
            publish(broker, 3)
        except BaseException:
            process.kill()
            raise
    try:
        with broker.running():
            publish(broker, 6)
        with broker.running():
            publish(broker, 9)
            wait_until("all counts are taken", lambda: len(readings(output)) == 9 * len(SENSORS), 60)
    finally:
        said = stop(process)
    assert "0 payloads refused" in said
    assert readings(output) == {(step, name, counted(step, name)): 1 for step in range(9) for name in SENSORS}
