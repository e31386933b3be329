"""A session with a real Mosquitto: what is not acknowledged comes again, what is does not."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest
from pydantic import ValidationError

from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.sections import MqttSettings
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import stop_on_signals
from stream_app.starting.connect.intake import Payload
from stream_app.starting.connect.mqtt import (
    OFFLINE,
    ONLINE,
    BrokerAddress,
    BrokerSession,
    relay,
    topic_level,
)
from tests.stream_app.starting.brokers.mosquitto import (
    Mosquitto,
    Other,
    certificates,
    made,
    session,
    settings_for,
)
from tests.watching.services import wait_until


def turned(broker: BrokerSession, number: int) -> list[Payload]:
    """So many messages, or fewer within ten seconds."""
    found: list[Payload] = []
    for _ in range(40):
        found += broker.turn(0.25)
        if len(found) >= number:
            break
    return found


def payloads(arrived: list[Payload]) -> list[bytes]:
    """What they say."""
    return [each.payload for each in arrived]


def test_what_was_not_acknowledged_comes_again(tmp_path: Path) -> None:
    """Three messages come, one is acknowledged, the process leaves: the other two come again, no more."""
    broker = Mosquitto(tmp_path)
    settings = settings_for(broker)
    with broker.running():
        with session(settings) as first:
            sender = Other(broker.port)
            for text in (b"1", b"2", b"3"):
                sender.publish("counts/a", text)
            sender.close()
            arrived = turned(first, 3)
            assert payloads(arrived) == [b"1", b"2", b"3"]
            first.acknowledge(arrived[:1])
            assert first.turn(0.5) == []
        with session(settings) as second:
            again = turned(second, 2)
            assert payloads(again) == [b"2", b"3"]
            second.acknowledge(again)
            assert second.turn(0.5) == []
        with session(settings) as third:
            assert third.turn(1.0) == []


def test_a_session_outlives_absence_and_a_restart_of_the_broker(tmp_path: Path) -> None:
    """What arrives while nobody is connected is kept, over the broker's restart, too."""
    broker = Mosquitto(tmp_path)
    settings = settings_for(broker)
    with broker.running():
        with session(settings):
            pass
        sender = Other(broker.port)
        sender.publish("counts/a", b"while away")
        sender.close()
    with broker.running(), session(settings) as back:
        found = turned(back, 1)
        assert payloads(found) == [b"while away"]


def test_a_connection_comes_back_when_the_broker_does(tmp_path: Path) -> None:
    """The broker stops under a connection with messages in flight: they come again, and new ones, too.

    An acknowledgement of before is not sent on the new connection, where its number may mean another message.
    """
    broker = Mosquitto(tmp_path)
    settings = settings_for(broker)
    mqtt = settings.connect.mqtt
    made = BrokerSession(BrokerAddress.of(settings), mqtt, mqtt.topics)
    try:
        with broker.running():
            made.open()
            sender = Other(broker.port)
            sender.publish("counts/a", b"before")
            sender.close()
            held = turned(made, 1)
        assert payloads(held) == [b"before"]
        assert made.turn(0.2) == []
        with broker.running():
            found = turned(made, 1)
            made.acknowledge(held)
            sender = Other(broker.port)
            sender.publish("counts/a", b"after")
            sender.close()
            assert payloads(found) == [b"before"]
            assert payloads(turned(made, 1)) == [b"after"]
        assert held[0].connection < found[0].connection
    finally:
        made.close()


