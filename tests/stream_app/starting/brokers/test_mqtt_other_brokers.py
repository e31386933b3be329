"""Brokers that grant less, or are away: what is promised is kept or said, and nothing waits in memory."""

from __future__ import annotations

import json
import socket
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_app.exceptions import OutputError, PeerError
from stream_app.setup.settings import Settings
from stream_app.starting.connect.intake import Payload
from stream_app.starting.connect.mqtt import (
    BrokerSession,
    RetainedReleases,
    Sent,
    relay,
)
from tests.stream_app.starting.brokers.mosquitto import (
    Mosquitto,
    Other,
    certificates,
    made,
    publish_all,
    session,
    settings_for,
)
from tests.stream_app.starting.brokers.run_folder import add_late, add_steps, noised, released, run_folder
from tests.watching.services import program, wait_until

UNDER = "tallyguard/default"
OPEN = "allow_anonymous true"
REFUSED_VERSION = bytes([0x20, 3, 0, 0x84, 0])


def turned(broker: BrokerSession, number: int) -> list[bytes]:
    """The payloads of so many messages, or fewer within ten seconds."""
    found: list[Payload] = []
    deadline = time.monotonic() + 10
    while len(found) < number and time.monotonic() < deadline:
        arrived = broker.turn(0.1)
        broker.acknowledge(arrived)
        found += arrived
    return [each.payload for each in found]


def talking(answers: Sequence[bytes]) -> tuple[int, threading.Thread]:
    """A broker that answers each packet of one connection with the next of these; its port."""
    server = socket.create_server(("127.0.0.1", 0))

    def talk() -> None:
        with server, server.accept()[0] as peer:
            for answer in answers:
                peer.recv(4096)
                peer.sendall(answer)
            peer.recv(4096)

    thread = threading.Thread(target=talk)
    thread.start()
    return server.getsockname()[1], thread


def at_port(port: int, **mqtt: object) -> Settings:
    """Settings of a broker there."""
    given = {"broker": f"mqtt://127.0.0.1:{port}", "topics": ["counts/#"], **mqtt}
    return Settings.model_validate({"connect": {"mqtt": given}})


@contextmanager
def only_3_1_1(port: int, refusal: bytes) -> Iterator[int]:
    """A broker of MQTT 3.1.1 in front of a real one: others get this answer, or none, and are hung up on."""
    server = socket.create_server(("127.0.0.1", 0))

    def pipe(source: socket.socket, sink: socket.socket, first: bytes = b"") -> None:
        try:
            data = first or source.recv(65536)
            while data:
                sink.sendall(data)
                data = source.recv(65536)
        except OSError:
            pass
        finally:
            sink.close()

    def serve() -> None:
        while True:
            try:
                peer, _ = server.accept()
            except OSError:
                return
            hello = peer.recv(65536)
            if hello[8] != 4:  # the level of the protocol
                peer.sendall(refusal)
                peer.close()
                continue
            behind = socket.create_connection(("127.0.0.1", port))
            threading.Thread(target=pipe, args=(peer, behind, hello), daemon=True).start()
            threading.Thread(target=pipe, args=(behind, peer), daemon=True).start()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield server.getsockname()[1]
    finally:
        server.shutdown(socket.SHUT_RDWR)
        server.close()
        thread.join(10)


