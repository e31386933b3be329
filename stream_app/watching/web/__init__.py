"""What people see while the engine runs: metrics, health, readiness and a page, on an address of choice."""

from stream_app.watching.web.people_board import PeopleBoard
from stream_app.watching.web.server import WebServer, parse_address, serve
from stream_app.watching.web.status import Status, StatusBoard
from stream_app.watching.web.watch import watching

__all__ = ["PeopleBoard", "Status", "StatusBoard", "WebServer", "parse_address", "serve", "watching"]
