"""Writes an export: made from what was released, and from nothing that was not."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from stream_app.analysis.export.data_package import data_package
from stream_app.analysis.export.day_files import csv_bytes, parquet_bytes
from stream_app.analysis.export.last_step import Places, crowd_flow, geojson
from stream_app.analysis.export.period_ceiling import period_ceiling, run_verdict
from stream_app.analysis.released_rows import ReleasedRow, RunTimes, released_days
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import make_folder, replace_file


class ExportFormat(StrEnum):
    """Kinds of files."""

    CSV = "csv"
    PARQUET = "parquet"
    GEOJSON = "geojson"
    NGSI_LD = "ngsi-ld"


_TABLES = {ExportFormat.CSV: csv_bytes, ExportFormat.PARQUET: parquet_bytes}


@dataclass(frozen=True)
class Exported:
    """What was written: files by name, steps with releases, values, and cells without one."""

    files: tuple[str, ...]
    days: int
    values: int
    not_published: int
    ceiling: Mapping[str, Any]
    verdict: Mapping[str, Any]


def export_run(
    run: Path, folder: Path, formats: Collection[ExportFormat], places: Places, about: dict[str, str]
) -> Exported:
    """Write the releases of a run for the public; files of the same name are replaced, each as a whole.

    :class:`OutputError` for a folder that is none of a run or has released nothing.
    """
    times = RunTimes(run)
    make_folder(folder)
    tables: list[str] = []
    days = values = empty = 0
    last: list[ReleasedRow] = []
    for day, rows in released_days(run):
        for kind, made in _TABLES.items():
            if kind in formats:
                tables.append(f"counts-{day:%Y-%m-%d}.{kind}")
                replace_file(folder / tables[-1], made(rows))
        days += 1
        published = sum(row.value is not None for row in rows)
        values, empty = values + published, empty + len(rows) - published
        last = [row for row in rows if row.step == rows[-1].step]
    if not last:
        raise OutputError(f"{run} must have released something", "nothing", "export it once a step is closed")
    ceiling, verdict = period_ceiling(run, last[-1].step), run_verdict(run)
    files = [*tables]
    if ExportFormat.GEOJSON in formats:
        collection = {**geojson(last, places), "ceiling": ceiling, "verdict": verdict}
        files.append(_write(folder, "last-step.geojson", collection))
    if ExportFormat.NGSI_LD in formats:
        entities = crowd_flow(last, times.deployment, places, verdict)
        files.append(_write(folder, "last-step.jsonld", entities))
    if tables:
        described = data_package(times.deployment, times.step_seconds, tables, ceiling, verdict, about)
        files.append(_write(folder, "datapackage.json", described))
    return Exported(tuple(files), days, values, empty, ceiling, verdict)


def _write(folder: Path, name: str, document: object) -> str:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    replace_file(folder / name, f"{text}\n".encode())
    return name
