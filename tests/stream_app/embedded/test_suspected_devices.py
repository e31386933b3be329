"""Devices that seem broken: found from true counts, said to the owner only, the same after any kill."""

from __future__ import annotations

import json
import logging
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest

from models.exceptions import SensorError
from stream_app.analysis.checked_run import check_run
from stream_app.setup.sections import QualitySettings
from stream_app.steps import DeviceWatch
from stream_app.watching.events import Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import Site, respond
from stream_app.watching.web.status import PeopleBoard, StatusBoard
from stream_app.wire import Activation, Reading
from tests.stream_app.embedded.test_excluded_devices import table
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    REGISTRY,
    activation,
    json_lines,
    lines_of,
    outputs_of,
    reading,
    run_on,
    settings,
)

FILE = "quality.jsonl"
STEPS = 12
LIMITS = {"silent_steps": 3, "same_steps": 4, "largest_count": 500, "largest_counts": {"C": 50}}
WATCHED: dict[str, Any] = {**LITTLE_WORK, "quality": LIMITS}


def day() -> list[Activation | Reading]:
    """A is silent from step 2 to 6, B shows 17 from step 3 on, C has one count above its own limit."""
    counts = {
        (step, name): 17 if name == "B" and step >= 3 else 20 + step + index
        for step in range(STEPS)
        for index, name in enumerate(NAMES)
        if name != "A" or not 2 <= step <= 6
    }
    counts[5, "C"] = 51
    counts[7, "D"] = 500
    return [
        each
        for step in range(STEPS)
        for each in (
            activation(step, *NAMES),
            *(reading(step, name, counts[step, name]) for name in NAMES if (step, name) in counts),
        )
    ]


def found(folder: Path) -> list[tuple[object, ...]]:
    return [
        (line["step"], line["sensor"], line["suspicion"], line["since"], line["is_over"])
        for line in json_lines(folder / FILE)
    ]


FINDINGS = [
    (4, "A", "silent", 2, False),
    (5, "C", "implausible", 5, False),
    (6, "B", "stuck", 3, False),
    (6, "C", "implausible", 5, True),
    (7, "A", "silent", 2, True),
]


def test_each_suspicion_begins_and_ends_once(tmp_path: Path) -> None:
    """D's 500 is as much as is declared, and no more."""
    run_on(tmp_path / "out", [lines_of(day())], settings=WATCHED)
    assert found(tmp_path / "out") == FINDINGS
    assert check_run(tmp_path / "out").is_whole


def test_steps_that_are_excluded_or_not_announced_say_nothing_of_a_device() -> None:
    """Three announced steps without a count, not three steps; the same count does not need them in a row."""
    watch = DeviceWatch(QualitySettings(silent_steps=3, same_steps=3))
    assert not watch.note(0, ("A",), {})
    assert not watch.note(1, (), {})
    assert not watch.note(2, ("A",), {})
    (silent,) = watch.note(9, ("A",), {})
    assert (silent.suspicion, silent.since) == ("silent", 0)
    assert [each.is_over for each in watch.note(10, ("A",), {"A": 0})] == [True]
    assert not watch.note(11, ("A",), {"A": 0})
    assert not watch.note(12, ("A",), {})
    (stuck,) = watch.note(13, ("A",), {"A": 0})
    assert (stuck.suspicion, stuck.since) == ("stuck", 10)
    assert watch.suspected == (stuck.model_copy(update={"step": 10}),)


def test_an_excluded_device_is_not_missed(tmp_path: Path) -> None:
    """Without a table A would be suspected to be silent."""
    excluded = table(tmp_path, "A,1970-01-01T00:02Z,1970-01-01T00:07Z,maintenance")["quality"]
    run_on(tmp_path / "out", [lines_of(day())], settings={**WATCHED, "quality": {**LIMITS, **excluded}})
    assert found(tmp_path / "out") == [each for each in FINDINGS if each[1] != "A"]


def test_watching_changes_nothing_that_is_published_or_accounted(tmp_path: Path) -> None:
    run_on(tmp_path / "watched", [lines_of(day())], settings=WATCHED)
    run_on(tmp_path / "plain", [lines_of(day())], settings=LITTLE_WORK)
    assert outputs_of(tmp_path / "watched") == outputs_of(tmp_path / "plain")
    assert not (tmp_path / "plain" / FILE).exists()
    assert b"devices" not in (tmp_path / "plain" / "progress.json").read_bytes()
    assert b"silent_steps" not in (tmp_path / "watched" / "run.json").read_bytes()


