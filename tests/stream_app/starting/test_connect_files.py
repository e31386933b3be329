"""A city's own files come in by a declared mapping; what it leaves open, or must not enter, is refused."""

from __future__ import annotations

import json
import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from models.exceptions import TallyguardError
from stream_app.exceptions import InputError, OutputError, SettingsError
from stream_app.setup.sections import FilesMap
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect import (
    ArchiveSteps,
    preset_names,
    preset_text,
    read_archive,
    resolved_map,
    write_counts,
)
from stream_app.starting.connect.guess import read_counts
from stream_app.starting.counts import CountTable
from stream_app.starting.counts.doubts import NOT_COUNTED
from stream_app.wire import Activation, Reading, parse
from tests.shared_files import shared
from tests.stream_app.command_line import invoked

FIXTURES = Path(__file__).parent / "connect_fixtures"
LONG = {"start": "t", "sensor": "s", "count": "n", "timezone": "UTC"}


def written(folder: Path, text: str, name: str = "counts.csv") -> Path:
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


def brought(name: str, **more: object) -> CountTable:
    """A fixture by the preset of its name."""
    (path,) = FIXTURES.glob(f"{name}.*")
    return read_archive([path], resolved_map(FilesMap.model_validate({"preset": name, **more})))


def long(folder: Path, rows: str, **more: object) -> CountTable:
    """A long file with the columns t, s, n (and more where ``header`` says so)."""
    header = str(more.pop("header", "t,s,n"))
    return read_archive([written(folder, f"{header}\n{rows}")], FilesMap.model_validate({**LONG, **more}))


def columns(counts: CountTable) -> dict[str, list[int]]:
    return {name: counts.table[:, index].tolist() for index, name in enumerate(counts.sensors)}


def test_each_preset_has_a_fixture_and_says_what_it_is_for() -> None:
    assert set(preset_names()) == {path.stem for path in FIXTURES.iterdir()} - {"france_channels"}
    assert all(preset_names().values())


def test_france_channels_of_a_site_are_summed_only_where_all_were_counted() -> None:
    """Offsets decide the hour that comes twice; the clock's 02:00 to 02:00 lasts an hour."""
    lookup = {
        "lookup_file": FIXTURES / "france_channels.csv",
        "lookup_key": "channel_id",
        "lookup_name": "site_id",
    }
    summed = brought("france", channels="sum", **lookup)
    assert (summed.step_seconds, f"{summed.origin:%d %H:%M}") == (3600, "25 22:00")
    assert columns(summed) == {"Quai": [7, NOT_COUNTED, 1, NOT_COUNTED]}
    apart = brought("france", channels="apart", **lookup)
    assert columns(apart) == {
        "Quai/100-N": [4, NOT_COUNTED, 0, NOT_COUNTED],
        "Quai/100-S": [3, NOT_COUNTED, 1, 2],
    }
    with pytest.raises(InputError, match="declared what several channels"):
        brought("france", **lookup)


def test_melbourne_counts_are_of_the_citys_clock() -> None:
    counts = brought("melbourne")
    assert columns(counts) == {"22": [2604, NOT_COUNTED], "34": [300, 240]}
    assert f"{counts.origin:%Y-%m-%d %H:%M}" == "2019-11-01 06:00"


def test_fremonts_sides_are_one_count_and_its_total_counts_nobody_again() -> None:
    counts = brought("fremont")
    assert columns(counts) == {"Fremont Bridge": [13, 10, NOT_COUNTED, 5]}


def test_telraam_rounds_and_leaves_out_hours_that_were_hardly_counted() -> None:
    counts = brought("telraam")
    assert columns(counts) == {"9000001": [42, NOT_COUNTED, 0]}
    assert any("rounded" in remark for remark in counts.remarks)
    assert any("less than 0.5" in remark for remark in counts.remarks)


