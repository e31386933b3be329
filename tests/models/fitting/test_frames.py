"""Check-ins from the frames of other libraries, by the names their columns have."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from models.exceptions import CheckinError
from models.fitting import Checkins, checkins_of, read_checkins, stays_of

ROWS = [("ada", 3600 * hour, f"p{hour % 2}") for hour in range(4)]
WANTED = Checkins.from_rows(ROWS)
SECONDS = [second for _, second, _ in ROWS]
NAIVE = pd.to_datetime(SECONDS, unit="s")
ISO = ["1970-01-01T00:00:00", "1970-01-01T01:00:00Z", "1970-01-01T04:00:00+02:00", "1970-01-01 03:00:00"]
PLACES = [place for _, _, place in ROWS]


def same(found: Checkins) -> bool:
    return (
        found.time_seconds.tolist() == WANTED.time_seconds.tolist()
        and [found.location_names[at] for at in found.location] == PLACES
        and {found.user_names[who] for who in found.user} == {"ada"}
    )


FRAMES: dict[str, Any] = {
    "ours in pandas": pd.DataFrame({"user": ["ada"] * 4, "time": SECONDS, "loc": PLACES}),
    "ours in polars": pl.DataFrame({"user": ["ada"] * 4, "time": SECONDS, "loc": PLACES}),
    "ours in Arrow": pa.table({"user": ["ada"] * 4, "time": SECONDS, "loc": PLACES}),
    "ISO times": pd.DataFrame({"user": ["ada"] * 4, "time": ISO, "loc": PLACES}),
    "ISO times in polars": pl.DataFrame({"user": ["ada"] * 4, "time": ISO, "loc": PLACES}),
    "scikit-mobility": pd.DataFrame(
        {"lat": 45.0, "lng": 11.0, "datetime": NAIVE, "uid": "ada", "cluster": PLACES}
    ),
    "trackintel": pd.DataFrame(
        {
            "user_id": "ada",
            "started_at": NAIVE.tz_localize("UTC").tz_convert("Europe/Zurich"),
            "finished_at": NAIVE.tz_localize("UTC"),
            "location_id": PLACES,
        },
        index=pd.Index(range(4), name="id"),
    ),
    "movingpandas": pd.DataFrame(
        {"traj_id": "ada", "place": PLACES}, index=pd.DatetimeIndex(NAIVE, name="t")
    ),
    "categories": pd.DataFrame(
        {"user": pd.Categorical(["ada"] * 4), "time": SECONDS, "loc": pd.Categorical(PLACES)}
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_a_frame_says_who_was_where_when(kind: str) -> None:
    assert same(checkins_of(FRAMES[kind]))


def test_columns_may_be_named() -> None:
    frame = FRAMES["ours in pandas"].rename(columns={"user": "who", "time": "when", "loc": "where"})
    assert same(checkins_of(frame, user="who", time="when", place="where"))
    with pytest.raises(CheckinError, match="must have the column 'whom', got who, when, where"):
        checkins_of(frame, user="whom")
    with pytest.raises(CheckinError, match="must have a column of its users"):
        checkins_of(frame)


def test_a_stay_at_no_place_is_a_bad_row() -> None:
    """trackintel's locations are -1 or missing for noise; whole numbers beside missing ones are floats."""
    frame = FRAMES["trackintel"].assign(location_id=[3.0, np.nan, -1.0, 5.0])
    with pytest.raises(CheckinError, match="row 2 of the frame must be a check-in, got no loc"):
        checkins_of(frame)
    found = checkins_of(frame, on_bad_row="reject")
    assert found.location_names == ("3", "5")
    assert [each.row for each in found.rejected] == [2, 3]


def test_what_is_no_frame_of_check_ins_is_refused_in_a_sentence() -> None:
    points = pd.DataFrame({"uid": ["ada"], "datetime": NAIVE[:1], "lat": [1.0], "lng": [2.0]})
    with pytest.raises(CheckinError, match="make places of points first, with stays_of"):
        checkins_of(points)
    for wrong in (None, 3, "frame", [1], {"user": [1]}):
        with pytest.raises(CheckinError, match="must be a data frame"):
            checkins_of(wrong)
        with pytest.raises(CheckinError, match="must be a pandas frame with users"):
            stays_of(wrong)
    noon = FRAMES["ISO times"].assign(time=["noon", *ISO[1:]])
    with pytest.raises(CheckinError, match="row 1 of the frame"):
        checkins_of(noon)
    with pytest.raises(CheckinError, match="radius_metres must be above 0"):
        stays_of(points, radius_metres=0.0)


def test_a_file_may_have_iso_times(tmp_path) -> None:
    path = tmp_path / "checkins.csv"
    path.write_text("user,time,loc\n" + "".join(f"ada,{t},{p}\n" for t, p in zip(ISO, PLACES, strict=True)))
    assert same(read_checkins(path))


def points() -> pd.DataFrame:
    """Two hours at each of two places a kilometre apart, a point every five minutes."""
    minutes = np.arange(0, 8 * 60, 5)
    there = (minutes // 120) % 2
    return pd.DataFrame(
        {
            "uid": "ada",
            "datetime": pd.to_datetime(minutes * 60, unit="s"),
            "lat": 45.0 + 0.01 * there,
            "lng": 11.0,
        }
    )


def test_points_become_places_by_a_library() -> None:
    """Or a sentence names the library where it is missing."""
    try:
        import trackintel  # noqa: F401
    except ImportError:
        with pytest.raises(CheckinError, match="trackintel must be installed"):
            stays_of(points())
        return
    found = stays_of(points(), every_seconds=1800)
    assert len(found.location_names) == 2
    assert [found.location_names[at] for at in found.location[:8]] == ["0"] * 5 + ["1"] * 3
    assert found.time_seconds[0] == 0


def test_frames_of_the_libraries_themselves_are_read() -> None:
    """The same names as above, on trackintel's and movingpandas' own classes."""
    trackintel = pytest.importorskip("trackintel")
    geopandas = pytest.importorskip("geopandas")
    where = geopandas.points_from_xy([11.0] * 4, [45.0] * 4, crs=4326)
    frame = geopandas.GeoDataFrame(FRAMES["trackintel"], geometry=where).rename_geometry("geom")
    assert same(checkins_of(trackintel.Staypoints(frame)))
    movingpandas = pytest.importorskip("movingpandas")
    moving = geopandas.GeoDataFrame(FRAMES["movingpandas"], geometry=where)
    collection = movingpandas.TrajectoryCollection(moving, "traj_id")
    assert same(checkins_of(collection.to_point_gdf()))
