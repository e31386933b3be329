"""Payloads over HTTP: who may send what, and that 200 means on disk, whenever the process is killed."""

from __future__ import annotations

import base64
import http.client
import json
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from stream_app.exceptions import SettingsError
from stream_app.setup.sections import HttpSettings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect.http import Senders
from stream_app.wire import Activation, Reading, parse
from tests.copies import Copy
from tests.watching.services import wait_until

TOKEN = "a-token-of-some-length"
ORIGIN = 1_767_225_600  # 2026-01-01
SENSORS = ("gate", "mill")
PATIENCE_SECONDS = 120
_RUN = "import sys; from stream_app.cli import main; sys.exit(main())"
_KILLED_AFTER = """
import os, signal, sys
from stream_app.starting.connect.journal import CountJournal
from stream_app.cli import main

commit, left = CountJournal.commit, [{after}]

def killed(journal):
    commit(journal)
    left[0] -= 1
    if not left[0]:
        os.kill(os.getpid(), signal.SIGKILL)

CountJournal.commit = killed
sys.exit(main())
"""


def deployment(
    folder: Path, more: str = "", senders: str = 'token_file = "token"', body_seconds: float = 60.0
) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "token").write_text(f"{TOKEN}\n")
    (folder / "locations.txt").write_text("\n".join(SENSORS) + "\n")
    settings = folder / "tallyguard.toml"
    settings.write_text(
        f"""
step_seconds = 3600
origin = 2026-01-01T00:00:00Z
locations = "locations.txt"

[connect.http]
listen = "127.0.0.1:0"
body_seconds = {body_seconds}
{senders}

[connect.http.map]
sensor = ["sensor"]
start = ["start"]
interval_seconds = 3600
count = ["count"]
{more}
"""
    )
    return settings


class Server:
    """A receiver in a process of its own."""

    def __init__(self, settings: Path, script: str = _RUN) -> None:
        self.folder = settings.parent / "from-http"
        words = ["connect", "http", "--config", str(settings), "--output", str(self.folder)]
        log = settings.with_suffix(".log")
        log.unlink(missing_ok=True)
        self.process = Copy(script, words, os.environ, log)
        wait_until("it says where", lambda: self._address() or self.process.poll() is not None)
        found = self._address()
        assert found, log.read_text()
        self.port = int(found[1])

    def _address(self) -> re.Match[str] | None:
        text = self.process.log.read_text() if self.process.log.exists() else ""
        return re.search(r"receiving at https?://127\.0\.0\.1:(\d+)/", text)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> str:
        self.process.send_signal(number)
        self.process.wait(PATIENCE_SECONDS)
        return self.process.log.read_text()

    def send(self, body: object, token: str = TOKEN, **headers: str) -> tuple[int, dict[str, Any]]:
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_SECONDS)
        try:
            connection.request("POST", "/", text, {"Authorization": f"Bearer {token}", **headers})
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())
        finally:
            connection.close()


@contextmanager
def serving(settings: Path, script: str = _RUN) -> Iterator[Server]:
    server = Server(settings, script)
    try:
        yield server
    finally:
        server.stop(signal.SIGKILL)


def record(step: int, count: int, sensor: str = "gate") -> dict[str, object]:
    return {"sensor": sensor, "start": ORIGIN + step * 3600, "count": count}


def readings(folder: Path) -> dict[tuple[int, str], int]:
    """What the engine is given: every reading announced, none twice."""
    found: dict[tuple[int, str], int] = {}
    announced: set[int] = set()
    for line in (folder / "messages.jsonl").read_bytes().splitlines():
        message = parse(line, "messages")
        if isinstance(message, Activation):
            assert message.step not in announced
            announced.add(message.step)
        else:
            assert isinstance(message, Reading)
            assert message.step in announced
            assert (message.step, message.sensor) not in found
            found[message.step, message.sensor] = message.count
    return found


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with serving(deployment(tmp_path_factory.mktemp("http"))) as running:
        # The first payload writes the journal's head, whatever it holds: tests that compare files come after.
        assert running.send([]) == (200, {"taken": 0, "known": 0})
        yield running