@pytest.mark.slow
def test_tls_is_checked(tmp_path: Path) -> None:
    """The broker's certificate must be of the named authority and host; others are refused."""
    authority, certificate, key = certificates(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    broker = Mosquitto(
        tmp_path, ["allow_anonymous true", f"certfile {certificate}", f"keyfile {key}", "tls_version tlsv1.2"]
    )
    with broker.running():
        with session(settings_for(broker, "mqtts", "localhost", ca_file=str(authority))) as made:
            made.publish("counts/a", b"5")
            assert payloads(turned(made, 1)) == [b"5"]
        unknown = settings_for(broker, "mqtts", "localhost", ca_file=str(certificates(other)[0]))
        with pytest.raises(PeerError, match="certificate verify failed"), session(unknown):
            pass
        wrong_host = settings_for(broker, "mqtts", ca_file=str(authority))
        with pytest.raises(PeerError, match="IP address mismatch"), session(wrong_host):
            pass


def test_who_may_not_connect_is_told_so(tmp_path: Path) -> None:
    """A broker that asks for a user refuses us with a sentence, and no password in it."""
    broker = Mosquitto(tmp_path, ["allow_anonymous false"])
    settings = settings_for(broker, username="city", password="not to be shown")
    with (
        broker.running(),
        pytest.raises(PeerError, match="must accept client 'tallyguard-default'") as refused,
        session(settings),
    ):
        pass
    assert "not to be shown" not in str(refused.value)


def test_nobody_there_is_said_at_once(tmp_path: Path) -> None:
    """A broker that does not listen is named."""
    settings = settings_for(Mosquitto(tmp_path))
    with pytest.raises(PeerError, match=r"the broker mqtt://127\.0\.0\.1:\d+ must answer"), session(settings):
        pass


def test_two_connectors_of_one_name_do_not_fight(tmp_path: Path) -> None:
    """A broker that says another has taken over the session ends this one with a sentence.

    Mosquitto 2.0 closes without a word: see the next test.
    """
    accepted = bytes([0x20, 3, 0, 0, 0])
    granted = bytes([0x90, 4, 0, 1, 0, 1])
    taken_over = bytes([0xE0, 1, 0x8E])
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def broker() -> None:
            peer, _ = server.accept()
            with peer:
                for answer in (accepted, granted, taken_over):
                    peer.recv(4096)
                    peer.sendall(answer)

        thread = threading.Thread(target=broker)
        thread.start()
        given = {"broker": f"mqtt://127.0.0.1:{port}", "topics": ["counts/#"]}
        settings = Settings.model_validate({"connect": {"mqtt": given}})
        with pytest.raises(PeerError, match="must be of one connection at a time"), session(settings) as made:
            turned(made, 1)
        thread.join(10)


def test_a_connection_that_keeps_breaking_is_tried_ever_more_rarely(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Another connector of the same name takes the session over and over: the log asks for it."""
    caplog.set_level("INFO", "stream_app")
    broker = Mosquitto(tmp_path)
    settings = settings_for(broker)

    def pauses() -> list[float]:
        found = [record.args for record in caplog.records if "is gone" in record.message]
        return [float(str(args[2])) for args in found if isinstance(args, tuple)]

    with broker.running(), session(settings) as first:
        for times in range(1, 4):
            with session(settings) as other:
                wait_until("the first one is gone", lambda: first.turn(0.1) or len(pauses()) == times, 20)  # noqa: B023
            other.close()
            answered = len(caplog.records)
            wait_until("it is back", lambda: first.turn(0.1) or len(caplog.records) > answered, 20)  # noqa: B023
    assert pauses() == [0.5, 1.0, 2.0]
    assert "is another connector using this client id?" in caplog.text


def test_others_see_whether_we_are_there(tmp_path: Path) -> None:
    """``online`` while connected, ``offline`` after a goodbye; retained, so that late readers see it."""
    broker = Mosquitto(tmp_path)
    with broker.running():
        other = Other(broker.port, "tallyguard/#")
        with session(settings_for(broker)) as made:
            made.turn(0.2)
            wait_until("online", lambda: other.seen.get("tallyguard/default/status") == ONLINE, 10)
        wait_until("offline", lambda: other.seen.get("tallyguard/default/status") == OFFLINE, 10)
        other.close()


@pytest.mark.parametrize("broker", ["", "broker", "http://broker", "mqtt://", "mqtt://broker:x"])
def test_an_address_that_is_none_is_refused(broker: str) -> None:
    """What the address must look like is said."""
    with pytest.raises(SettingsError, match="must be mqtts://host:port"):
        BrokerAddress.of(Settings.model_validate({"connect": {"mqtt": {"broker": broker}}}))


def test_a_name_is_one_level_of_a_topic() -> None:
    """Signs that mean something in topics are written otherwise, each name as another topic."""
    assert topic_level("mill / north") == "mill %2F north"
    assert topic_level("a+b#c%2F") == "a%2Bb%23c%252F"


@pytest.mark.parametrize(
    "topic", ["a", "a/", "/a", "+", "#", "a/+/#", "$SYS/#", "$share/group/a/#", "$shared"]
)
def test_a_topic_is_any_that_a_broker_can_read(topic: str) -> None:
    assert MqttSettings.model_validate({"topics": [topic]}).topics == (topic,)


@pytest.mark.parametrize(
    "topic", ["", "a+", "#/a", "a#", "#a", "a\0", "$share/group", "$share/group/", "$share//a", "ä" * 32_768]
)
def test_what_is_no_topic_is_refused_where_settings_are_read(topic: str) -> None:
    """Before a broker is asked, some of which then say nothing."""
    with pytest.raises(ValidationError, match="must be topics of MQTT"):
        MqttSettings.model_validate({"topics": ["good", topic]})


def test_who_asks_to_stop_waits_for_no_broker(tmp_path: Path) -> None:
    """One that takes the connection and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening, stop_on_signals() as stop:
        mqtt = {"broker": f"mqtt://127.0.0.1:{listening.getsockname()[1]}", "topics": ["a"]}
        opened = made(Settings.model_validate({"connect": {"mqtt": mqtt}}))
        threading.Timer(0.3, stop.set).start()
        begun = time.monotonic()
        relay(opened, None, None, stop)
    assert time.monotonic() - begun < 10


def test_a_broker_that_is_not_there_is_no_other_connector(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """However often it is tried: the hint is for those who are sent away by one that answers."""
    broker = Mosquitto(tmp_path)
    with broker.running():
        opened = made(settings_for(broker))
        opened.open()
    for _ in range(12):
        opened.turn(0.5)
    assert "trying again in 2.0 s" in caplog.text
    assert "another connector" not in caplog.text
