"""Files that look right and are not: each is read rightly, or refused with the question it raises."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.setup.sections import FilesMap
from stream_app.starting.connect import read_archive, resolved_map
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.counts import CountTable
from stream_app.starting.counts.doubts import NOT_COUNTED, never_falls, totals
from tests.shared_files import shared

BRIDGE = "time,bridge,bridge north,bridge south\n"
HOURS = ["2026-03-02 08:00", "2026-03-02 09:00", "2026-03-02 10:00", "2026-03-02 11:00"]


def saved(folder: Path, text: str) -> Path:
    path = folder / "counts.csv"
    path.write_text(text)
    return path


def taken(folder: Path, text: str, **given: Any) -> CountTable:
    """As `init` reads it."""
    return read_counts(saved(folder, text), **{"timezone": "UTC", **given})


def mapped(folder: Path, text: str, **mapping: Any) -> CountTable:
    """As `connect files` reads it."""
    return read_archive([saved(folder, text)], FilesMap.model_validate({"timezone": "UTC", **mapping}))


def rows(*counts: str) -> str:
    return "".join(f"{hour},{cells}\n" for hour, cells in zip(HOURS, counts, strict=True))


@pytest.mark.parametrize(
    "counts", [("41,17,24", "38,20,18", ",,", "30,10,20"), ("41,17,24", "38,20,18", "9,,", "30,10,20")]
)
def test_a_total_beside_its_parts_is_asked_about_also_where_a_cell_is_empty(
    tmp_path: Path, counts: tuple[str, ...]
) -> None:
    text = BRIDGE + rows(*counts)
    with pytest.raises(InputError, match="got 'bridge', the sum of 'bridge north', 'bridge south'; leave it"):
        taken(tmp_path, text)
    assert taken(tmp_path, text, ignore=["bridge"]).sensors == ("bridge north", "bridge south")
    assert len(taken(tmp_path, text, keep=["bridge"]).sensors) == 3
    columns = {"start": "time", "columns": dict.fromkeys(("bridge", "bridge north", "bridge south"), "b")}
    with pytest.raises(InputError, match="one place, got 'b bridge', the sum of 'b bridge north'"):
        mapped(tmp_path, text, **columns, channels="sum")
    parts = {"start": "time", "columns": {"bridge north": "b", "bridge south": "b"}, "ignore": ["bridge"]}
    assert mapped(tmp_path, text, **parts, channels="sum").table[0, 0] == 41


def test_sums_of_a_site_or_district_are_found_in_wide_and_long_files(tmp_path: Path) -> None:
    """Whatever they are called, and two levels of them."""
    random = np.random.default_rng(1)
    parts = random.integers(1, 30, (30, 4))
    centre, south = parts[:, :2].sum(axis=1), parts[:, 2:].sum(axis=1)
    whole = np.column_stack([parts, centre, south, centre + south])
    names = ["a", "b", "c", "d", "centre", "south", "city"]
    times = [f"2026-03-{2 + number // 24:02} {number % 24:02}:00" for number in range(30)]
    wide = [",".join([time, *map(str, row)]) for time, row in zip(times, whole.tolist(), strict=True)]
    with pytest.raises(InputError) as raised:
        taken(tmp_path, "\n".join([",".join(["time", *names]), *wide, ""]))
    for total in ("'centre', the sum of 'a', 'b'", "'south', the sum of 'c', 'd'", "'city', the sum of"):
        assert total in str(raised.value)
    long = [
        f"{time},{name},{count}"
        for time, row in zip(times, whole.tolist(), strict=True)
        for name, count in zip(names, row, strict=True)
    ]
    text = "\n".join(["time,sensor,count", *long, ""])
    with pytest.raises(InputError, match="'centre', the sum of 'a', 'b'"):
        taken(tmp_path, text)
    left = taken(tmp_path, text, ignore=["centre", "south", "city"])
    assert left.table.sum() == parts.sum()
    found = mapped(
        tmp_path, text, start="time", sensor="sensor", count="count", ignore=["c*", "south"], keep=["a"]
    )
    assert found.sensors == ("a", "b", "d")


@pytest.mark.parametrize("seed", range(20))
def test_counters_of_their_own_are_not_taken_for_totals(seed: int) -> None:
    """Forty counters of one city, some busy and some quiet, with gaps: no sum among them is by chance."""
    random = np.random.default_rng(seed)
    table = random.poisson(random.uniform(0.3, 60, 40), (72, 40))
    table[random.random(table.shape) < 0.1] = NOT_COUNTED
    assert list(totals(table.T, [f"counter {number}" for number in range(40)])) == []


@pytest.mark.parametrize("name", ["Total", "mill street total"])
def test_what_is_called_a_total_need_not_be_one_in_every_row(tmp_path: Path, name: str) -> None:
    """A count was corrected, its total was not; a person was published twice."""
    counts = [(hour * 5 % 17, hour * 3 % 7) for hour in range(24)]
    text = f"time,mill street in,mill street out,{name}\n" + "".join(
        f"2026-03-02 {hour:02}:00,{a},{b},{a + b + (hour == 9)}\n" for hour, (a, b) in enumerate(counts)
    )
    with pytest.raises(InputError, match=f"'{name}', the sum of 'mill street in', 'mill street out'"):
        taken(tmp_path, text)
    assert taken(tmp_path, text.replace(name, "port")).sensors[-1] == "port"


def test_quiet_counters_of_one_name_are_no_total_of_each_other() -> None:
    """All of them count nobody in most rows, which is no sum."""
    parts = np.zeros((2, 100), dtype=np.int64)
    parts[:, :4] = 1
    own = np.where(np.arange(100) < 8, 1, 0)
    assert not list(totals(np.vstack([own, parts]), ["park", "park east", "park west"]))


def test_a_file_without_a_header_shows_no_count_in_a_question(tmp_path: Path) -> None:
    """Its first row stands for names: what may be a count is told by its place."""
    text = "when,4810397,48,4810349\n" + rows("41,17,24", "38,20,18", "30,10,20", "9,4,5")
    with pytest.raises(InputError, match="got 'column 1', the sum of 'column 2', 'column 3'") as raised:
        taken(tmp_path, text)
    assert "48" not in str(raised.value)


def test_columns_that_say_how_others_are_and_columns_of_zeros_are_asked_about(tmp_path: Path) -> None:
    text = "time,a,a-status,b\n" + rows("3,0,1", "4,0,2", "5,8,3", "9,0,0")
    with pytest.raises(InputError, match="'a-status', which say how others are"):
        taken(tmp_path, text)
    assert taken(tmp_path, text, ignore=["*-status"]).sensors == ("a", "b")
    times = [f"2026-03-{2 + number // 24:02} {number % 24:02}:00" for number in range(30)]
    silent = "time,a,b\n" + "".join(f"{time},{number % 7},0\n" for number, time in enumerate(times))
    with pytest.raises(InputError, match="nothing but zeros of 'b'"):
        taken(tmp_path, silent)
    assert taken(tmp_path, silent, keep=["b"]).sensors == ("a", "b")


def test_running_totals_are_asked_about_and_their_differences_are_the_counts(tmp_path: Path) -> None:
    """A reset and a missing total leave intervals unknown; nothing is spread over a gap."""
    text = "time,sensor,count\n" + "".join(
        f"2026-03-02 {hour:02}:00,gate,{total}\n"
        for hour, total in enumerate((6_215_258, 6_215_284, 6_215_318, "", 6_215_475, 12, 20))
    )
    running = text.replace(",12\n", ",6215499\n").replace(",20\n", ",6215499\n")
    with pytest.raises(InputError, match=r"got those of 'gate', which never fall.*say --kind total"):
        taken(tmp_path, running)
    found = taken(tmp_path, text, kind="total")
    assert found.table[:, 0].tolist() == [26, 34, NOT_COUNTED, NOT_COUNTED, NOT_COUNTED, 8]
    assert any("2 differences are not known" in remark for remark in found.remarks)
    long = {"start": "time", "sensor": "sensor", "count": "count"}
    with pytest.raises(InputError, match='set kind = "total" in'):
        mapped(tmp_path, running, **long)
    same = mapped(tmp_path, text, **long, kind="total")
    assert same.table[:, 0].tolist() == found.table[:, 0].tolist()


def test_counts_that_rise_through_a_morning_are_no_running_total() -> None:
    rising: NDArray[np.int64] = np.array([3, 8, 15, 15, 40, 41])
    assert not never_falls(rising)
    assert never_falls(np.arange(30))
    assert never_falls(1000 + rising)


@pytest.mark.parametrize("time_format", [None, "%Y-%m-%d %H:%M:%S %z"])
def test_a_time_with_its_offset_is_an_instant(tmp_path: Path, time_format: str | None) -> None:
    """Also in the hours that the clock skips and repeats; the zone of the file moves nothing."""
    text = "time;a\n2022-10-30 02:00:00 +0200;1\n2022-10-30 02:00:00 +0100;2\n2022-10-30 03:00:00 +0100;3\n"
    found = taken(tmp_path, text, timezone="Europe/Berlin", time_format=time_format)
    assert (f"{found.origin:%H:%M}", found.table[:, 0].tolist()) == ("00:00", [1, 2, 3])
    given = {"start": "time", "columns": {"a": "a"}, "timezone": None, "time_format": time_format}
    same = mapped(tmp_path, text, **given)
    assert (f"{same.origin:%H:%M}", same.table[:, 0].tolist()) == ("00:00", [1, 2, 3])


def test_ten_digits_are_hours_or_seconds_by_declaration(tmp_path: Path) -> None:
    text = "time;a\n2026030208;1\n2026030209;2\n2026030210;3\n"
    for written in (text, text.replace("8;", "8.0;")):
        with pytest.raises(InputError, match="unix seconds, or year, month, day and hour"):
            taken(tmp_path, written)
    hours = taken(tmp_path, text, time_format="%Y%m%d%H")
    assert f"{hours.origin:%Y-%m-%d %H}" == "2026-03-02 08"
    seconds = "time;a\n1772438400;1\n1772442000;2\n"  # no such month: nothing to ask
    assert taken(tmp_path, seconds).origin == taken(tmp_path, seconds, time_format="%s").origin


@pytest.mark.parametrize("form", ["{}", "{}.0", "{}000", "{}000000", "{}000000000"])
def test_unix_times_count_seconds_or_parts_of_them(tmp_path: Path, form: str) -> None:
    """Data frames write floats, and count in microseconds or nanoseconds."""
    found = taken(
        tmp_path, "time,a\n" + "".join(f"{form.format(1772438400 + 3600 * h)},{h}\n" for h in range(4))
    )
    assert f"{found.origin:%Y-%m-%d %H}" == "2026-03-02 08"
    assert (found.step_seconds, found.table[:, 0].tolist()) == (3600, [0, 1, 2, 3])


@pytest.mark.parametrize(("names", "before"), [(",a", ""), (",when,a", "{},"), ("Unnamed: 0,when,a", "{},")])
def test_a_first_column_without_a_name_is_that_of_a_data_frame(
    tmp_path: Path, names: str, before: str
) -> None:
    """Its index: the times, or numbers of rows, which count nobody."""
    text = "".join(f"{before.format(row)}{hour},{3 * row % 5}\n" for row, hour in enumerate(HOURS))
    found = taken(tmp_path, f"{names}\n{text}")
    assert found.sensors == ("a",)
    assert found.table[:, 0].tolist() == [0, 3, 1, 4]


@pytest.mark.parametrize(
    ("mark", "said"), [(" ", '" "'), ("\u202f", '" "'), ("'", '"\'"'), ("\u2019", '"\'"')]
)
def test_what_stands_between_thousands_only_is_named(tmp_path: Path, mark: str, said: str) -> None:
    text = f"time,a\n{HOURS[0]},1{mark}000\n{HOURS[1]},12\n"
    with pytest.raises(InputError, match=f"may be thousands, first in row 1.*say which: --thousands {said}"):
        taken(tmp_path, text)
    assert taken(tmp_path, text, thousands=said[1]).table[:, 0].tolist() == [1000, 12]


@pytest.mark.parametrize("content", ["[" * 100_000, '{"a": ' + "9" * 5_000 + "}"])
def test_json_without_end_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "counts.json"
    path.write_text(content)
    with pytest.raises(InputError, match="must be JSON"):
        read_counts(path)


def test_a_point_before_three_digits_is_asked_about(tmp_path: Path) -> None:
    text = "time;a\n2026-03-02 08:00;1.000\n2026-03-02 09:00;2.115\n2026-03-02 10:00;12\n"
    for read in (taken, lambda folder, text: mapped(folder, text, start="time", columns={"a": "a"})):
        with pytest.raises(InputError, match="thousands or decimals, first in row 1"):
            read(tmp_path, text)
    assert taken(tmp_path, text, thousands=".").table[:, 0].tolist() == [1000, 2115, 12]
    thousands = mapped(tmp_path, text, start="time", columns={"a": "a"}, thousands=".")
    assert thousands.table[:, 0].tolist() == [1000, 2115, 12]
    whole = text.replace("2.115", "2.000")
    assert taken(tmp_path, whole, decimal=".").table[:, 0].tolist() == [1, 2, 12]
    commas = text.replace("1.000", "1,0").replace("2.115", "2,0")
    assert taken(tmp_path, commas, decimal=",").table[:, 0].tolist() == [1, 2, 12]


def test_several_columns_of_counts_are_channels_and_several_of_a_start_are_joined(tmp_path: Path) -> None:
    """By declaration; the first of them alone would be half of the people, or a day without its hour."""
    text = "id,date,hour,in,out\n" + "".join(f"27,25/10/2008,{hour},{hour},{2 * hour}\n" for hour in range(4))
    long = {"start": ["date", "hour"], "sensor": "id", "count": ["in", "out"], "time_format": "%d/%m/%Y %H"}
    with pytest.raises(InputError, match="declared what several channels"):
        mapped(tmp_path, text, **long)
    assert mapped(tmp_path, text, **long, channels="sum").table[:, 0].tolist() == [0, 3, 6, 9]
    apart = mapped(tmp_path, text, **long, channels="apart")
    assert (apart.sensors, apart.table[3].tolist()) == (("27/in", "27/out"), [3, 6])
    joined = mapped(tmp_path, text, **{**long, "time_format": None}, channels="sum")
    assert joined.table[:, 0].tolist() == [0, 3, 6, 9]


def test_daily_counts_over_a_change_of_clocks_are_steps_of_a_calendar_day(tmp_path: Path) -> None:
    text = "Datum,N\n" + "".join(
        f"{day}.2025,{number}\n" for number, day in enumerate(("29.03", "30.03", "31.03"))
    )
    found = taken(tmp_path, text, timezone="Europe/Berlin")
    assert (found.step_seconds, found.table[:, 0].tolist()) == (86_400, [0, 1, 2])
    assert any("only column that has any" in remark for remark in found.remarks)
    same = mapped(tmp_path, text, start="Datum", timezone="Europe/Berlin", columns={"N": "n"})
    assert (same.origin, same.table[:, 0].tolist()) == (found.origin, [0, 1, 2])
    summer = text.replace(".03", ".07")
    assert (
        f"{taken(tmp_path, summer, timezone='Europe/Berlin').origin:%H:%M}" == "23:00"
    )  # steps of a year agree


def test_an_autumn_hour_that_stands_once_is_not_counted(tmp_path: Path) -> None:
    """It may be of the first hour, of the second, or of both."""
    text = "time,a\n" + "".join(f"2025-10-26 {hour:02}:00,{hour}\n" for hour in range(5))
    found = taken(tmp_path, text, timezone="Europe/Berlin")
    assert found.table[:, 0].tolist() == [0, 1, NOT_COUNTED, NOT_COUNTED, 3, 4]
    assert any("may be of either hour or of both" in remark for remark in found.remarks)


def autumn(year: int, step: int) -> list[tuple[str, int]]:
    """Rows from midnight to six of the night of change: when by the clock, and how many."""
    first = datetime(year, 10, 26 if year == 2025 else 27, tzinfo=ZoneInfo("Europe/Berlin")).timestamp()
    times = [first + step * number for number in range(7 * 3600 // step)]
    clock = [datetime.fromtimestamp(time, ZoneInfo("Europe/Berlin")) for time in times]
    return [(f"{time:%Y-%m-%d %H:%M}", number % 23) for number, time in enumerate(clock)]


def autumn_read(folder: Path, rows: list[tuple[str, int]], **given: Any) -> tuple[list[int], bool]:
    """The counts of a night in the order of time, and whether some were left out for their order."""
    text = "time,site,count\n" + "".join(f"{time},a,{count}\n" for time, count in rows)
    found = taken(folder, text, timezone="Europe/Berlin", **given)
    return found.table[:, 0].tolist(), any("out of order" in remark for remark in found.remarks)


@pytest.mark.parametrize("step", [3600, 900])
@pytest.mark.parametrize("order", ["of time", "newest first", "of the clock"])
def test_an_autumn_hour_that_stands_twice_is_told_by_the_order_around_it(
    tmp_path: Path, step: int, order: str
) -> None:
    rows = autumn(2025, step)
    counts = [count for _, count in rows]
    rows = {
        "of time": rows,
        "newest first": rows[::-1],
        "of the clock": sorted(rows, key=lambda row: row[0]),
    }[order]
    assert autumn_read(tmp_path, rows) == (counts, False)


def test_months_newest_first_are_in_order_each(tmp_path: Path) -> None:
    """The hour of autumn was read backwards, as the file's last row is older than its first."""
    old, new = autumn(2024, 3600), autumn(2025, 3600)
    counts, _ = autumn_read(tmp_path, new + old)
    assert (counts[:7], counts[-7:]) == ([count for _, count in old], [count for _, count in new])


