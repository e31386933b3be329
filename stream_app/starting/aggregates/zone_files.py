"""Where zones and sensors are: CSV or Parquet with lat and lon (or x and y in m), GeoJSON, sensors.json."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.exceptions import TallyguardError
from models.fitting import Checkins
from models.fitting.personas import NO_WORK, HomeWork, Zones, plane_km
from models.text import parse_json
from stream_app.exceptions import InputError
from stream_app.starting.counts.deployment_files import ELSEWHERE
from stream_app.starting.counts.lines import NamedMoves, ends_of, lines_of
from stream_app.starting.counts.tables import LATITUDES, LONGITUDES, BroughtTable

_GLOBE = (LATITUDES, LONGITUDES)
_PLANE = (("x", "east", "easting"), ("y", "north", "northing"))
MOST_COUNTS = "most_counts"  # how often a sensor may count somebody in a step, as sensors.json has it
WINDOW = "window"  # over how many steps it counts, likewise
_NAMES = ("name", "zone", "zone_id", "id", "geoid", "tile_id", "code", "sensor", "sensor_id")


@dataclass(frozen=True)
class Points:
    """Named points: latitude and longitude in degrees, or north and east in metres on one map.

    ``columns`` are further numbers of each point, by name: what attracts to it. ``lines`` are the moves that
    sensors count which stand at no place; such a sensor's coordinates may be no numbers.
    """

    names: tuple[str, ...]
    north: tuple[float, ...]
    east: tuple[float, ...]
    is_globe: bool
    columns: Mapping[str, NDArray[np.float64]] = field(default_factory=dict)
    lines: Mapping[str, NamedMoves] = field(default_factory=dict)

    @property
    def middle(self) -> float:
        """The latitude at which a map of them is true to scale."""
        known = [north for north in self.north if isfinite(north)]
        return sum(known) / max(len(known), 1) if self.is_globe else 0.0

    @property
    def places(self) -> tuple[str, ...]:
        """The names of those that stand at a place."""
        return tuple(name for name in self.names if name not in self.lines)

    @property
    def degrees(self) -> dict[str, tuple[float, float]]:
        """Latitude and longitude by name, where they are known; nothing where a map has metres."""
        at = zip(self.names, self.north, self.east, strict=True)
        return {name: (lat, lon) for name, lat, lon in at if self.is_globe and isfinite(lat + lon)}

    def placed(self, names: Sequence[str], middle: float) -> Zones:
        """Zones of these names on a map true to scale at ``middle``; unknown ones are not placed."""
        points = zip(self.names, self.north, self.east, strict=True)
        at = {name: point for name, *point in points if all(map(isfinite, point))}
        found = [at.get(name, [None, None]) for name in names]
        north, east = [point[0] for point in found], [point[1] for point in found]
        if self.is_globe:
            east, north = plane_km(north, east, middle)
        else:
            east, north = ([None if m is None else m / 1000.0 for m in axis] for axis in (east, north))
        return Zones.on_plane(names, east, north)


def read_points(path: Path, wanted: Container[str] = (), *, are_sensors: bool = False) -> Points:
    """The points of a file; the column that names them is the one that has most of the ``wanted`` names.

    Sensors may stand on a line between places, wherever that is.
    """
    if path.suffix.lower() in (".geojson", ".json"):
        return _of_json(path, wanted)
    table = BroughtTable(path)
    names = {name: table.texts(name) for name in table.table.column_names}
    key = _key(names, wanted)
    lines = lines_of(table, names[key]) if are_sensors else {}
    is_globe = table.usual(LATITUDES) is not None
    first, second = _GLOBE if is_globe else _PLANE
    is_anywhere = bool(names[key]) and len(lines) == len(names[key]) and table.usual(first) is None
    kinds = (
        (first if is_globe else second, "of latitudes, or of y"),
        (second if is_globe else first, "of longitudes, or of x"),
    )
    axes = [] if is_anywhere else [table.needed(*kind) for kind in kinds]
    columns = {}
    for name in set(names) - {key, *axes}:
        try:
            columns[name] = table.numbers(name, otherwise=0.0)
        except InputError:
            continue  # a text about the zone
    at = [table.numbers(name, otherwise=nan if lines else None) for name in axes]
    at = at or [np.full(len(table), nan)] * 2
    is_globe = is_globe or is_anywhere
    return _checked(path, Points(tuple(names[key]), tuple(at[0]), tuple(at[1]), is_globe, columns, lines))


def _of_json(path: Path, wanted: Container[str]) -> Points:
    """GeoJSON features by their middle, or the sensors of a deployment."""
    try:
        document = parse_json(path.read_text(encoding="utf-8-sig"))
    except (ValueError, OSError, TallyguardError) as error:
        raise InputError(f"{path} must be readable JSON", type(error).__name__, "check the file") from None
    features = document.get("features") if isinstance(document, dict) else None
    sensors = document.get("sensors") if isinstance(document, dict) else None
    if not isinstance(features, list) and not isinstance(sensors, list):
        raise InputError(f"{path} must hold GeoJSON features or sensors", "neither", "give another file")
    try:
        if isinstance(sensors, list):
            lines = {str(row["name"]): _named_moves(row["moves"]) for row in sensors if "moves" in row}
            is_globe = not any("x" in row for row in sensors)
            first, second = ("lat", "lon") if is_globe else ("y", "x")
            anywhere = {first: nan, second: nan}
            at = [{**anywhere, **row} if "moves" in row else row for row in sensors]
            rows = [(str(row["name"]), float(row[first]), float(row[second])) for row in at]
            names, north, east = zip(*rows, strict=True) if rows else ((), (), ())
            of_all = document.get(MOST_COUNTS, 1)  # of those that say nothing of what they count
            often = [row.get(MOST_COUNTS, 1 if "counts" in row else of_all) for row in sensors]
            over = [row.get(WINDOW, document.get(WINDOW, 1)) for row in sensors]
            columns = {
                name: np.array(list(map(float, of))) for name, of in ((MOST_COUNTS, often), (WINDOW, over))
            }
            return _checked(path, Points(names, north, east, is_globe, columns, lines))
        properties = [dict(each["properties"]) for each in features or ()]
        middles = [_middle(each["geometry"]) for each in features or ()]
    except (KeyError, TypeError, ValueError, IndexError):
        raise InputError(
            f"{path} must give each zone or sensor a name and a place", "one without", "complete it"
        ) from None
    common = set.intersection(*map(set, properties)) if properties else set()
    named = {key: [str(each[key]) for each in properties] for key in sorted(common)}
    if not named:
        raise InputError(f"features of {path} must have a property that names them", "none", "add one")
    key = _key(named, wanted)
    return _checked(
        path, Points(tuple(named[key]), tuple(at[1] for at in middles), tuple(at[0] for at in middles), True)
    )


def _named_moves(moves: Any) -> NamedMoves:
    """The moves that a deployment's sensor counts, locations by their names."""
    if any(not isinstance(place, str) for move in moves for place in move[:2]):
        raise TypeError(moves)
    return tuple((move[0], move[1]) for move in moves)


