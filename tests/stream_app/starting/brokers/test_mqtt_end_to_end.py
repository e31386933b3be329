"""From a device's payloads on a broker to released values on it: three commands, one broker with TLS."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from tests.copies import COMMAND_LINE, Copy
from tests.stream_app.starting.brokers.mosquitto import Mosquitto, Other, certificates, wait_online
from tests.watching.services import free_port, wait_until

STEPS = 6


def command(folder: Path, *arguments: object) -> Copy:
    """A command of ours."""
    return Copy(COMMAND_LINE, [*map(str, arguments)], os.environ, folder / "commands.log")


def settings_file(folder: Path, broker: Mosquitto, authority: Path, own: Path) -> Path:
    """Two sensors, two topics, noise of one kind."""
    (folder / "locations.txt").write_text("mill\nport\n")
    path = folder / "tallyguard.toml"
    path.write_text(
        f"""
deployment = "city"
origin = 2026-01-01T00:00:00Z
locations = "{folder}/locations.txt"
grace = 0
[connect.mqtt]
broker = "mqtts://localhost:{broker.port}"
ca_file = "{authority}"
certificate_file = "{own}"
topics = ["v1.1/Datastreams(7)/Observations", "v1.1/Datastreams(8)/Observations"]
[connect.mqtt.map]
preset = "sensorthings"
version = ["parameters.state"]
[connect.mqtt.map.versions]
provisional = 0
final = 1
[connect.mqtt.map.names]
7 = "mill"
8 = "port"
"""
    )
    return path


def observation(step: int, count: int, state: str = "final") -> bytes:
    """As a SensorThings service publishes it."""
    start, end = (f"2026-01-01T{hour:02d}:00:00Z" for hour in (step, step + 1))
    return json.dumps(
        {"phenomenonTime": f"{start}/{end}", "result": count, "parameters": {"state": state}}
    ).encode()


@pytest.mark.slow
def test_counts_come_from_a_broker_and_releases_go_back(tmp_path: Path) -> None:
    """The broker asks for a certificate; a run reads the messages; the last release of each sensor stands."""
    authority, certificate, key = certificates(tmp_path)
    own = tmp_path / "own.pem"
    own.write_bytes(certificate.read_bytes() + key.read_bytes())
    lines = [f"cafile {authority}", f"certfile {certificate}", f"keyfile {key}", "require_certificate true"]
    plain = free_port()
    listener = [f"listener {plain} 127.0.0.1", "allow_anonymous true"]
    broker = Mosquitto(tmp_path, ["allow_anonymous true", *lines, *listener])
    config, taken, out = settings_file(tmp_path, broker, authority, own), tmp_path / "in", tmp_path / "out"
    with broker.running():
        other = Other(plain, "tallyguard/#")
        connector = command(tmp_path, "connect", "mqtt", "--config", config, "--output", taken)
        try:
            wait_online(plain, "city")
            for step in range(STEPS):
                other.publish("v1.1/Datastreams(7)/Observations", observation(step, 0, "provisional"))
                other.publish("v1.1/Datastreams(7)/Observations", observation(step, 10 * step))
                other.publish("v1.1/Datastreams(8)/Observations", observation(step, step))
            wait_until(
                "all is taken", lambda: (taken / "messages.jsonl").read_bytes().count(b'"count"') == 12, 60
            )
        finally:
            connector.terminate()
            connector.wait(60)
        messages = taken / "messages.jsonl"
        taken_counts = [json.loads(line) for line in messages.read_bytes().splitlines() if b"count" in line]
        assert {each["step"]: each["count"] for each in taken_counts if each["sensor"] == "mill"} == {
            step: 10 * step for step in range(STEPS)
        }, "what was provisional is left out"
        files = "--config", config, "--input", messages, "--output", out
        run = command(tmp_path, "run", *files, "--create-keys", "--listen", "")
        assert run.wait(300) == 0
        released = [json.loads(line) for line in (out / "releases.jsonl").read_bytes().splitlines()]
        assert [each["step"] for each in released] == list(range(STEPS))
        connector = command(
            tmp_path, "connect", "mqtt", "--config", config, "--output", taken, "--releases", out
        )
        try:
            last = "tallyguard/city/releases"
            wait_until(
                "the last step", lambda: f'"step":{STEPS - 1},'.encode() in other.seen.get(last, b""), 60
            )
        finally:
            connector.terminate()
            assert connector.wait(60) == 0
        assert json.loads(other.seen[last]) == released[-1]
        for entry in released[-1]["releases"]:
            seen = json.loads(other.seen[f"{last}/{entry['sensor']}"])
            assert entry.items() <= seen.items()
        other.close()
