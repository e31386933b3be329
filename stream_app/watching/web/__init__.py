"""What people see while the engine runs: metrics, health, readiness and a page, on an address of choice."""

from stream_app.watching.web.answers import Planner, Site
from stream_app.watching.web.server import (
    HEADERS,
    Connections,
    WebServer,
    listening_socket,
    parse_address,
    serve,
    watching,
)
from stream_app.watching.web.status import PeopleBoard, Status, StatusBoard

__all__ = [
    "HEADERS",
    "Connections",
    "PeopleBoard",
    "Planner",
    "Site",
    "Status",
    "StatusBoard",
    "WebServer",
    "listening_socket",
    "parse_address",
    "serve",
    "watching",
]