def _middle(geometry: Any) -> tuple[float, float]:
    """East and north of a point, or of the middle of the largest ring of polygons."""
    kind, coordinates = geometry["type"], geometry["coordinates"]
    if kind == "Point":
        return float(coordinates[0]), float(coordinates[1])
    polygons = coordinates if kind == "MultiPolygon" else [coordinates]
    rings = [np.array([point[:2] for point in polygon[0]], dtype=np.float64) for polygon in polygons]
    with np.errstate(invalid="ignore", over="ignore"):  # corners that are no numbers: refused with the rest
        return max(map(_centroid, rings), key=lambda found: abs(found[0]))[1]


def _centroid(ring: NDArray[np.float64]) -> tuple[float, tuple[float, float]]:
    """Area and centroid of a closed ring (the shoelace formula); the mean of its corners without an area."""
    origin = ring[0]
    here, there = ring[:-1] - origin, ring[1:] - origin
    cross = here[:, 0] * there[:, 1] - there[:, 0] * here[:, 1]
    area = float(cross.sum()) / 2.0
    if area == 0.0:
        middle = ring.mean(axis=0)
    else:
        middle = origin + ((here + there) * cross[:, None]).sum(axis=0) / (6.0 * area)
    return area, (float(middle[0]), float(middle[1]))


def _key(names: Mapping[str, list[str]], wanted: Container[str]) -> str:
    """The column that names most of the wanted; else the one of a usual name, else the first."""
    best = max(names, key=lambda name: sum(text in wanted for text in set(names[name])))
    if any(text in wanted for text in names[best]):
        return best
    return next((name for name in names if name.strip().lower() in _NAMES), next(iter(names)))


def _checked(path: Path, points: Points) -> Points:
    """Each point once, degrees in their range."""
    if len(set(points.names)) < len(points.names) or not points.names:
        raise InputError(
            f"{path} must name each zone or sensor once",
            "one twice" if points.names else "none",
            "correct it",
        )
    limits = (90.0, 180.0) if points.is_globe else (np.inf, np.inf)
    for what, values, most in (
        ("latitudes", points.north, limits[0]),
        ("longitudes", points.east, limits[1]),
    ):
        at = zip(points.names, values, strict=True)
        wrong = [
            value for name, value in at if not (abs(value) <= most or (isnan(value) and name in points.lines))
        ]
        if wrong:
            raise InputError(f"{what} of {path} must be degrees", wrong[0], "swap or correct the columns")
    return points


