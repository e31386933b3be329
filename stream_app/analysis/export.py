"""What a run has released, as files for the public: described tables by day, and the last step."""

from __future__ import annotations

import csv
import io
import json
import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa
import pyarrow.parquet as pq

from models.text import number_of, safe_cell
from stream_app.analysis.catalogue import CATALOGUE, Address, Measured, catalogue
from stream_app.analysis.ledger_document import units_of_run
from stream_app.analysis.run_lines import ReleasedRow, released_days
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.analysis.verdict import verdict_in_words, verdict_of
from stream_app.exceptions import InputError, OutputError
from stream_app.setup.option_settings import ExportFormat
from stream_app.setup.run_folder.description import description_in
from stream_app.setup.run_folder.durable import make_folder, replace_file
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.setup.total_levels import Level
from stream_app.steps import Intervals, complete_totals
from stream_app.watching.glossary import texts
from stream_app.watching.prior_notes import basis_note

logger = logging.getLogger(__name__)

# Tables as CSV or Parquet: the same columns, an empty cell where nothing was published.

_ISO_TIME = "%Y-%m-%dT%H:%M:%SZ"
_COLUMNS = texts("columns.toml")
_TYPES: dict[str, Any] = {
    **{"integer": pa.int64(), "number": pa.float64(), "string": pa.string()},
    "datetime": pa.timestamp("s", "UTC"),
}


def table_bytes(kind: ExportFormat, table: str, rows: Iterable[Sequence[Any]]) -> bytes:
    """A header line and a line for each row, times in UTC; in Parquet what is empty is null."""
    columns = _COLUMNS[table]
    if kind is ExportFormat.CSV:
        text = io.StringIO(newline="")
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(map(_cell, row) for row in rows)
        return text.getvalue().encode()
    kinds = [_TYPES[kind] for kind, *_ in columns.values()]
    times = pa.types.is_timestamp
    columns_of = zip(kinds, zip(*rows, strict=True), strict=True)
    arrays = [pa.array(map(_moment, each) if times(own) else each, own) for own, each in columns_of]
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(dict(zip(columns, arrays, strict=True))), sink)
    return bytes(sink.getvalue().to_pybytes())


def _moment(value: str | datetime) -> datetime:
    return datetime.fromisoformat(value) if isinstance(value, str) else value


def _cell(value: object) -> object:
    if isinstance(value, datetime):
        return f"{value:{_ISO_TIME}}"
    return safe_cell(value) if isinstance(value, str) else value


# The last step as maps and context brokers take it: GeoJSON, and NGSI-LD ``CrowdFlowObserved``.

Places = Mapping[str, tuple[float, float]]  # longitude and latitude in degrees
_CONTEXT = [
    "https://raw.githubusercontent.com/smart-data-models/dataModel.Transportation/master/context.jsonld",
    "https://uri.etsi.org/ngsi-ld/v1/ngsi-ld-core-context.jsonld",
]


def places_of_run(folder: Path, given: Places | None = None) -> Places:
    """Where the sensors are, as the run describes it; places that are given count more, and it is said."""
    description = description_in(folder)
    own = {} if description is None else description.degrees()
    moved = sorted(name for name in (given or {}).keys() & own.keys() if (given or {})[name] != own[name])
    if moved:
        logger.warning(
            "sensor %r and %d more are elsewhere in the sensors file than the run describes: the file counts",
            *(moved[0], len(moved) - 1),
        )
    return {**own, **(given or {})}


