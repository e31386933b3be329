"""A small HTTP server beside the engine: ``/metrics``, ``/-/healthy``, ``/-/ready`` and the page at ``/``."""

from __future__ import annotations

import json
import threading
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from stream_app.exceptions import SettingsError
from stream_app.web.page import render
from stream_app.web.status import StatusBoard

_JSON = "application/json"
_HTML = "text/html; charset=utf-8"


class Answer(NamedTuple):
    """Status, kind and bytes of a response."""

    status: HTTPStatus
    content_type: str
    body: bytes


class WebServer:
    """A running server; a context manager that stops it. ``address`` is what a browser takes."""

    def __init__(self, server: ThreadingHTTPServer) -> None:
        self._server = server
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
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> WebServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def serve(listen: str, registry: CollectorRegistry, board: StatusBoard) -> WebServer:
    """Serve on ``host:port`` (port 0: any free one); :class:`SettingsError` where that is not possible."""
    host, port = parse_address(listen)

    class Handler(_Handler):
        def answer(self, path: str) -> Answer:
            return respond(path, registry, board)

    try:
        return WebServer(ThreadingHTTPServer((host, port), Handler))
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


def respond(path: str, registry: CollectorRegistry, board: StatusBoard) -> Answer:
    """What is at a path."""
    status = board.read()
    if path == "/metrics":
        return Answer(HTTPStatus.OK, CONTENT_TYPE_LATEST, generate_latest(registry))
    if path == "/-/healthy":
        return _probe(status.is_healthy, status.phase, status.reason)
    if path == "/-/ready":
        return _probe(status.is_ready, status.phase, status.reason)
    if path == "/":
        return Answer(HTTPStatus.OK, _HTML, render(status).encode())
    body = {"error": "nothing is here", "paths": ["/", "/metrics", "/-/healthy", "/-/ready"]}
    return Answer(HTTPStatus.NOT_FOUND, _JSON, json.dumps(body).encode())


def _probe(is_good: bool, phase: str, reason: str) -> Answer:
    status = HTTPStatus.OK if is_good else HTTPStatus.SERVICE_UNAVAILABLE
    return Answer(status, _JSON, json.dumps({"ok": is_good, "phase": phase, "reason": reason}).encode())


class _Handler(BaseHTTPRequestHandler):
    """GET and HEAD of :meth:`answer`; quiet, nothing cached, nothing loaded from elsewhere."""

    protocol_version = "HTTP/1.1"
    server_version = "tallyguard"
    sys_version = ""
    timeout = 10.0  # seconds an idle connection is kept

    def answer(self, path: str) -> Answer:
        """What is at a path."""
        raise AssertionError("each server has a handler of its own")

    def do_GET(self) -> None:
        """Send the answer."""
        answer = self._send_head()
        self.wfile.write(answer.body)

    def do_HEAD(self) -> None:
        """Send the answer without its body."""
        self._send_head()

    def _send_head(self) -> Answer:
        answer = self.answer(self.path.partition("?")[0])
        self.send_response(answer.status)
        self.send_header("Content-Type", answer.content_type)
        self.send_header("Content-Length", str(len(answer.body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        return answer

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name is the base class's
        """Say nothing on stderr, where progress is shown."""
