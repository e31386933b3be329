"""``datapackage.json``: what the files of an export hold, as Frictionless Data describes tables."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

_FIELDS: tuple[dict[str, Any], ...] = (
    {"name": "step", "type": "integer", "description": "number of the step, from 0"},
    {"name": "start", "type": "datetime", "description": "beginning of the step, UTC, inclusive"},
    {"name": "end", "type": "datetime", "description": "end of the step, UTC, exclusive"},
    {"name": "sensor", "type": "string", "description": "name of the sensor"},
    {
        "name": "mechanism",
        "type": "string",
        "description": "how the value was released; suppressed = not at all",
    },
    {
        "name": "sigma",
        "type": "number",
        "unit": "people",
        "description": "standard deviation of the noise in the value; empty where the mechanism has none",
    },
    {
        "name": "epsilon",
        "type": "number",
        "unit": "nats",
        "description": "privacy level of a value released in tiers; empty otherwise",
    },
    {
        "name": "value",
        "type": "integer",
        "unit": "people",
        "description": "the released count, with its noise, so it may be negative; empty = not published, "
        "which is no 0",
    },
    {
        "name": "version",
        "type": "integer",
        "description": "1, or 2 and above for a further value of the same count, with noise of its own",
    },
)
_REQUIRED = ("step", "start", "end", "sensor", "mechanism", "version")


def data_package(
    deployment: str,
    step_seconds: int,
    files: Sequence[str],
    ceiling: dict[str, Any],
    verdict: dict[str, Any],
    about: dict[str, str],
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
        "ceiling": ceiling,
        "verdict": verdict,
    }
    if "licence" in about:
        package["licenses"] = [{"name": about["licence"]}]
    return package


def _resource(name: str) -> dict[str, Any]:
    stem, _, kind = name.rpartition(".")
    mediatype = "text/csv" if kind == "csv" else "application/vnd.apache.parquet"
    schema = {
        "fields": [
            {**field, **({"constraints": {"required": True}} if field["name"] in _REQUIRED else {})}
            for field in _FIELDS
        ],
        "missingValues": [""],
        "primaryKey": ["step", "sensor", "version"],
    }
    found = {"name": _slug(f"{stem}-{kind}"), "path": name, "format": kind, "mediatype": mediatype}
    return {**found, **({"encoding": "utf-8"} if kind == "csv" else {}), "schema": schema}


def _slug(text: str) -> str:
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-") or "counts"
