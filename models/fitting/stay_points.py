"""GPS points to places, by trackintel where it is installed: stays, and the places that stays are at."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from models.arguments import checked
from models.exceptions import CheckinError
from models.fitting.checkins import CONVENTIONS, Checkins

_POINTS = {"latitude": ("latitude", "lat", "y"), "longitude": ("longitude", "lng", "lon", "x")}


@checked(CheckinError, leave=("frame",))
def stays_of(
    frame: Any, *, radius_metres: float = 100.0, stay_seconds: float = 900.0, every_seconds: float = 3600.0
) -> Checkins:
    """Check-ins of GPS points: a place is where stays of ``stay_seconds`` are within ``radius_metres``.

    ``frame`` is one of pandas with users and times as for :func:`~models.fitting.checkins_of`, and degrees in
    ``lat`` and ``lng``, or points in a geometry. Stays are trackintel's (sliding window), places its clusters
    over all people (DBSCAN). Each stay is a check-in at its start and every ``every_seconds`` until its end.
    :class:`~models.exceptions.CheckinError` without trackintel, for missing columns, and without any stay.
    """
    for name, number in (("radius_metres", radius_metres), ("stay_seconds", stay_seconds)):
        if number <= 0.0:
            raise CheckinError(f"{name} must be above 0", number, "take 100 m and 900 s")
    if every_seconds < 1.0:
        raise CheckinError("every_seconds must be 1 or more", every_seconds, "take the window of the fit")
    names = (
        [*map(str, getattr(frame, "columns", ())), *map(str, getattr(frame.index, "names", ()))]
        if (hasattr(frame, "columns") and hasattr(frame, "index"))
        else []
    )
    user, time = (
        next((each for each in CONVENTIONS[what] if each in names), None) for what in ("user", "time")
    )
    degrees = [next((each for each in _POINTS[what] if each in names), None) for what in _POINTS]
    if user is None or time is None or (None in degrees and not hasattr(frame, "geometry")):
        raise CheckinError(
            "points must be a pandas frame with users, times, and latitude and longitude or a geometry",
            ", ".join(names) or f"a {type(frame).__name__}",
            "rename its columns to uid, datetime, lat and lng",
        )
    try:
        geopandas, pandas, trackintel = map(import_module, ("geopandas", "pandas", "trackintel"))
    except ImportError as error:
        raise CheckinError(
            "trackintel must be installed to make places of points",
            str(error),
            "pip install trackintel, or bring stays of your own to checkins_of",
        ) from None
    plain = frame.reset_index() if time in frame.index.names else frame
    points = (
        geopandas.points_from_xy(plain[degrees[1]], plain[degrees[0]], crs=4326)
        if None not in degrees
        else plain.geometry.to_crs(4326).values
    )
    when = pandas.to_datetime(plain[time], utc=True)
    columns = {"user_id": plain[user].to_numpy(), "tracked_at": when.array}
    fixes = geopandas.GeoDataFrame(columns, geometry=points).sort_values(["user_id", "tracked_at"])
    fixes = fixes.reset_index(drop=True).rename_geometry("geom")
    fixes.index.name = "id"
    fixes = trackintel.Positionfixes(fixes)
    _, stays = fixes.generate_staypoints(
        dist_threshold=radius_metres, time_threshold=stay_seconds / 60.0, gap_threshold=1e9, include_last=True
    )
    if len(stays):
        stays, _ = stays.generate_locations(
            epsilon=radius_metres, num_samples=1, distance_metric="haversine", agg_level="dataset"
        )
    rows = [
        (str(each.user_id), second, str(each.location_id))
        for each in stays.itertuples()
        for second in range(
            int(each.started_at.timestamp()), 1 + int(each.finished_at.timestamp()), int(every_seconds)
        )
    ]
    if not rows:
        raise CheckinError(
            f"points must have a stay of {stay_seconds:g} s within {radius_metres:g} m",
            f"none among {len(plain):,} points",
            "allow a larger radius or a shorter stay",
        )
    return Checkins.from_rows(rows)
