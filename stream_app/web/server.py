"""A small HTTP server beside the engine: metrics, probes, the page, its live events and single people."""

from __future__ import annotations

import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from prometheus_client import CollectorRegistry

from stream_app.exceptions import SettingsError
from stream_app.settings import Settings
from stream_app.web.answers import Answer, Site, respond
from stream_app.web.people_board import PeopleBoard
from stream_app.web.state import state_json
from stream_app.web.status import StatusBoard

HEARTBEAT_SECONDS = 5.0  # a silent engine is told from a lost one
PICTURE_SECONDS = 0.2  # at most five pictures a second
MOST_LISTENERS = 64


class WebServer:
    """A running server; a context manager that stops it. ``address`` is what a browser takes."""

    def __init__(self, server: ThreadingHTTPServer, closing: threading.Event) -> None:
        self._server = server
        self._closing = closing
        self._thread = threading.Thread(target=server.serve_forever, name="web", daemon=True)
        self._thread.start()

    @property
    def port(self) -> int:
        """The port really listened on, also where 0 was asked for."""
        return int(self._server.server_address[1])

    @property
    def address(self) -> str:
        """URL of the page."""
        host = str(self._server.server_address[0])
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{self.port}/"

    def close(self) -> None:
        """Stop answering."""
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(
    listen: str,
    registry: CollectorRegistry,
    board: StatusBoard,
    people: PeopleBoard | None = None,
    about: Settings | None = None,
) -> WebServer:
    """Serve on ``host:port`` (port 0: any free one); :class:`SettingsError` where that is not possible.

    Without ``people`` nobody is told about single people; ``about`` is what the page says of the deployment.
    """
    host, port = parse_address(listen)
    closing = threading.Event()

    class Handler(_Handler):
        site = Site(registry, board, people, about)
        is_closing = closing
        listeners = threading.BoundedSemaphore(MOST_LISTENERS)

    try:
        return WebServer(ThreadingHTTPServer((host, port), Handler), closing)
    except (OSError, OverflowError) as error:
        raise SettingsError(
            f"listen address {listen} must be free on this machine",
            error,
            "choose another, or port 0 for any",
        ) from error


def parse_address(listen: str) -> tuple[str, int]:
    """Host and port of ``host:port``; the host is loopback where it is left out."""
    host, _, port = listen.rpartition(":")
    if not port.isdecimal():
        raise SettingsError("listen must be host:port", repr(listen), "write for example 127.0.0.1:9464")
    return host or "127.0.0.1", int(port)


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of what :func:`~stream_app.web.answers.respond` gives; quiet, nothing cached."""

    protocol_version = "HTTP/1.1"
    server_version = "tallyguard"
    sys_version = ""
    timeout = 10.0  # seconds an idle connection is kept
    site: Site
    is_closing: threading.Event
    listeners: threading.BoundedSemaphore

    def do_GET(self) -> None:
        """Send the answer, or the live events."""
        if self.path == "/events":
            self._send_events()
            return
        answer = self._answer()
        self._send_head(answer)
        self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        """Send the answer without its body."""
        self._send_head(self._answer())

    def _answer(self) -> Answer:
        return respond(self.path, self.headers.get("Authorization", ""), self.site)

    def _send_head(self, answer: Answer) -> None:
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", answer.policy)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()

    def _send_events(self) -> None:
        """Server-sent events: the picture now, and again whenever it changes, until somebody hangs up."""
        if not self.listeners.acquire(blocking=False):
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE, "too many listeners")
            return
        self.close_connection = True
        try:
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8")
            self.send_header("Cache-Control", "no-store")
            self.send_header("Connection", "close")
            self.end_headers()
            self._send_pictures()
        except OSError:
            pass  # the listener is gone
        finally:
            self.listeners.release()

    def _send_pictures(self) -> None:
        seen = -1
        site = self.site
        while not self.is_closing.is_set():
            version, status = site.board.wait(seen, HEARTBEAT_SECONDS)
            if version == seen:
                self.wfile.write(b"event: heartbeat\ndata: \n\n")
            else:
                picture = state_json(status, site.about, has_people=site.people is not None)
                self.wfile.write(f"event: state\ndata: {picture}\n\n".encode())
            self.wfile.flush()
            seen = version
            self.is_closing.wait(PICTURE_SECONDS)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing on stderr, where progress is shown."""