def geojson(rows: Sequence[ReleasedRow], places: Places) -> dict[str, Any]:
    """A point for each sensor; :class:`InputError` where one has no place. ``value`` null = not published."""
    without = sorted({row.sensor for row in rows} - places.keys())
    if without:
        raise InputError(
            "each released sensor must have lat and lon for GeoJSON",
            f"{len(without):,} without, such as {without[0]!r}",
            "name a sensors file that has both with --sensors, or leave geojson out of --format",
        )
    return {
        "type": "FeatureCollection",
        "features": [
            {
                "type": "Feature",
                "id": row.sensor,
                "geometry": {"type": "Point", "coordinates": list(places[row.sensor])},
                "properties": {
                    **row._asdict(),
                    "start": f"{row.start:{_ISO_TIME}}",
                    "end": f"{row.end:{_ISO_TIME}}",
                },
            }
            for row in rows
        ],
    }


def _entity(
    row: ReleasedRow, deployment: str, place: tuple[float, float] | None, level: float
) -> dict[str, Any]:
    name = f"{quote(deployment, safe='')}:{quote(row.sensor, safe='')}"
    entity: dict[str, Any] = {
        "id": f"urn:ngsi-ld:CrowdFlowObserved:{name}",
        "type": "CrowdFlowObserved",
        "name": _property(row.sensor),
        "dateObservedFrom": _property({"@type": "DateTime", "@value": f"{row.start:{_ISO_TIME}}"}),
        "dateObservedTo": _property({"@type": "DateTime", "@value": f"{row.end:{_ISO_TIME}}"}),
        "mechanism": _property(row.mechanism),
    }
    if row.value is not None:
        entity["peopleCount"] = _property(row.value)
        if row.sigma is not None:
            entity["peopleCount"]["sigma"] = _property(row.sigma)
        if row.high is not None:
            ends = {"low": row.low, "high": row.high, "confidence": level}
            entity["peopleCount"] |= {name: _property(value) for name, value in ends.items()}
    if place is not None:
        entity["location"] = {"type": "GeoProperty", "value": {"type": "Point", "coordinates": list(place)}}
    return {**entity, "@context": _CONTEXT}


def _property(value: object) -> dict[str, Any]:
    return {"type": "Property", "value": value}


# The ceiling of an exported period, with the condition it holds under, and whether its rule was kept.


def period_ceiling(log: RunLog, last_step: int) -> dict[str, Any]:
    """The highest ceiling over all people up to a step, from the run's records; null if not computed.

    A figure without its condition means nothing, so they stand together.
    """
    summary = next((each for each in reversed(log.summaries) if each.step <= last_step), None)
    people = int(log.settings.get("people", 0))
    horizon, mistakes = log.settings["horizon"], log.settings["mistakes"]
    found: dict[str, Any] = {
        "highest": None if summary is None or people == 0 else summary.most_risk,
        "until_step": None if summary is None else summary.step,
        "people": people,
        "horizon_steps": horizon,
        "mistakes": mistakes,
    }
    note = basis_note(people, log.settings.get("assumed_habits"), log.check, log.draws)
    condition = "no ceiling of persons was computed"
    if people and found["highest"] is not None:
        condition = (
            "an adversary who reads all that was released, and knows how each of the "
            f"{number_of(people, 'person')} lives, as the priors of the deployment say, and where everybody "
            "else is, "
            f"names the places of any of them in {horizon} consecutive steps with at most {mistakes} wrong "
            "no more often than this; it holds for people counted as the deployment's sensors declare, and "
            "not for people who live otherwise or move together"
        )
    found["condition"] = "; ".join(filter(None, (condition, note)))
    return found


def run_verdict(log: RunLog) -> dict[str, Any]:
    """Whether the rule was kept: ``yes``, ``no``, ``not shown`` or ``no rule``, with the report's sentence.

    What the report says of counts beside the priors' people is not for the public, and left out.
    """
    if log.settings.get("people") != 0 and not log.summaries:
        return {"answer": "not shown", "sentence": "no step of the run has its risks recorded"}
    verdict = verdict_of(replace(log, beyond=None))
    return {"answer": verdict.answer.value, "sentence": verdict_in_words(verdict, log, says_who=False)}


# ``datapackage.json``: what the files of an export hold, as Frictionless Data describes tables.