def test_eco_counters_flows_are_summed_to_sites_and_a_total_is_left_out() -> None:
    counts = brought("eco-counter", timezone="Europe/Paris")
    assert columns(counts) == {"Mill": [3, 0, 7], "Port": [7, NOT_COUNTED, 5]}
    with pytest.raises(InputError, match="time zone"):
        brought("eco-counter")


def test_leeds_date_and_hour_are_one_time_and_the_skipped_hour_is_none() -> None:
    """In the night of the change the counts of 1 o'clock are of an hour that was not there."""
    counts = brought("leeds")
    assert columns(counts) == {"Briggate": [21, 13], "Headrow": [8, 0]}
    assert any("1 rows of leeds.csv are of hours that the clock skips" in each for each in counts.remarks)


def test_edinburghs_channels_are_one_count_where_both_were_counted() -> None:
    """Of the hour that comes twice the first row is the first hour."""
    assert columns(brought("edinburgh")) == {"27": [3, 1, 6, NOT_COUNTED, 1]}


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("crowdflow", {"urn:ngsi-ld:CrowdFlowObserved:mill": [7, 0]}),
        ("dublin", {"Mill Street/Port": [7, NOT_COUNTED, 5]}),
        ("golemio", {"camea-A": [4, 3]}),
        ("hystreet", {"Mill Street": [7, 5, NOT_COUNTED, 9]}),
        ("montreal", {"7": [3, 4, 5]}),
        ("mta", {"A002": [30, NOT_COUNTED, 9]}),
        ("muenster", {"Mill": [7, *[NOT_COUNTED] * 8, 9], "Port": [2, *[NOT_COUNTED] * 9]}),
        ("paris", {"100-1": [4, 6, 5]}),
        ("zurich", {"4241": [7, NOT_COUNTED, 5]}),
    ],
)
def test_files_that_a_preset_knows_come_in_without_a_word(name: str, expected: dict[str, list[int]]) -> None:
    """Totals beside parts, gates that began anew, autumn's hour that stands once: each by its preset."""
    (path,) = FIXTURES.glob(f"{name}.*")
    found = read_counts(path)
    assert columns(found) == expected == columns(brought(name))
    assert found.remarks[0].startswith(f"Read by the preset {name!r}")


def test_the_real_files_come_in_as_they_are() -> None:
    """Melbourne's and Seattle's years: every count is that of its row."""
    path = shared("data/melbourne_pedestrian_hourly.parquet")
    counts = read_archive([path], resolved_map(FilesMap(preset="melbourne")))
    table = pq.read_table(path)
    assert counts.table.shape[1] == 39
    step = (np.asarray(table["time"]) - int(counts.origin.timestamp())) // 3600
    sensor = np.array([counts.sensors.index(str(each)) for each in table["sensor"].to_pylist()])
    found, wanted = counts.table[step, sensor], np.asarray(table["count"])
    assert (found[found != NOT_COUNTED] == wanted[found != NOT_COUNTED]).all()
    assert int((found == NOT_COUNTED).sum()) == 36  # two rows each for 18 hours after the skipped ones
    bridge = read_archive(
        [shared("data/fremont_bridge_hourly.csv.gz")], resolved_map(FilesMap(preset="fremont"))
    )
    assert (bridge.table != NOT_COUNTED).sum() == 14_544


def test_an_empty_cell_is_not_counted_and_zero_is_zero(tmp_path: Path) -> None:
    rows = "2026-01-01 00:00,a,0\n2026-01-01 01:00,a,\n2026-01-01 02:00,a,NA\n2026-01-01 03:00,a,5\n"
    assert columns(long(tmp_path, rows)) == {"a": [0, NOT_COUNTED, NOT_COUNTED, 5]}


