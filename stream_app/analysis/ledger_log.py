"""The release log of a finished or running run, or of a planned schedule, for the ledgers to read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from pydantic import ValidationError

from accounting.ledgers import ReleaseLog
from models.releases import SensorRegistry
from stream_app.exceptions import OutputError
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.settings import Settings
from stream_app.steps import first_slot_of
from stream_app.wire import StepDecision, schedule_of


def load_log(path: Path, registry: SensorRegistry) -> ReleaseLog:
    """The log in an output folder (its decisions, which are what was accounted), or in a schedule file.

    :class:`OutputError` for a folder that is none of a run. A run may go on while its log is read.
    """
    if not path.is_dir():
        return ReleaseLog(load_schedule(path, registry).steps)
    decisions = path / "decisions.jsonl"
    if not decisions.is_file():
        raise OutputError(
            f"{path} must be the output folder of a run", "no decisions.jsonl", "give a folder or a schedule"
        )
    published = _complete_lines(path / "releases.jsonl")
    lines = zip(_lines(decisions), range(published), strict=False)
    return ReleaseLog.of(schedule_of(_decision(decisions, line), registry) for line, _ in lines)


def first_slot_of_log(path: Path, registry: SensorRegistry, settings: Settings) -> int:
    """The slot of the log's first step: a run's settings have it, for a schedule file they or the file."""
    return settings.first_slot if path.is_dir() else first_slot_of(settings, load_schedule(path, registry))


def _lines(path: Path) -> Iterator[bytes]:
    """Complete lines of a file; a torn last one is still being written."""
    with path.open("rb") as content:
        for line in content:
            if line.endswith(b"\n"):
                yield line


def _complete_lines(path: Path) -> int:
    return sum(1 for _ in _lines(path)) if path.exists() else 0


def _decision(path: Path, line: bytes) -> StepDecision:
    try:
        return StepDecision.model_validate_json(line)
    except ValidationError as error:
        raise OutputError(
            f"each line of {path} must be as it was written",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            "restore the file",
        ) from error
