"""Reading check-ins: both formats alike, and every bad row named."""

from __future__ import annotations

from datetime import datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.exceptions import CheckinError
from models.fitting import FitOptions, fit_priors, read_checkins
from models.fitting.checkins import Checkins

GOOD = [("10", 1000, "cafe"), ("9", 2000, "gym"), ("10", 2000, "cafe")]


def rows(checkins: Checkins) -> list[tuple[str, int, str]]:
    return [
        (checkins.user_names[user], int(time), checkins.location_names[location])
        for user, time, location in zip(checkins.user, checkins.time_seconds, checkins.location, strict=True)
    ]


def csv_file(folder, text: str):
    path = folder / "checkins.csv"
    path.write_text(text)
    return path


def parquet_file(folder, **columns):
    path = folder / "checkins.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def test_csv_and_parquet_read_alike_whatever_the_order_of_columns(tmp_path):
    text = "lat,loc,user,time\n1.5,cafe,10,1000\n,gym,9,2000\n\n2.5,cafe,10,2000.0\n"
    from_csv = read_checkins(csv_file(tmp_path, text))
    for mark in ";\t|":
        assert rows(read_checkins(csv_file(tmp_path, text.replace(",", mark)))) == GOOD
    path = parquet_file(
        tmp_path, user=[10, 9, 10], time=[1000, 2000, 2000], loc=["cafe", "gym", "cafe"], lon=[0.0, 1.0, 2.0]
    )
    for found in (from_csv, read_checkins(path)):
        assert rows(found) == GOOD
        assert found.user_names == ("9", "10")  # whole numbers sort by value
        assert len(found) == 3
        assert not found.rejected


def test_times_without_a_zone_are_those_of_the_zone_that_is_given(tmp_path):
    """Habits would be an hour or two off, and ceilings too low. An hour that comes twice is the first one."""
    local = ["2026-03-02 08:00:00", "2026-07-02T08:00", "2026-10-25 02:30", "2026-03-29 02:30"]
    seconds = [1772434800, 1782972000, 1792888200, 1774747800]
    text = "user,time,loc\n" + "".join(f"u,{each},cafe\n" for each in [*local, "2026-07-02T08:00Z", 5])
    found = read_checkins(csv_file(tmp_path, text), timezone="Europe/Vienna")
    assert found.time_seconds.tolist() == [*seconds, 1782972000 + 7200, 5]
    assert found.without_zone == 4
    assert read_checkins(csv_file(tmp_path, text)).time_seconds[0] == seconds[0] + 3600
    naive = pa.array([datetime.fromisoformat(each) for each in local[:3]], pa.timestamp("ms"))
    path = parquet_file(tmp_path, user=["u"] * 3, time=naive, loc=["cafe"] * 3)
    found = read_checkins(path, timezone="Europe/Vienna")
    assert found.time_seconds.tolist() == seconds[:3]
    assert found.without_zone == 3
    with pytest.raises(CheckinError, match="timezone must be one of the time zone database, got 'Vienna'"):
        read_checkins(path, timezone="Vienna")


