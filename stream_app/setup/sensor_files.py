"""Sensors files: name, locations and group of each device, in JSON or CSV.

JSON: ``{"sensors": [{"name": "s1", "locations": [3, "harbour"], "group": "centre", "x": 0.4, "y": 1.9}]}``.
CSV: columns ``name``, ``locations`` (several with ``;`` between) and optionally ``group``, ``x`` and ``y``.
What sensors count is declared for all (``{"counts": "passages", "most_counts": 4, "most_sensors": 1,
"sensors": [...]}``) or for each, by the fields or columns ``counts`` and ``most_counts``; and so are
``corrections``, how many more values of one step are published at most. Locations by index or by name. ``x``
and ``y`` (east and north in any unit), or ``lat`` and ``lon`` in degrees, place a sensor on the page's map
and do nothing else.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from difflib import get_close_matches
from math import asinh, degrees, isfinite, radians, tan
from pathlib import Path
from typing import Any

from models.exceptions import SensorError
from models.releases import Counts, Sensor, SensorRegistry
from models.text import parse_json

_PLANE, _GLOBE = ("x", "y"), ("lat", "lon")
_COUNTS, _MOST, _CORRECTIONS = "counts", "most_counts", "corrections"
_KEYS = ("name", "locations", "group", _COUNTS, _MOST, _CORRECTIONS, *_PLANE, *_GLOBE)
_MOST_CORRECTIONS = 10
_NOT_IN_A_RUN = {
    "moves": "count people at locations in a step, for a run has no account of sensors on moves",
    "window": "count one step of the priors, for a run has no account of longer or shorter windows",
}
_ELSEWHERE = "certify them in Python (docs/how-to/passages.md), or fit priors with the steps of the counts"
_DOCUMENT = ("sensors", _COUNTS, _MOST, _CORRECTIONS, "most_sensors")
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
    rows, for_all = _rows(path)
    sensors = [
        _sensor(path, number, _with_declared(for_all, row), index_of)
        for number, row in enumerate(rows, start=1)
    ]
    try:
        registry = SensorRegistry(tuple(location_names), tuple(sensors))
    except SensorError as error:
        raise SensorError(f"in {path}, {error.must}", error.got, error.remedy) from error
    _check_most_sensors(path, for_all, registry)
    return registry


def sensor_degrees(path: Path) -> dict[str, tuple[float, float]]:
    """Longitude and latitude of the sensors that have both, by name; :class:`SensorError` for wrong ones."""
    rows, _ = _rows(path)
    found = {}
    for number, row in enumerate(rows, start=1):
        if not isinstance(row, dict) or not set(_GLOBE) <= row.keys():
            continue
        _position(f"sensor {number} of {path}", {key: row[key] for key in _GLOBE})
        found[str(row.get("name", ""))] = (float(row["lon"]), float(row["lat"]))
    return found


def _rows(path: Path) -> tuple[Iterable[object], Mapping[str, object]]:
    """The sensors of a file, and what it declares for all of them."""
    return (_csv_rows(path), {}) if path.suffix.lower() == ".csv" else _json_rows(path)


def _json_rows(path: Path) -> tuple[Sequence[object], Mapping[str, object]]:
    """The list of sensors in a JSON document, and what stands beside it."""
    try:
        document = parse_json(_read(path))
    except ValueError as error:
        raise SensorError(f"sensors file {path} must be JSON", error, "correct it there") from error
    rows = document.get("sensors") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SensorError(f"sensors file {path} must hold a list of sensors", type(rows).__name__, _EXAMPLE)
    return rows, _declared_for_all(path, document) if isinstance(document, dict) else {}


def _declared_for_all(path: Path, document: Mapping[str, object]) -> Mapping[str, object]:
    """What a document says of all its sensors: what they count, and how many of them one person."""
    beside = {key: value for key, value in document.items() if key != "sensors"}
    if any(key in _NOT_IN_A_RUN for key in beside):
        _refuse_what_has_no_account(f"sensors of {path}", beside)
    return {key: value for key, value in beside.items() if key in _DOCUMENT}


def _with_declared(for_all: Mapping[str, object], row: object) -> object:
    """A sensor's row, with what is declared for all where it declares nothing itself."""
    if not isinstance(row, dict):
        return row
    own = (_COUNTS, _MOST, "most_sensors") if _COUNTS in row else ()
    return {**{key: value for key, value in for_all.items() if key not in own}, **row}


