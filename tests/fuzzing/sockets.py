"""A door that is a real one: bytes sent to the web server over a socket of this machine."""

from __future__ import annotations

import logging
import re
import socket
from collections.abc import Callable
from contextlib import suppress
from functools import cache

from prometheus_client import CollectorRegistry

from stream_app.watching.events import RunStarted
from stream_app.watching.web import PeopleBoard, StatusBoard, WebServer, serve
from stream_app.watching.web.server import logger
from tests.fuzzing.check import TOKEN, Target, door

_SECONDS = 20.0
_SHORT_SECONDS = 0.05  # more than an answer takes; what is still awaited then is the client's to send
_STATUS = re.compile(rb"HTTP/\d\.\d (\d{3}) ")
_LAST = b"GET /-/healthy HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"


class _Errors(logging.Handler):
    """Keeps what the server calls its own fault."""

    def __init__(self, kept: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._kept = kept

    def emit(self, record: logging.LogRecord) -> None:
        """Until the next request."""
        self._kept.append(record.getMessage())


@cache
def _errors() -> list[str]:
    """Errors of the server since they were last looked at."""
    kept: list[str] = []
    logger.addHandler(_Errors(kept))
    return kept


@cache
def _web() -> WebServer:
    """A server with a page for who holds the token."""
    board = StatusBoard()
    board.started(RunStarted(people=7, next_step=0))
    return serve("127.0.0.1:0", CollectorRegistry(), board, PeopleBoard(TOKEN))


def close_server() -> None:
    """Stop answering."""
    if _web.cache_info().currsize:
        _web().close()
        _web.cache_clear()


def _exchange(data: bytes, patience_seconds: float) -> bytes:
    """What comes until the server hangs up, or waits for more than it was sent."""
    parts = []
    address = ("127.0.0.1", _web().port)
    with socket.create_connection(address, timeout=patience_seconds) as client, suppress(OSError):
        client.sendall(data + _LAST)
        while part := client.recv(2**16):
            parts.append(part)
    return b"".join(parts)


def _request(data: bytes) -> None:
    """Whatever is sent is answered, hung up on or waited for, and the next client is served."""
    errors = _errors()
    errors.clear()
    answer = _exchange(data, _SHORT_SECONDS)
    status = _STATUS.match(answer)  # in whatever version of HTTP was asked in; none is 0.9
    assert answer == b"" or status, "an answer that is none"
    assert status is None or status[1] != b"500", "an error of the server"
    assert TOKEN.encode() not in answer, "the token is told"
    assert b"\r\n\r\n" in _exchange(b"", _SECONDS), "the next client is not served"
    assert not errors, errors[0]


SOCKET: dict[str, Callable[[str], Target]] = {
    "HTTP over a socket": door(
        _request,
        b"GET /people.json?threshold=0.5 HTTP/1.1\r\nHost: 1.1.1.1\r\n"
        b"Authorization: Bearer canary-token\r\n\r\n",
        b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\n\r\nGET / HTTP/1.1\r\n"
        b"Host: localhost\r\n\r\n",
        b"POST /state.json HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\nhello",
        b'HEAD / HTTP/1.0\r\nIf-None-Match: "x"\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n',
        secrets=(TOKEN,),
        quick_inputs=1000,
        seconds=5.0,
    ),
}