def test_the_interval_that_a_file_was_exported_in_is_not_counted(tmp_path: Path) -> None:
    """Its count is what there was until then; a remark says so, and of nothing else it is an error."""
    rows = "2026-01-01 05:00,a,3\n2026-01-01 06:00,a,0\n2026-01-01 06:00,b,1\n2026-01-01 05:00,b,4\n"
    path, mapping = written(tmp_path, f"t,s,n\n{rows}"), FilesMap.model_validate(LONG)
    seven = 1_767_225_600 + 7 * 3600
    early = read_archive([path], mapping, latest_seconds=seven - 600)
    assert columns(early) == {"a": [3], "b": [4]}
    assert any("2 counts are of intervals that are not over" in remark for remark in early.remarks)
    assert columns(read_archive([path], mapping, latest_seconds=seven)) == {"a": [3, 0], "b": [4, 1]}
    with pytest.raises(InputError, match="not over only"):
        read_archive([path], mapping, latest_seconds=seven - 2 * 3600)


def test_decimals_are_rounded_by_declaration_only(tmp_path: Path) -> None:
    rows = "2026-01-01 00:00,a,1.5\n2026-01-01 01:00,a,2.0\n2026-01-01 02:00,a,0.4\n"
    with pytest.raises(InputError, match=r"2 rows, the first is row 1.*decimals = .round") as raised:
        long(tmp_path, rows)
    assert "1.5" not in str(raised.value)
    assert columns(long(tmp_path, rows, decimals="round", largest_factor=1.0)) == {"a": [2, 2, 0]}


@pytest.mark.parametrize("cell", ["-1", "1e3", "many", "1,5", "99999999999999"])
def test_what_is_no_count_is_refused_and_not_quoted(tmp_path: Path, cell: str) -> None:
    with pytest.raises(InputError, match="first is row 2") as raised:
        long(
            tmp_path,
            f'2026-01-01 00:00,a,1\n2026-01-01 01:00,a,"{cell}"\n',
            decimals="round",
            largest_factor=1.0,
        )
    assert cell not in str(raised.value).replace("row 2", "").replace("1 rows", "") or cell in "-1"


AUTUMN = "".join(f"2026-10-25 {hour},a,{n}\n" for n, hour in enumerate(("01:00", "02:00", "02:00", "03:00")))


def test_an_hour_that_comes_twice_is_decided_by_declaration(tmp_path: Path) -> None:
    zone = {"timezone": "Europe/Vienna"}
    with pytest.raises(InputError, match=r"2 rows in an hour that the clock shows twice.*2026-10-25 02:00"):
        long(tmp_path, AUTUMN, **zone)
    in_order = long(tmp_path, AUTUMN, **zone, ambiguous="in_order")
    assert columns(in_order) == {"a": [0, 1, 2, 3]}
    newest_first = "\n".join(reversed(AUTUMN.splitlines())) + "\n"
    assert columns(long(tmp_path, newest_first, **zone, ambiguous="in_order")) == columns(in_order)
    once = "2026-10-25 01:00,a,5\n2026-10-25 02:00,a,6\n2026-10-25 03:00,a,7\n"
    assert columns(long(tmp_path, once, **zone, ambiguous="earlier", interval_seconds=3600)) == {
        "a": [5, 6, NOT_COUNTED, 7]
    }
    assert columns(long(tmp_path, once, **zone, ambiguous="later", interval_seconds=3600)) == {
        "a": [5, NOT_COUNTED, 6, 7]
    }


def test_an_empty_first_hour_does_not_lend_its_place_to_the_second(tmp_path: Path) -> None:
    rows = AUTUMN.replace("02:00,a,1", "02:00,a,")
    counts = long(tmp_path, rows, timezone="Europe/Vienna", ambiguous="in_order", interval_seconds=3600)
    assert columns(counts) == {"a": [0, NOT_COUNTED, 2, 3]}


def test_an_hour_that_never_comes_is_decided_by_declaration(tmp_path: Path) -> None:
    rows = "".join(f"2026-03-29 0{hour}:00,a,{hour}\n" for hour in (1, 2, 3))
    with pytest.raises(InputError, match="1 rows in an hour that it skips"):
        long(tmp_path, rows, timezone="Europe/Vienna")
    assert columns(long(tmp_path, rows, timezone="Europe/Vienna", nonexistent="drop")) == {"a": [1, 3]}
    empty = rows.replace("a,2", "a,")  # as spreadsheets have it
    assert columns(long(tmp_path, empty, timezone="Europe/Vienna")) == {"a": [1, 3]}


