"""The web server beside the engine: metrics, probes, the page, its live events and single people.

aiohttp on a thread and an event loop of its own. What is at a path is
:func:`~stream_app.watching.web.answers.respond`'s business; this is who gets it, when, and how often it is
made.
"""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import math
import re
import socket
import struct
import threading
import time
import zlib
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from ipaddress import ip_address
from typing import Any, Literal, NamedTuple
from urllib.parse import unquote

from aiohttp import web
from prometheus_client import CollectorRegistry, ProcessCollector

from models.releases import Sensor
from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observer, Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import (
    PEOPLE_PATHS,
    PLAN_PATHS,
    TAKE,
    UNREADABLE,
    Planner,
    Site,
    WebAnswer,
    path_of,
    refusal,
    respond,
)
from stream_app.watching.web.status import PeopleBoard, StatusBoard

# One answer for all clients that ask for the same: made again when it is out of date, in a bounded share of
# the time.

_REST = 9.0  # times the making of an answer, so that making takes at most a tenth of the time
_MOST_REST_SECONDS = 3.0


class SharedAnswer:
    """A costly answer: a request gets one made after it came, or the last one if that still holds.

    ``version`` changes when there is anything new; without it, always.
    """

    def __init__(
        self,
        make: Callable[[], WebAnswer],
        version: Callable[[], object] = object,
        pool: ThreadPoolExecutor | None = None,
    ) -> None:
        """What takes long is made on a thread of the ``pool``, so that others are answered meanwhile.

        It rests as its share of the time demands, however long that is.
        """
        self._make = make
        self._pool = pool
        self._most_rest = _MOST_REST_SECONDS if pool is None else math.inf
        self._read_version = version
        self._making = asyncio.Lock()
        self._answer: WebAnswer | None = None
        self._version: object = None
        self._began_seconds = 0.0
        self._rested_seconds = 0.0

    @property
    def age_seconds(self) -> float:
        """How long ago it was begun; infinite where there is none yet."""
        return time.monotonic() - self._began_seconds if self._answer else math.inf

    async def get(self) -> WebAnswer:
        """The answer, now or as soon as it may be made again; all who wait get the same."""
        requested_seconds = time.monotonic()
        async with self._making:
            is_fresh = self._began_seconds >= requested_seconds or self._version == self._read_version()
            if self._answer is None or not is_fresh:
                await asyncio.sleep(self._rested_seconds - time.monotonic())
                self._answer = await self._made()
            return self._answer

    async def _made(self) -> WebAnswer:
        self._version, self._began_seconds = self._read_version(), time.monotonic()
        if self._pool is None:
            answer = self._make()
        else:
            answer = await asyncio.get_running_loop().run_in_executor(self._pool, self._make)
        ended = time.monotonic()
        self._rested_seconds = ended + min(_REST * (ended - self._began_seconds), self._most_rest)
        return answer


# Host names that the server answers to: another site must not read it through a visitor's browser.
#
# A site can make its own name resolve to this machine's address (DNS rebinding). The browser then treats what
# the engine answers as that site's own, but it sends the site's name as ``Host``. Addresses cannot be
# rebound, and names of the loopback belong to this machine; any other name must be in the settings.

_LOOPBACK = "localhost"


def is_own_host(host: str | None, names: Iterable[str]) -> bool:
    """Whether a ``Host`` header names this server; ``names`` are those of the settings, without ports."""
    if host is None:  # HTTP/1.0, which browsers do not speak
        return True
    name = host.strip().lower()
    name = name[1:].partition("]")[0] if name.startswith("[") else name.partition(":")[0]
    name = name.removesuffix(".")
    try:
        ip_address(name)
    except ValueError:
        return name == _LOOPBACK or name.endswith(f".{_LOOPBACK}") or name in {n.lower() for n in names}
    return True