def test_releases_wait_on_disk_while_the_broker_is_away_and_intake_goes_on(tmp_path: Path) -> None:
    """A step released without a broker is sent once it is back; counts come before and after."""
    broker, run = Mosquitto(tmp_path), run_folder(tmp_path / "run")
    settings = settings_for(broker)
    add_steps(run, 0, (1,))
    taken: list[bytes] = []
    opened = made(settings)
    releases = RetainedReleases(opened, UNDER, run, tmp_path / "place.json")
    is_over = threading.Event()

    class Stop:
        """Asked to stop by the test."""

        @property
        def is_set(self) -> bool:
            return is_over.is_set()

    failed: list[BaseException] = []

    def connector() -> None:
        try:
            relay(opened, lambda arrived: taken.extend(each.payload for each in arrived), releases, Stop())
        except BaseException as error:
            failed.append(error)
            raise

    thread = threading.Thread(target=connector)
    with broker.running():
        thread.start()
        wait_until("the first step", lambda: releases.steps == 1, 20)
        sender = Other(broker.port)
        sender.publish("counts/a", b"before")
        sender.close()
        wait_until("a count before", lambda: taken == [b"before"], 20)
    add_steps(run, 1, (2, 3))
    time.sleep(0.5)
    assert thread.is_alive()
    with broker.running():
        wait_until("the steps released meanwhile", lambda: releases.steps == 3, 40)
        reader = Other(broker.port, f"{UNDER}/#")
        wait_until("their last one is retained", lambda: f"{UNDER}/releases" in reader.seen, 20)
        assert json.loads(reader.seen[f"{UNDER}/releases"])["step"] == 2

        def has_come_again() -> bool:  # a broker that was started anew keeps nothing for who is not back yet
            reader.publish("counts/a", b"after")
            return b"after" in taken

        wait_until("a count after", has_come_again, 90)
        reader.close()
        is_over.set()
        thread.join(20)
    assert not failed
    assert (taken[0], set(taken)) == (b"before", {b"before", b"after"})  # twice, if it stopped untold


@pytest.mark.slow
def test_more_messages_may_wait_than_there_are_packet_numbers(tmp_path: Path) -> None:
    """MQTT numbers 65,535 packets; 66,047 that wait are sent all the same, and their place is kept."""
    broker, run, sensors = Mosquitto(tmp_path), run_folder(tmp_path / "run"), 1375
    with (run / "releases.jsonl").open("wb") as log:
        for step in range(48):
            log.write(released(step, *(noised(f"s{number}", step) for number in range(sensors))))
    place = tmp_path / "place.json"
    with broker.running(), session(settings_for(broker)) as opened:
        releases = RetainedReleases(opened, UNDER, run, place)
        deadline = time.monotonic() + 240
        while releases.steps < 48 and time.monotonic() < deadline:
            releases.advance()
            opened.turn(0.02)
        reader = Other(broker.port, f"{UNDER}/releases/#")
        wait_until("every sensor's last value", lambda: len(reader.seen) == sensors + 1, 60)
        reader.close()
    assert {json.loads(payload)["step"] for payload in reader.seen.values()} == {47}
    assert json.loads(place.read_text())["releases.jsonl"]["line_count"] == 48


@pytest.mark.parametrize("most", [1, 3])
def test_no_more_is_in_flight_than_the_broker_takes(tmp_path: Path, most: int) -> None:
    """The broker's receive maximum holds, over a new connection with unsent messages, too."""
    broker, run = Mosquitto(tmp_path, [OPEN, f"max_inflight_messages {most}"]), run_folder(tmp_path / "run")
    add_steps(run, 0, range(20))
    highest = 0
    opened = made(settings_for(broker))
    releases = RetainedReleases(opened, UNDER, run, tmp_path / "place.json")

    def is_at_least(steps: int) -> bool:
        nonlocal highest
        releases.advance()
        highest = max(highest, len(opened._in_flight))
        opened.turn(0.02)
        return releases.steps >= steps

    with broker.running():
        opened.open()
        wait_until("five steps", lambda: is_at_least(5), 30)
    opened.turn(0.1)
    with broker.running():
        wait_until("all steps", lambda: is_at_least(20), 30)
        opened.close()
    assert highest == most


class ScriptedSession:
    """A broker as :class:`RetainedReleases` sees it: takes two at a time, refuses or loses what is told."""

    def __init__(self) -> None:
        self.taken: list[tuple[str, int]] = []
        self.in_flight: list[tuple[int, str, int]] = []
        self.number = self.connection = 0
        self.refused: dict[int, str] = {}

    @property
    def room(self) -> int:
        return 2 - len(self.in_flight)

    def publish(self, topic: str, payload: bytes) -> Sent:
        self.number += 1
        self.in_flight.append((self.number, topic, json.loads(payload)["step"]))
        return Sent(self.number, self.connection)

    def is_lost(self, sent: Sent) -> bool:
        return sent.connection != self.connection

    def is_there(self, sent: Sent) -> bool:
        return sent.number not in {number for number, *_ in self.in_flight}

    def refusal(self, sent: Sent) -> str | None:
        return self.refused.get(sent.number)

    def answer(self, *, refuse: bool = False) -> None:
        """Take the oldest one, or refuse it."""
        number, topic, step = self.in_flight.pop(0)
        if refuse:
            self.refused[number] = "Quota exceeded"
        else:
            self.taken.append((topic, step))

    def lose(self, *, after: int = 0) -> None:
        """The connection breaks; so many had been taken, and their acknowledgement never came."""
        self.taken += [(topic, step) for _, topic, step in self.in_flight[:after]]
        self.in_flight.clear()
        self.connection += 1


