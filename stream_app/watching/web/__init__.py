"""What people see while the engine runs: metrics, health, readiness and a page, on an address of choice."""

from stream_app.watching.web.connections import HEADERS, Connections
from stream_app.watching.web.people_board import PeopleBoard
from stream_app.watching.web.server import WebServer, listening_socket, parse_address, serve
from stream_app.watching.web.status import Status, StatusBoard
from stream_app.watching.web.watch import watching

__all__ = [
    "HEADERS",
    "Connections",
    "PeopleBoard",
    "Status",
    "StatusBoard",
    "WebServer",
    "listening_socket",
    "parse_address",
    "serve",
    "watching",
]