@pytest.mark.slow
def test_a_payload_is_taken_once_and_a_contradiction_is_answered_as_what_is_known(server: Server) -> None:
    assert server.send([record(1, 5), record(1, 0, "mill")]) == (200, {"taken": 2, "known": 0})
    assert server.send([record(1, 5), record(2, 6)]) == (200, {"taken": 1, "known": 1})
    before = (server.folder / "counts.jsonl").read_bytes()
    assert server.send([record(1, 5), record(2, 6)]) == (200, {"taken": 0, "known": 2})
    for count in (4, 5, 6):
        assert server.send([record(1, count)]) == (200, {"taken": 0, "known": 1})
    assert (server.folder / "counts.jsonl").read_bytes() == before
    wait_until("the owner knows", lambda: bool((server.folder / "rejected.jsonl").read_bytes()))
    (letter,) = map(json.loads, (server.folder / "rejected.jsonl").read_bytes().splitlines())
    assert letter["reason"] == "contradicting_reading"
    assert "'gate' was sent another count for 2026-01-01T01:00:00Z" in letter["hint"]
    assert readings(server.folder) == {(1, "gate"): 5, (1, "mill"): 0, (2, "gate"): 6}


@pytest.mark.parametrize(
    ("body", "status", "sentence"),
    [
        (b"{", 400, "must be JSON"),
        (b"\xff\xfe", 400, "must be JSON"),
        (b"[" * 100_000, 400, "must be JSON"),
        ({**record(9, 1), "PeopleId": 3}, 422, "events of single people"),
        ({**record(9, 1), "snapshot": "/9j/"}, 422, "images"),
        ({**record(9, 1), "nested": [{"mac": "0:1"}]}, 422, "addresses of devices"),
        (record(9, 1, "00:16:28:FA:8E:68"), 422, "addresses of devices"),
        (record(9, 1, "tower"), 422, "one of the deployment"),
        (record(10**6, 1), 422, "of the future"),
        (record(9, -1), 422, "from 0 to"),
        ({"sensor": "gate"}, 422, "interval"),
        (b" " * 300_000, 413, "at most 262,144 bytes"),
    ],
)
def test_what_must_not_enter_is_refused_with_a_sentence(
    server: Server, body: object, status: int, sentence: str
) -> None:
    before = (server.folder / "counts.jsonl").read_bytes()
    found, answer = server.send(body)
    assert (found, sentence in answer["error"]) == (status, True), answer
    assert (server.folder / "counts.jsonl").read_bytes() == before


def test_only_who_has_the_token_may_send(server: Server) -> None:
    for token in ("", "wrong", TOKEN + "x", TOKEN[:-1], "\u00fc"):
        status, answer = server.send(record(8, 1), token)
        assert status == 401
        assert TOKEN not in str(answer)
    basic = base64.b64encode(f"counter:{TOKEN}".encode()).decode()
    assert server.send([], Authorization=f"Basic {basic}")[0] == 200
    assert server.send([], Authorization="Basic ?")[0] == 401
    assert server.send([], **{"Content-Encoding": "gzip"})[0] == 415
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    connection.request("GET", "/")
    refused = connection.getresponse()
    assert (refused.status, refused.getheader("Allow")) == (405, "POST")
    connection.close()


def test_every_guess_at_what_another_sender_counted_is_answered_the_same(server: Server) -> None:
    """Alone, and beside a new count, which is taken whatever the guess: status, body and headers."""

    def answer(body: object) -> tuple[int, bytes, list[str]]:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
        connection.request("POST", "/", json.dumps(body), {"Authorization": f"Bearer {TOKEN}"})
        found = connection.getresponse()
        headers = [f"{name}: {value}" for name, value in found.getheaders() if name != "Date"]
        read = found.status, found.read(), headers
        connection.close()
        return read

    assert server.send(record(20, 13, "mill"))[0] == 200
    assert len({repr(answer(record(20, guess, "mill"))) for guess in range(9, 18)}) == 1
    beside = [answer([record(20, guess, "mill"), record(11 + guess, 0)]) for guess in range(9, 18)]
    assert {(status, body) for status, body, _ in beside} == {(200, b'{"taken": 1, "known": 1}')}


