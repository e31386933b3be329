"""The web server beside the engine: metrics, probes, the page, its live events and single people.

aiohttp on a thread and an event loop of its own. What is at a path is
:func:`~stream_app.watching.web.answers.respond`'s business; this is who gets it, when, and how often it is
made.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from http import HTTPStatus

from aiohttp import web
from prometheus_client import CollectorRegistry

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings
from stream_app.watching.web.answers import PEOPLE_PATHS, Site, WebAnswer, path_of, refusal, respond
from stream_app.watching.web.connections import HEADERS, Connections, logger
from stream_app.watching.web.hosts import is_own_host
from stream_app.watching.web.people_board import PeopleBoard
from stream_app.watching.web.shared import Shared
from stream_app.watching.web.status import StatusBoard

HEARTBEAT_SECONDS = 5.0  # so that a silent engine is not taken for a lost one
PICTURE_SECONDS = 0.2  # at most five pictures a second
MOST_LISTENERS = 64
MOST_LISTENERS_OF_ONE = MOST_LISTENERS // 2  # addresses, so that nobody can shut all others out
_PIECE_BYTES = 2**16  # of an answer are held for a client that reads slowly
_CLOSING_SECONDS = 1.0
_REFUSED = {
    errno.EADDRINUSE: ("must be free on this machine", "choose another, or port 0 for any"),
    errno.EACCES: ("must be open to this user", "choose a port from 1024 on"),
    errno.EADDRNOTAVAIL: ("must be one of this machine's own", "name one of those, or 0.0.0.0 for all"),
}


class WebServer:
    """A running server; a context manager that stops it. ``address`` is what a browser takes."""

    def __init__(self, listening: socket.socket, site: Site) -> None:
        self._listening = listening
        self._host, self.port = listening.getsockname()[:2]
        self._site = site
        self._loop = asyncio.new_event_loop()
        self._closing = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="web", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """URL of the page."""
        host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(self._host, self._host)
        return f"http://{f'[{host}]' if ':' in host else host}:{self.port}/"

    def close(self) -> None:
        """Stop answering."""
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        self._loop.set_exception_handler(_say_briefly)
        visits = _Visits(self._site, self._closing)
        listening = await self._loop.create_server(visits.connections, sock=self._listening)
        watching = asyncio.create_task(visits.connections.watch())
        await self._closing.wait()
        listening.close()
        await visits.connections.shutdown(_CLOSING_SECONDS)
        watching.cancel()
        visits.close()


class _Visits:
    """Everybody's requests, one at a time each."""

    def __init__(self, site: Site, closing: asyncio.Event) -> None:
        self._site = site
        self._closing = closing
        self._shared = {
            "/state.json": Shared(lambda: respond("/state.json", "", site), lambda: site.board.version),
            "/metrics": Shared(lambda: respond("/metrics", "", site)),
        }
        self._listeners: Counter[str] = Counter()
        self._work = ThreadPoolExecutor(1, thread_name_prefix="web-work")
        self.connections = Connections(self._visit)

    def close(self) -> None:
        """Begin no more work."""
        self._work.shutdown(wait=False, cancel_futures=True)

    async def _visit(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.connections.serving(request.protocol):
            names = () if self._site.about is None else self._site.about.listen_names
            if not is_own_host(request.headers.get("Host"), names):
                return await self._send(request, refusal(HTTPStatus.MISDIRECTED_REQUEST))
            if request.method not in ("GET", "HEAD"):
                return await self._send(request, refusal(HTTPStatus.METHOD_NOT_ALLOWED))
            if request.body_exists:
                return await self._send(request, refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
            path = path_of(request.path_qs)
            if path == "/events" and request.method == "GET":
                return await self._listen(request)
            return await self._send(request, await self._answer(path, request))

    async def _answer(self, path: str | None, request: web.BaseRequest) -> WebAnswer:
        """What is costly to make is made once for all; what is work for one does not keep others waiting."""
        if path in self._shared:
            return await self._shared[path].get()
        arguments = request.path_qs, request.headers.get("Authorization", ""), self._site
        if path in PEOPLE_PATHS:
            return await asyncio.get_running_loop().run_in_executor(self._work, respond, *arguments)
        return respond(*arguments)

    async def _send(self, request: web.BaseRequest, answer: WebAnswer) -> web.StreamResponse:
        """One answer, or word that the client has it already."""
        headers = {**HEADERS, "Content-Security-Policy": answer.policy}
        if answer.etag:
            headers |= {"ETag": answer.etag, "Cache-Control": "no-cache"}  # kept, and asked about each time
        if answer.etag and answer.etag in request.headers.get("If-None-Match", ""):
            response = web.StreamResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
            body = b""
        else:
            headers["Content-Type"] = answer.content_type
            response = web.StreamResponse(status=answer.status, headers=headers)
            response.content_length = len(answer.body)
            body = b"" if request.method == "HEAD" else answer.body
        if answer.status >= HTTPStatus.BAD_REQUEST and request.body_exists:
            response.force_close()
        await response.prepare(request)
        await self._write(request, response, body)
        await response.write_eof()
        return response

    async def _listen(self, request: web.BaseRequest) -> web.StreamResponse:
        """Server-sent events: the picture now, and again whenever it changes, until somebody hangs up."""
        listener = request.remote or ""
        if self._listeners[listener] >= MOST_LISTENERS_OF_ONE:
            return await self._send(request, refusal(HTTPStatus.TOO_MANY_REQUESTS))
        if self._listeners.total() >= MOST_LISTENERS:
            return await self._send(request, refusal(HTTPStatus.SERVICE_UNAVAILABLE))
        headers = {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"}
        response = web.StreamResponse(headers=headers)
        response.force_close()
        self._listeners[listener] += 1
        try:
            await response.prepare(request)
            await self._send_pictures(request, response)
        finally:
            self._listeners[listener] -= 1
        return response

    async def _send_pictures(self, request: web.BaseRequest, response: web.StreamResponse) -> None:
        seen, spoke = -1, time.monotonic()
        is_last = False
        while not is_last:
            is_last = self._closing.is_set()
            version = self._site.board.version
            if version != seen:
                picture = await self._shared["/state.json"].get()
                await self._write(request, response, b"event: state\ndata: ", picture.body, b"\n\n")
                seen, spoke = version, time.monotonic()
            elif time.monotonic() - spoke >= HEARTBEAT_SECONDS:
                await self._write(request, response, b"event: heartbeat\ndata: \n\n")
                spoke = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PICTURE_SECONDS)

    async def _write(self, request: web.BaseRequest, response: web.StreamResponse, *parts: bytes) -> None:
        """Send piece by piece, as fast as the client reads."""
        with self.connections.sending(request.protocol):
            for part in parts:
                view = memoryview(part)
                for begin in range(0, len(view), _PIECE_BYTES):
                    await response.write(view[begin : begin + _PIECE_BYTES])


def serve(
    listen: str,
    registry: CollectorRegistry,
    board: StatusBoard,
    people: PeopleBoard | None = None,
    about: Settings | None = None,
) -> WebServer:
    """Serve on ``host:port`` (port 0: any free one); :class:`SettingsError` where that is not possible.

    Without ``people`` nobody sees single people; ``about`` is what the page says of the deployment.
    """
    return WebServer(listening_socket(listen), Site(registry, board, people, about))


def parse_address(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``; the host is loopback where it is left out."""
    host, _, port = listen.rpartition(":")
    if not (port.isascii() and port.isdecimal() and int(port) < 2**16):
        raise SettingsError(
            "listen must be host:port, the port at most 65535",
            repr(listen),
            "write for example 127.0.0.1:9464",
        )
    return host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port)


def listening_socket(listen: str) -> socket.socket:
    """A socket that listens there; :class:`SettingsError` where that is not possible."""
    host, port = parse_address(listen)
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=128)
    except (socket.gaierror, UnicodeError) as error:
        raise SettingsError(
            f"the host of listen address {listen} must be known here",
            error,
            "name an address of this machine, 127.0.0.1 or 0.0.0.0 for all of them",
        ) from error
    except OSError as error:
        must, remedy = _REFUSED.get(error.errno or 0, _REFUSED[errno.EADDRNOTAVAIL])
        raise SettingsError(f"listen address {listen} {must}", error.strerror, remedy) from error


def _say_briefly(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """A client that breaks off is no news, and never a page of it."""
    logger.debug("the web server: %s (%s)", context["message"], type(context.get("exception")).__name__)
