"""Sensors files: name, locations and group of each device, in JSON or CSV.

JSON: ``{"sensors": [{"name": "s1", "locations": [3, "harbour"], "group": "centre", "x": 0.4, "y": 1.9}]}``.
CSV: columns ``name``, ``locations`` (several with ``;`` between) and optionally ``group``, ``x`` and ``y``.
What sensors count is declared for all (``{"counts": "passages", "most_counts": 4, "most_sensors": 1,
"sensors": [...]}``) or for each, by the fields or columns ``counts``, ``most_counts``, ``window`` and
``miscounts``; and so are ``corrections``, how many more values of one step are published at most.
``part_of`` names the device of which sensors are parts, by direction, mode or age.
``most_counts_per_day`` of a sensor is how often that device counts one person in a day at most; in JSON it
stands next to ``sensors`` for all of them together, as does ``most_sensors_per_day``. In JSON a
sensor has ``moves`` (``[["office", "station"]]``) in place of locations. ``region`` names the part of the
city whose counts are taken in together, for all sensors or none. Locations by index or by name. ``x`` and
``y`` (east and north in any unit), or ``lat`` and ``lon`` in degrees, place a sensor on the page's map and do
nothing else; ``width`` and ``depth`` beside ``x`` and ``y`` draw it as a room.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from math import asinh, degrees, isfinite, radians, tan
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from models.exceptions import SensorError
from models.releases import CountingWindow, Counts, MoveSensor, PerDay, Sensor, SensorRegistry
from models.text import parse_json
from stream_app.exceptions import meant

_PLANE, _GLOBE, _SIZE = ("x", "y"), ("lat", "lon"), ("width", "depth")
_FOR_ALL = ("counts", "most_counts", "corrections", "window", "miscounts")
_BOUNDS = ("most_counts_per_day", "most_sensors_per_day")
_TOGETHER = ("most_sensors", *_BOUNDS)  # declared for all of them at once
_KEYS = (
    *("name", "locations", "group", "region", *_FOR_ALL, "most_counts_per_day"),
    *("part_of", "moves", "first_step", *_PLANE, *_GLOBE, *_SIZE),
)
MOST_WINDOW_STEPS = 48
"""Steps before a horizon that are followed one by one, so a window has no more."""

_MOST_CORRECTIONS = 10
_WRITE_MOVES = 'write "moves": [["office", "station"], ["station", "office"]], a third entry for how often'
_NUMBERS = ("most_counts", "corrections", "window", "first_step", "most_counts_per_day")
_MOST_DIGITS = 10  # of a location's index
_MERCATOR_ENDS = 85.0  # degrees of latitude; the projection has no poles
_MOVES_EXAMPLE = '{"sensors": [{"name": "bridge", "moves": [["office", "station"]], "most_counts": 1}]}'
_EXAMPLE = '{"sensors": [{"name": "s1", "locations": [3], "group": "centre"}]}'


def load_registry(path: Path | None, location_names: Sequence[str]) -> SensorRegistry:
    """The sensors of a file; without a file each location has a sensor of its own name.

    :class:`SensorError` names file and sensor and says what to write instead.
    """
    if path is None:
        return SensorRegistry.one_per_location(location_names)
    return registry_of(read_sensors(path), location_names, str(path))


def read_sensors(path: Path) -> dict[str, Any]:
    """What a file declares as one JSON document, whatever the file's form; not yet checked."""
    rows, for_all = _rows(path)
    return {**for_all, "sensors": list(rows)}


def registry_of(
    document: Mapping[str, Any], location_names: Sequence[str], where: str = "the description"
) -> SensorRegistry:
    """The sensors of a document (:func:`read_sensors`); ``where`` names it in a :class:`SensorError`."""
    index_of = {name: index for index, name in enumerate(location_names)}
    for_all = {key: value for key, value in document.items() if key != "sensors"}
    together = _bounds(where, for_all, *_BOUNDS)
    for_each = {key: value for key, value in for_all.items() if key not in _BOUNDS}
    sensors = [
        _sensor(where, number, _with_declared(for_each, row), index_of, together)
        for number, row in enumerate(document["sensors"], start=1)
    ]
    try:
        registry = SensorRegistry(tuple(location_names), tuple(sensors))
    except SensorError as error:
        raise SensorError(f"in {where}, {error.must}", error.got, error.remedy) from error
    _check_most_sensors(where, for_all, registry)
    return registry


