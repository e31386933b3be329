"""What people see while the engine runs: metrics, health, readiness and a page, on an address of choice."""

# mypy: implicit-reexport
# ruff: noqa: F401

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
