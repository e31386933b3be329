"""The clients of the web server: how many there may be, how long one may take, what is said to the others.

Whoever keeps us waiting longest makes room first: somebody who holds every connection open cannot keep a
health check out.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, Literal, NamedTuple

from aiohttp import web

from stream_app.watching.web.answers import refusal

logger = logging.getLogger(__name__)

MOST_CONNECTIONS = 256
PATIENCE_SECONDS = 10.0  # for a whole request, between two of them, and for the reading of an answer
HEADERS = {
    "Server": "tallyguard",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
}
_LONGEST_LINE = 4096  # bytes: of the request line, and of each header
_MOST_HEADERS = 64
_NO_LINGERING = struct.pack("ii", 1, 0)
_NEVER_SECONDS = 3600.0
_LINGER_SECONDS = 1.0  # a refused body is read so long, that its sender may read why


class _Wait(NamedTuple):
    """Since when we wait for a client, and for what."""

    since_seconds: float
    what: Literal["first request", "next request", "reading"]


class Connection(web.RequestHandler):
    """One client; an error is reported in a few words of ours, never in the client's, and never at length."""

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The answer to what cannot be read, or could not be answered; the connection ends with it."""
        if isinstance(exc, ConnectionError):  # the client has hung up
            raise exc
        level = logging.ERROR if status >= HTTPStatus.INTERNAL_SERVER_ERROR else logging.DEBUG
        logger.log(level, "a request got status %d: %s", status, type(exc).__name__)
        if request.writer.output_size > 0:
            raise ConnectionError("an answer has begun already")
        answer = refusal(HTTPStatus(status))
        headers = {**HEADERS, "Content-Type": answer.content_type}
        response = web.Response(status=status, body=answer.body, headers=headers)
        response.force_close()
        return response


class Connections(web.Server):
    """Makes a :class:`Connection` of each client, and ends those that take too long or are too many."""

    def __init__(self, handler: Any) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._open: dict[web.RequestHandler, asyncio.Transport] = {}
        self._waits: dict[web.RequestHandler, _Wait] = {}  # the longest first

    def __call__(self) -> web.RequestHandler:
        """A protocol for a new client."""
        return Connection(
            self,
            loop=asyncio.get_running_loop(),
            logger=logger,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes none for an answer
            keepalive_timeout=_NEVER_SECONDS,  # an end by aiohttp would not say why
            max_line_size=_LONGEST_LINE,
            max_field_size=_LONGEST_LINE,
            max_headers=_MOST_HEADERS,
            lingering_time=_LINGER_SECONDS,
            auto_decompress=False,
        )

    def connection_made(self, handler: web.RequestHandler, transport: asyncio.Transport) -> None:
        """A client has come; another one may have to go."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        self._wait(handler, "first request")
        if len(self._open) > MOST_CONNECTIONS:
            self._end(next(iter(self._waits)), HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """A client has gone."""
        self._open.pop(handler, None)
        self._waits.pop(handler, None)
        super().connection_lost(handler, exc)

    @contextmanager
    def serving(self, handler: web.RequestHandler) -> Iterator[None]:
        """While a request is at work, which is not the client's time."""
        self._waits.pop(handler, None)
        try:
            yield
        finally:
            self._wait(handler, "next request")

    @contextmanager
    def sending(self, handler: web.RequestHandler) -> Iterator[None]:
        """While a client reads what it is sent, within ``serving``."""
        self._wait(handler, "reading")
        try:
            yield
        finally:
            self._waits.pop(handler, None)

    async def watch(self) -> None:
        """End those who take too long; until cancelled."""
        while True:
            await asyncio.sleep(PATIENCE_SECONDS / 10)
            now = time.monotonic()
            for handler, wait in list(self._waits.items()):
                if now - wait.since_seconds > PATIENCE_SECONDS:
                    self._end(handler, HTTPStatus.REQUEST_TIMEOUT)

    def _wait(self, handler: web.RequestHandler, what: Any) -> None:
        self._waits.pop(handler, None)
        if handler in self._open:
            self._waits[handler] = _Wait(time.monotonic(), what)

    def _end(self, handler: web.RequestHandler, status: HTTPStatus) -> None:
        """Tell a client that has not asked yet why it is ended; others know what they left unread."""
        transport, wait = self._open[handler], self._waits.pop(handler)
        if wait.what == "first request" and not transport.is_closing():
            transport.set_protocol(_Deaf(handler))
            transport.write(_in_full(status))
            transport.write_eof()
            self._wait(handler, "reading")
        else:
            del self._open[handler]
            _reset(transport)


class _Deaf(asyncio.Protocol):
    """Takes what a client goes on sending: closed at once, it would be reset and lose its answer."""

    def __init__(self, handler: web.RequestHandler) -> None:
        self._handler = handler

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has gone; who served it before lets go of it."""
        self._handler.connection_lost(exc)


def _reset(transport: asyncio.Transport) -> None:
    """End a connection with all that its client has not read: the system would go on keeping it."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
    transport.abort()


def _in_full(status: HTTPStatus) -> bytes:
    """An answer to somebody who has sent no request."""
    answer = refusal(status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body