INTERVALS = (
    "Noise was added to protect people, so a value is not the count. With a probability of {level:g} % the "
    "count was from low to high: of 100 such intervals about {level:g} hold their count, and which ones "
    "nobody can tell. Where low is 0 nobody may have been there. Two values whose intervals overlap need not "
    "differ. A value that was not published is no 0: its low is 0 and its high empty, as nothing is known. "
    "Intervals tell how far noise moves a value, not how well the device counts."
)
"""For readers of what was exported."""


_KEYS = {"counts": ["step", "sensor", "version"], "totals": ["level", "place", "first_step"]}
_REQUIRED = {
    "counts": {"step", "start", "end", "sensor", "mechanism", "version"},
    "totals": {"level", "place", "first_step", "last_step", "start", "end", "cells", "of"},
}


def data_package(
    deployment: str,
    step_seconds: int,
    files: Sequence[str],
    ceiling: dict[str, Any],
    verdict: dict[str, Any],
    about: dict[str, str],
    level: float,
) -> dict[str, Any]:
    """The descriptor of these files; ``about`` holds title, licence and publisher, as far as declared."""
    title = about.get("title") or f"People counts of {deployment}"
    publisher = about.get("publisher") or deployment
    package: dict[str, Any] = {
        "name": _slug(deployment),
        "title": title,
        "description": "Counts of people by sensor and step, released with the noise stated beside them. "
        "An empty value was not published; it is no 0.",
        "resources": [_resource(name) for name in files],
        "citation": f"{publisher}: {title}. Counts with noise; cite sigma with every value, and the ceiling "
        "with its condition.",
        "step_seconds": step_seconds,
        "intervals": {"confidence": level, "meaning": INTERVALS.format(level=100.0 * level)},
        "ceiling": ceiling,
        "verdict": verdict,
    }
    if "licence" in about:
        package["licenses"] = [{"name": about["licence"]}]
    return package


def _resource(name: str) -> dict[str, Any]:
    stem, _, kind = name.rpartition(".")
    table = stem if stem in _COLUMNS else "counts"
    names = ("type", "description", "unit")
    columns = {own: dict(zip(names, said, strict=False)) for own, said in _COLUMNS[table].items()}
    required = {"constraints": {"required": True}}
    schema = {
        "fields": [
            {
                **{"name": own, "type": said["type"]},
                **({"unit": said["unit"]} if "unit" in said else {}),
                "description": said["description"],
                **(required if own in _REQUIRED[table] else {}),
            }
            for own, said in columns.items()
        ],
        "missingValues": [""],
        "primaryKey": _KEYS[table],
    }
    is_csv = kind == ExportFormat.CSV
    mediatype = "text/csv" if is_csv else "application/vnd.apache.parquet"
    found = {"name": _slug(f"{stem}-{kind}"), "path": name, "format": kind, "mediatype": mediatype}
    return {**found, **({"encoding": "utf-8"} if is_csv else {}), "schema": schema}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "counts"


# Writes an export: made from what was released, and from nothing that was not.


_TABLES = (ExportFormat.CSV, ExportFormat.PARQUET)


@dataclass(frozen=True)
class Exported:
    """What was written: files by name, steps with releases, values, and cells without one."""

    files: tuple[str, ...]
    days: int
    values: int
    not_published: int
    ceiling: Mapping[str, Any]
    verdict: Mapping[str, Any]
    totals: int = 0