@pytest.mark.parametrize("trouble", ["refuse", "lose", "lose after"])
@pytest.mark.parametrize("before", range(6))
def test_a_refusal_or_a_loss_anywhere_leaves_the_last_value_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: str, before: int
) -> None:
    """After any number of messages: all go again in their order, and the place is behind none of them."""
    monkeypatch.setattr("stream_app.starting.connect.mqtt._FIRST_RETRY_SECONDS", 0.0)
    run, broker, place = run_folder(tmp_path / "run"), ScriptedSession(), tmp_path / "place.json"
    add_steps(run, 0, (1, 2))
    releases = RetainedReleases(broker, UNDER, run, place)  # type: ignore[arg-type]
    releases.advance()
    for _ in range(before):
        broker.answer()
        releases.advance()
    kept = json.loads(place.read_text())["releases.jsonl"]["line_count"] if place.exists() else 0
    assert kept == before // 3 == releases.steps
    if trouble == "refuse" and broker.in_flight:
        broker.answer(refuse=True)
        while broker.in_flight:
            broker.answer()  # those behind the refused one were taken
    else:
        broker.lose(after=trouble == "lose after")
    for _ in range(20):
        releases.advance()
        if broker.in_flight:
            broker.answer()
    assert releases.steps == 2 and releases.is_acknowledged
    topics = [f"{UNDER}/{name}" for name in ("releases/mill", "releases/port", "releases")]
    last = dict(broker.taken)
    assert last == dict.fromkeys(topics, 1)
    order = [step * 3 + topics.index(topic) for topic, step in broker.taken]
    assert sorted(set(order)) == list(range(6))
    assert json.loads(place.read_text())["releases.jsonl"]["line_count"] == 2