def _refuse_what_has_no_account(where: str, row: Mapping[str, object]) -> None:
    """:class:`SensorError` for sensors on moves and for windows, which only the library accounts."""
    for key, must in _NOT_IN_A_RUN.items():
        if key in row:
            raise SensorError(f"{where} must {must}", f"the field {key}", _ELSEWHERE)


def _check_most_sensors(path: Path, for_all: Mapping[str, object], registry: SensorRegistry) -> None:
    """:class:`SensorError` where one person may be counted by more sensors than those of one place."""
    declared, overlapping = for_all.get("most_sensors"), registry.most_at_one_place()
    if declared is None:
        return
    if not _is_whole(declared) or not 1 <= int(str(declared)) <= overlapping:
        raise SensorError(
            f"sensors of {path} must count one person in a step at one place of the priors, so by at most "
            f"{overlapping} of them",
            f"most_sensors {declared}",
            "choose steps so short that nobody is counted at two places in one, or certify passages over "
            "windows in Python (docs/how-to/passages.md)",
        )


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _declared(where: str, row: Mapping[str, object]) -> tuple[Counts | None, int]:
    """What the sensor counts, None if nobody says, and one person how often in a step at most."""
    counts, most = row.get(_COUNTS), row.get(_MOST)
    if counts is None and most is None:
        return None, 1
    if counts not in (*Counts,) or (most is not None and not (_is_whole(most) and int(str(most)) >= 1)):
        raise SensorError(
            f'{where} must count "presence" or "passages", one person most_counts (1 or more) times',
            {key: row[key] for key in (_COUNTS, _MOST) if key in row},
            'for a door counter write "counts": "passages", "most_counts": 4',
        )
    declared = Counts(str(counts))
    if declared is Counts.PASSAGES and most is None:
        raise SensorError(
            f"{where} must declare most_counts, since it counts passages",
            "none",
            "ask the vendor how often the device can count one person in a step; 1 for one that deduplicates",
        )
    if declared is Counts.PRESENCE and most not in (None, 1):
        raise SensorError(f"{where} must count each person once, as presence", most, "declare passages")
    return declared, 1 if most is None else int(str(most))


def _corrections(where: str, row: Mapping[str, object]) -> int:
    """How many more values of one step are published at most."""
    declared = row.get(_CORRECTIONS, 0)
    if not _is_whole(declared) or not 0 <= int(str(declared)) <= _MOST_CORRECTIONS:
        raise SensorError(
            f"{where} must declare from 0 to {_MOST_CORRECTIONS} corrections of a step",
            declared,
            "every one is accounted from the start, whether it comes or not (docs/how-to/late-data.md)",
        )
    return int(str(declared))


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
    """The numbers of a CSV row; a text that is no number stays and is refused as such."""
    numbers: dict[str, object] = {}
    for key in (*_PLANE, *_GLOBE):
        with suppress(KeyError, ValueError):
            numbers[key] = float(str(fields[key]))
    for key in (_MOST, _CORRECTIONS):
        with suppress(KeyError, ValueError):
            numbers[key] = int(str(fields[key]))
    return numbers


def _sensor(path: Path, number: int, row: object, index_of: Mapping[str, int]) -> Sensor:
    """One sensor, checked."""
    where = f"sensor {number} of {path}"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise SensorError(f"{where} must be an object with a name", row, _EXAMPLE)
    _refuse_what_has_no_account(where, row)
    unknown = sorted(set(map(str, row)) - {*_KEYS, "most_sensors"})
    if unknown:
        raise SensorError(f"{where} has the keys {', '.join(_KEYS)}", ", ".join(unknown), "remove the rest")
    locations, group = row.get("locations"), row.get("group", "default")
    if not isinstance(locations, list) or not isinstance(group, str):
        raise SensorError(f"{where} must have a list of locations and a group in words", row, _EXAMPLE)
    indices = tuple(sorted(_location(where, item, index_of) for item in locations))
    counts, most_counts = _declared(where, row)
    corrections = _corrections(where, row)
    return Sensor(row["name"], indices, group, _position(where, row), most_counts, counts, corrections)


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