# Clients of the web server: how many there may be, how long each may take, and how the others are refused.
#
# If there are too many, the connection that has kept the server waiting longest is ended first: a client that
# holds many connections open cannot shut out a health check.

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
    """One client. An error is reported in a few words that never quote it, and without a traceback."""

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
    """Makes a :class:`Connection` for each client, and ends those that take too long or are too many."""

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
        """A client has connected; another one may have to be ended for it."""
        super().connection_made(handler, transport)
        self._open[handler] = transport
        self._wait(handler, "first request")
        if len(self._open) > MOST_CONNECTIONS:
            self._end(next(iter(self._waits)), HTTPStatus.SERVICE_UNAVAILABLE)

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        """A client has disconnected."""
        self._open.pop(handler, None)
        self._waits.pop(handler, None)
        super().connection_lost(handler, exc)

    @contextmanager
    def serving(self, handler: web.RequestHandler) -> Iterator[None]:
        """While a request is being answered: this time does not count as the client's."""
        self._waits.pop(handler, None)
        try:
            yield
        finally:
            self._wait(handler, "next request")

    @contextmanager
    def sending(self, handler: web.RequestHandler) -> Iterator[None]:
        """While a client reads what it is sent, inside ``serving``."""
        self._wait(handler, "reading")
        try:
            yield
        finally:
            self._waits.pop(handler, None)

    async def serve(
        self, closing: asyncio.Event, seconds: float, *work: Coroutine[Any, Any, None], **listening: Any
    ) -> None:
        """Answer until ``closing`` is set, with other ``work`` beside it; clients then have some seconds.

        ``listening`` says where, as :meth:`asyncio.loop.create_server` takes it.
        """
        server = await asyncio.get_running_loop().create_server(self, **listening)
        tasks = [asyncio.create_task(each) for each in (self._watch(), *work)]
        await closing.wait()
        server.close()
        await self.shutdown(seconds)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        """End clients that take too long, until cancelled."""
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
        """End a client. One that has not sent a request yet is told why; the others left an answer unread."""
        transport, wait = self._open[handler], self._waits.pop(handler)
        if wait.what == "first request" and not transport.is_closing():
            transport.set_protocol(_DiscardInput(handler))
            transport.write(_raw_answer(status))
            transport.write_eof()
            self._wait(handler, "reading")
        else:
            del self._open[handler]
            _reset(transport)


class _DiscardInput(asyncio.Protocol):
    """Discards what a client still sends: if closed at once, the connection would be reset unread."""

    def __init__(self, handler: web.RequestHandler) -> None:
        self._handler = handler

    def connection_lost(self, exc: Exception | None) -> None:
        """The client has disconnected: tell the handler that served it before."""
        self._handler.connection_lost(exc)


def _reset(transport: asyncio.Transport) -> None:
    """End a connection and drop what its client has not read, which the system would keep otherwise."""
    transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGERING)
    transport.abort()


def _raw_answer(status: HTTPStatus) -> bytes:
    answer = refusal(status)
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nContent-Type: {answer.content_type}\r\n"
        f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + answer.body


HEARTBEAT_SECONDS = 5.0  # so that the page can tell an idle engine from a lost one
PICTURE_SECONDS = 0.2  # at most five pictures a second
MOST_LISTENERS = 64
MOST_LISTENERS_OF_ONE = MOST_LISTENERS // 2  # from one address, which cannot shut out all others then
_PIECE_BYTES = 2**16  # of an answer are held for a client that reads slowly
_CLOSING_SECONDS = 1.0
_STATE, _ANSWER = "/state.json", "/answer.json"
_SHARED = (_STATE, "/metrics", _ANSWER)
_LOOK_SECONDS = 1.0  # between two looks whether a run has gone on
_UNWATCHED_SECONDS = 60.0  # an answer that nobody waits for is read no more often
_SMALL = 2**11  # bytes that are not worth packing
_GZIP = 16 + zlib.MAX_WBITS
_MOST_BODY = 2**16  # bytes of a plan that is taken
_REFUSED = {
    errno.EADDRINUSE: ("must be free on this machine", "choose another with --listen, or port 0 for any"),
    errno.EACCES: ("must be open to this user", "choose a port from 1024 on"),
    errno.EADDRNOTAVAIL: ("must be one of this machine's own", "name one of those, or 0.0.0.0 for all"),
}