BAD_LINES = {
    "u,1000": "2 fields where the header has 3",
    ",1000,cafe": "no user",
    "u,1000, ": "no loc",
    "u,noon,cafe": "time is not Unix seconds",
    "u,,cafe": "time is not Unix seconds",
    "u,1333476008000,cafe": "milliseconds?",
    "u,-5,cafe": "not whole Unix seconds from 1970 on",
    "u,10.5,cafe": "not whole Unix seconds",
    "u,nan,cafe": "not whole Unix seconds",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_stops_the_reading_or_is_rejected_by_number(tmp_path, line):
    path = csv_file(tmp_path, f"user,time,loc\nu,1000,cafe\n{line}\nv,2000,gym\n")
    with pytest.raises(CheckinError) as caught:
        read_checkins(path)
    assert f"row 3 of {path}" in str(caught.value)
    assert BAD_LINES[line] in str(caught.value)
    found = read_checkins(path, on_bad_row="reject")
    assert rows(found) == [("u", 1000, "cafe"), ("v", 2000, "gym")]
    [rejected] = found.rejected
    assert rejected.row == 3
    assert BAD_LINES[line] in rejected.reason


@pytest.mark.parametrize("time", ["noon", "1333476008765", "-5765", "10.5765"])
def test_no_word_of_a_bad_row_is_repeated(tmp_path, time):
    """A time says where somebody was when, as much as the place beside it."""
    path = csv_file(tmp_path, f"user,time,loc\nsomebody,{time},cafe\n")
    with pytest.raises(CheckinError) as caught:
        read_checkins(path)
    [rejected] = read_checkins(path, on_bad_row="reject").rejected
    said = f"{caught.value} {rejected.reason}".replace(str(path), "")
    assert [word for word in (time.lstrip("-"), "765", "somebody", "cafe") if word in said] == []


def test_separators_around_a_cell_are_no_part_of_it(tmp_path):
    """Characters that are space to one of Python's readers only; it ended in ``ValueError``."""
    text = "user,time,loc\n\x1c10\x1d,\x1c1000\x1f,\x1ecafe\n"
    assert rows(read_checkins(csv_file(tmp_path, text))) == [("10", 1000, "cafe")]


def test_names_in_another_encoding_do_not_become_one(tmp_path):
    """Both would be read as ``Ren?``."""
    path = csv_file(tmp_path, "")
    path.write_bytes("user,time,loc\nRen\xe9,1,cafe\nRen\xe8,2,gym\nu,3,gym\n".encode("latin-1"))
    with pytest.raises(CheckinError, match=r"row 2 .* got a name in another encoding than UTF-8"):
        read_checkins(path)
    assert rows(read_checkins(path, on_bad_row="reject")) == [("u", 3, "gym")]


def test_bad_rows_of_a_parquet_file_are_numbered_from_one(tmp_path):
    path = parquet_file(
        tmp_path,
        user=["u", None, "u", "u"],
        time=pa.array([1000, 1000, None, 10**12], pa.int64()),
        loc=["cafe", "cafe", "cafe", "cafe"],
    )
    with pytest.raises(CheckinError, match=r"row 2 of .* must be a check-in, got no user"):
        read_checkins(path)
    found = read_checkins(path, on_bad_row="reject")
    assert rows(found) == [("u", 1000, "cafe")]
    assert [(bad.row, bad.reason.split(" ")[-1]) for bad in found.rejected] == [
        (2, "user"),
        (3, "time"),
        (4, "milliseconds?"),
    ]


def test_timestamps_are_read_as_seconds(tmp_path):
    path = parquet_file(tmp_path, user=["u"], time=pa.array([1_000_500], pa.timestamp("ms")), loc=["cafe"])
    assert rows(read_checkins(path)) == [("u", 1000, "cafe")]


def test_files_that_are_no_checkins_are_refused(tmp_path):
    with pytest.raises(CheckinError, match="must exist"):
        read_checkins(tmp_path / "none.csv")
    other = tmp_path / "checkins.txt"
    other.write_text("x")
    with pytest.raises(CheckinError, match=r"must end in \.parquet or \.csv"):
        read_checkins(other)
    with pytest.raises(CheckinError, match=r"columns user, time, loc, got 2 columns without 'loc'"):
        read_checkins(csv_file(tmp_path, "user,time\nu,1\n"))
    with pytest.raises(CheckinError, match="3 columns without 'user'; rename 'User'"):
        read_checkins(csv_file(tmp_path, "User,time,loc\nu,1,x\n"))
    with pytest.raises(CheckinError, match="got an empty file"):
        read_checkins(csv_file(tmp_path, ""))
    with pytest.raises(CheckinError, match="columns user, time, loc"):
        read_checkins(parquet_file(tmp_path, user=["u"], loc=["x"]))
    with pytest.raises(CheckinError, match=r"column 'time' .* must be Unix seconds"):
        read_checkins(parquet_file(tmp_path, user=["u"], time=["noon"], loc=["x"]))
    for lines in (1, 30_000):
        with pytest.raises(CheckinError, match=r"must be CSV, got .*; look for a quote that is not closed"):
            read_checkins(csv_file(tmp_path, 'user,time,loc\n"u,1,x\n' + "v,1,x\n" * lines))
    torn = tmp_path / "torn.parquet"
    torn.write_bytes(b"PAR1 and no more")
    with pytest.raises(CheckinError, match="must be a Parquet file"):
        read_checkins(torn)
    with pytest.raises(CheckinError, match="on_bad_row must be 'fail' or 'reject'"):
        read_checkins(csv_file(tmp_path, "user,time,loc\n"), on_bad_row="ignore")


def test_names_that_are_numbers_of_any_length_are_sorted_by_value(tmp_path):
    """The interpreter refuses to read more than 4,300 digits as a number; a name may have them."""
    long = "3" * 5000
    path = csv_file(tmp_path, f"user,time,loc\n{long},1,x\n10,2,x\n9,3,x\n009,4,x\na,5,x\n")
    assert read_checkins(path).user_names == ("009", "9", "10", long, "a")


def test_a_file_that_reads_in_two_ways_or_none_is_refused(tmp_path):
    with pytest.raises(CheckinError, match="each column once, got 'loc' twice"):
        read_checkins(csv_file(tmp_path, "user,time,loc,loc\nu,1,x,y\n"))
    for columns in ({"user": [["u"]]}, {"user": pa.array([b"\xff"], pa.binary())}, {"loc": [{"x": 1}]}):
        with pytest.raises(CheckinError, match="must be a Parquet file with names"):
            read_checkins(parquet_file(tmp_path, **{"user": ["u"], "time": [1], "loc": ["x"], **columns}))


@pytest.mark.parametrize(("window_seconds", "time"), [(1, 5_000_000), (60, 90_000_000_000)])
def test_one_check_in_of_another_century_does_not_fill_the_memory(window_seconds, time):
    checkins = Checkins.from_rows([("u", 1, "x"), ("v", time, "y")])
    with pytest.raises(CheckinError, match="at most 1,000,000 windows"):
        fit_priors(checkins, FitOptions(window_seconds=window_seconds, held_out_windows=1))


def test_windows_of_which_next_to_none_hold_a_check_in_are_refused(tmp_path):
    """Two kilobytes took thirteen seconds: two years of minutes for sixty people of three check-ins each."""
    text = "user,time,loc\n" + "".join(
        f"u{user},{1_000_000 + seconds},cafe\n" for user in range(60) for seconds in (0, 200, 59_900_000)
    )
    options = FitOptions(window_seconds=60, min_windows=1, held_out_windows=1)
    with pytest.raises(CheckinError, match="must not be empty nearly everywhere"):
        fit_priors(read_checkins(csv_file(tmp_path, text)), options)