@pytest.mark.parametrize("given", [{}, {"ambiguous": "in_order"}])
def test_an_autumn_hour_of_rows_out_of_order_is_not_counted(tmp_path: Path, given: dict[str, str]) -> None:
    """Its two counts were given to whichever hour they stood for in the file."""
    rows = autumn(2025, 3600)
    shuffled = [rows[place] for place in (5, 3, 0, 6, 2, 1, 4)]
    assert autumn_read(tmp_path, shuffled, **given) == ([0, 1, NOT_COUNTED, NOT_COUNTED, 4, 5, 6], True)


def test_a_device_that_was_down_is_said(tmp_path: Path) -> None:
    times = [f"2026-03-{2 + number // 24:02} {number % 24:02}:00" for number in range(72)]
    text = "time,a,b\n" + "".join(
        f"{time},{0 if 1 <= number <= 22 else 5 + number % 3},{number % 11}\n"
        for number, time in enumerate(times)
    )
    (remark,) = taken(tmp_path, text).remarks
    assert remark.startswith("'a' counted no people in 22 intervals in a row")
    columns = {"a": "a", "b": "b"}
    assert remark in mapped(tmp_path, text, start="time", columns=columns).remarks


def test_a_line_with_other_cells_than_the_header_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="must have the 3 cells of its header, got line 3 with 2"):
        taken(tmp_path, "time,a,b\n2026-03-02 08:00,1,2\n2026-03-02 09:00,3\n")


