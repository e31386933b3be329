"""``tallyguard connect sensorthings``: from Observations to messages of a run, and from a run to them."""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from stream_app.cli import main
from stream_app.starting.connect.sensorthings import observations_in
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
    """Every page is durable before the place behind it: an end in between takes nothing twice."""
    service, taken = service_with_counts(), tmp_path / "in"

    def end(*arguments: object) -> None:
        raise KeyboardInterrupt

    with serving(service) as url:
        config = settings_file(tmp_path, url)
        for kept in range(4):
            left = [observations_in.replace_file] * kept
            with monkeypatch.context() as patched:
                patched.setattr(
                    observations_in,
                    "replace_file",
                    lambda *given, left=left: left.pop()(*given) if left else end(),
                )
                with suppress(KeyboardInterrupt):
                    connect(monkeypatch, "--config", config, "--output", taken, "--once")
        assert connect(monkeypatch, "--config", config, "--output", taken, "--once") == 0
    assert readings(taken) == EXPECTED


def test_nothing_to_do_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No datastream to read, no run to send."""
    assert connect(monkeypatch, "--output", tmp_path / "in") == 1
    assert "must take counts or send releases" in capsys.readouterr().err
    assert not (tmp_path / "in").exists()
