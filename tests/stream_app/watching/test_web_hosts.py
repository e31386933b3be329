"""A site whose name stands for this machine's address reads nothing through a visitor's browser."""

from __future__ import annotations

import http.client
from collections.abc import Iterator

import pytest
from prometheus_client import CollectorRegistry

from stream_app.setup.settings import Settings
from stream_app.watching.web import StatusBoard, WebServer, serve
from stream_app.watching.web.server import is_own_host

OWN = (
    "localhost",
    "localhost:9464",
    "127.0.0.1:1",
    "[::1]:9464",
    "10.1.2.3",
    "LOCALHOST.",
    "x.localhost",
    "City.example:80",
)
OTHERS = (
    "evil.example",
    "evil.example:9464",
    "localhost.evil.example",
    "127.0.0.1.evil.example",
    "",
    "1.2.3",
    "a b",
)


@pytest.fixture
def server() -> Iterator[WebServer]:
    settings = Settings.model_validate({"listen_names": ["city.example"]})
    with serve("127.0.0.1:0", CollectorRegistry(), StatusBoard(), about=settings) as running:
        yield running


def asked(server: WebServer, path: str, host: str | None) -> tuple[int, str]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    connection.putrequest("GET", path, skip_host=True)
    if host is not None:
        connection.putheader("Host", host)
    connection.endheaders()
    answer = connection.getresponse()
    text = answer.read(200).decode()
    connection.close()
    return answer.status, text


@pytest.mark.parametrize("path", ["/", "/state.json", "/metrics", "/people.json", "/-/healthy", "/events"])
def test_a_name_that_is_not_ours_is_refused_at_every_path(server: WebServer, path: str) -> None:
    status, text = asked(server, path, "evil.example:9464")
    assert status == 421
    assert "listen_names" in text


@pytest.mark.parametrize("host", OWN)
def test_addresses_loopback_and_configured_names_are_answered(server: WebServer, host: str) -> None:
    assert asked(server, "/state.json", host)[0] == 200


def test_names_are_compared_whole() -> None:
    assert [host for host in OTHERS if is_own_host(host, ["city.example"])] == []
    assert [host for host in OWN if not is_own_host(host, ["city.example"])] == []
    assert is_own_host(None, [])