@pytest.mark.parametrize(
    "names", [("Station", "Park", "Total"), ("Street", "Zone", "Value"), ("Counter", "Visitors", "Port")]
)
def test_counters_with_names_of_other_columns_are_a_column_each(
    tmp_path: Path, names: tuple[str, ...]
) -> None:
    """Station and Total were taken for the sensors and counts of a long file: each count named a sensor."""
    table = np.random.default_rng(3).poisson(20, (60, 3))
    lines = [f"2026-03-{2 + hour // 24:02} {hour % 24:02}:00" for hour in range(60)]
    text = "".join(
        f"{time},{','.join(map(str, counts))}\n" for time, counts in zip(lines, table.tolist(), strict=True)
    )
    found = taken(tmp_path, f"time,{','.join(names)}\n{text}")
    assert found.sensors == tuple(sorted(names))
    assert found.table.tolist() == table[:, np.argsort(names)].tolist()


def test_numbered_sensors_one_after_the_other_are_those_of_a_long_file(tmp_path: Path) -> None:
    """Each time stands once there, too."""
    text = "".join(f"2026-03-{day:02},{1 + day // 15},{day % 7}\n" for day in range(1, 30))
    found = taken(tmp_path, f"time,station,count\n{text}")
    assert found.sensors == ("1", "2")
    assert found.table[:14, 0].tolist() == [day % 7 for day in range(1, 15)]


