"""Sensors files: name, locations and group of each device, in JSON or CSV.

JSON: ``{"sensors": [{"name": "s1", "locations": [3, "harbour"], "group": "centre", "x": 0.4, "y": 1.9}]}``.
CSV: columns ``name``, ``locations`` (several with ``;`` between) and optionally ``group``, ``x`` and ``y``.
Locations by index or by name. ``x`` and ``y`` (east and north in any unit), or ``lat`` and ``lon`` in
degrees, place a sensor on the page's map and do nothing else.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import asinh, degrees, isfinite, radians, tan
from pathlib import Path
from typing import Any

from models.exceptions import SensorError
from models.releases import Sensor, SensorRegistry
from models.text import parse_json

_PLANE, _GLOBE = ("x", "y"), ("lat", "lon")
_KEYS = ("name", "locations", "group", *_PLANE, *_GLOBE)
_MOST_DIGITS = 10  # of a location's index
_MERCATOR_ENDS = 85.0  # degrees of latitude; the projection has no poles
_EXAMPLE = '{"sensors": [{"name": "s1", "locations": [3], "group": "centre"}]}'


def load_registry(path: Path | None, location_names: Sequence[str]) -> SensorRegistry:
    """The sensors of a file; without a file each location has a sensor of its own name.

    :class:`SensorError` names file and sensor and says what to write instead.
    """
    if path is None:
        return SensorRegistry.one_per_location(location_names)
    index_of = {name: index for index, name in enumerate(location_names)}
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    sensors = [_sensor(path, number, row, index_of) for number, row in enumerate(rows, start=1)]
    try:
        return SensorRegistry(tuple(location_names), tuple(sensors))
    except SensorError as error:
        raise SensorError(f"in {path}, {error.must}", error.got, error.remedy) from error


def sensor_degrees(path: Path) -> dict[str, tuple[float, float]]:
    """Longitude and latitude of the sensors that have both, by name; :class:`SensorError` for wrong ones."""
    rows = _csv_rows(path) if path.suffix.lower() == ".csv" else _json_rows(path)
    found = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not set(_GLOBE) <= row.keys():
            continue
        _position(f"sensor {number} of {path}", {key: row[key] for key in _GLOBE})
        found[str(row.get("name", ""))] = (float(row["lon"]), float(row["lat"]))
    return found


def _json_rows(path: Path) -> Sequence[object]:
    """The list of sensors in a JSON document."""
    try:
        document = parse_json(_read(path))
    except ValueError as error:
        raise SensorError(f"sensors file {path} must be JSON", error, "correct it there") from error
    rows = document.get("sensors") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SensorError(f"sensors file {path} must hold a list of sensors", type(rows).__name__, _EXAMPLE)
    return rows


def _csv_rows(path: Path) -> Iterator[dict[str, object]]:
    """The sensors of a CSV file in the form of the JSON one."""
    reader = csv.DictReader(_read(path).splitlines())
    try:
        rows = list(reader)
    except csv.Error as error:
        raise SensorError(f"sensors file {path} must be a readable CSV", error, "check the file") from error
    if not {"name", "locations"} <= set(reader.fieldnames or ()):
        raise SensorError(
            f"sensors file {path} must have columns name and locations",
            f"{len(reader.fieldnames or ())} others",
            "add a header line",
        )
    for row in rows:
        fields: dict[str, object] = {key: value for key, value in row.items() if value}
        parts = [part.strip() for part in (row["locations"] or "").split(";") if part.strip()]
        locations = [int(part) if part.isdecimal() and len(part) < _MOST_DIGITS else part for part in parts]
        yield {**fields, **_as_numbers(fields), "locations": locations}


def _as_numbers(fields: Mapping[str, object]) -> dict[str, object]:
    """Coordinates of a CSV row; a text that is no number stays and is refused as such."""
    numbers: dict[str, object] = {}
    for key in (*_PLANE, *_GLOBE):
        with suppress(KeyError, ValueError):
            numbers[key] = float(str(fields[key]))
    return numbers


def _sensor(path: Path, number: int, row: object, index_of: Mapping[str, int]) -> Sensor:
    """One sensor, checked."""
    where = f"sensor {number} of {path}"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise SensorError(f"{where} must be an object with a name", row, _EXAMPLE)
    unknown = sorted(set(map(str, row)) - set(_KEYS))
    if unknown:
        raise SensorError(f"{where} has the keys {', '.join(_KEYS)}", ", ".join(unknown), "remove the rest")
    locations, group = row.get("locations"), row.get("group", "default")
    if not isinstance(locations, list) or not isinstance(group, str):
        raise SensorError(f"{where} must have a list of locations and a group in words", row, _EXAMPLE)
    indices = tuple(sorted(_location(where, item, index_of) for item in locations))
    return Sensor(row["name"], indices, group, _position(where, row))


def _position(where: str, row: Mapping[str, Any]) -> tuple[float, float] | None:
    """East and north: as given, or degrees on a globe unrolled by Mercator's projection."""
    given = {key: row[key] for key in (*_PLANE, *_GLOBE) if key in row}
    if not given:
        return None
    is_number = all(
        isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
        for value in given.values()
    )
    if not is_number or tuple(given) not in (_PLANE, _GLOBE):
        raise SensorError(f"{where} must have numbers x and y, or lat and lon, or neither", given, _EXAMPLE)
    if tuple(given) == _PLANE:
        return float(given["x"]), float(given["y"])
    latitude, longitude = given["lat"], given["lon"]
    if not (abs(latitude) <= _MERCATOR_ENDS and abs(longitude) <= 180.0):
        raise SensorError(
            f"{where} must lie within {_MERCATOR_ENDS:g} degrees of latitude and 180 of longitude",
            given,
            "give degrees, latitude as lat and longitude as lon",
        )
    return float(longitude), degrees(asinh(tan(radians(latitude))))


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