class WebServer:
    """A running server; a context manager that stops it. ``address`` is what a browser takes."""

    def __init__(self, listening: socket.socket, *sites: Site) -> None:
        """The first site is at ``/``; each is at ``/name/``, too, where it has a name."""
        self._listening = listening
        self._host, self.port = listening.getsockname()[:2]
        self._sites = sites
        self.has_answers = threading.Event()
        """Set once the answer of each site was read."""
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
        self._loop.set_exception_handler(_log_briefly)
        requests = _Requests(self._sites, self._closing)
        reading = requests.keep_answers(self.has_answers)
        await requests.connections.serve(self._closing, _CLOSING_SECONDS, reading, sock=self._listening)
        requests.close()


class _Requests:
    def __init__(self, sites: Sequence[Site], closing: asyncio.Event) -> None:
        self._first = sites[0]
        self._named = {site.name: site for site in sites if site.name}
        self._closing = closing
        self._work = ThreadPoolExecutor(1, thread_name_prefix="web-work")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="web-answer")
        self._planning = ThreadPoolExecutor(1, thread_name_prefix="web-plans")
        self._choosing = ThreadPoolExecutor(1, thread_name_prefix="web-choice")  # while a slider moves
        self._sites = sites
        self._bodies: dict[int, bytes] = {}  # the last answer of each site,
        self._verdicts: dict[int, Mapping[str, Any]] = {}  # and what it says
        self._shared = {(id(site), path): self._share(site, path) for site in sites for path in _SHARED}
        self._listeners: Counter[str] = Counter()
        self.connections = Connections(self._visit)

    def _share(self, site: Site, path: str) -> SharedAnswer:
        if path == _ANSWER:

            def closed() -> object:
                status, last = site.board.read(), self._verdicts.get(id(site), {})
                is_unread = last.get("sentence") == UNREADABLE  # perhaps not written yet: look again
                return object() if is_unread else (status.next_step, status.phase)

            return SharedAnswer(lambda: respond(path, "", site), closed, self._reading)
        version = object if path == "/metrics" else lambda: self._version(site)
        return SharedAnswer(lambda: respond(path, "", site, b"", self._verdicts.get(id(site))), version)

    def _version(self, site: Site) -> object:
        return site.board.version, self._bodies.get(id(site))

    async def keep_answers(self, is_read: threading.Event) -> None:
        """Read each site's answer as its run goes on, so that it is there with the page; until cancelled."""
        while True:
            for site in self._sites:
                status, shared = site.board.read(), self._shared[id(site), _ANSWER]
                is_due = self._listeners.total() or shared.age_seconds > _UNWATCHED_SECONDS
                if site.answer is None or not is_due or not (status.next_step or status.phase == "stopped"):
                    continue
                read = (await shared.get()).body
                if read != self._bodies.get(id(site)):
                    self._bodies[id(site)], self._verdicts[id(site)] = read, json.loads(read)
            is_read.set()
            await asyncio.sleep(_LOOK_SECONDS)

    def _site_of(self, target: str) -> tuple[Site, str]:
        name, slash, rest = target.removeprefix("/").partition("/")
        site = self._named.get(unquote(name)) if slash else None
        return (self._first, target) if site is None else (site, f"/{rest}")

    def close(self) -> None:
        """Cancel work that has not begun."""
        for pool in (self._work, self._reading, self._planning, self._choosing):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _visit(self, request: web.BaseRequest) -> web.StreamResponse:
        with self.connections.serving(request.protocol):
            site, target = self._site_of(request.path_qs)
            names = () if site.about is None else site.about.listen_names
            if not is_own_host(request.headers.get("Host"), names):
                return await self._send(request, refusal(HTTPStatus.MISDIRECTED_REQUEST))
            path = path_of(target)
            if request.method not in ("GET", "HEAD") and not (request.method == "POST" and path == TAKE):
                return await self._send(request, refusal(HTTPStatus.METHOD_NOT_ALLOWED))
            if path == TAKE and request.method != "POST":
                return await self._send(request, refusal(HTTPStatus.METHOD_NOT_ALLOWED))
            body = b""
            if request.body_exists:
                if path != TAKE or (request.content_length or _MOST_BODY + 1) > _MOST_BODY:
                    return await self._send(request, refusal(HTTPStatus.REQUEST_ENTITY_TOO_LARGE))
                body = await request.content.readexactly(request.content_length or 0)
            if path == "/events" and request.method == "GET":
                return await self._listen(request, site)
            return await self._send(request, await self._answer(site, target, request, body))

    async def _answer(self, site: Site, target: str, request: web.BaseRequest, body: bytes) -> WebAnswer:
        """Costly answers are made once for all clients; work for one client runs on a thread of its own."""
        path = path_of(target)
        shared = self._shared.get((id(site), path or ""))
        if shared is not None and (path != _ANSWER or site.answer is not None):
            return await shared.get()
        arguments = target, request.headers.get("Authorization", ""), site, body
        if path in PEOPLE_PATHS:
            is_choosing = path in PLAN_PATHS and not ("refined=1" in target or "about=1" in target)
            pool = self._planning if path in PLAN_PATHS else self._work
            pool = self._choosing if is_choosing and path != TAKE else pool
            return await asyncio.get_running_loop().run_in_executor(pool, respond, *arguments)
        return respond(*arguments)

    async def _send(self, request: web.BaseRequest, answer: WebAnswer) -> web.StreamResponse:
        """One answer, or status 304 if the client has it already."""
        headers = {**HEADERS, "Content-Security-Policy": answer.policy}
        if answer.etag:
            headers |= {"ETag": answer.etag, "Cache-Control": "no-cache"}  # kept, and asked about each time
        if answer.status == HTTPStatus.METHOD_NOT_ALLOWED:
            headers["Allow"] = "POST" if request.path.endswith(TAKE) else "GET, HEAD"
        elif answer.status == HTTPStatus.UNAUTHORIZED:
            headers["WWW-Authenticate"] = "Bearer"
        if answer.etag and answer.etag in request.headers.get("If-None-Match", ""):
            response = web.StreamResponse(status=HTTPStatus.NOT_MODIFIED, headers=headers)
            body = b""
        else:
            body = answer.body
            if len(body) > _SMALL and _takes_gzip(request):
                body = zlib.compress(body, 1, _GZIP)
                headers |= {"Content-Encoding": "gzip", "Vary": "Accept-Encoding"}
            headers["Content-Type"] = answer.content_type
            response = web.StreamResponse(status=answer.status, headers=headers)
            response.content_length = len(body)
            body = b"" if request.method == "HEAD" else body
        if answer.status >= HTTPStatus.BAD_REQUEST and request.can_read_body:
            response.force_close()
        await response.prepare(request)
        await self._write(request, response, body)
        await response.write_eof()
        return response

    async def _listen(self, request: web.BaseRequest, site: Site) -> web.StreamResponse:
        """Server-sent events: the state now, and again whenever it changes, until either side disconnects."""
        listener = request.remote or ""
        if self._listeners[listener] >= MOST_LISTENERS_OF_ONE:
            return await self._send(request, refusal(HTTPStatus.TOO_MANY_REQUESTS))
        if self._listeners.total() >= MOST_LISTENERS:
            return await self._send(request, refusal(HTTPStatus.SERVICE_UNAVAILABLE))
        headers = {**HEADERS, "Content-Type": "text/event-stream; charset=utf-8"}
        if _takes_gzip(request):
            headers["Content-Encoding"] = "gzip"
        response = web.StreamResponse(headers=headers)
        response.force_close()
        self._listeners[listener] += 1
        try:
            await response.prepare(request)
            await self._send_pictures(request, response, site)
        finally:
            self._listeners[listener] -= 1
        return response

    async def _send_pictures(
        self, request: web.BaseRequest, response: web.StreamResponse, site: Site
    ) -> None:
        seen, spoke = object(), time.monotonic()
        packer = zlib.compressobj(1, zlib.DEFLATED, _GZIP) if _takes_gzip(request) else None

        async def tell(text: bytes) -> None:
            packed = text if packer is None else packer.compress(text) + packer.flush(zlib.Z_SYNC_FLUSH)
            await self._write(request, response, packed)

        is_last = False
        while not is_last:
            is_last = self._closing.is_set()
            version = self._version(site)
            if version != seen:
                picture = await self._shared[id(site), _STATE].get()
                await tell(b"event: state\ndata: " + picture.body + b"\n\n")
                seen, spoke = version, time.monotonic()
            elif time.monotonic() - spoke >= HEARTBEAT_SECONDS:
                await tell(b"event: heartbeat\ndata: \n\n")
                spoke = time.monotonic()
            with suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), PICTURE_SECONDS)

    async def _write(self, request: web.BaseRequest, response: web.StreamResponse, body: bytes) -> None:
        view = memoryview(body)
        with self.connections.sending(request.protocol):
            for begin in range(0, len(view), _PIECE_BYTES):
                await response.write(view[begin : begin + _PIECE_BYTES])