@pytest.mark.parametrize("kind", [pa.uint8(), pa.uint32(), pa.int16()])
def test_categories_of_a_data_frame_are_texts(tmp_path: Path, kind: pa.DataType) -> None:
    """Polars numbers them without a sign."""
    names = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0, 1], kind), pa.array(["mill", "port"]))
    times = pa.array([0, 0, 3600, 3600], pa.timestamp("s", "UTC"))
    path = tmp_path / "counts.parquet"
    pq.write_table(pa.table({"time": times, "sensor": names, "count": pa.array([1, 2, 3, None])}), path)
    found = read_counts(path)
    assert (found.sensors, found.table.tolist()) == (("mill", "port"), [[1, 2], [3, NOT_COUNTED]])


def by_minutes(*apart: int, counts: int = 30, first: int = 0) -> str:
    """Rows of a sensor for each of these, its counts so many minutes apart, ``first`` later than the last."""
    found = []
    for number, minutes in enumerate(apart):
        for place in range(counts):
            day, minute = divmod(place * minutes + number * first, 24 * 60)
            time = f"2026-03-{2 + day:02} {minute // 60:02}:{minute % 60:02}"
            found.append(f"{time},s{number},{(place * 7 + number) % 11}\n")
    return "time,sensor,count\n" + "".join(found)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (by_minutes(15, 60), "15 min as times are apart, got those of 's1', which lie up to 60 min apart"),
        (by_minutes(60, 60, first=30), "30 min as times are apart, got those of 's0', 's1'"),
        (by_minutes(15) + by_minutes(60, counts=13).partition("\n")[2].replace("03-0", "04-0"), "of 's0'"),
    ],
    ids=["one by the hour", "one half an hour later", "by the hour later on"],
)
def test_counts_of_intervals_of_several_lengths_are_asked_about(
    tmp_path: Path, text: str, words: str
) -> None:
    """A count of an hour is none of its first quarter, in which each person may not even have been there."""
    with pytest.raises(InputError, match=words):
        taken(tmp_path, text)
    with pytest.raises(InputError, match=words):
        mapped(tmp_path, text, start="time", sensor="sensor", count="count")