def test_intervals_have_one_length_by_the_clock_or_as_time_passes(tmp_path: Path) -> None:
    spring = "2026-03-29 00:00,2026-03-29 01:00,a,1\n2026-03-29 01:00,2026-03-29 03:00,a,2\n"
    more = {"header": "t,e,s,n", "end": "e", "timezone": "Europe/Vienna"}
    assert columns(long(tmp_path, spring, **more)) == {"a": [1, 2]}
    mixed = "2026-01-01 00:00,2026-01-01 01:00,a,1\n2026-01-01 00:00,2026-01-02 00:00,a,9\n"
    with pytest.raises(InputError, match="one length"):
        long(tmp_path, mixed, **more)
    with pytest.raises(InputError, match="end after they start"):
        long(tmp_path, "2026-01-01 01:00,2026-01-01 00:00,a,1\n", **more)


def test_shorter_intervals_make_a_step_only_where_all_were_counted(tmp_path: Path) -> None:
    rows = "".join(
        f"2026-01-01 {hour:02d}:{minute:02d},a,{'' if (hour, minute) == (1, 30) else minute}\n"
        for hour in range(3)
        for minute in (0, 30)
    )
    path, steps = written(tmp_path, "t,s,n\n" + rows), ArchiveSteps(1_767_225_600, 3600)
    with pytest.raises(InputError, match=r"shorter = .sum"):
        read_archive([path], FilesMap.model_validate(LONG), steps)
    summed = read_archive([path], FilesMap.model_validate({**LONG, "shorter": "sum"}), steps)
    assert columns(summed) == {"a": [30, NOT_COUNTED, 30]}
    with pytest.raises(InputError, match="start as the steps do"):
        read_archive([path], FilesMap.model_validate(LONG), ArchiveSteps(1_767_225_600 - 60, 1800))
    with pytest.raises(InputError, match="earlier than step 0"):
        read_archive([path], FilesMap.model_validate(LONG), ArchiveSteps(1_767_225_600 + 1800, 1800))


def test_repeated_counts_are_refused_or_none_of_them_taken(tmp_path: Path) -> None:
    rows = "2026-01-01 00:00,a,1\n2026-01-01 01:00,a,2\n2026-01-01 01:00,a,3\n2026-01-01 02:00,a,4\n"
    with pytest.raises(InputError, match=r"once in an interval.*at 2026-01-01 01:00 Asia/Tokyo"):
        long(tmp_path, rows, timezone="Asia/Tokyo")
    assert columns(long(tmp_path, rows, repeated="drop")) == {"a": [1, NOT_COUNTED, 4]}


def test_several_files_are_one_archive_and_a_channel_is_owed_only_while_it_works(tmp_path: Path) -> None:
    """A second channel that was added later does not make the years before it uncounted."""
    first = written(tmp_path, "t,s,c,n\n2026-01-01 00:00,a,in,1\n2026-01-01 01:00,a,in,2\n", "1.csv")
    second = written(
        tmp_path,
        "t,s,c,n\n2026-01-01 02:00,a,in,3\n2026-01-01 02:00,a,out,5\n2026-01-01 03:00,a,in,4\n"
        "2026-01-01 04:00,a,out,6\n2026-01-01 04:00,a,in,7\n",
        "2.csv",
    )
    mapping = FilesMap.model_validate({**LONG, "channel": "c", "channels": "sum"})
    counts = read_archive([first, second], mapping)
    assert columns(counts) == {"a": [1, 2, 8, NOT_COUNTED, 13]}
    assert any("lacked a channel" in remark for remark in counts.remarks)