def test_the_file_is_for_its_owner_and_the_log_says_neither_device_nor_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        report = run_on(tmp_path / "out", [lines_of(day())], settings=WATCHED)
    assert (tmp_path / "out" / FILE).stat().st_mode & 0o077 == 0
    assert "quality" not in report.bytes_written, "its length follows from counts, and is shown"
    said = [each.getMessage() for each in caplog.records if FILE in each.getMessage()]
    which = "a device seems to be silent, stuck or implausible: quality.jsonl has which, for its owner only"
    assert said == [f"step {step}: {which}" for step in (4, 5, 6)]
    assert b"17" not in (tmp_path / "out" / FILE).read_bytes(), "no count"


def test_no_metric_and_no_public_path_depends_on_what_is_suspected(tmp_path: Path) -> None:
    """All that is seen without the token is the same, with broken devices and with sound ones."""
    sound = [
        each.model_copy(update={"count": 20 + each.step}) if isinstance(each, Reading) else each
        for each in day()
    ]
    shown, lists = [], []
    for name, messages in (("broken", day()), ("sound", sound)):
        registry, chosen = CollectorRegistry(), settings(**WATCHED)
        board, people = StatusBoard(REGISTRY.sensors), PeopleBoard("a token of 16 letters")
        metrics = EngineMetrics(registry, REGISTRY.sensors, chosen.thresholds, chosen.delta)
        observer = Observers([metrics, board, people])
        run_on(tmp_path / name, [lines_of(messages)], settings=WATCHED, observer=observer)
        site = Site(registry, board, people, chosen)
        lines = [
            line
            for line in generate_latest(registry).decode().splitlines()
            if not any(word in line for word in ("seconds", "created", "published_value", "bytes"))
        ]
        shown.append(Counter(lines))
        assert respond("/devices.json", "", site).status == 401
        answer = respond("/devices.json", "Bearer a token of 16 letters", site)
        lists.append(json.loads(answer.body)["devices"])
    assert shown[0] == shown[1]
    assert any("tallyguard_readings_total" in line for line in shown[0])
    assert lists == [[{"sensor": "B", "suspicion": "stuck", "since": 3}], []]


@pytest.mark.slow
def test_a_crash_at_several_writes_leads_to_the_same_findings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text, disk = lines_of(day()), Disk(monkeypatch)
    run_on(tmp_path / "whole", [text], settings=WATCHED)
    crashes = range(4, disk.operations, 9)
    for folder in disk.mended(crashes, partial(run_on, chunks=[text], settings=WATCHED), tmp_path):
        assert outputs_of(folder) == outputs_of(tmp_path / "whole"), folder
        assert (folder / FILE).read_bytes() == (tmp_path / "whole" / FILE).read_bytes(), folder


@pytest.mark.slow
def test_a_run_in_pieces_remembers_how_long_a_device_is_silent(tmp_path: Path) -> None:
    lines = lines_of(day()).splitlines(keepends=True)
    run_on(tmp_path / "whole", [b"".join(lines)], settings=WATCHED)
    for cut in range(5, len(lines), 8):
        folder = tmp_path / str(cut)
        run_on(folder, [b"".join(lines[:cut])], settings=WATCHED, keep_open=True)
        run_on(folder, [b"".join(lines)], settings=WATCHED)
        assert (folder / FILE).read_bytes() == (tmp_path / "whole" / FILE).read_bytes(), cut


def test_watching_may_begin_stop_and_begin_again(tmp_path: Path) -> None:
    """What was found stays; what was not looked at is not known."""
    parts = [lines_of(each for each in day() if each.step < last) for last in (5, 9, STEPS)]
    for part, chosen in zip(parts, (WATCHED, LITTLE_WORK, WATCHED), strict=True):
        run_on(tmp_path / "out", [part], settings=chosen)
    assert found(tmp_path / "out") == FINDINGS[:1]
    assert check_run(tmp_path / "out").is_whole


def test_an_unknown_device_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SensorError, match="got 'Z'"):
        run_on(tmp_path / "out", [b""], settings={"quality": {"largest_counts": {"Z": 3}}})
    assert not (tmp_path / "out").exists()
