"""What is said on stderr: as the settings ask, one place for all, and nobody's name or count in it."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.cli.app import app
from stream_app.setup.settings import LogSettings
from stream_app.setup.this_process import start_logging
from tests import ROOT
from tests.stream_app.engine_support import (
    NAMES,
    activation,
    json_lines,
    lines_of,
    population,
    reading,
    run_on,
)

LOGGERS = ("", "stream_app", "accounting", "models", "stream_app.kafka.broker.connection")


@pytest.fixture(autouse=True)
def as_before() -> Iterator[None]:
    """Leave logging as it was."""
    root = logging.getLogger()
    handlers, levels = list(root.handlers), {name: logging.getLogger(name).level for name in LOGGERS}
    yield
    root.handlers = handlers
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level)


def said(capsys: pytest.CaptureFixture[str], **settings: str) -> list[str]:
    """What is printed when everybody speaks at every level."""
    start_logging(LogSettings.model_validate(settings))
    capsys.readouterr()
    for name in (
        "stream_app.embedded.runner",
        "aiokafka.consumer",
        "kafka.conn",
        "faust",
        "aiohttp.server",
        "asyncio",
    ):
        for level in (logging.DEBUG, logging.INFO, logging.ERROR, logging.CRITICAL):
            logging.getLogger(name).log(level, "%s speaks of %s", name, logging.getLevelName(level))
    return capsys.readouterr().err.splitlines()


def test_we_are_heard_from_info_on_and_libraries_when_all_is_lost(capsys: pytest.CaptureFixture[str]) -> None:
    lines = said(capsys)
    ours = [line for line in lines if "stream_app.embedded.runner speaks" in line]
    assert [line.split("speaks of ")[1].split()[0] for line in ours] == ["INFO", "ERROR", "CRITICAL"]
    others = [line for line in lines if line not in ours]
    assert len(others) == 5
    assert all("CRITICAL" in line for line in others)


def test_each_has_a_level_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    """There is a way back to what the Kafka clients say."""
    lines = said(capsys, level="error", libraries="info")
    assert sum("stream_app.embedded.runner speaks" in line for line in lines) == 2
    assert any("aiokafka.consumer speaks of INFO" in line for line in lines)
    assert any("faust speaks of ERROR" in line for line in lines)
    assert len(said(capsys, level="debug", libraries="debug")) == 24


def test_json_is_one_object_a_line_with_the_exception_in_it(capsys: pytest.CaptureFixture[str]) -> None:
    start_logging(LogSettings(format="json"))
    try:
        raise ValueError("a\nb")
    except ValueError:
        logging.getLogger("stream_app.embedded.runner").exception("step %d", 7)
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert (event["event"], event["level"], event["logger"]) == (
        "step 7",
        "error",
        "stream_app.embedded.runner",
    )
    assert event["timestamp"].endswith("Z")
    assert "ValueError" in event["exception"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_traceback_shows_no_variable(capsys: pytest.CaptureFixture[str], form: str) -> None:
    """A local variable may be a count, or a person."""
    start_logging(LogSettings.model_validate({"format": form}))
    secret_count = int("7654" + "321")
    try:
        raise ValueError
    except ValueError:
        logging.getLogger("stream_app.embedded.runner").exception("oh")
    printed = capsys.readouterr().err
    assert "ValueError" in printed
    assert str(secret_count) not in printed


def test_every_command_takes_its_settings_where_logging_is_set_up() -> None:
    """No command loads settings, or configures logging, by itself."""
    assert app.registered_groups
    looked_at = 0
    for path in (ROOT / "stream_app").rglob("*.py"):
        text = path.read_text()
        if "cli" in path.relative_to(ROOT).parts and path.name != "shared.py":
            assert not re.search(r"\bload_settings\b", text), path
            looked_at += 1
        if path.name != "this_process.py":
            assert "basicConfig" not in text, path
            assert ".setLevel(" not in text, path
    assert looked_at > 15


@pytest.mark.slow
def test_a_run_never_logs_a_person_a_pseudonym_or_a_count(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not for good readings, contradictions, late ones or garbage, nor when it goes on after a stop."""
    caplog.set_level(logging.INFO)
    counts = [7_654_000 + number for number in range(80)]
    messages = []
    for step in range(20):
        messages.append(activation(step, *NAMES))
        messages += [reading(step, name, counts[4 * step + place]) for place, name in enumerate(NAMES)]
        messages.append(reading(step, NAMES[0], 8_765_000 + step))
    garbage = b'{"v": 1, "type": "reading", "count": 8765999, "person": "person 3"}\n'
    first, second = lines_of(messages[:60]) + garbage, lines_of(messages[60:])
    run_on(tmp_path, [first])
    run_on(tmp_path, [first + garbage + second])
    people = {line["person"] for line in json_lines(tmp_path / "risks.jsonl") if line["type"] == "risk"}
    assert len(people) == len(population())
    assert (tmp_path / "rejected.jsonl").read_text().count("8765") > 10
    assert caplog.records
    never = [*people, *population().people, *map(str, counts), "8765"]
    assert [word for word in never if word in caplog.text] == []
