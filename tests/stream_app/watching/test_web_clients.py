"""Clients of the web server that are slow, many or hostile: answered briefly, never at others' cost."""

from __future__ import annotations

import json
import logging
import re
import socket
import time
import zlib
from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from models.releases import Sensor
from stream_app.exceptions import SettingsError
from stream_app.watching.events import RunStarted
from stream_app.watching.web import PeopleBoard, StatusBoard, WebServer, answers, serve, server
from stream_app.wire.messages import Reason
from tests.stream_app.events_for_tests import closed

SECONDS = 20.0
HEALTHY = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\n\r\n"
LAST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
EVENTS = b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture
def board() -> StatusBoard:
    """A running engine with a thousand sensors: a picture that no socket swallows whole."""
    board = StatusBoard(tuple(Sensor(f"sensor {i}" + "x" * 500, (i,), "all") for i in range(3000)))
    board.started(RunStarted(people=7, next_step=0))
    board.closed(closed(0))
    return board


@pytest.fixture
def web(board: StatusBoard, caplog: pytest.LogCaptureFixture) -> Iterator[WebServer]:
    """A server; nothing that clients do may reach the log as more than a few words."""
    caplog.set_level(logging.DEBUG)
    people = PeopleBoard("a token of some length")
    with serve("127.0.0.1:0", CollectorRegistry(), board, people) as running:
        yield running
    assert not [record for record in caplog.records if record.exc_info]
    assert not [record for record in caplog.records if record.levelno > logging.INFO]


def connect(web: WebServer, data: bytes = b"") -> socket.socket:
    client = socket.create_connection(("127.0.0.1", web.port), timeout=SECONDS)
    client.sendall(data)
    return client


def rest(client: socket.socket) -> bytes:
    """Everything until the server hangs up."""
    parts = []
    try:
        while part := client.recv(2**16):
            parts.append(part)
    except ConnectionResetError:
        pass
    client.close()
    return b"".join(parts)


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.[01] (\d+) ", answer)
    assert found, answer[:100]
    return int(found[1])


def said(answer: bytes) -> str:
    """The sentence of a refusal."""
    sentence: str = json.loads(answer.partition(b"\r\n\r\n")[2])["error"]
    return sentence


def until(client: socket.socket, end: bytes) -> bytes:
    """What comes, up to and with these bytes."""
    got = bytearray()
    while got.find(end, max(0, len(got) - 2**16 - len(end))) < 0:
        part = client.recv(2**16)
        assert part, got[:200]
        got.extend(part)
    return bytes(got)