def test_releases_that_cannot_be_read_end_no_intake(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A log that became shorter: counts are taken on, and what is wrong is logged and raised at the end."""
    broker, run = Mosquitto(tmp_path), run_folder(tmp_path / "run")
    add_steps(run, 0, (1, 2))
    taken: list[bytes] = []
    opened = made(settings_for(broker))
    releases = RetainedReleases(opened, UNDER, run, tmp_path / "place.json")

    class Stop:
        """Once a count has come after the log was cut."""

        @property
        def is_set(self) -> bool:
            if releases.steps == 2 and not taken and (run / "releases.jsonl").stat().st_size:
                (run / "releases.jsonl").write_bytes(b"")
            elif "no more releases are sent" in caplog.text and not taken:
                sender = Other(broker.port)
                sender.publish("counts/a", b"5")
                sender.close()
            return bool(taken)

    def take(arrived: Sequence[Payload]) -> None:
        taken.extend(each.payload for each in arrived)

    with broker.running(), pytest.raises(OutputError, match="must only grow"):
        relay(opened, take, releases, Stop())
    assert taken == [b"5"]


@pytest.mark.parametrize("refusal", [REFUSED_VERSION, bytes([0x20, 2, 0, 1]), b""], ids=["5", "3", "silent"])
def test_a_broker_of_3_1_1_is_spoken_with_as_such(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, refusal: bytes
) -> None:
    """It says that it does not speak 5, in the form of either, or hangs up: the session is kept."""
    broker = Mosquitto(tmp_path)
    with broker.running(), only_3_1_1(broker.port, refusal) as port:
        with session(at_port(port)) as opened:
            assert any("MQTT 3.1.1 is spoken" in each for each in opened.weaker)
        sender = Other(broker.port)
        sender.publish("counts/a", b"while away")
        sender.close()
        with session(at_port(port)) as opened:
            assert turned(opened, 1) == [b"while away"]
        with session(at_port(port)) as opened:
            assert opened.turn(0.3) == []
        with pytest.raises(PeerError), session(at_port(port, protocol="5")):
            pass
    assert "MQTT 3.1.1 is spoken" in caplog.text


@pytest.mark.parametrize("protocol", ["auto", "3.1.1"])
def test_a_broker_that_grants_at_most_once_is_taken_by_declaration(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, protocol: str
) -> None:
    """Refused unless the settings take it; then counts come and releases go, and what is weaker is said."""
    broker, run = Mosquitto(tmp_path, [OPEN, "max_qos 0"]), run_folder(tmp_path / "run")
    add_steps(run, 0, (1, 2))
    with broker.running():
        with (
            pytest.raises(PeerError, match=r"at least once \(QoS 1\).*set qos = 0|must answer"),
            session(settings_for(broker, protocol=protocol, qos=1)),
        ):
            pass
        with session(
            settings_for(broker, protocol=protocol, **({"qos": 0} if protocol == "auto" else {}))
        ) as it:
            publish_all(it, RetainedReleases(it, UNDER, run, tmp_path / "place.json"), 2)
            sender = Other(broker.port, f"{UNDER}/#", quality=0)
            sender.publish("counts/a", b"5")
            assert turned(it, 1) == [b"5"]
            wait_until("the releases", lambda: f"{UNDER}/releases" in sender.seen, 20)
            sender.close()
            assert [each for each in it.weaker if "at most once" in each] == it.weaker[-2:]
    assert "Counts come at most once (QoS 0)" in caplog.text


def test_at_most_once_no_more_is_sent_at_a_time_either(tmp_path: Path) -> None:
    """Nothing is acknowledged at QoS 0: still counts are taken between a thousand messages and the next."""
    broker, run = Mosquitto(tmp_path, [OPEN, "max_qos 0"]), run_folder(tmp_path / "run")
    lines = [released(step, *(noised(f"s{number}", step) for number in range(1500))) for step in range(3)]
    (run / "releases.jsonl").write_bytes(b"".join(lines))
    with broker.running(), session(settings_for(broker, qos=0)) as opened:
        releases = RetainedReleases(opened, UNDER, run, tmp_path / "place.json")
        releases.advance()
        assert releases.steps == 0
        assert 0 < len(releases._sent) <= 1000
        publish_all(opened, releases, 3)
        reader = Other(broker.port, f"{UNDER}/releases/#", quality=0)
        wait_until("every sensor's last value", lambda: len(reader.seen) == 1501, 30)
        reader.close()
    assert {json.loads(payload)["step"] for payload in reader.seen.values()} == {2}


def test_a_broker_that_retains_nothing_is_taken(tmp_path: Path) -> None:
    """It refuses a last will that is retained; releases go out all the same, to those who listen."""
    broker, run = Mosquitto(tmp_path, [OPEN, "retain_available false"]), run_folder(tmp_path / "run")
    add_steps(run, 0, (1,))
    with broker.running():
        reader = Other(broker.port, f"{UNDER}/releases")
        with session(settings_for(broker)) as opened:
            assert any("retains nothing" in each for each in opened.weaker)
            publish_all(opened, RetainedReleases(opened, UNDER, run, tmp_path / "place.json"), 1)
            wait_until("the release", lambda: f"{UNDER}/releases" in reader.seen, 20)
        reader.close()


def test_a_step_that_is_too_long_for_the_broker_is_left_out_and_each_value_goes(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A broker's max_packet_size ends no connection; with 3.1.1 packet_bytes says what it does not."""
    broker, run = Mosquitto(tmp_path, [OPEN, "max_packet_size 2000"]), run_folder(tmp_path / "run")
    (run / "releases.jsonl").write_bytes(released(0, *(noised(f"s{number}", 1) for number in range(60))))
    for more in ({}, {"protocol": "3.1.1", "packet_bytes": 2000}):
        with broker.running(), session(settings_for(broker, **more)) as opened:
            publish_all(opened, RetainedReleases(opened, UNDER, run, tmp_path / f"{len(more)}.json"), 1)
            reader = Other(broker.port, f"{UNDER}/releases/#")
            wait_until("each value", lambda reader=reader: len(reader.seen) == 60, 20)  # type: ignore[misc]
            reader.close()
            assert opened.turn(0.1) == []
            assert any("on 1 topics, such as 'tallyguard/default/releases'" in each for each in opened.weaker)
    assert "takes packets of at most 2,000 bytes" in caplog.text
    assert "is gone" not in caplog.text


def test_topics_that_we_may_not_write_or_read_are_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A refused subscription is a sentence; a refused release a warning that holds up no other."""
    rules = tmp_path / "rules"
    rules.write_text(
        f"topic readwrite counts/#\ntopic read {UNDER}/#\ntopic write {UNDER}/releases/mill\n"
        f"topic write {UNDER}/status\n"
    )
    broker, run = Mosquitto(tmp_path, [OPEN, f"acl_file {rules}"]), run_folder(tmp_path / "run")
    add_steps(run, 0, (1,))
    with broker.running():
        with session(settings_for(broker)) as opened:
            publish_all(opened, RetainedReleases(opened, UNDER, run, tmp_path / "place.json"), 1)
            reader = Other(broker.port, f"{UNDER}/#")
            wait_until("what it may write", lambda: f"{UNDER}/releases/mill" in reader.seen, 20)
            reader.close()
            assert [each for each in opened.weaker if "on 2 topics, such as" in each]
        assert f"{UNDER}/releases" not in reader.seen
    assert caplog.text.count("does not take what we publish there") == 1
    refused = bytes([0x90, 4, 0, 1, 0, 0x87])
    port, thread = talking([bytes([0x20, 3, 0, 0, 0]), refused])
    with pytest.raises(PeerError, match=r"must let client .* read 'counts/#'"), session(at_port(port)):
        pass
    thread.join(10)


def test_what_a_broker_says_at_the_beginning_holds(caplog: pytest.LogCaptureFixture) -> None:
    """A shorter session is warned of, its keep-alive is kept, and no more is in flight than it takes."""
    said = bytes([0x11, 0, 0, 0, 60, 0x13, 0, 7, 0x21, 0, 2])  # session expiry, keep-alive, receive maximum
    port, thread = talking(
        [bytes([0x20, 3 + len(said), 0, 0, len(said)]) + said, bytes([0x90, 4, 0, 1, 0, 1])]
    )
    with session(at_port(port)) as opened:
        assert "keeps messages for us for 60 s, not for the 604,800 s" in caplog.text
        assert opened.room == 1  # of two: the status is on its way
        assert opened._client.keepalive == 7
        opened._client.socket().shutdown(socket.SHUT_RDWR)
    thread.join(10)


def test_a_broker_that_sends_us_away_is_quoted(caplog: pytest.LogCaptureFixture) -> None:
    """``Server moved``, and where to: said in the log, as is every reason that a broker gives."""
    other = b"other.example:1883"
    moved = bytes([0xE0, 5 + len(other), 0x9D, 3 + len(other), 0x1C, 0, len(other)]) + other
    port, thread = talking([bytes([0x20, 3, 0, 0, 0]), bytes([0x90, 4, 0, 1, 0, 1]), moved])
    opened = made(at_port(port))
    opened.open()
    wait_until("it is gone", lambda: opened.turn(0.1) or "is gone" in caplog.text, 10)
    assert "Server moved" in caplog.text
    assert "names 'other.example:1883' as another one" in caplog.text
    thread.join(10)


def test_a_forgotten_session_is_said_by_the_next_process_too(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The connector knows that it was there before; the broker knows nothing of it."""
    broker = Mosquitto(tmp_path)
    with broker.running():
        opened = made(settings_for(broker), is_known=True)
        opened.open()
        opened.close()
        assert caplog.text.count("has forgotten the session") == 1
        again = made(settings_for(broker), is_known=True)
        again.open()
        again.close()
    assert caplog.text.count("has forgotten the session") == 1


def test_our_own_releases_are_no_counts(tmp_path: Path) -> None:
    """Topics as wide as # take in what we publish: it is not given to the intake, and does not come again."""
    broker, run = Mosquitto(tmp_path), run_folder(tmp_path / "run")
    add_steps(run, 0, (1,))
    add_late(run, 0, noised("port", 3))
    with broker.running():
        for steps in (1, 0):
            with session(settings_for(broker, topics=["#"])) as opened:
                publish_all(opened, RetainedReleases(opened, UNDER, run, tmp_path / "place.json"), steps)
                sender = Other(broker.port)
                sender.publish("tallyguard/default/counts", b"5")
                sender.close()
                assert turned(opened, 1) == [b"5"]
                assert turned(opened, 0) == []


def test_a_shared_subscription_is_one(tmp_path: Path) -> None:
    """``$share/…`` gives counts as any other topic does."""
    broker = Mosquitto(tmp_path)
    with broker.running(), session(settings_for(broker, topics=["$share/group/counts/#"])) as opened:
        sender = Other(broker.port)
        sender.publish("counts/a", b"5")
        sender.close()
        assert turned(opened, 1) == [b"5"]


def test_late_values_go_under_topics_of_their_own(tmp_path: Path) -> None:
    """They hide no sensor's last value; a restart sends them no second time."""
    broker, run, place = Mosquitto(tmp_path), run_folder(tmp_path / "run"), tmp_path / "place.json"
    add_steps(run, 0, (4, 7))
    with broker.running():
        reader = Other(broker.port, f"{UNDER}/#")
        for steps in (2, 0):
            with session(settings_for(broker)) as opened:
                releases = RetainedReleases(opened, UNDER, run, place)
                publish_all(opened, releases, steps)
                if steps:
                    add_late(run, 0, noised("port", 3))
                    publish_all(opened, releases, steps)
        wait_until("the late value", lambda: f"{UNDER}/revised/port" in reader.seen, 20)
        reader.close()
    assert json.loads(reader.seen[f"{UNDER}/releases/mill"])["value"] == 7
    late = json.loads(reader.seen[f"{UNDER}/revised/port"])
    assert (late["step"], late["start"], late["value"]) == (0, "2026-01-01T00:00:00Z", 3)
    assert [topic for topic, _ in reader.all].count(f"{UNDER}/revised") == 1


def test_an_earlier_place_is_understood(tmp_path: Path) -> None:
    """A place of before late values were sent: releases go on behind it."""
    broker, run, place = Mosquitto(tmp_path), run_folder(tmp_path / "run"), tmp_path / "place.json"
    add_steps(run, 0, (4, 7))
    with broker.running():
        with session(settings_for(broker)) as opened:
            publish_all(opened, RetainedReleases(opened, UNDER, run, place), 2)
        place.write_text(json.dumps(json.loads(place.read_text())["releases.jsonl"]))
        add_steps(run, 2, (9,))
        with session(settings_for(broker)) as opened:
            publish_all(opened, RetainedReleases(opened, UNDER, run, place), 1)


@pytest.mark.slow
def test_an_expired_certificate_is_named(tmp_path: Path) -> None:
    """At the beginning with a sentence."""
    authority, _, key = certificates(tmp_path)
    old = tmp_path / "old.pem"
    command: list[object] = [program("openssl"), "x509", "-req", "-in", tmp_path / "server.csr"]
    command += ["-CA", authority, "-CAkey", tmp_path / "ca.key", "-CAcreateserial", "-out", old]
    command += ["-extfile", tmp_path / "server.ext", "-days", "-1"]
    done = subprocess.run(list(map(str, command)), capture_output=True, check=False)
    if done.returncode:
        pytest.skip("this openssl makes no certificate that is over")
    broker = Mosquitto(tmp_path, [OPEN, f"certfile {old}", f"keyfile {key}"])
    settings = settings_for(broker, "mqtts", "localhost", ca_file=str(authority))
    with (
        broker.running(),
        pytest.raises(PeerError, match=r"has expired.*renewed for this host"),
        session(settings),
    ):
        pass
