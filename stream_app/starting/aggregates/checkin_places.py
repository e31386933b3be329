"""Check-ins at places of their own become check-ins at the nearest sensor."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from models.fitting import Checkins
from stream_app.exceptions import InputError
from stream_app.starting.aggregates.columns import needed, numbers, texts
from stream_app.starting.aggregates.zone_files import Points, read_points
from stream_app.starting.counts.tables import read_table


def at_sensors(checkins: Checkins, path: Path, sensors: Path, within_km: float) -> Checkins:
    """The check-ins within reach of a sensor, at the sensor nearest to their location; others are left out.

    The file's ``lat`` and ``lon`` say where its locations are, the first row of each. A window in which
    somebody was near no sensor is one without a check-in.
    """
    at = read_points(sensors)
    if not at.is_globe:
        raise InputError(
            "sensors for check-ins must have lat and lon", "x and y", "give degrees, as the check-ins have"
        )
    table = read_table(path)
    names = texts(path, table, needed(path, table, ("loc",), "of locations"))
    north = numbers(path, table, needed(path, table, ("lat", "latitude"), "of latitudes"))
    east = numbers(path, table, needed(path, table, ("lon", "lng", "longitude"), "of longitudes"))
    first = {name: row for row, name in reversed(list(enumerate(names)))}
    rows = [first[name] for name in checkins.location_names]
    places = Points(checkins.location_names, tuple(north[rows]), tuple(east[rows]), True)
    near = places.placed(places.names, at.middle).nearest(at.placed(at.names, at.middle), within_km)
    sensor = near[checkins.location]
    kept = sensor < len(at.names)
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
        location_names=at.names,
    )