def _takes_gzip(request: web.BaseRequest) -> bool:
    """Whether the client names gzip, and not with ``q=0``: that it cannot read it."""
    offered = request.headers.get("Accept-Encoding", "").lower().replace(" ", "").split(",")
    return any(re.fullmatch(r"gzip(?!;q=0(\.0*)?$)(;.*)?", each) for each in offered)


def serve(
    listen: str,
    registry: CollectorRegistry,
    board: StatusBoard,
    people: PeopleBoard | None = None,
    about: Settings | None = None,
    answer: Callable[[], Mapping[str, Any]] | None = None,
    planner: Planner | None = None,
) -> WebServer:
    """Serve on ``host:port`` (port 0: any free one); :class:`SettingsError` where that is not possible.

    Without ``people`` single people are not shown; ``about`` is what the page says of the deployment,
    ``answer`` reads the verdict of the run, ``planner`` answers what-if questions.
    """
    return WebServer(listening_socket(listen), Site(registry, board, people, about, answer, planner))


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


def _log_briefly(loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """Log in one line that a client broke off: that is normal, and needs no traceback."""
    logger.debug("the web server: %s (%s)", context["message"], type(context.get("exception")).__name__)


# Watching a run: metrics, status and the web server of one engine, put together from its settings.


@dataclass(frozen=True)
class Watch:
    """What to pass to a run as its observer, and where people can look; no address when nothing listens."""

    observer: Observer
    metrics: EngineMetrics
    registry: CollectorRegistry
    address: str | None


@contextmanager
def watching(
    settings: Settings,
    sensors: Sequence[Sensor],
    others: Sequence[Observer] = (),
    kind: type[EngineMetrics] = EngineMetrics,
    *,
    answer: Callable[[], Mapping[str, Any]] | None = None,
    planner: Planner | None = None,
) -> Iterator[Watch]:
    """Serve metrics, probes and page at ``settings.listen`` while the block runs; nowhere if it is empty."""
    registry, board = CollectorRegistry(), StatusBoard(tuple(sensors), settings.delta, settings)
    people = PeopleBoard(settings.page_token.get_secret_value()) if settings.page_token else None
    ProcessCollector(registry=registry)
    metrics = kind(registry, sensors, settings.thresholds, settings.delta, settings=settings)
    if not settings.listen:
        yield Watch(Observers(others), metrics, registry, None)
        return
    observer = Observers([metrics, board, *([people] if people else []), *others])
    with serve(settings.listen, registry, board, people, settings, answer, planner) as server:
        yield Watch(observer, metrics, registry, server.address)