@pytest.mark.parametrize(
    ("column", "kind"),
    [
        ("PeopleId", "events of single people"),
        ("track_id", "events of single people"),
        ("snapshot", "images"),
        ("MAC Address", "addresses of devices"),
        ("hashed_mac", "addresses of devices"),
    ],
)
@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_people_images_and_devices_are_refused_though_nobody_asked_for_them(
    tmp_path: Path, column: str, kind: str, form: str
) -> None:
    path = tmp_path / f"counts.{form}"
    names = ["t", "s", "n", column]
    if form == "csv":
        path.write_text(",".join(names) + "\n2026-01-01 00:00,a,1,secret\n")
    else:
        pq.write_table(pa.table({name: ["2026-01-01 00:00"] for name in names}), path)
    with pytest.raises(InputError, match=f"must hold counts, got {kind}") as raised:
        read_archive([path], FilesMap.model_validate(LONG))
    assert "secret" not in str(raised.value)


def test_seen_devices_are_no_sensors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="addresses of devices") as raised:
        long(tmp_path, "2026-01-01 00:00,aa:bb:cc:00:11:22,1\n2026-01-01 01:00,b,1\n")
    assert "aa:bb" not in str(raised.value)


@pytest.mark.parametrize(
    ("text", "more", "words"),
    [
        ("t,s,n\n", {}, "no row|hold counts"),
        ("t,s,n\n2026-01-01 00:00,a,\n2026-01-01 01:00,a,\n", {}, "empty cells only"),
        ("t,s,n\n2026-01-01 00:00,,1\n", {}, "a sensor in each row"),
        ("t,s,n\n,a,1\n", {}, "a time in each row"),
        ("t,s,n\nsoon,a,1\n", {}, "times that can be read in one way"),
        ("t,s\n2026-01-01 00:00,a\n", {}, "column of `count`"),
        ("when,s,n\n2026-01-01 00:00,a,1\n", {}, "column of `start`"),
        ("t,s,n\n2026-01-01 00:00,a,1\n3026-01-01 00:00,a,1\n", {"interval_seconds": 60}, "close together"),
        ("t,s,n\n2026-01-01 00:00,a,1,2\n", {}, "must have the 3 cells of its header"),
        ("t,a,b\n2026-01-01 00:00,1,2\n", {"sensor": "", "count": ""}, "where the counts stand"),
        (
            "t,a,b\n2026-01-01 00:00,1,2\n",
            {"sensor": "", "count": "", "columns": {"a": "x"}},
            "mapped or ignored",
        ),
    ],
)
def test_each_refusal_says_what_to_do(tmp_path: Path, text: str, more: dict[str, object], words: str) -> None:
    mapping = FilesMap.model_validate({**LONG, **more})
    with pytest.raises(TallyguardError, match=words) as raised:
        read_archive([written(tmp_path, text)], mapping)
    assert raised.value.remedy


def test_messages_are_those_of_their_own_models(tmp_path: Path) -> None:
    rows = '2026-01-01 00:00,"Café ""Mitte"" 🚲",3\n2026-01-01 01:00,b,4\n2026-01-01 02:00,b,0\n'
    counts = long(tmp_path, rows)
    path = tmp_path / "messages.jsonl"
    write_counts(path, counts)
    lines = path.read_bytes().splitlines(keepends=True)
    parsed = [parse(line, "test") for line in lines]
    assert all(isinstance(each, Activation | Reading) for each in parsed)
    assert [each.line() for each in parsed if isinstance(each, Activation | Reading)] == lines
    assert [each.sensors for each in parsed if isinstance(each, Activation)] == [
        ('Café "Mitte" 🚲',),
        ("b",),
        ("b",),
    ]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(OutputError, match="new file"):
        write_counts(path, counts)
    with pytest.raises(OutputError, match="must end in"):
        write_counts(tmp_path / "counts.xlsx", counts)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_a_table_is_what_init_takes(tmp_path: Path, form: str) -> None:
    path = tmp_path / f"counts.{form}"
    counts = brought("eco-counter", timezone="Europe/Paris")
    write_counts(path, counts)
    again = read_counts(path, timezone="Europe/Paris")
    assert columns(again) == columns(counts)
    assert again.origin == counts.origin


