"""Sensors files: name, locations and group of each device, in JSON or CSV.

JSON: ``{"sensors": [{"name": "s1", "locations": [3, "harbour"], "group": "centre"}]}``. CSV: columns
``name``, ``locations`` (several with ``;`` between) and optionally ``group``. Locations by index or by name.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path

from models.exceptions import SensorError
from models.sensors import Sensor, SensorRegistry

_KEYS = ("name", "locations", "group")
_EXAMPLE = '{"sensors": [{"name": "s1", "locations": [3], "group": "centre"}]}'


def load_registry(path: Path | None, location_names: Sequence[str]) -> SensorRegistry:
    """The sensors of a file; without a file each location has a sensor of its own name.

    :class:`SensorError` names file and sensor and says what to write instead.
    """
    if path is None:
        return SensorRegistry.one_per_location(location_names)
    index_of = {name: index for index, name in enumerate(location_names)}
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    sensors = tuple(_sensor(path, number, row, index_of) for number, row in enumerate(rows, start=1))
    try:
        return SensorRegistry(tuple(location_names), sensors)
    except SensorError as error:
        raise SensorError(f"in {path}, {error.must}", error.got, error.remedy) from error


def _json_rows(path: Path) -> Sequence[object]:
    """The list of sensors in a JSON document."""
    try:
        document = json.loads(_read(path))
    except ValueError as error:
        raise SensorError(f"sensors file {path} must be JSON", error, "correct it there") from error
    rows = document.get("sensors") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SensorError(f"sensors file {path} must hold a list of sensors", type(rows).__name__, _EXAMPLE)
    return rows


def _csv_rows(path: Path) -> Iterator[dict[str, object]]:
    """The sensors of a CSV file in the form of the JSON one."""
    reader = csv.DictReader(_read(path).splitlines())
    if not {"name", "locations"} <= set(reader.fieldnames or ()):
        raise SensorError(
            f"sensors file {path} must have columns name and locations",
            reader.fieldnames,
            "add a header line",
        )
    for row in reader:
        fields: dict[str, object] = {key: value for key, value in row.items() if value}
        parts = [part.strip() for part in (row["locations"] or "").split(";") if part.strip()]
        yield {**fields, "locations": [int(part) if part.isdecimal() else part for part in parts]}


def _sensor(path: Path, number: int, row: object, index_of: Mapping[str, int]) -> Sensor:
    """One sensor, checked."""
    where = f"sensor {number} of {path}"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise SensorError(f"{where} must be an object with a name", row, _EXAMPLE)
    unknown = sorted(set(map(str, row)) - set(_KEYS))
    if unknown:
        raise SensorError(
            f"{where} has the keys name, locations, group", ", ".join(unknown), "remove the rest"
        )
    locations, group = row.get("locations"), row.get("group", "default")
    if not isinstance(locations, list) or not isinstance(group, str):
        raise SensorError(f"{where} must have a list of locations and a group in words", row, _EXAMPLE)
    return Sensor(row["name"], tuple(sorted(_location(where, item, index_of) for item in locations)), group)


def _location(where: str, item: object, index_of: Mapping[str, int]) -> int:
    """A location given by index or by name."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and item in index_of:
        return index_of[item]
    close = get_close_matches(str(item), index_of, n=1)
    hint = f"did you mean {close[0]!r}?" if close else "use an index or a name of the priors file"
    raise SensorError(f"a location of {where} must be known to the priors", repr(item), hint)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise SensorError(f"sensors file {path} must be readable text", error, "check the path") from error