def regions_by_sensor(path: Path | None) -> dict[str, str]:
    """The region of each sensor of a file; nothing where they lie in one, or in none."""
    rows = () if path is None else _rows(path)[0]
    named = ((row.get("name"), row.get("region")) for row in rows if isinstance(row, dict))
    found = {str(name): str(region) for name, region in named if region}
    return found if len(set(found.values())) > 1 else {}


def sensor_degrees(path: Path) -> dict[str, tuple[float, float]]:
    """Longitude and latitude of the sensors that have both, by name; :class:`SensorError` for wrong ones."""
    return degrees_of(read_sensors(path), str(path))


def degrees_of(document: Mapping[str, Any], where: str = "the description") -> dict[str, tuple[float, float]]:
    """The same for a document (:func:`read_sensors`)."""
    found = {}
    for number, row in enumerate(document["sensors"], start=1):
        if not isinstance(row, dict) or not set(_GLOBE) <= row.keys():
            continue
        _position(f"sensor {number} of {where}", {key: row[key] for key in _GLOBE})
        found[str(row.get("name", ""))] = (float(row["lon"]), float(row["lat"]))
    return found


def _rows(path: Path) -> tuple[Iterable[object], Mapping[str, object]]:
    """The sensors of a file, and what it declares for all of them."""
    return (_csv_rows(path), {}) if path.suffix.lower() == ".csv" else _json_rows(path)


def _json_rows(path: Path) -> tuple[Sequence[object], Mapping[str, object]]:
    """The list of sensors in a JSON document, and what the document declares for all of them."""
    try:
        document = parse_json(_read(path))
    except ValueError as error:
        raise SensorError(f"sensors file {path} must be JSON", error, "correct it there") from error
    rows = document.get("sensors") if isinstance(document, dict) else document
    if not isinstance(rows, list):
        raise SensorError(f"sensors file {path} must hold a list of sensors", type(rows).__name__, _EXAMPLE)
    if not isinstance(document, dict):
        return rows, {}
    if "moves" in document:
        raise SensorError(f"moves in {path} must be those of one sensor", "moves of all", _MOVES_EXAMPLE)
    return rows, {key: value for key, value in document.items() if key in (*_FOR_ALL, *_TOGETHER)}


def _with_declared(for_all: Mapping[str, object], row: object) -> object:
    """A sensor's row, with what is declared for all where it declares nothing itself."""
    if not isinstance(row, dict):
        return row
    is_other = "counts" in row or ("moves" in row and for_all.get("counts") == "presence")
    own = ("counts", "most_counts") if is_other else ()
    return {**{key: value for key, value in for_all.items() if key not in own}, **row}


def _check_most_sensors(where: str, for_all: Mapping[str, object], registry: SensorRegistry) -> None:
    """:class:`SensorError` where one person may be counted by more sensors than there can be."""
    declared, overlapping = for_all.get("most_sensors"), registry.most_at_one_place()
    if declared is None:
        return
    most = len(registry.sensors) if registry.windowed else overlapping
    if _is_whole(declared) and 1 <= declared <= most:
        return
    if registry.windowed:  # somebody may be counted anywhere in a window
        raise SensorError(
            f"most_sensors of {where} must be from 1 to {most}, its sensors",
            declared,
            "say how many sensors with windows can count one person in a window; leave it out for all",
        )
    raise SensorError(
        f"sensors of {where} must count one person in a step at one place of the priors, so by at most "
        f"{most} of them",
        f"most_sensors {declared}",
        "choose steps so short that nobody is counted at two places in one, or declare windows "
        "(docs/how-to/passages.md)",
    )


def _csv_rows(path: Path) -> Iterator[dict[str, object]]:
    """The sensors of a CSV file in the form of the JSON one."""
    reader = csv.DictReader(_read(path).splitlines(), strict=True)
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
    for kind, keys in ((float, (*_PLANE, *_GLOBE, *_SIZE)), (int, _NUMBERS)):
        for key in keys:
            with suppress(KeyError, ValueError):
                numbers[key] = kind(str(fields[key]))
    if fields.get("miscounts") in ("true", "false"):
        numbers["miscounts"] = fields["miscounts"] == "true"
    return numbers


def _bounds(where: str, row: Mapping[str, object], *keys: str) -> tuple[int | None, ...]:
    """Bounds over a day, as they are declared by these keys."""
    for key in keys:
        if key in row and not (_is_whole(row[key]) and row[key] >= 1):  # type: ignore[operator]  # an int
            raise SensorError(
                f"{where} must declare {key} as a whole number of 1 or more",
                row[key],
                "say how often one person is counted in a day of the local clock at most; leave it out where "
                "nobody enforces that",
            )
    return tuple(row.get(key) for key in keys)  # type: ignore[misc]


