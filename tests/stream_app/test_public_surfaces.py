"""Nothing that others see depends on a count, but the values that are published.

Two runs have the same schedule and senders who send again: in one the same counts, in the other any. A sender
who saw a difference could try out what somebody else has counted.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import re
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, generate_latest

from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.release.release_core import InputRecord, ReleaseCore
from stream_app.setup.run_folder.record import PRIVATE, read_entries, shown_digests
from stream_app.steps import StepClock
from stream_app.watching.events import Observers
from stream_app.watching.metrics import EngineMetrics
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.web.status import StatusBoard
from stream_app.wire import Readings
from tests.stream_app.engine_support import NAMES, REGISTRY, activation, engine, lines_of, reading, run_on
from tests.stream_app.memory_log import MemoryLog, took

STEPS = 5
_VALUE = re.compile(r'"value":-?\d+')
_OFF = re.compile(r'"off": ?"[^"]*"')  # what part of the published value its error is
_SECRET = {Topics().rejected, Topics().progress}


@st.composite
def twins(draw: st.DrawFn) -> tuple[list[bytes], list[bytes]]:
    """Lines of two runs: who reports when is the same, what was counted is not."""
    one: list[bytes] = []
    other: list[bytes] = []
    places = [(step, name) for step in range(STEPS) for name in NAMES]
    counts = {place: draw(st.integers(0, 10**6)) for place in places}
    others = {place: draw(st.integers(0, 10**6)) for place in places}
    announces_late = draw(st.booleans())
    for step in range(STEPS):
        sent = draw(st.lists(st.sampled_from([place for place in places if place[0] <= step]), max_size=10))
        announced = lines_of([activation(step, *NAMES)])
        if not announces_late:
            one.append(announced)
            other.append(announced)
        for place in sent:
            guess = draw(st.integers(0, 10**6))
            is_batch = draw(st.booleans())
            for lines, counted in (
                (one, counts[place]),
                (other, draw(st.sampled_from([others[place], guess]))),
            ):
                batch = Readings(v=1, step=place[0], counts={place[1]: counted, "nobody's": 1})
                lines.append(batch.line() if is_batch else reading(*place, counted).line())
        if announces_late:
            one.append(announced)
            other.append(announced)
    return one, other


_OWNERS = ("rejected.jsonl", "progress.json", "progress.jsonl", "record.jsonl")
"""For the owner's eyes only: dead letters, open steps, and the digests of all logs, these among them.

Of the record, reports and ``verify`` show a digest: see :func:`shown_of_record`.
"""


def shown_of_record(folder: Path) -> tuple[str, ...]:
    """What is shown of the record, with the published values left out as in all else that is compared."""
    entries = read_entries(folder / "record.jsonl")
    return shown_digests(
        each.model_copy(
            update={"about": {**each.about, PRIVATE: [*each.about[PRIVATE], "releases", "revised"]}}
        )
        if each.kind == "ended"
        else each
        for each in entries
    )


def _without_values(text: str) -> str:
    return _OFF.sub('"off":""', _VALUE.sub('"value":0', text))


def seen_of_a_run(lines: list[bytes], caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    """All that others may see of an embedded run: files, metrics, page, its document, summary and log."""
    registry, board = CollectorRegistry(), StatusBoard(REGISTRY.sensors)
    metrics = EngineMetrics(registry, REGISTRY.sensors, (0.1, 0.5), 1e-6, now_seconds=lambda: 0.0)
    caplog.clear()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        report = run_on(folder, lines, observer=Observers([metrics, board]), settings={"late": 1})
        files = {
            path.name: _without_values(path.read_text())
            for path in folder.iterdir()
            if path.suffix in (".jsonl", ".json") and path.name not in _OWNERS
        }
        record = shown_of_record(folder)
    status = board.read()
    summary = dataclasses.asdict(report)
    summary["bytes_written"] = sorted(set(summary["bytes_written"]))
    return {
        "files": files,
        "record": record,
        "metrics": "\n".join(
            line for line in generate_latest(registry).decode().splitlines() if "_created" not in line
        ),
        "state": _without_values(state_json(status, None, has_people=False)),
        "page": render(dataclasses.replace(status, releases=())),
        "summary": summary,
        "is in vain": report.closed_no_step,
        "log": [
            record.getMessage().replace(name, "")
            for record in caplog.records
            if record.levelno >= logging.INFO and "snapshot" not in record.getMessage()
        ],
    }


def seen_of_a_worker(lines: list[bytes]) -> list[object]:
    """All that the release worker writes but dead letters and progress, when, and what it counts."""
    core = ReleaseCore(engine(), StepClock(0, 60, None, 100), MemoryLog())
    offsets = {"activations": 0, "readings": 0}
    seen: list[object] = []
    for number, line in enumerate(lines):
        log = "activations" if b'"activation"' in line else "readings"
        taken = took(core, [InputRecord(log, float(number), offsets[log], line.rstrip())], 0.0)
        offsets[log] += 1
        seen.append((dict(taken.outcomes), taken.is_awaited))
        seen += [
            (topic, key, _without_values((value or b"").decode()))
            for topic, key, value, _ in taken.records
            if topic not in _SECRET
        ]
    return seen


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(pair=twins())
def test_two_runs_that_differ_in_counts_look_the_same(
    pair: tuple[list[bytes], list[bytes]], caplog: pytest.LogCaptureFixture
) -> None:
    """Byte for byte: duplicates and contradictions, in time, late, before the announcement and in batches."""
    caplog.set_level(logging.INFO)
    one, other = (seen_of_a_run(lines, caplog) for lines in pair)
    for surface, found in one.items():
        assert found == other[surface], surface
    one_written, other_written = map(seen_of_a_worker, pair)
    assert one_written == other_written


def test_the_owner_finds_contradictions_among_the_dead_letters(tmp_path: Path) -> None:
    """And nowhere else: whoever sends both is answered, counted and shown the same."""
    lines = [activation(0, *NAMES).line(), reading(0, "A", 5).line()]
    run_on(tmp_path / "out", [*lines, reading(0, "A", 6).line(), reading(0, "A", 5).line()])
    (letter,) = map(json.loads, (tmp_path / "out" / "rejected.jsonl").read_bytes().splitlines())
    assert letter["reason"] == "contradicting_reading"
    assert (tmp_path / "out" / "rejected.jsonl").stat().st_mode & 0o777 == 0o600