# Home-work tables: LODES, INSEE's MOBPRO, or any CSV of origin, destination and people.

HOMES = ("h_geocode", "home", "origin", "from", "o", "codgeo", "commune")
WORKS = ("w_geocode", "work", "destination", "to", "d", "dclt")
PEOPLE = (
    *("s000", "people", "flow", "flows", "count", "workers", "weight", "ipondi"),
    *("nbflux_c21_actocc15p", "nbflux_c20_actocc15p", "nbflux_c19_actocc15p"),
)
_ARRONDISSEMENT = ("arm",)
_NOBODY = ("", "ZZZZZ")


@dataclass(frozen=True)
class NamedHomeWork:
    """A home-work table by names of zones; an empty work is none."""

    home: Sequence[str]
    work: Sequence[str]
    people: NDArray[np.float64]

    def coarse(self, digits: int) -> NamedHomeWork:
        """Zones by their first digits: blocks of a census become tracts."""
        return NamedHomeWork([z[:digits] for z in self.home], [z[:digits] for z in self.work], self.people)

    def numbered(self, names: Sequence[str]) -> HomeWork:
        """The same by numbers of zones."""
        index = {name: number for number, name in enumerate(names)}
        home = np.array([index[zone] for zone in self.home], dtype=np.int64)
        work = np.array([index[zone] if zone else NO_WORK for zone in self.work], dtype=np.int64)
        return HomeWork(home, work, self.people)


def is_home_work(table: BroughtTable) -> bool:
    """Whether a table has columns of homes and of work."""
    return table.usual(HOMES) is not None and table.usual(WORKS) is not None


def read_home_work(table: BroughtTable) -> NamedHomeWork:
    """The pairs of home and work with their people; rows of one pair are added up later.

    Of MOBPRO's rows, one a person with a weight, the arrondissement counts where there is one (``ARM``).
    """
    path, home, work = table.path, table.texts(HOMES, "of homes"), table.texts(WORKS, "of places of work")
    finer = table.usual(_ARRONDISSEMENT)
    if finer is not None:
        home = [zone if arm in _NOBODY else arm for zone, arm in zip(home, table.texts(finer), strict=True)]
    people = table.numbers(PEOPLE, "of people")
    if (people < 0.0).any():
        row = int((people < 0.0).argmax()) + 1
        raise InputError(f"people in {path} must be 0 or more", f"fewer in row {row}", "correct it")
    if not home:
        raise InputError(f"{path} must have a row for each pair of home and work", "none", "fill the table")
    if "" in home:
        raise InputError(
            f"each row of {path} must have a home",
            f"none in row {home.index('') + 1}",
            "fill or drop the row",
        )
    return NamedHomeWork(home, ["" if zone in _NOBODY else zone for zone in work], people)


# Check-ins at places of their own become check-ins at the nearest sensor.


def at_sensors(
    checkins: Checkins, path: Path, sensors: Path, within_km: float, zones: Path | None = None
) -> Checkins:
    """The check-ins within reach of a sensor, at the sensor nearest to their location; others are left out.

    The file's ``lat`` and ``lon`` say where its locations are, the first row of each. A window in which
    somebody was near no sensor is one without a check-in. Nobody is at a counter on a line: they are at one
    of the places that it stands between, as far as ``zones`` says where these are.
    """
    at = read_points(sensors, are_sensors=True)
    points = at if zones is None else read_points(zones)
    if not (at.is_globe and points.is_globe):
        raise InputError(
            "sensors and zones for check-ins must have lat and lon",
            "x and y",
            "give degrees, as the check-ins have",
        )
    table = BroughtTable(path)
    names = table.texts(("loc",), "of locations")
    north, east = table.numbers(LATITUDES, "of latitudes"), table.numbers(LONGITUDES, "of longitudes")
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = [first[name] for name in checkins.location_names]
    places = Points(checkins.location_names, tuple(north[rows]), tuple(east[rows]), True)
    known = (*at.places, *ends_of(list(at.lines.values()), (*at.places, ELSEWHERE)))
    where = {**points.degrees, **at.degrees}
    north_of, east_of = zip(*(where.get(name, (nan, nan)) for name in known), strict=True)
    near = places.placed(places.names, at.middle).nearest(
        Points(known, north_of, east_of, True).placed(known, at.middle), within_km
    )
    sensor = near[checkins.location]
    kept = sensor < len(known)
    if not kept.any():
        raise InputError(
            f"some check-in must be within {within_km:g} km of a sensor",
            "none",
            "look at latitudes and longitudes, or raise --within-km",
        )
    return replace(
        checkins,
        user=checkins.user[kept],
        time_seconds=checkins.time_seconds[kept],
        location=sensor[kept].astype(np.int32),
        location_names=known,
    )