def test_a_count_of_an_interval_that_is_not_over_may_be_sent_again_when_it_is(server: Server) -> None:
    """429 with Retry-After: senders keep it, where they would drop what is answered with 422."""
    now = int(time.time()) - ORIGIN
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=PATIENCE_SECONDS)
    connection.request("POST", "/", json.dumps(record(now // 3600, 0)), {"Authorization": f"Bearer {TOKEN}"})
    answer = connection.getresponse()
    assert answer.status == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 3600
    assert "must be over" in json.loads(answer.read())["error"]
    connection.close()


def test_a_sender_with_sensors_of_its_own_sends_for_no_other(tmp_path: Path) -> None:
    """403, whether or not there is such a sensor and whether its count is known."""
    (tmp_path / "mills").write_text("a-token-for-all-mills")
    (tmp_path / "gates").write_text("a-token-for-the-gate!")
    settings = deployment(
        tmp_path,
        senders="""
[connect.http.senders.miller]
token_file = "mills"
sensors = ["mi*", "weir"]
[connect.http.senders.porter]
token_file = "gates"
sensors = ["gate"]
""",
        more='version = ["state"]\nversions = {provisional = 0, final = 1}',
    )
    with serving(settings) as server:
        gate, mill = "a-token-for-the-gate!", "a-token-for-all-mills"
        provisional = {**record(1, 0), "state": "provisional"}
        assert server.send(provisional, gate) == (200, {"taken": 0, "known": 0}), "left out"
        assert server.send({**record(1, 5), "state": "final"}, gate) == (200, {"taken": 1, "known": 0})
        answers = {
            repr(server.send(body, mill))
            for body in (
                record(1, 5),
                record(1, 6),
                record(2, 5),
                record(1, 5, "tower"),
                [record(1, 3, "mill"), record(1, 5)],
            )
        }
        assert len(answers) == 1
        assert answers.pop().startswith("(403, ")
        assert server.send(record(1, 3, "mill"), mill) == (200, {"taken": 1, "known": 0})
        assert server.send(record(1, 3, "weir"), mill)[0] == 422
        assert server.send(record(1, 5), TOKEN)[0] == 401
    assert readings(server.folder) == {(1, "gate"): 5, (1, "mill"): 3}


def test_names_with_stars_are_matched_whole_and_quickly() -> None:
    """Whatever else they hold, and however long a name is that somebody sends."""
    names = ["mi*", "a[1]", "w?", "*a*a*a*a*a*a*b"]
    section = {"senders": {"x": {"token": TOKEN, "sensors": names}}}
    sender = Senders(HttpSettings.model_validate(section)).find(f"Bearer {TOKEN}", None)
    assert sender is not None
    assert sender.may_count(["mill", "mi", "a[1]", "w?", "a" * 9 + "b"])
    began = time.monotonic()
    for other in ("Mill", "xmill", "a1", "wx", "a[1]x", "", "a" * 256):
        assert not sender.may_count(["mill", other]), other
    assert time.monotonic() - began < 5.0


@pytest.mark.parametrize(
    ("section", "sentence"),
    [
        ({"token": TOKEN, "senders": {"a": {"token": TOKEN, "sensors": ["x"]}}}, "single sender"),
        ({"senders": {"a": {"sensors": ["x"]}}}, "token_file or certificate"),
        ({"senders": {"a": {"token": TOKEN, "certificate": "c", "sensors": ["x"]}}}, "and not both"),
        ({"senders": {"a": {"token": TOKEN, "sensors": []}}}, "at least 1"),
        ({"senders": {"a": {"token": "short", "sensors": ["x"]}}}, "at least 16"),
        ({"senders": {"a": {"certificate": "c", "sensors": ["x"]}}}, "need client_ca_file"),
        (
            {"senders": {name: {"token": TOKEN, "sensors": [name]} for name in ("a", "b")}},
            "of its own",
        ),
    ],
)
def test_who_may_send_what_is_declared_whole(section: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValidationError, match=sentence):
        HttpSettings.model_validate(section)


def test_a_token_of_a_sender_never_stands_in_the_settings(tmp_path: Path) -> None:
    path = tmp_path / "t.toml"
    path.write_text(f'[connect.http.senders.a]\ntoken = "{TOKEN}"\nsensors = ["x"]\n')
    with pytest.raises(SettingsError, match=r"senders\.a\.token"):
        load_settings(path)


@pytest.mark.slow
def test_a_body_that_does_not_come_or_is_endless_is_given_up(tmp_path: Path) -> None:
    head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
    with serving(deployment(tmp_path, body_seconds=1.0)) as server:
        for rest, status in (
            ("Content-Length: 100\r\n\r\n[", b"408"),
            ("Transfer-Encoding: chunked\r\n\r\n" + f"10000\r\n{' ' * 0x10000}\r\n" * 5, b"413"),
        ):
            with socket.create_connection(("127.0.0.1", server.port), timeout=PATIENCE_SECONDS) as client:
                client.sendall((head + rest).encode())
                assert client.recv(4096).split()[1] == status


@pytest.mark.slow
def test_a_sender_may_wait_to_be_asked_for_its_payload(tmp_path: Path) -> None:
    """``Expect: 100-continue`` is answered before the payload comes, for who has the token; an encoding that
    is none, as some proxies name it, is none."""
    with serving(deployment(tmp_path)) as server:
        for step, token, first in ((0, TOKEN, b"100 Continue"), (1, "another", b"401 Unauthorized")):
            body = json.dumps(record(step, 5)).encode()
            head = (
                f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\nExpect: 100-continue\r\n"
                f"Content-Encoding: identity\r\nContent-Length: {len(body)}\r\n\r\n"
            )
            with socket.create_connection(("127.0.0.1", server.port), 20) as peer:
                peer.sendall(head.encode())
                assert peer.recv(4096).startswith(b"HTTP/1.1 " + first)
                if token == TOKEN:
                    peer.sendall(body)
                    assert b'{"taken": 1, "known": 0}' in peer.recv(4096)


def test_without_token_or_certificates_nothing_is_received(tmp_path: Path) -> None:
    settings = deployment(tmp_path, senders="")
    words = ["connect", "http", "--config", str(settings), "--output", str(tmp_path / "o")]
    refused = Copy(_RUN, words, os.environ, tmp_path / "refused.log")
    assert refused.wait(600) == 1
    assert "must know who sends" in refused.log.read_text()


@pytest.mark.slow
def test_senders_may_be_known_by_their_certificates(tmp_path: Path) -> None:
    """Mutual TLS: whoever shows no certificate of the authority gets no answer."""

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)

    new = (
        "req",
        "-x509",
        "-newkey",
        "rsa:2048",
        "-nodes",
        "-days",
        "2",
        "-addext",
        "subjectAltName=IP:127.0.0.1",
    )
    for name in ("own", "counter", "stranger"):
        openssl(*new, "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.crt")
        both = (tmp_path / f"{name}.key").read_text() + (tmp_path / f"{name}.crt").read_text()
        (tmp_path / f"{name}.pem").write_text(both)
    senders = 'certificate_file = "own.pem"\nclient_ca_file = "counter.crt"'
    with serving(deployment(tmp_path, senders=senders)) as running:
        for name, may_send in (("counter", True), ("stranger", False), (None, False)):
            context = ssl.create_default_context(cafile=str(tmp_path / "own.crt"))
            if name is not None:
                context.load_cert_chain(tmp_path / f"{name}.pem")
            connection = http.client.HTTPSConnection(
                "127.0.0.1", running.port, context=context, timeout=PATIENCE_SECONDS
            )
            try:
                connection.request("POST", "/", json.dumps(record(1, 3)))
                assert connection.getresponse().status == 200
                assert may_send
            except (ssl.SSLError, ConnectionError, http.client.HTTPException):
                assert not may_send
            finally:
                connection.close()
        assert readings(running.folder) == {(1, "gate"): 3}


@pytest.mark.slow
def test_killed_between_commit_and_answer_a_payload_that_is_sent_again_counts_once(tmp_path: Path) -> None:
    settings = deployment(tmp_path)
    for after in (1, 2, 3):
        with serving(settings, _KILLED_AFTER.format(after=after)) as running:
            answers = []
            for step in range(3 * after, 3 * after + 3):
                with suppress(OSError, http.client.HTTPException):
                    answers.append(running.send(record(step, step))[0])
            assert answers == [200] * (after - 1)
            assert running.process.wait(timeout=PATIENCE_SECONDS) == -signal.SIGKILL
        with serving(settings) as running:
            for step in range(3 * after, 3 * after + 3):
                status, answer = running.send(record(step, step))
                assert (status, answer["known"]) == (200, step < 4 * after)
    assert readings(running.folder) == {(step, "gate"): step for step in range(3, 12)}


class _Client(threading.Thread):
    """A counter that sends each of its counts until it is answered with 200, some of them twice."""

    def __init__(self, sensor: str, port: list[int], seed: int) -> None:
        super().__init__(daemon=True)
        self.sensor, self.port, self.chance = sensor, port, random.Random(seed)
        self.is_over = threading.Event()
        self.answered: dict[int, int] = {}
        self.wrong: list[object] = []

    def run(self) -> None:
        step = 0
        while not self.is_over.is_set():
            count = self.chance.randrange(1000)
            while not self._sent(step, count) and not self.is_over.is_set():
                time.sleep(0.01)
            step += 1

    def _sent(self, step: int, count: int) -> bool:
        text = json.dumps(record(step, count, self.sensor)).encode()
        head = f"POST / HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {TOKEN}\r\n"
        head += f"Content-Length: {len(text)}\r\n\r\n"
        try:
            with socket.create_connection(("127.0.0.1", self.port[0]), timeout=PATIENCE_SECONDS) as client:
                client.sendall(head.encode() + text[:20])
                time.sleep(self.chance.random() * 0.005)  # so that kills fall into bodies, too
                client.sendall(text[20:])
                answer = client.recv(4096)
        except OSError:
            return False
        if answer[:12] != b"HTTP/1.1 200":
            if answer:
                self.wrong.append(answer)
            return False
        self.answered[step] = count
        return self.chance.random() < 0.8  # else as if the answer was lost: the same is sent again


@pytest.mark.slow
def test_killed_at_many_random_moments_nothing_is_lost_and_nothing_counts_twice(tmp_path: Path) -> None:
    settings = deployment(tmp_path)
    port = [0]
    clients = [_Client(sensor, port, seed) for seed, sensor in enumerate(SENSORS)]
    chance, kills = random.Random(5), 12
    try:
        for number in range(kills):
            with serving(settings) as running:
                port[0] = running.port
                if number == 0:
                    for client in clients:
                        client.start()
                time.sleep(chance.random() * 0.4)
                os.kill(running.process.pid, signal.SIGKILL)
        with serving(settings) as running:
            port[0] = running.port
            time.sleep(0.3)
            for client in clients:
                client.is_over.set()
                client.join(timeout=PATIENCE_SECONDS)
            assert "payloads taken" in running.stop()
    finally:
        for client in clients:
            client.is_over.set()
    assert [client.wrong for client in clients] == [[], []]
    found = readings(running.folder)
    for client in clients:
        taken = {step: count for (step, sensor), count in found.items() if sensor == client.sensor}
        assert client.answered.items() <= taken.items()
        assert len(taken) - len(client.answered) <= 1, "at most the one that was not answered when it ended"
        assert len(client.answered) > kills


@pytest.mark.slow
def test_a_run_follows_what_comes_in_and_closes_steps_as_it_grows(tmp_path: Path) -> None:
    """Counter to release: the run reads the journal while the receiver writes it."""
    settings = deployment(tmp_path)
    (tmp_path / "priors.json").write_text(
        json.dumps(
            {
                "locations": list(SENSORS),
                "people": [{"person": "p", "initial": None, "transition": [[0.5, 0.5], [0.5, 0.5]]}],
            }
        )
    )
    out = tmp_path / "out"
    with serving(settings) as running:
        words = ["run", "--config", str(settings), "--priors", str(tmp_path / "priors.json"), "--create-keys"]
        words += ["--input", str(running.folder / "messages.jsonl"), "--follow", "--output", str(out)]
        engine = Copy(_RUN, [*words, "--listen", ""], os.environ, tmp_path / "run.log")
        try:
            for step in range(6):
                assert running.send([record(step, step), record(step, 1, "mill")])[0] == 200
            deadline = time.monotonic() + 120
            releases = out / "releases.jsonl"
            while not (releases.exists() and releases.read_bytes().count(b"\n") >= 3):
                assert engine.poll() is None
                assert time.monotonic() < deadline
                time.sleep(0.05)
        finally:
            engine.send_signal(signal.SIGTERM)
            assert engine.wait(timeout=PATIENCE_SECONDS) == 0
    assert (out / "rejected.jsonl").read_bytes() == b""


def test_the_end_of_a_terminal_ends_it_in_order(tmp_path: Path) -> None:
    """As Ctrl-C does: what it was sent is told at the end."""
    with serving(deployment(tmp_path)) as running:
        assert running.send([record(0, 1)])[0] == 200
        assert "1 payload taken, 0 refused." in running.stop(signal.SIGHUP)
        assert running.process.poll() == 0