def test_settings_begin_with_a_preset_and_change_it(tmp_path: Path) -> None:
    """Files in the settings are relative to them, those in a preset to the preset."""
    (tmp_path / "maps").mkdir()
    own = 'about = "ours"\nstart = "t"\nsensor = "s"\ncount = "n"\nlookup_file = "sites.csv"\n'
    written(tmp_path, own, "maps/mine.toml")
    settings = written(
        tmp_path, '[connect.files]\npreset = "maps/mine.toml"\ntimezone = "UTC"\ncount = "bikes"\n', "t.toml"
    )
    mapping = resolved_map(load_settings(settings).connect.files)
    assert mapping.lookup_file == tmp_path / "maps" / "sites.csv"
    assert (mapping.start, mapping.count, mapping.timezone) == (("t",), ("bikes",), "UTC")
    written(tmp_path, own + 'timezon = "UTC"\n', "maps/mine.toml")
    with pytest.raises(SettingsError, match="did you mean 'timezone'"):
        resolved_map(load_settings(settings).connect.files)
    with pytest.raises(SettingsError, match="did you mean 'france'"):
        resolved_map(FilesMap(preset="frence"))


@pytest.mark.parametrize("head", ["", "[connect.files]\n"])
def test_a_file_for_preset_may_be_as_settings_are_and_begin_with_a_preset(tmp_path: Path, head: str) -> None:
    """The preset in it was passed over, and the table was said to be a misspelt count."""
    own = written(tmp_path, f'{head}preset = "fremont"\nchannels = "apart"\n', "own.toml")
    mapping = resolved_map(FilesMap(preset=str(own)))
    assert (mapping.timezone, mapping.channels) == ("America/Los_Angeles", "apart")
    assert len(read_archive([FIXTURES / "fremont.csv"], mapping).sensors) == 2
    with pytest.raises(SettingsError, match="must begin with one of the package"):
        resolved_map(FilesMap(preset=str(written(tmp_path, 'preset = "own.toml"', "other.toml"))))


def test_an_archive_becomes_releases(tmp_path: Path) -> None:
    """The command's messages run without one refused, at the steps of the settings."""
    config = written(
        tmp_path,
        'origin = 2025-05-31T22:00:00Z\nlocations = "places.txt"\n'
        '[release]\nmechanism = "gaussian"\nsigma = 5\n'
        '[connect.files]\npreset = "eco-counter"\ntimezone = "Europe/Paris"\n',
        "city.toml",
    )
    written(tmp_path, "Mill\nPort\n", "places.txt")
    messages = tmp_path / "messages.jsonl"
    status, said = invoked(
        "connect", "files", FIXTURES / "eco-counter.csv", "--config", config, "--output", messages
    )
    assert status == 0, said
    assert "5 counts of 2 sensors in 3 steps of 60 min, 1 cell without one" in said
    status, said = invoked(
        *("run", "--config", config, "--listen", "", "--input", messages),
        *("--output", tmp_path / "out", "--create-keys"),
    )
    assert status == 0, said
    assert "0 messages rejected" in said
    released = [json.loads(line) for line in (tmp_path / "out" / "releases.jsonl").read_text().splitlines()]
    assert [len(step["releases"]) for step in released] == [2, 2, 2]
    written(tmp_path, "Mill\nHarbour\n", "places.txt")
    status, said = invoked(
        "connect", "files", FIXTURES / "eco-counter.csv", "--config", config, "--output", tmp_path / "b.jsonl"
    )
    assert status == 1
    assert "such as 'Port'" in said
    assert not (tmp_path / "b.jsonl").exists()


def test_messages_far_from_step_0_are_refused_before_a_run_would(tmp_path: Path) -> None:
    status, said = invoked(
        *("connect", "files", FIXTURES / "telraam.csv", "--preset", "telraam"),
        *("--output", tmp_path / "m.jsonl"),
    )
    assert status == 1
    assert "set origin" in said


