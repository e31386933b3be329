"""The web server: probes with reasons, metrics, a page; on loopback; a picture never half changed."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from prometheus_client import CollectorRegistry, Counter

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings
from stream_app.watching.events import RunStarted, RunStopped
from stream_app.watching.web import StatusBoard, WebServer, serve
from stream_app.watching.web.server import parse_address
from stream_app.watching.wording import in_a_hundred
from stream_app.wire.messages import Reason
from tests.stream_app.events_for_tests import closed
from tests.watching.page_text import PageText


@pytest.fixture
def board() -> StatusBoard:
    """A board nobody has told anything yet."""
    return StatusBoard()


@pytest.fixture
def server(board: StatusBoard) -> Iterator[WebServer]:
    """A server on a free port."""
    registry = CollectorRegistry()
    Counter("tallyguard_steps_closed", "Steps closed", registry=registry).inc(3)
    with serve("127.0.0.1:0", registry, board) as running:
        yield running


def get(server: WebServer, path: str) -> tuple[int, str]:
    """Status and body of a path."""
    try:
        with urllib.request.urlopen(server.address.rstrip("/") + path, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_readiness_says_why_not_until_priors_are_loaded(server: WebServer, board: StatusBoard) -> None:
    """503 with a reason before the run starts and after it stopped, 200 while it runs."""
    status, body = get(server, "/-/ready")
    assert (status, json.loads(body)["ok"]) == (503, False)
    assert json.loads(body)["reason"] == "priors are being loaded"
    board.started(RunStarted(people=7, next_step=0))
    assert get(server, "/-/ready")[0] == 200
    board.stopped(RunStopped(next_step=4, reason="end of input"))
    status, body = get(server, "/-/ready")
    assert (status, json.loads(body)["reason"]) == (503, "end of input")


def test_health_fails_only_when_the_run_failed(server: WebServer, board: StatusBoard) -> None:
    """A run that ended well is healthy; one that failed says what failed."""
    board.stopped(RunStopped(next_step=4, reason="end of input"))
    assert get(server, "/-/healthy")[0] == 200
    board.stopped(RunStopped(next_step=4, reason="failure: the disk is full"))
    status, body = get(server, "/-/healthy")
    assert (status, json.loads(body)["reason"]) == (503, "failure: the disk is full")


def test_metrics_are_served_in_the_exposition_format(server: WebServer) -> None:
    """What the registry holds is what a scrape gets."""
    assert "tallyguard_steps_closed_total 3.0" in get(server, "/metrics")[1]


def test_the_plain_page_shows_step_people_at_risk_and_history(server: WebServer, board: StatusBoard) -> None:
    """The figures of the summary are on the page in words, newest step first, refreshing while it runs."""
    board.started(RunStarted(people=200, next_step=0))
    board.closed(closed(0))
    board.closed(closed(1))
    board.rejected(Reason.NOT_JSON)
    status, page = get(server, "/plain")
    words = PageText(page).words
    assert status == 200
    assert 'http-equiv="refresh"' in page
    assert (
        "Running: closing steps. 2 steps closed, 200 people accounted, 2 steps behind, 1 message rejected."
        in words
    )
    assert words[words.index("50 in 100 or more") + 1 :][:4] == ["7", "4", "3", "3"], (
        "ceiling, habit, by releases, added"
    )
    assert words[words.index("Ceiling, if habits are as assumed") + 1] == "5 in 100"
    assert words.index("Mean ceiling") < words.index("11 in 100")
    board.stopped(RunStopped(next_step=2, reason="end of input"))
    assert 'http-equiv="refresh"' not in get(server, "/plain")[1]


def test_the_plain_page_says_when_a_step_was(board: StatusBoard) -> None:
    """Its time where the deployment has an origin, its number where it has none."""
    board.closed(closed(0))
    board.closed(closed(1))
    for settings, when in (
        (Settings(origin=datetime(2026, 3, 2, tzinfo=UTC)), "2026-03-02 01:00 UTC (step 1)"),
        (Settings(), "step 1"),
    ):
        with serve("127.0.0.1:0", CollectorRegistry(), board, about=settings) as server:
            words = PageText(get(server, "/plain")[1]).words
        assert f"How many people are at risk, after {when}" in words
        assert when in words[words.index("The last steps") :]


def test_the_plain_page_loads_nothing_from_anywhere(server: WebServer, board: StatusBoard) -> None:
    """No script, font, picture or style from another address; the browser is told to refuse them."""
    board.closed(closed(0))
    assert PageText(get(server, "/plain")[1]).loads == []
    with urllib.request.urlopen(server.address + "plain", timeout=10) as answer:
        assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")


def test_an_unknown_path_lists_the_known_ones(server: WebServer) -> None:
    """404 as JSON."""
    status, body = get(server, "/nothing")
    assert status == 404
    assert "/metrics" in json.loads(body)["paths"]


def test_listening_is_on_loopback_unless_another_host_is_named() -> None:
    """ ":9464" is this machine only."""
    assert parse_address(":9464") == ("127.0.0.1", 9464)
    assert parse_address("0.0.0.0:0") == ("0.0.0.0", 0)


def test_an_address_that_cannot_be_used_is_an_error_with_a_remedy(
    server: WebServer, board: StatusBoard
) -> None:
    """A port in use, and text that is no address."""
    with pytest.raises(SettingsError, match=r"must be free on this machine.*port 0"):
        serve(f"127.0.0.1:{server.port}", CollectorRegistry(), board)
    with pytest.raises(SettingsError, match="host:port"):
        parse_address("localhost")


@pytest.mark.parametrize(
    ("probability", "words"),
    [
        (0.0, "0 in 100"),
        (1e-9, "0.01 in 100"),
        (0.00031, "0.03 in 100"),
        (0.0042, "0.4 in 100"),
        (0.031, "3 in 100"),
        (0.9949, "99 in 100"),
        (0.999, "99.9 in 100"),
        (0.9997, "99.97 in 100"),
        (1 - 1e-9, "99.99 in 100"),
        (1.0, "100 in 100"),
    ],
)
def test_probabilities_are_said_as_people_say_them(probability: float, words: str) -> None:
    """Of 100 always, neither rounded to nothing nor to certainty, and fit for "in more than ..."."""
    assert in_a_hundred(probability) == words
