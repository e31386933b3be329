"""Where sensors stand, from a city's own list of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stream_app.exceptions import InputError
from stream_app.starting.counts.tables import read_table, text_column

_LATITUDES, _LONGITUDES = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


@dataclass(frozen=True)
class SensorPlace:
    """A sensor as the deployment names it, and where it stands in degrees, if that is known."""

    name: str
    latitude: float | None = None
    longitude: float | None = None


def sensor_places(path: Path | None, sensors: tuple[str, ...]) -> tuple[SensorPlace, ...]:
    """The places of the sensors of a file of counts, in their order.

    The column that names them is the one that names most of them. :class:`InputError` where one is missing.
    """
    if path is None:
        return tuple(map(SensorPlace, sensors))
    table = read_table(path)
    texts = {name: _texts(table, name) for name in table.column_names}
    key = max(texts, key=lambda name: len(set(sensors) & set(texts[name])))
    row_of = {name: row for row, name in enumerate(texts[key])}
    missing = [name for name in sensors if name not in row_of]
    if missing:
        raise InputError(
            f"sensors file {path} must name each sensor of the counts",
            f"{len(missing)} of {len(sensors)} missing in column {key!r}, such as {missing[0]!r}",
            "add them, or leave columns that are no sensor out with --ignore",
        )
    repeated = [name for name in sensors if texts[key].count(name) > 1]
    if repeated:
        raise InputError(f"sensors file {path} must name each sensor once", repr(repeated[0]), "drop one")
    at = [_column(table, usual) for usual in (_LATITUDES, _LONGITUDES)]
    if None in at:
        return tuple(map(SensorPlace, sensors))
    latitude, longitude = (_degrees(path, table, str(name)) for name in at)
    return tuple(SensorPlace(name, latitude[row_of[name]], longitude[row_of[name]]) for name in sensors)


def _texts(table: pa.Table, name: str) -> list[str]:
    try:
        return [str(text).strip() for text in text_column(table, name).to_pylist()]
    except (InputError, UnicodeDecodeError):
        return []


def _column(table: pa.Table, usual: tuple[str, ...]) -> str | None:
    return next((name for name in table.column_names if name.strip().lower() in usual), None)


def _degrees(path: Path, table: pa.Table, name: str) -> list[float]:
    try:
        values = pc.cast(table[name], pa.float64())
    except pa.ArrowException:
        values = None
    if values is None or values.null_count:
        raise InputError(
            f"column {name!r} of {path} must hold degrees", "another text or none", "correct or rename it"
        )
    return [float(value) for value in values.to_pylist() if value is not None]