def test_presets_are_listed_and_printed_to_begin_with(tmp_path: Path) -> None:
    status, said = invoked("connect", "presets")
    assert status == 0
    assert all(name in said for name in preset_names())
    own = written(tmp_path, preset_text("telraam"), "mine.toml")
    status, said = invoked(
        *("connect", "files", FIXTURES / "telraam.csv", "--preset", own, "--json"),
        *("--output", tmp_path / "counts.parquet"),
    )
    assert status == 0, said
    assert json.loads(said)["counts"] == 2


_STARTS = [f"2026-03-02 {hour:02d}:00:00" for hour in range(8, 12)]
_INCLUSIVE = [
    ("second", [f"2026-03-02 {hour:02d}:59:59" for hour in range(8, 12)]),
    ("millisecond", [f"2026-03-02T{hour:02d}:59:59.999" for hour in range(8, 12)]),
    ("microsecond", [f"2026-03-02T{hour:02d}:59:59.999999Z" for hour in range(8, 12)]),
    ("day first", [f"02.03.2026 {hour:02d}:59:59" for hour in range(8, 12)]),
]


@pytest.mark.parametrize("ends", [ends for _, ends in _INCLUSIVE], ids=[name for name, _ in _INCLUSIVE])
@pytest.mark.parametrize("steps", [None, ArchiveSteps(1_772_409_600, 3600)], ids=["table", "messages"])
def test_ends_that_are_inclusive_are_recognised_and_said(
    tmp_path: Path, ends: list[str], steps: ArchiveSteps | None
) -> None:
    """Hamburg's hours end a second, or less, before the next one: they are hours, and a remark says so."""
    rows = "".join(f"{start},{end},a,{n}\n" for n, (start, end) in enumerate(zip(_STARTS, ends, strict=True)))
    file = written(tmp_path, f"t,e,s,n\n{rows}")
    for more in ({}, {"ends": "inclusive"}):
        counts = read_archive([file], FilesMap.model_validate({**LONG, "end": "e", **more}), steps)
        counted = counts.table[counts.table != NOT_COUNTED]
        assert (counts.step_seconds, counted.tolist()) == (3600, [0, 1, 2, 3])
        assert any("taken as inclusive" in each for each in counts.remarks) == (not more)


def test_ends_are_recognised_by_all_of_a_file_only(tmp_path: Path) -> None:
    """One interval alone, ends of two kinds, and intervals that do last 59:59 stay what they are."""
    hourly = ArchiveSteps(1_772_409_600, 3600)

    def read(rows: str, **more: object) -> CountTable:
        file = written(tmp_path, f"t,e,s,n\n{rows}")
        return read_archive([file], FilesMap.model_validate({**LONG, "end": "e", **more}), hourly)

    one = "2026-03-02 08:00:00,2026-03-02 08:59:59,a,5\n"
    with pytest.raises(InputError, match='set ends = "inclusive"'):
        read(one)
    assert read(one, ends="inclusive").table[8].tolist() == [5]
    with pytest.raises(InputError, match="inclusive ends apart from exclusive"):
        read(one + "2026-03-02 09:00:00,2026-03-02 10:00:00,a,6\n" + one.replace("08:", "11:"))
    with pytest.raises(InputError, match="must fill the settings' steps"):
        read(one + "2026-03-02 08:59:59,2026-03-02 09:59:58,a,6\n")
    with pytest.raises(InputError, match="must fill the settings' steps"):
        read(one + one.replace("08:", "09:"), ends="exclusive")


def test_quarters_with_inclusive_ends_are_summed(tmp_path: Path) -> None:
    quarters = "".join(
        f"2026-03-02 08:{m:02d}:00,2026-03-02 08:{m + 14:02d}:59,a,{m}\n" for m in range(0, 60, 15)
    )
    file = written(tmp_path, f"t,e,s,n\n{quarters}")
    mapping = FilesMap.model_validate({**LONG, "end": "e", "shorter": "sum"})
    counts = read_archive([file], mapping, ArchiveSteps(1_772_409_600, 3600))
    assert counts.table[8].tolist() == [90]