def export_run(
    run: Path,
    folder: Path,
    formats: Collection[ExportFormat],
    places: Places,
    about: dict[str, str],
    level: float | None = None,
    totals: Sequence[Level] | None = None,
    address: Address | None = None,
) -> Exported:
    """Write the releases of a run for the public; files of the same name are replaced, each as a whole.

    Intervals are at ``level``; None for the run's own confidence. ``totals`` of these levels are written,
    too, for an empty list those that the run declares. With an ``address`` there is a record for catalogues.
    :class:`OutputError` for a folder that is none of a run or has released nothing.
    """
    times, intervals = RunTimes(run), Intervals.of_run(run, level)
    make_folder(folder)
    tables: list[str] = []
    days = values = empty = 0
    first = None
    last: list[ReleasedRow] = []
    noise: dict[str, set[float]] = {}
    for day, rows in released_days(run, intervals):
        for kind in filter(formats.__contains__, _TABLES):
            tables.append(f"counts-{day:%Y-%m-%d}.{kind}")
            replace_file(folder / tables[-1], table_bytes(kind, "counts", rows))
        days += 1
        published = sum(row.value is not None for row in rows)
        values, empty = values + published, empty + len(rows) - published
        first, last = first or rows[0], [row for row in rows if row.step == rows[-1].step]
        for row in rows:
            noise.setdefault(row.mechanism, set()).update(() if row.sigma is None else (row.sigma,))
    sums = [] if totals is None else complete_totals(run, totals, level)
    for kind in filter(formats.__contains__, _TABLES if sums else ()):
        tables.append(f"totals.{kind}")
        replace_file(folder / tables[-1], table_bytes(kind, "totals", map(astuple, sums)))
    if first is None:
        raise OutputError(f"{run} must have released something", "nothing", "export it once a step is closed")
    log = read_run(run, is_accounted=False)
    ceiling, verdict = period_ceiling(log, last[-1].step), run_verdict(log)
    files = [*tables]
    if ExportFormat.GEOJSON in formats:
        collection = {
            **geojson(last, places),
            "confidence": intervals.level,
            "ceiling": ceiling,
            "verdict": verdict,
        }
        files.append(_write(folder, "last-step.geojson", collection))
    if ExportFormat.NGSI_LD in formats:
        said = {"privacyVerdict": _property(verdict["answer"])}  # in each, as it may be read alone
        entities = [
            {**_entity(row, times.deployment, places.get(row.sensor), intervals.level), **said}
            for row in last
        ]
        files.append(_write(folder, "last-step.jsonld", entities))
    described = data_package(
        times.deployment, times.step_seconds, tables, ceiling, verdict, about, intervals.level
    )
    if address is not None:
        record = catalogue(
            address,
            about.get("publisher") or times.deployment,
            described,
            files,
            (first.start, first.end, last[-1].end),
            [_noise_in_words(*each) for each in sorted(noise.items())],
            _measured(run, described),
            [places[name] for name in sorted({row.sensor for row in last} & places.keys())],
        )
        files.append(_write(folder, CATALOGUE, record))
    if tables:
        files.append(_write(folder, "datapackage.json", described))
    return Exported(tuple(files), days, values, empty, ceiling, verdict, len(sums))


def _noise_in_words(mechanism: str, sigmas: set[float]) -> str:
    ends = sorted({f"{sigma:g}" for sigma in (min(sigmas), max(sigmas))}, key=float) if sigmas else ()
    return f"{mechanism}, sigma {' to '.join(ends)} people" if ends else mechanism


def _measured(run: Path, described: Mapping[str, Any]) -> list[Measured]:
    """What a catalogue states in figures: the ceiling, epsilon by unit of privacy, and the intervals."""
    ceiling, intervals = described["ceiling"], described["intervals"]
    return [
        Measured(
            "highest ceiling", ceiling["highest"], f"highest ceiling of the period: {ceiling['condition']}"
        ),
        *(
            Measured(
                f"epsilon of the {each['unit']}",
                each["epsilon"],
                f"differential privacy at delta {each['delta']:g} of the {each['unit']}: {each['covers']}",
            )
            for each in units_of_run(run)
        ),
        Measured("confidence of intervals", intervals["confidence"], intervals["meaning"]),
    ]


def _write(folder: Path, name: str, document: object) -> str:
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, indent=2)
    replace_file(folder / name, f"{text}\n".encode())
    return name
