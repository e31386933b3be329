"""``tallyguard connect sensorthings``: from Observations to messages of a run, and from a run to them."""

from __future__ import annotations

import asyncio
import gc
import json
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stream_app.cli import main
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect import sensorthings
from stream_app.starting.connect.intake import Payload
from stream_app.starting.connect.sensorthings import exchange
from tests.stream_app.starting.brokers.run_folder import add_steps, run_folder
from tests.stream_app.starting.brokers.sensorthings_service import Datastreams, serving


def settings_file(folder: Path, url: str) -> Path:
    """Two datastreams that are read, one that is written."""
    path = folder / "tallyguard.toml"
    path.write_text(
        f"""
origin = 2026-01-01T00:00:00Z
[connect.sensorthings]
url = "{url}"
page = 3
[connect.sensorthings.datastreams]
7 = "mill"
eight = "port"
[connect.sensorthings.releases]
mill = "9"
"""
    )
    return path


def connect(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The command's exit status."""
    monkeypatch.setattr(sys, "argv", ["tallyguard", "connect", "sensorthings", *map(str, arguments)])
    try:
        return int(main() or 0)
    except SystemExit as ended:
        return int(ended.code or 0)


def hourly(results: list[int | None]) -> list[dict[str, Any]]:
    """Observations of the first hours of January."""
    return [
        {"phenomenonTime": f"2026-01-01T{hour:02d}:00:00Z/2026-01-01T{hour + 1:02d}:00:00Z", "result": each}
        for hour, each in enumerate(results)
    ]


def service_with_counts() -> Datastreams:
    """Five hours of two sensors, one of them not counted once."""
    service = Datastreams()
    service.observations = {"7": hourly([1, 2, 3, 4, 5]), "'eight'": hourly([6, None, 7, 8, 9]), "9": []}
    return service


def readings(folder: Path) -> list[tuple[int, str, int]]:
    """What a run will read, in order."""
    messages = [json.loads(line) for line in (folder / "messages.jsonl").read_bytes().splitlines()]
    return [(each["step"], each["sensor"], each["count"]) for each in messages if each["type"] == "reading"]


EXPECTED = [
    *((0, "mill", 1), (0, "port", 6), (1, "mill", 2), (2, "mill", 3), (2, "port", 7)),
    *((3, "mill", 4), (3, "port", 8), (4, "mill", 5), (4, "port", 9)),
]


def test_counts_come_and_releases_go_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two runs of the command take and send the same as one; what was not counted is no reading."""
    service, run, taken = service_with_counts(), run_folder(tmp_path / "run"), tmp_path / "in"
    add_steps(run, 0, (10, 20))
    with serving(service) as url:
        config = settings_file(tmp_path, url)
        arguments = ("--config", config, "--output", taken, "--releases", run, "--once")
        assert connect(monkeypatch, *arguments) == 0
        said = capsys.readouterr().out
        assert "9 counts taken, 0 payloads refused; the releases of 2 steps are there." in said
        assert connect(monkeypatch, *arguments) == 0
        assert "0 counts taken, 0 payloads refused" in capsys.readouterr().out
    assert readings(taken) == EXPECTED
    assert [each["result"] for each in service.observations["9"]] == [10, 20]


@pytest.mark.slow
def test_killed_between_the_journal_and_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every page is durable before the place behind it: an end in between takes nothing twice.

    Nor does it leave work behind whose error nobody reads: asyncio logs that whenever it is collected.
    """
    unread: list[str] = []
    monkeypatch.setattr(
        asyncio.BaseEventLoop,
        "call_exception_handler",
        lambda loop, context: unread.append(context["message"]),
    )
    service, taken = service_with_counts(), tmp_path / "in"

    def end(*arguments: object) -> None:
        raise KeyboardInterrupt

    with serving(service) as url:
        config = settings_file(tmp_path, url)
        for kept in range(4):
            left = [sensorthings.replace_file] * kept
            with monkeypatch.context() as patched:
                patched.setattr(
                    sensorthings,
                    "replace_file",
                    lambda *given, left=left: left.pop()(*given) if left else end(),
                )
                with suppress(KeyboardInterrupt):
                    connect(monkeypatch, "--config", config, "--output", taken, "--once")
        assert connect(monkeypatch, "--config", config, "--output", taken, "--once") == 0
    assert readings(taken) == EXPECTED
    gc.collect()
    assert not unread


def test_nothing_to_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No datastream to read, no run to send."""
    assert connect(monkeypatch, "--output", tmp_path / "in") == 1
    assert "must take counts or send releases" in capsys.readouterr().err
    assert not (tmp_path / "in").exists()


@pytest.mark.parametrize("last", ["59:59", "59:59.000", "59:59.999", "59:59.999999"])
def test_hamburgs_hours_end_just_before_the_next_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], last: str
) -> None:
    """Every one of them is an hour; the command says how ends were taken."""
    service, taken = service_with_counts(), tmp_path / "in"
    for observations in service.observations.values():
        for hour, each in enumerate(observations):
            each["phenomenonTime"] = f"2026-01-01T{hour:02d}:00:00Z/2026-01-01T{hour:02d}:{last}Z"
    with serving(service) as url:
        assert (
            connect(monkeypatch, "--config", settings_file(tmp_path, url), "--output", taken, "--once") == 0
        )
    said = " ".join(capsys.readouterr().out.split())
    assert "9 counts taken, 0 payloads refused." in said
    assert "their ends are taken as inclusive" in said
    assert sorted(readings(taken)) == sorted(EXPECTED)


def test_what_a_hint_names_is_a_setting_of_this_connector(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each key that a dead letter names is one of [connect.sensorthings], and mends it."""
    wrong = {
        "tolerance_seconds": "2026-01-01T01:00:02Z/2026-01-01T02:00:00Z",
        "shorter": "2026-01-01T01:00:00Z/2026-01-01T01:30:00Z",
        "interval_seconds": "2026-01-01T01:00:00Z",
        "timezone": "2026-01-01T01:00:00/2026-01-01T02:00:00",
    }
    mended = {"tolerance_seconds": "2", "shorter": '"sum"', "interval_seconds": "3600", "timezone": '"UTC"'}
    for key, written in wrong.items():
        service = service_with_counts()
        service.observations["7"] = [{"phenomenonTime": written, "result": 5}]
        with serving(service) as url:
            folder = tmp_path / key
            folder.mkdir()
            config = settings_file(folder, url)
            arguments = ("--config", config, "--once", "--output")
            assert connect(monkeypatch, *arguments, folder / "in") == 0
            letters = (folder / "in" / "rejected.jsonl").read_text().splitlines()
            assert len(letters) == 1
            assert key in letters[0]
            config.write_text(config.read_text().replace("page = 3", f"page = 3\n{key} = {mended[key]}"))
            assert connect(monkeypatch, *arguments, folder / "mended") == 0
            assert (folder / "mended" / "rejected.jsonl").read_text() == ""


def test_a_sensor_without_releases_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A name that no release of the run has is not passed over in silence."""
    service, run = service_with_counts(), run_folder(tmp_path / "run")
    add_steps(run, 0, (10, 20))
    with serving(service) as url:
        config = settings_file(tmp_path, url)
        config.write_text(config.read_text().replace('mill = "9"', '"the mill" = "9"'))
        arguments = ("--config", config, "--output", tmp_path / "in", "--releases", run, "--once")
        assert connect(monkeypatch, *arguments) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert "Of them 0 values have a datastream; 0 were sent now." in said
    assert "Nothing is released of 'the mill'" in said


def test_a_service_that_goes_away_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without --once nothing ends: neither the intake by the writer's troubles, nor the writer by those."""
    service, taken, run = service_with_counts(), tmp_path / "in", run_folder(tmp_path / "run")
    add_steps(run, 0, (10,))
    taken.mkdir()
    monkeypatch.setattr("stream_app.starting.connect.sensorthings._TRIES", 1)
    service.failures = [503, 503]

    class Stop:
        """Asked to stop once all is there."""

        @property
        def is_set(self) -> bool:
            if len(service.observations["9"]) == 1 and "added" not in state:
                state.add("added")
                service.failures = ["kept"] * 2 + [403]  # the writer is let in no more, for one attempt
                add_steps(run, 1, (20,))
            return len(service.observations["9"]) == 2

    state: set[str] = set()
    with serving(service) as url:
        config = settings_file(tmp_path, url)
        config.write_text(config.read_text().replace("page = 3", "page = 3\npoll_seconds = 0.1"))
        settings = load_settings(config)
        got: list[Payload] = []
        written = exchange(settings, got.extend, run, taken, Stop(), once=False)
    assert (written.steps, written.sent) == (2, 2)
    assert {json.loads(each.payload)["result"] for each in got} >= {1, 2, 3, 4, 5}


@pytest.mark.parametrize("kind", ["GET", "POST"])
def test_who_is_asked_to_stop_waits_for_no_service(tmp_path: Path, kind: str) -> None:
    """The service asks for five minutes; the next process goes on as if this one had been killed."""
    service, taken, run = service_with_counts(), tmp_path / "in", run_folder(tmp_path / "run")
    add_steps(run, 0, (10,))
    taken.mkdir()
    service.failure_headers = {"Retry-After": "300"}
    service.failures = [503] if kind == "GET" else ["kept", 503]
    began = time.monotonic()

    class Stop:
        """Asked to stop once the service has been asked."""

        @property
        def is_set(self) -> bool:
            return not service.failures

    with serving(service) as url:
        settings = load_settings(settings_file(tmp_path, url))
        assert exchange(settings, None, run, taken, Stop(), once=False).steps == 0
        assert time.monotonic() - began < 30

        class Never:
            """Not asked to stop."""

            is_set = False

        assert exchange(settings, None, run, taken, Never(), once=True).steps == 1
    assert [each["result"] for each in service.observations["9"]] == [10]
