"""The release log of a finished or running run, or of a planned schedule, for the ledgers to read."""

from __future__ import annotations

from pathlib import Path

from accounting.ledgers import ReleaseLog
from models.releases import SensorRegistry
from stream_app.analysis.checked_run import NO_RECORD, check_run
from stream_app.analysis.run_lines import complete_lines, record_of
from stream_app.exceptions import OutputError, restoring
from stream_app.setup.schedule_files import load_schedule
from stream_app.setup.settings import Settings
from stream_app.steps import first_slot_of
from stream_app.wire import StepDecision, schedule_of


def load_log(path: Path, registry: SensorRegistry) -> ReleaseLog:
    """The log in an output folder (its decisions, which are what was accounted), or in a schedule file.

    :class:`OutputError` for a folder that is none of a run, or whose logs are not whole: without a step every
    guarantee would be too good. A run may go on while its log is read.
    """
    if not path.is_dir():
        return ReleaseLog(load_schedule(path, registry).steps)
    decisions = path / "decisions.jsonl"
    if not decisions.is_file():
        raise OutputError(
            f"{path} must be the output folder of a run", "no decisions.jsonl", "give a folder or a schedule"
        )
    if faults := [fault for fault in check_run(path).faults if fault != NO_RECORD]:
        raise OutputError(
            f"the logs in {path} must be whole, or every guarantee would be too good",
            "; ".join(faults),
            restoring("what is missing"),
        )
    published = sum(1 for _ in complete_lines(path / "releases.jsonl"))
    lines = zip(complete_lines(decisions), range(published), strict=False)
    return ReleaseLog.of(schedule_of(record_of(StepDecision, decisions, line), registry) for line, _ in lines)


def first_slot_of_log(path: Path, registry: SensorRegistry, settings: Settings) -> int:
    """The slot of the log's first step: a run's settings have it, for a schedule file they or the file."""
    return settings.first_slot if path.is_dir() else first_slot_of(settings, load_schedule(path, registry))