@pytest.mark.parametrize(
    ("request_bytes", "expected"),
    [
        (b"GET http://[ HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://[::1 HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (b"GET http://here:99999999/ HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", 400),
        (b"nonsense\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400),
        (b"GET / HTTP/9.9\r\n\r\n", 400),
        (b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + b"".join(b"X%d: y\r\n" % i for i in range(1000)) + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n", 400),
        (
            b"POST /state.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
            405,
        ),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n123456789", 413),
        (
            b"GET / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
            413,
        ),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99999999999\r\n\r\n", 413),
        (
            b"GET /people.json HTTP/1.1\r\nHost: 0.0.0.0\r\nAuthorization: \xff\xfe\r\n"
            b"Connection: close\r\n\r\n",
            401,
        ),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
    ],
)
def test_a_request_that_cannot_be_served_is_refused_in_words(
    web: WebServer, request_bytes: bytes, expected: int
) -> None:
    """A status and a short sentence, nothing of what was sent and no traceback; the next client is served."""
    answer = rest(connect(web, request_bytes))
    assert status(answer) == expected
    assert 0 < len(said(answer)) < 80
    assert b"Traceback" not in answer
    assert b"aaa" not in answer
    assert status(rest(connect(web, LAST))) == 200


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.binary(max_size=300), st.lists(st.sampled_from(HEALTHY.split(b" ")), max_size=12)))
def test_whatever_bytes_come_the_server_answers_or_hangs_up(
    web: WebServer, sent: bytes | list[bytes]
) -> None:
    client = connect(web)
    try:
        client.sendall(sent if isinstance(sent, bytes) else b" ".join(sent))
        client.shutdown(socket.SHUT_WR)
    except OSError:  # it has hung up already
        pass
    answer = rest(client)
    assert not answer or status(answer) in (200, 400, 404, 405, 413)
    assert b"Traceback" not in answer


@pytest.mark.slow
def test_who_does_not_finish_a_request_is_told_and_cut_off(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A head that trickles in, byte by byte, has no more time than one that stands still.

    It goes on after the answer, which it can read all the same, and has as long for that.
    """
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    silent, trickling = connect(web), connect(web, b"GET / HTTP/1.1\r\n")
    began = time.monotonic()
    trickling.settimeout(0.02)
    answer = b""
    while not answer and time.monotonic() - began < SECONDS:
        try:
            trickling.sendall(b"X")
            answer = trickling.recv(2**16)
        except TimeoutError:
            pass
    assert status(answer) == 408
    assert said(answer) == "the request took too long"
    assert status(rest(silent)) == 408
    trickling.sendall(b"X")
    assert trickling.recv(1) == b""
    while not is_reset(trickling):
        assert time.monotonic() - began < SECONDS


def test_a_kept_connection_serves_request_after_request_and_is_let_go_when_idle(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = connect(web)
    for _ in range(3):
        client.sendall(HEALTHY)
        assert status(until(client, b"}")) == 200
    client.sendall(HEALTHY * 200)
    got = b""
    while got.count(b"HTTP/1.1 200") < 200 or not got.endswith(b"}"):
        got += client.recv(2**16)
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.3)
    assert rest(client) == b""


@pytest.mark.slow
def test_who_reads_too_slowly_is_cut_off_and_holds_little(
    web: WebServer, board: StatusBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server, "PATIENCE_SECONDS", 0.5)
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.settimeout(SECONDS)
    reader.connect(("127.0.0.1", web.port))
    reader.sendall(b"GET /state.json HTTP/1.1\r\nHost: localhost\r\n\r\n" * 20)
    deadline = time.monotonic() + SECONDS
    while not is_reset(reader):
        assert time.monotonic() < deadline
    assert status(rest(connect(web, LAST))) == 200


def is_reset(client: socket.socket) -> bool:
    """Whether the server has thrown the connection away, asked without reading from it."""
    return client.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != 0


@pytest.mark.slow
def test_thousands_of_silent_connections_keep_no_health_check_out(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has waited longest makes room, and is told why."""
    monkeypatch.setattr(server, "MOST_CONNECTIONS", 20)
    first = [connect(web) for _ in range(10)]
    for _ in range(40):
        others = [connect(web) for _ in range(50)]
        assert status(rest(connect(web, LAST))) == 200
        for other in others:
            other.close()
    assert {status(rest(client)) for client in first} == {503}


def test_one_address_cannot_take_every_place_of_a_live_page(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beyond its share 429, beyond everybody's 503; who hangs up leaves the place to another."""
    listening = [connect(web, EVENTS) for _ in range(server.MOST_LISTENERS_OF_ONE)]
    for listener in listening:
        assert status(until(listener, b"\n\n")) == 200
    assert status(rest(connect(web, EVENTS + LAST))) == 429
    monkeypatch.setattr(server, "MOST_LISTENERS_OF_ONE", 1000)
    monkeypatch.setattr(server, "MOST_LISTENERS", len(listening))
    assert status(rest(connect(web, EVENTS + LAST))) == 503
    listening.pop().close()
    deadline = time.monotonic() + SECONDS
    while status(until(again := connect(web, EVENTS), b"\r\n\r\n")) != 200:
        assert time.monotonic() < deadline
        again.close()
    for listener in (again, *listening):
        listener.close()


def test_the_picture_is_made_once_for_all_who_look(
    web: WebServer, board: StatusBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a change, however many listen and ask."""
    made = []
    real = answers.state_json

    def counting(*args: object, **named: object) -> str:
        made.append(1)
        return real(*args, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(answers, "state_json", counting)
    listening = [connect(web, EVENTS) for _ in range(12)]
    for listener in listening:
        until(listener, b"\n\n")
    request = b"GET http://here/state.json HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    for path in (request, request.replace(b"http://here", b"")):
        assert b'"people":200' in rest(connect(web, path))
    assert len(made) == 1
    board.rejected(Reason.NOT_JSON)
    for listener in listening:
        assert b'"rejected":1' in until(listener, b"\n\n")
        listener.close()
    assert len(made) == 2


def test_who_takes_gzip_is_sent_a_tenth(web: WebServer, board: StatusBoard) -> None:
    """The picture and each event of a live page are packed, and say the same."""
    client = HTTPConnection("127.0.0.1", web.port, timeout=SECONDS)
    client.request("GET", "/state.json", headers={"Accept-Encoding": "identity"})
    plain = client.getresponse().read()
    client.request("GET", "/state.json", headers={"Accept-Encoding": "gzip"})
    packed = client.getresponse().read()
    assert len(packed) < len(plain) / 10
    assert zlib.decompress(packed, 31) == plain
    client.request("GET", "/events", headers={"Accept-Encoding": "gzip"})
    events, unpack = client.getresponse(), zlib.decompressobj(31)
    for rejected in (0, 1):
        event = b""
        while not event.endswith(b"\n\n"):
            event += unpack.decompress(events.read1(2**16))
        assert b'"rejected":%d' % rejected in event
        board.rejected(Reason.NOT_JSON)
    client.close()


@pytest.mark.parametrize(
    ("offered", "is_packed"),
    [("gzip;q=0", False), ("deflate, GZIP; q=0.000", False), ("gzip;q=0.5", True), ("br, GZIP", True)],
)
def test_who_says_it_cannot_read_gzip_is_sent_none(web: WebServer, offered: str, is_packed: bool) -> None:
    client = HTTPConnection("127.0.0.1", web.port, timeout=SECONDS)
    client.request("GET", "/state.json", headers={"Accept-Encoding": offered})
    answer = client.getresponse()
    assert (answer.getheader("Content-Encoding") == "gzip") == is_packed
    client.close()


@pytest.mark.parametrize(
    ("method", "path", "header", "value"),
    [
        ("DELETE", "/metrics", "Allow", "GET, HEAD"),
        ("GET", "/take", "Allow", "POST"),
        ("GET", "/people.json", "WWW-Authenticate", "Bearer"),
    ],
)
def test_a_refusal_says_by_its_header_what_is_taken(
    web: WebServer, method: str, path: str, header: str, value: str
) -> None:
    """HTTP asks for it (RFC 9110), and clients and proxies go by it."""
    client = HTTPConnection("127.0.0.1", web.port, timeout=SECONDS)
    client.request(method, path)
    assert client.getresponse().getheader(header) == value
    client.close()


@pytest.mark.slow
def test_the_tokens_scheme_may_be_written_in_any_case(web: WebServer) -> None:
    client = HTTPConnection("127.0.0.1", web.port, timeout=SECONDS)
    client.request("GET", "/people.json", headers={"Authorization": "bearer a token of some length"})
    assert client.getresponse().status == 200
    client.close()


def test_metrics_are_made_once_for_those_who_ask_together(
    web: WebServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While one answer is made, everybody else waits for the next, and no longer."""
    made = []
    real = answers.generate_latest

    def slow(registry: CollectorRegistry) -> bytes:
        made.append(1)
        deadline = time.monotonic() + 0.05
        while time.monotonic() < deadline:
            pass
        return real(registry)

    monkeypatch.setattr(answers, "generate_latest", slow)
    clients = [
        connect(web, b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        for _ in range(30)
    ]
    assert {status(rest(client)) for client in clients} == {200}
    assert len(made) < 6


def test_who_has_the_picture_already_is_not_sent_it_again(web: WebServer, board: StatusBoard) -> None:
    def ask(path: bytes, tag: bytes = b"") -> tuple[int, bytes]:
        answer = rest(
            connect(
                web,
                b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nIf-None-Match: %s\r\n\r\n"
                % (path, tag),
            )
        )
        found = re.search(rb'ETag: ("\w+")', answer)
        assert found
        return status(answer), found[1]

    for path in (b"/state.json", b"/page.js"):
        code, tag = ask(path)
        assert (code, ask(path, tag)) == (200, (304, tag))
    code, tag = ask(b"/state.json")
    board.rejected(Reason.NOT_JSON)
    assert ask(b"/state.json", tag)[0] == 200


@pytest.mark.slow
def test_what_is_said_of_single_people_is_kept_nowhere(web: WebServer) -> None:
    """Not in a browser's cache, whose files outlive the token."""
    request = (
        b"GET /people.json HTTP/1.1\r\nHost: 0.0.0.0\r\nAuthorization: Bearer %s\r\nConnection: close\r\n\r\n"
    )
    answer = rest(connect(web, request % b"a token of some length"))
    assert status(answer) == 200
    assert b"Cache-Control: no-store\r\n" in answer


def test_head_gives_the_head_alone(web: WebServer) -> None:
    head, _, body = rest(
        connect(web, b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    ).partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    assert length
    assert int(length[1]) > 1000
    assert body == b""


@pytest.mark.parametrize(
    ("listen", "words"),
    [
        ("192.0.2.1:0", "must be one of this machine's own.*name one of those"),
        ("no-such-host.invalid:0", "host of listen address .* must be known here.*0.0.0.0"),
        ("127.0.0.1:70000", "the port at most 65535"),
        ("127.0.0.1:²", "must be host:port"),
    ],
)
def test_an_address_that_cannot_be_listened_on_is_an_error_with_a_remedy(listen: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        serve(listen, CollectorRegistry(), StatusBoard())


def test_a_port_that_is_not_for_this_user_is_an_error_with_a_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: object, **named: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(socket, "create_server", refuse)
    with pytest.raises(SettingsError, match=r"must be open to this user.*port from 1024"):
        serve("127.0.0.1:80", CollectorRegistry(), StatusBoard())


def test_it_listens_on_ipv6_where_that_is_asked_for(board: StatusBoard) -> None:
    if not socket.has_ipv6:
        pytest.skip("this machine has no IPv6")
    try:
        running = serve("[::1]:0", CollectorRegistry(), board)
    except SettingsError:
        pytest.skip("this machine has no IPv6 loopback")
    with running:
        assert running.address == f"http://[::1]:{running.port}/"
