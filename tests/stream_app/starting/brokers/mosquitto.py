"""A real Mosquitto on loopback, others who speak with it, and certificates for it."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import paho.mqtt.client as paho
from paho.mqtt.enums import CallbackAPIVersion

from stream_app.setup.settings import Settings
from stream_app.starting.connect.mqtt import BrokerAddress, BrokerSession, RetainedReleases
from tests.watching.services import free_port, program, running, wait_until


class Mosquitto:
    """A broker that keeps what it was given over restarts; not running until :meth:`running`."""

    def __init__(self, folder: Path, lines: Sequence[str] = ("allow_anonymous true",)) -> None:
        self._command = program("mosquitto", "/usr/sbin/mosquitto")
        self.port = free_port()
        self._ports = [self.port, *(int(line.split()[1]) for line in lines if line.startswith("listener "))]
        self.folder = folder / "broker"
        self.folder.mkdir()
        user = ["user root"] if os.geteuid() == 0 else []  # else it becomes another who may not write here
        self._file = self.folder / "mosquitto.conf"
        self._file.write_text(
            "\n".join(
                [
                    f"listener {self.port} 127.0.0.1",
                    "persistence true",
                    f"persistence_location {self.folder}/",
                    "max_queued_messages 0",
                    *user,
                    *lines,
                ]
            )
            + "\n"
        )

    @contextmanager
    def running(self) -> Iterator[None]:
        """The broker while the block runs; stopped in order, so that it keeps its sessions."""
        with running([self._command, "-c", str(self._file)], self.folder / "log"):
            wait_until("the broker listens", self._listens, 30)
            yield

    def _listens(self) -> bool:
        for port in self._ports:
            socket.create_connection(("127.0.0.1", port), 1).close()
        return True


def settings_for(
    broker: Mosquitto, scheme: str = "mqtt", host: str = "127.0.0.1", **mqtt: object
) -> Settings:
    """Settings of a deployment whose counts come on ``counts/#`` of the broker."""
    given = {"broker": f"{scheme}://{host}:{broker.port}", "topics": ["counts/#"], **mqtt}
    return Settings.model_validate({"connect": {"mqtt": given}})


class Other:
    """Somebody else at the broker: publishes, and remembers the last message of each topic.

    Once it is made the broker has its subscription: nothing published after that is missed.
    """

    def __init__(self, port: int, topic: str = "", quality: int = 1) -> None:
        self.seen: dict[str, bytes] = {}
        self.all: list[tuple[str, bytes]] = []
        self._topic, self._quality = topic, quality
        self._is_ready = threading.Event()
        self._client = paho.Client(CallbackAPIVersion.VERSION2, protocol=paho.MQTTv5)
        self._client.on_message = self._on_message
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self._is_ready.set()
        self._client.connect("127.0.0.1", port)
        self._client.loop_start()
        assert self._is_ready.wait(30), "the broker did not answer"

    def publish(self, topic: str, payload: bytes) -> None:
        """At least once, and not before the broker has it."""
        self._client.publish(topic, payload, self._quality).wait_for_publish(30)

    def close(self) -> None:
        """Leave."""
        self._client.disconnect()
        self._client.loop_stop()

    def _on_connect(self, client: paho.Client, *rest: object) -> None:
        if self._topic:
            client.subscribe(self._topic, self._quality)
        else:
            self._is_ready.set()

    def _on_message(self, client: paho.Client, userdata: object, message: paho.MQTTMessage) -> None:
        self.seen[message.topic] = message.payload
        self.all.append((message.topic, message.payload))


def made(settings: Settings, **more: bool) -> BrokerSession:
    """A session that is not open yet."""
    mqtt = settings.connect.mqtt
    return BrokerSession(BrokerAddress.of(settings), mqtt, mqtt.topics, **more)


@contextmanager
def session(settings: Settings) -> Iterator[BrokerSession]:
    """A session of these settings, closed at the end."""
    opened = made(settings)
    opened.open()
    try:
        yield opened
    finally:
        opened.close()


def publish_all(broker: BrokerSession, releases: RetainedReleases, steps: int) -> None:
    """Until so many steps are at the broker."""

    def is_done() -> bool:
        releases.advance()
        broker.turn(0.02)
        releases.advance()
        return releases.steps == steps and releases.is_acknowledged

    wait_until(f"{steps} steps are at the broker", is_done, 120)


def wait_online(port: int, deployment: str = "default") -> None:
    """Until a connector says so, and so has subscribed."""
    other = Other(port, "tallyguard/#")
    wait_until(
        "the connector is online", lambda: other.seen.get(f"tallyguard/{deployment}/status") == b"online", 90
    )
    other.close()


def certificates(folder: Path) -> tuple[Path, Path, Path]:
    """An authority, and a certificate for localhost that it signed: authority, certificate, key."""
    openssl = program("openssl")
    authority, key, signed = (folder / name for name in ("ca.pem", "server.key", "server.pem"))
    authority_key, request = folder / "ca.key", folder / "server.csr"
    extensions = folder / "server.ext"
    extensions.write_text("subjectAltName=DNS:localhost\n")
    new = [openssl, "req", "-newkey", "rsa:2048", "-nodes", "-subj"]
    for command in (
        [*new, "/CN=test authority", "-x509", "-keyout", authority_key, "-out", authority, "-days", "2"],
        [*new, "/CN=localhost", "-keyout", key, "-out", request],
        [
            *(openssl, "x509", "-req", "-in", request, "-CA", authority, "-CAkey", authority_key),
            *("-CAcreateserial", "-days", "2", "-extfile", extensions, "-out", signed),
        ],
    ):
        subprocess.run([str(each) for each in command], check=True, capture_output=True)
    return authority, signed, key
