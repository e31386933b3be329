"""Readings and activations as CSV: ``step,sensor,count`` and ``step,sensor``, with a header line."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Sequence
from pathlib import Path

from models.exceptions import ScheduleError, SensorError
from models.releases import SensorRegistry
from stream_app.exceptions import InputError
from stream_app.wire.messages import Reason, Rejected
from stream_app.wire.parsing import InputMessage, parse_fields, reject

LineParser = Callable[[bytes, str], "InputMessage | Rejected"]

READING_COLUMNS = ("step", "sensor", "count")
ACTIVATION_COLUMNS = ("step", "sensor")
_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")


def reading_parser(header: bytes) -> LineParser:
    """A parser of the lines below a header; the columns may stand in any order."""
    columns = _split(header)
    if columns is None or sorted(columns) != sorted(READING_COLUMNS):
        raise InputError(
            "a CSV of readings must have the columns step, sensor and count",
            _columns_found(columns, READING_COLUMNS),
            "add a header line, or correct it",
        )

    def parse(line: bytes, source: str) -> InputMessage | Rejected:
        values = _split(line)
        if values is None or len(values) != len(columns):
            return reject(source, line, Reason.NOT_CSV, f"write {len(columns)} values: {','.join(columns)}")
        fields: dict[str, object] = dict(zip(columns, values, strict=True))
        for name in ("step", "count"):
            fields[name] = _number(str(fields[name]))
        return parse_fields({"v": 1, "type": "reading", **fields}, line, source)

    return parse


def load_activations(path: Path, registry: SensorRegistry) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a CSV of activations; :class:`ScheduleError` names the wrong line.

    Further columns are left unread: mechanisms come from the settings.
    """
    announced: dict[int, list[str]] = {}
    for number, line in _data_lines(path):
        step, sensor = line
        if not _INTEGER.fullmatch(step) or int(step) < 0:
            raise _wrong(path, number, "the step must be an integer >= 0", "another text")
        if sensor in announced.setdefault(int(step), []):
            raise _wrong(path, number, f"step {step} must name each sensor once", sensor)
        try:
            registry.get(sensor)
        except SensorError as error:
            raise ScheduleError(f"{path} line {number}: {error.must}", error.got, error.remedy) from error
        announced[int(step)].append(sensor)
    return {step: tuple(names) for step, names in announced.items()}


def _data_lines(path: Path) -> list[tuple[int, tuple[str, str]]]:
    """Line number, step and sensor of each row."""
    try:
        with path.open(newline="", encoding="utf-8") as content:
            rows = list(csv.reader(content))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ScheduleError(f"activations {path} must be a readable CSV", error, "check the file") from error
    header = [name.strip() for name in rows[0]] if rows else []
    if any(name not in header for name in ACTIVATION_COLUMNS):
        found = _columns_found(header, ACTIVATION_COLUMNS)
        raise _wrong(path, 1, "the header must name step and sensor", found)
    step, sensor = (header.index(name) for name in ACTIVATION_COLUMNS)
    short = next((i for i, row in enumerate(rows) if len(row) != len(header)), None)
    if short is not None:
        raise _wrong(path, short + 1, f"a line must have {len(header)} values", len(rows[short]))
    return [(i + 1, (row[step].strip(), row[sensor].strip())) for i, row in enumerate(rows) if i > 0]


def _split(line: bytes) -> Sequence[str] | None:
    """The values of one line, or None when it is not CSV in UTF-8."""
    try:
        rows = list(csv.reader([line.decode("utf-8")], strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None
    return [value.strip() for value in rows[0]] if len(rows) == 1 else None


def _columns_found(columns: Sequence[str] | None, wanted: Sequence[str]) -> str:
    """What stands in the first line, without quoting it: without a header it holds a count."""
    if columns is None:
        return "a line that is no CSV"
    found = [name for name in wanted if name in columns]
    return f"{len(columns)} columns" + (f", among them {', '.join(found)}" if found else ", none of them")


def _number(text: str) -> object:
    """An integer where the text is one; otherwise the text, which the message will refuse."""
    return int(text) if _INTEGER.fullmatch(text) else text


def _wrong(path: Path, line: int, must: str, got: object) -> ScheduleError:
    """A wrong line of an activation file."""
    return ScheduleError(f"{path} line {line}: {must}", got, "correct the line")