def _sensor(
    document: str,
    number: int,
    row: object,
    index_of: Mapping[str, int],
    together: tuple[int | None, ...],
) -> Sensor:
    """One sensor, checked."""
    where = f"sensor {number} of {document}"
    if not isinstance(row, dict) or not isinstance(row.get("name"), str) or not row["name"]:
        raise SensorError(f"{where} must be an object with a name", row, _EXAMPLE)
    unknown = sorted(set(map(str, row)) - {*_KEYS, "most_sensors"})
    if unknown:
        raise SensorError(f"{where} has the keys {', '.join(_KEYS)}", ", ".join(unknown), "remove the rest")
    group, locate = row.get("group", "default"), partial(_location, where, index_of)
    region = _words(f"{where} must have a region in words, or none", row.get("region"))
    counting = _counting(where, row, locate)
    if not isinstance(group, str) or not (counting.locations or isinstance(row.get("locations"), list)):
        raise SensorError(f"{where} must have a list of locations and a group in words", row, _EXAMPLE)
    part_of = _words(f"{where} must be part_of a device in words, or of none", row.get("part_of"))
    bounds = (*_bounds(where, row, "most_counts_per_day"), *together)
    indices = counting.locations or tuple(sorted(map(locate, row["locations"])))
    return Sensor(
        row["name"],
        indices,
        group,
        _position(where, row),
        counting.most_counts,
        counting.counts,
        counting.corrections,
        counting.window,
        region,
        PerDay(*bounds) if any(bounds) else None,
        part_of,
        _size(where, row),
    )


def _words(must: str, given: object) -> str | None:
    """A text that may be left out, and is not empty."""
    if given is None or (isinstance(given, str) and given):
        return given
    raise SensorError(must, repr(given), _EXAMPLE)


# The fields of a sensor that say what it counts; every one of them is accounted as it is declared.


class _Counting(NamedTuple):
    """What one sensor counts: fields of :class:`~models.releases.Sensor`.

    ``locations`` are those of the moves, None for a sensor on places.
    """

    counts: Counts | None
    most_counts: int
    corrections: int
    window: CountingWindow | None = None
    locations: tuple[int, ...] | None = None


def _counting(where: str, row: Mapping[str, object], locate: Callable[[object], int]) -> _Counting:
    """What a sensor's row declares; :class:`SensorError` says what it must.

    ``locate`` finds a location by its index or name.
    """
    moves = _moves(where, row, locate)
    window = _window(where, row, moves)
    counts, most = _declared(where, row, window)
    corrections = _corrections(where, row)
    if window is None:
        return _Counting(counts, most, corrections)
    if counts is Counts.PASSAGES and not moves:  # any function of how often each person is there
        window = replace(window, miscounts=True)
    ends = {place for start, end, _ in moves for place in (start, end)}
    return _Counting(counts, most, corrections, window, tuple(sorted(ends)) if moves else None)


def _window(
    where: str, row: Mapping[str, object], moves: tuple[tuple[int, int, int], ...]
) -> CountingWindow | None:
    """None for what counts in one step, at places."""
    steps, miscounts = row.get("window", 1), row.get("miscounts", False)
    if not _is_whole(steps) or not 1 <= steps <= MOST_WINDOW_STEPS:
        raise SensorError(
            f"{where} must have a window of 1 to {MOST_WINDOW_STEPS} steps of the priors",
            steps,
            "count over fewer steps, or fit priors with longer ones",
        )
    if not isinstance(miscounts, bool):
        raise SensorError(f"{where} must say miscounts as true or false", miscounts, "leave it out for false")
    first_step = row.get("first_step", 0)
    is_single = steps == 1 and not moves
    if not _is_whole(first_step) or first_step < 0 or (is_single and first_step):
        raise SensorError(
            f"{where} must have a first_step of 0 or more, and none unless it has a window or moves",
            first_step,
            "leave it out; a sensor with windows that is added later names the first step they may begin in",
        )
    if is_single:
        return None
    declared = row.get("most_sensors")
    most_sensors = declared if _is_whole(declared) else None
    return CountingWindow(steps, moves, miscounts, most_sensors, first_step)