def test_counts_that_lie_apart_by_accident_or_declaration_are_taken(tmp_path: Path) -> None:
    kept = taken(tmp_path, by_minutes(15, 60), keep=["s1"])
    assert (kept.step_seconds, int((kept.table[:, 1] >= 0).sum())) == (900, 30)
    random = np.random.default_rng(5)
    rows = by_minutes(15, 15, counts=400).splitlines(keepends=True)
    left = [row for row in rows[1:] if random.random() < 0.3]
    found = taken(tmp_path, rows[0] + "".join(left))
    assert (found.step_seconds, int((found.table >= 0).sum())) == (900, len(left))


REAL: tuple[tuple[str, dict[str, Any], str | int], ...] = (
    (
        "01c-muenster-only-total-and-parts.csv",
        {"start": "Datetime", "column_pattern": "(?P<sensor>.+)"},
        "the sum of",
    ),
    ("03-koeln-daily.csv", {"start": "Datum", "columns": {"Zaehlerstand": "n"}}, 626_267),
    (
        "05-edinburgh-date-hour-channels.csv",
        {
            "start": ["date", "time"],
            "time_format": "%d/%m/%Y %H",
            "timezone": "Europe/London",
            "sensor": "counter_id",
            "count": ["channel_1", "channel_2"],
            "channels": "sum",
            "ambiguous": "in_order",
        },
        2_543,
    ),
    (
        "10-mta-turnstile-accumulated.txt",
        {
            "start": ["DATE", "TIME"],
            "time_format": "%m/%d/%Y %H:%M:%S",
            "timezone": "America/New_York",
            "sensor": "SCP",
            "count": "ENTRIES",
        },
        "never fall",
    ),
    (
        "18-tours-ecocounter-export.csv",
        {"preset": "eco-counter", "timezone": "Europe/Paris"},
        "'Pont Wilson Cyclist IN', the sum of 'Pont Wilson Est IN'",
    ),
)


@pytest.mark.parametrize(("name", "mapping", "expected"), REAL)
def test_real_files_add_up_to_what_their_cells_say_or_raise_their_question(
    name: str, mapping: dict[str, Any], expected: str | int
) -> None:
    """Sums were taken with the csv module; a question names the quirk of the file."""
    path = shared(f"data/counters/{name}")
    given = resolved_map(FilesMap.model_validate({"timezone": "Europe/Berlin", **mapping}))
    if isinstance(expected, str):
        with pytest.raises(InputError, match=expected):
            read_archive([path], given)
        return
    table = read_archive([path], given).table
    assert int(table[table > 0].sum()) == expected