def test_remarks_are_shown_whole(tmp_path: Path) -> None:
    """A remark that names a table of the settings shows it: brackets are no markup."""
    rows = "".join(f"{start},{end},a,1\n" for start, end in zip(_STARTS, _INCLUSIVE[0][1], strict=True))
    config = tmp_path / "tallyguard.toml"
    config.write_text(
        '[connect.files]\nstart = "t"\nend = "e"\nsensor = "s"\ncount = "n"\ntimezone = "UTC"\n'
    )
    file = written(tmp_path, f"t,e,s,n\n{rows}")
    status, said = invoked("connect", "files", file, "--config", config, "--output", tmp_path / "c.parquet")
    assert status == 0
    assert 'ends = "exclusive" in [connect.files]' in " ".join(said.split())


@pytest.mark.parametrize("form", ["{}-{:02d}-{:02d} {:02d}:00", "{2:02d}.{1:02d}.{0} {3:02d}:00:00"])
def test_a_day_may_end_at_24_00(tmp_path: Path, form: str) -> None:
    """German and French files close a day so: it is the midnight of the next one."""
    hours = [(form.format(2026, 3, 2, hour), form.format(2026, 3, 2, hour + 1)) for hour in (22, 23)]
    file = written(tmp_path, "t,e,s,n\n" + "".join(f"{start},{end},a,7\n" for start, end in hours))
    counts = read_archive([file], FilesMap.model_validate({**LONG, "end": "e"}))
    assert (counts.step_seconds, columns(counts)) == (3600, {"a": [7, 7]})
    assert f"{counts.origin:%d %H}" == "02 22"


def test_starts_a_second_late_are_refused_not_moved(tmp_path: Path) -> None:
    """08:00:01 to 09:00:00 is no hour that ends a second early: it would lie a second beside the steps."""
    rows = "".join(
        f"2026-03-02 {hour:02d}:00:01,2026-03-02 {hour + 1:02d}:00:00,a,5\n" for hour in range(8, 11)
    )
    with pytest.raises(InputError, match=r"starts one second later.*interval_seconds"):
        long(tmp_path, rows, header="t,e,s,n", end="e")


def test_an_end_may_be_the_last_minute_by_declaration_only(tmp_path: Path) -> None:
    """08:00 to 08:59 may be an hour, or one less a minute in which a counter pauses: nobody can tell."""
    rows = "".join(f"2026-03-02 {hour:02d}:00,2026-03-02 {hour:02d}:59,a,{hour}\n" for hour in range(8, 11))
    with pytest.raises(InputError, match='a minute before that; set ends = "inclusive"'):
        long(tmp_path, rows, header="t,e,s,n", end="e")
    counts = long(tmp_path, rows, header="t,e,s,n", end="e", ends="inclusive")
    assert (counts.step_seconds, columns(counts)) == (3600, {"a": [8, 9, 10]})
    with pytest.raises(InputError, match="must end after they start, got none"):
        long(tmp_path, "2026-03-02,2026-03-02,a,1\n", header="t,e,s,n", end="e")


@pytest.mark.parametrize("day", ["2026-10-25", "2026-03-29"])
def test_inclusive_ends_are_recognised_in_the_nights_of_the_clock(tmp_path: Path, day: str) -> None:
    """Five hours in a row, by the clock on the wall and by offsets."""
    zone = ZoneInfo("Europe/Berlin")
    first = datetime.fromisoformat(day).replace(tzinfo=zone).astimezone(UTC)
    hours = [(first + timedelta(hours=hour)).astimezone(zone) for hour in range(5)]
    for form in ("%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S%z"):
        rows = "".join(f"{at:{form}},{at.replace(minute=59, second=59):{form}},a,1\n" for at in hours)
        more = {"timezone": "Europe/Berlin", "ambiguous": "in_order", "nonexistent": "drop"}
        counts = long(tmp_path, rows, header="t,e,s,n", end="e", **more)
        assert (counts.step_seconds, columns(counts)) == (3600, {"a": [1] * 5})