def _moves(
    where: str, row: Mapping[str, object], locate: Callable[[object], int]
) -> tuple[tuple[int, int, int], ...]:
    """Triples (from, to, times) of a sensor on moves."""
    given = row.get("moves")
    if given is None:
        return ()
    if "locations" in row:
        raise SensorError(f"{where} must have either locations or moves", "both", "a door has moves only")
    if not isinstance(given, list) or not all(isinstance(each, list) for each in given):
        raise SensorError(f"{where} must have a list of moves", given, _WRITE_MOVES)
    found = {}
    for move in given:
        times = move[2] if len(move) == 3 else 1
        if len(move) not in (2, 3) or not _is_whole(times):
            raise SensorError(f"each move of {where} must have from and to", move, _WRITE_MOVES)
        pair = locate(move[0]), locate(move[1])
        if pair in found:
            raise SensorError(f"{where} must name each move once", move, "add up how often it is counted")
        found[pair] = int(times)
    triples = tuple((start, end, times) for (start, end), times in sorted(found.items()))
    return MoveSensor(where, triples).times_counted


def _declared(
    where: str, row: Mapping[str, object], window: CountingWindow | None
) -> tuple[Counts | None, int]:
    """What the sensor counts (None if not declared), and how often it counts one person at most."""
    counts, most = row.get("counts"), row.get("most_counts")
    if window is not None and counts is None:
        counts = Counts.PASSAGES if window.moves else Counts.PRESENCE
    if counts is None and most is None:
        return None, 1
    if counts not in (*Counts,) or (most is not None and not (_is_whole(most) and most >= 1)):
        raise SensorError(
            f'{where} must count "presence", "occupied" or "passages", most_counts of a person 1 or more',
            {key: row[key] for key in ("counts", "most_counts") if key in row},
            'for a door counter write "counts": "passages", "most_counts": 4',
        )
    declared = Counts(str(counts))
    if declared is not Counts.PASSAGES:
        return declared, _most_presence(where, most, window)
    if most is None:
        raise SensorError(
            f"{where} must declare most_counts, since it counts passages",
            "none",
            "ask the vendor how often the device can count one person in a window (a step, where none is "
            "declared); 1 for one that deduplicates",
        )
    return declared, most


def _most_presence(where: str, most: int | None, window: CountingWindow | None) -> int:
    """How often a sensor of presence counts one person: once a step."""
    steps = 1 if window is None else window.steps
    if window is not None and window.moves:
        raise SensorError(f"{where} must count passages, since it counts moves", "presence", "declare them")
    if most is not None and most > steps:
        raise SensorError(
            f"{where} must count each person once{' a step' if steps > 1 else ''}, as presence",
            most,
            "declare passages",
        )
    return steps if most is None else most


def _corrections(where: str, row: Mapping[str, object]) -> int:
    """How many more values of one step are published at most."""
    declared = row.get("corrections", 0)
    if not _is_whole(declared) or not 0 <= declared <= _MOST_CORRECTIONS:
        raise SensorError(
            f"{where} must declare from 0 to {_MOST_CORRECTIONS} corrections of a step",
            declared,
            "every one is accounted from the start, whether it comes or not (docs/how-to/late-data.md)",
        )
    return declared


def _is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is an integer; true and false are none."""
    return isinstance(value, int) and not isinstance(value, bool)


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


def _size(where: str, row: Mapping[str, Any]) -> tuple[float, float] | None:
    """Width and depth of a room on a plane, for the page's map; None where neither is given."""
    given = {key: row[key] for key in (*_PLANE, *_SIZE) if key in row}
    if not set(_SIZE) & given.keys():
        return None
    if len(given) < 4 or not all(
        isinstance(given[key], int | float) and 0.0 < given[key] < float("inf") for key in _SIZE
    ):
        raise SensorError(
            f"{where} must have a width and a depth above 0 beside x and y, or neither", given, _EXAMPLE
        )
    return float(given["width"]), float(given["depth"])


def _location(where: str, index_of: Mapping[str, int], item: object) -> int:
    """A location given by index or by name."""
    if isinstance(item, int) and not isinstance(item, bool):
        return item
    if isinstance(item, str) and item in index_of:
        return index_of[item]
    hint = meant(str(item), index_of, "use an index or a name of the priors file")
    raise SensorError(f"a location of {where} must be known to the priors", repr(item), hint)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        remedy = "check the path; save it as UTF-8"
        raise SensorError(f"sensors file {path} must be readable text", error, remedy) from error
