"""Tables as cities save them: each form of file, header, time and number is read as meant, or asked about."""

from __future__ import annotations

import csv
import gzip
import io
import json
import zipfile
from collections.abc import Callable, Iterator
from datetime import datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.sections import FilesMap
from stream_app.starting.connect import read_archive, resolved_map
from stream_app.starting.connect.guess import guessed, proposal, read_counts
from stream_app.starting.counts import CountTable
from stream_app.starting.counts.deployment_files import sensor_places
from stream_app.starting.counts.doubts import NOT_COUNTED
from stream_app.starting.counts.tables import read_table
from tests.shared_files import shared
from tests.stream_app.command_line import called, invoked

FIXTURES = Path(__file__).parent / "connect_fixtures"
HEADER = ["Zeit", "Straße Süd", "Hafen"]
ROWS = [
    ["2026-03-02 08:00", "41", "17"],
    ["2026-03-02 09:00", "38", ""],
    ["2026-03-02 10:00", "30", "11"],
]
ROWS_LATER = [["2026-03-02 11:00", "5", "5"], ["2026-03-02 12:00", "6", "6"]]
COUNTED = {"Hafen": [17, NOT_COUNTED, 11], "Straße Süd": [41, 38, 30]}
RECORDS = [{name: cell or None for name, cell in zip(HEADER, row, strict=True)} for row in ROWS]


def counts_of(found: CountTable) -> dict[str, list[int]]:
    return {name: found.table[:, place].tolist() for place, name in enumerate(found.sensors)}


def text(separator: str = ",") -> str:
    return "\n".join(separator.join(row) for row in (HEADER, *ROWS)) + "\n"


def saved(folder: Path, content: str | bytes, name: str = "counts.csv") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def taken(folder: Path, content: str | bytes, name: str = "counts.csv", **given: Any) -> CountTable:
    return read_counts(saved(folder, content, name), **{"timezone": "Europe/Berlin", **given})


def workbook(path: Path, *sheets: list[list[str]]) -> Path:
    """The least that is one: texts in cells, a number where it is one."""

    def cell(value: str) -> str:
        if not value:
            return "<c/>"
        is_number = value.isdigit()
        return f"<c><v>{value}</v></c>" if is_number else f'<c t="str"><v>{value}</v></c>'

    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    links = "http://schemas.openxmlformats.org/package/2006/relationships"
    with zipfile.ZipFile(path, "w") as book:
        names, targets = "", ""
        for number, rows in enumerate(sheets, start=1):
            body = "".join(f"<row>{''.join(map(cell, row))}</row>" for row in rows)
            file = f"worksheets/sheet{number}.xml"
            book.writestr(
                f"xl/{file}", f'<worksheet xmlns="{main}"><sheetData>{body}</sheetData></worksheet>'
            )
            names += f'<sheet name="S{number}" sheetId="{number}" r:id="r{number}"/>'
            targets += f'<Relationship Id="r{number}" Type="{office}/worksheet" Target="{file}"/>'
        sheets_of = f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets>{names}</sheets></workbook>'
        book.writestr("xl/workbook.xml", sheets_of)
        relations = f'<Relationships xmlns="{links}">{targets}</Relationships>'
        book.writestr("xl/_rels/workbook.xml.rels", relations)
        root = f'<Relationship Id="r0" Type="{office}/officeDocument" Target="xl/workbook.xml"/>'
        book.writestr("_rels/.rels", f'<Relationships xmlns="{links}">{root}</Relationships>')
    return path


def parquet(path: Path) -> Path:
    pq.write_table(pa.Table.from_pylist(RECORDS), path)
    return path


def features() -> str:
    shape = {"type": "Point", "coordinates": [7.6, 51.9]}
    return json.dumps(
        {
            "type": "FeatureCollection",
            "features": [{"type": "Feature", "geometry": shape, "properties": each} for each in RECORDS],
        }
    )


FORMS: dict[str, Callable[[Path], Path]] = {
    "UTF-8 with its mark": lambda folder: saved(folder, text().encode("utf-8-sig")),
    "UTF-16, tabs": lambda folder: saved(folder, text("\t").encode("utf-16"), "counts.txt"),
    "windows-1252, semicolons": lambda folder: saved(folder, text(";").encode("cp1252")),
    "carriage returns, quotes": lambda folder: saved(
        folder, "\r\n".join(",".join(f'"{cell}"' for cell in row) for row in (HEADER, *ROWS))
    ),
    "Excel's word for the separator": lambda folder: saved(folder, "sep=;\n" + text(";")),
    "workbook": lambda folder: workbook(folder / "counts.xlsx", [HEADER, *ROWS]),
    "workbook with a title": lambda folder: workbook(folder / "c.xlsx", [["Zählung"], [], HEADER, *ROWS]),
    "JSON": lambda folder: saved(folder, json.dumps({"city": "x", "data": RECORDS}), "counts.json"),
    "JSON lines": lambda folder: saved(folder, "\n".join(map(json.dumps, RECORDS)), "counts.jsonl"),
    "GeoJSON": lambda folder: saved(folder, features(), "counts.geojson"),
    "Parquet": lambda folder: parquet(folder / "counts.parquet"),
    "lines before": lambda folder: saved(folder, "City of X\nfrom;2026-03-02\n\n" + text(";")),
    "lines behind": lambda folder: saved(folder, text(";") + "Quelle: Stadt X\n"),
    "a separator at the end": lambda folder: saved(folder, text(";").replace("\n", ";\n")),
}


@pytest.mark.parametrize("form", FORMS)
def test_each_form_of_file_holds_the_same_counts(tmp_path: Path, form: str) -> None:
    path = FORMS[form](tmp_path)
    found = read_counts(path, timezone="Europe/Berlin")
    names = {name.replace("type", ""): counts for name, counts in counts_of(found).items()}
    assert {name: counts for name, counts in names.items() if name in COUNTED} == COUNTED
    assert (f"{found.origin:%H}", found.step_seconds) == ("07", 3600)


WRITTEN = [
    ("Zeit", ["02.03.2026 13:00", "13.03.2026 14:00"]),
    ("Zeit", ["2. März 2026 13:00 Uhr", "13. März 2026 14:00 Uhr"]),
    ("Zeit", ["Mo 02. Mrz 2026 13:00", "Fr 13. Mrz 2026 14:00"]),
    ("heure", ["lundi 2 mars 2026 13h", "vendredi 13 mars 2026 14h"]),
    ("time", ["Mar 2, 2026 1:00 PM", "Mar 13, 2026 2:00 PM"]),
    ("time", ["03/02/2026 01:00:00 p.m.", "03/13/2026 02:00:00 p.m."]),
    ("time", ["02-Mar-26 13:00", "13-Mar-26 14:00"]),
    ("fecha", ["02/03/2026 13:00 - 14:00", "13/03/2026 14:00 - 15:00"]),
    ("czas", ["2 marca 2026 13:00", "13 marca 2026 14:00"]),
    ("time", ["20260302 13:00", "20260313 14:00"]),
    ("time", ["1772452800000", "1773406800000"]),
    ("time", ["2026-03-02T13:00:00.000+0100", "2026-03-13T14:00:00.000+0100"]),
    ("when", ["13, 02-Mar-2026", "14, 13-Mar-2026"]),
    ("observed", ["2026-03-02T13:00:00/2026-03-02T14:00:00", "2026-03-13T14:00:00/2026-03-13T15:00:00"]),
]


def zipped(content: bytes, *more: str, name: str = "counts.csv") -> bytes:
    """A zip of a folder with one file, as it is packed on a Mac, and others."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.mkdir("2026")
        archive.writestr(f"2026/{name}", content)
        archive.writestr(f"__MACOSX/2026/._{name}", b"x")
        for other in more:
            archive.writestr(other, content)
    return made.getvalue()


def test_a_zip_of_one_table_is_read_and_any_other_refused(tmp_path: Path) -> None:
    content = text().encode()
    plain = taken(tmp_path, content, "c.csv")
    assert counts_of(taken(tmp_path, zipped(content), "c.zip")) == counts_of(plain) == COUNTED
    for other in (zipped(content, "b.csv"), zipped(content)[:-20], zipped(zipped(content))):
        with pytest.raises(InputError, match=r"must be a table: .*, got a packed file"):
            taken(tmp_path, other, "d.zip")
    torn = bytearray(zipped(content))
    torn[torn.index(b"counts.csv") + 12] ^= 255
    with pytest.raises(InputError, match="must be a table"):
        taken(tmp_path, bytes(torn), "e.zip")


@pytest.mark.parametrize("kind", ["json", "jsonl"])
def test_packed_json_is_read_as_json(tmp_path: Path, kind: str) -> None:
    records = [dict(zip(HEADER, row, strict=True)) for row in ROWS]
    lines = "\n".join(map(json.dumps, records)) if kind == "jsonl" else json.dumps(records)
    packed = {
        f"c.{kind}.gz": gzip.compress(lines.encode()),
        "c.zip": zipped(lines.encode(), name=f"c.{kind}"),
    }
    for name, content in packed.items():
        assert counts_of(taken(tmp_path, content, name)) == COUNTED


FOOT = ["Summe;109;28", "Mittel;36;14", "Quelle: Stadt X"]


@pytest.mark.parametrize("foot", [FOOT[:1], FOOT[2:], FOOT, ["", *FOOT], [";109;28"]])
@pytest.mark.parametrize("kind", ["csv", "csv.gz", "csv.zip", "xlsx"])
def test_sums_and_notes_below_the_counts_are_no_rows(tmp_path: Path, kind: str, foot: list[str]) -> None:
    if kind == "xlsx":
        below = [[*line.split(";"), "", ""][:3] for line in foot]
        path = workbook(tmp_path / "counts.xlsx", [["Stadt X"], [], HEADER, *ROWS, *ROWS_LATER, *below])
    else:
        later = "".join(";".join(row) + "\n" for row in ROWS_LATER)
        content = f"Stadt X;;\nZählung;;\n{text(';')}{later}" + "\n".join(foot) + "\n"
        pack = {"csv.gz": gzip.compress, "csv.zip": zipped}.get(kind, bytes)
        packed = pack(content.encode())
        path = saved(tmp_path, packed, f"counts.{kind}")
    found = read_counts(path, timezone="Europe/Berlin")
    assert counts_of(found) == {name: [*counts, 5, 6] for name, counts in COUNTED.items()}
    said = f"Lines at the end of {path.name} that are taken for no rows: "
    assert any(remark.startswith(said) for remark in found.remarks)
    declared = FilesMap(start="Zeit", column_pattern="(?P<sensor>.+)", timezone="UTC", footer=len(foot))
    assert f"{said}{len(foot)}." in read_archive([path], declared).remarks


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ("Tagessumme,79,17", r"1 cells that are none, or written another way, first in row 3 \(line 4 of"),
        ("13/03/2026 11:00,4,5", r"1 cells that are none, or written another way, first in row 3"),
        (",Personen,Personen", r"column 'Zeit' must have a time in each row, got 1 empty cells.* row 3"),
    ],
)
def test_a_row_without_a_time_is_named(tmp_path: Path, row: str, words: str) -> None:
    """A word among the times had all others called none."""
    lines = text().splitlines()
    with pytest.raises(InputError, match=words):
        taken(tmp_path, "\n".join([*lines[:3], row, *lines[3:]]))


def test_months_are_no_lines_behind_the_counts(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the column of times must be known"):
        taken(tmp_path, "month,a\n" + "".join(f"2026-{month:02},{month}\n" for month in range(1, 13)))


def test_a_comma_in_each_name_and_number_parts_no_cells(tmp_path: Path) -> None:
    content = "Zeit;Süd, Personen/h;Hafen, Personen/h\n2026-03-02 08:00;4,0;5,0\n2026-03-02 09:00;6,0;7,0\n"
    found = taken(tmp_path, content, decimal=",")
    assert counts_of(found) == {"Hafen, Personen/h": [5, 7], "Süd, Personen/h": [4, 6]}


@pytest.mark.parametrize(
    "rows",
    [
        ["Counts of March;;;;;;;", text(";"), *[";;;;;;;;"] * 300],
        [";;;", text(";"), " ; ;\t;"],
        [text(";").replace("\n", "\n;;\n")],
        [text(";").replace("\n", "\r\n;;;\r\n")],
    ],
    ids=["many at the end", "around", "between", "between, of Windows"],
)
def test_blank_rows_as_spreadsheets_save_them_are_no_rows(tmp_path: Path, rows: list[str]) -> None:
    """They are neither the usual row, of which a header has the width, nor times that cannot be read."""
    assert counts_of(taken(tmp_path, "\n".join(rows))) == COUNTED


def test_a_file_that_names_no_column_says_so(tmp_path: Path) -> None:
    """A list of sensors is read without a guess of what its columns are."""
    path = tmp_path / "sensors.parquet"
    pq.write_table(pa.table([["7", "A"]], names=[""]), path)
    with pytest.raises(InputError, match=r"columns of .* must have names, got none"):
        sensor_places(path, ("7", "A"))


@pytest.mark.parametrize(("name", "times"), WRITTEN, ids=[times[0] for _, times in WRITTEN])
def test_times_are_read_in_words_of_many_languages(tmp_path: Path, name: str, times: list[str]) -> None:
    """The second of March, one in the afternoon, and an hour of the thirteenth."""
    found = taken(tmp_path, f"{name};a\n" + "".join(f"{time};{n}\n" for n, time in enumerate(times)))
    assert f"{found.origin:%Y-%m-%d %H:%M}" == "2026-03-02 12:00"
    assert found.step_seconds == 265 * 3600


@pytest.mark.parametrize(
    ("header", "rows"),
    [
        ("Date,Hour", ["02/03/2026,{}", "13/03/2026,{}"]),
        ("Datum,Uhrzeit", ["02.03.2026,{}:00", "13.03.2026,{}:00"]),
        ("date,hour", ["2026-03-02,{}:00-{}:59", "2026-03-13,{}:00-{}:59"]),
    ],
)
def test_a_date_and_an_hour_may_stand_apart(tmp_path: Path, header: str, rows: list[str]) -> None:
    lines = [f"{row.format(hour, hour)},{hour}" for row in rows for hour in range(24)]
    found = taken(tmp_path, f"{header},a\n" + "\n".join(lines) + "\n")
    assert (f"{found.origin:%d %H}", found.step_seconds) == ("01 23", 3600)
    assert found.table[:24, 0].tolist() == list(range(24))


@pytest.mark.parametrize("day", [pa.date32(), pa.timestamp("ns"), pa.string()])
@pytest.mark.parametrize("hour", [pa.int8(), pa.time32("s"), pa.string()])
def test_a_date_and_an_hour_may_stand_apart_in_a_data_frame(
    tmp_path: Path, day: pa.DataType, hour: pa.DataType
) -> None:
    """The hours of a date were counts of one time."""
    clock = [8, 9, 8, 9]
    at = pa.array(clock) if hour == pa.int8() else pa.array([time(each) for each in clock], pa.time32("s"))
    dates = pa.array(["2026-03-02", "2026-03-02", "2026-03-03", "2026-03-03"])
    columns = {"Day": dates.cast(day), "Hour": at.cast(hour), "a": pa.array([1, 2, 3, 4])}
    pq.write_table(pa.table(columns), tmp_path / "counts.parquet")
    found = read_counts(tmp_path / "counts.parquet", timezone="UTC")
    assert counts_of(found) == {"a": [1, 2, *[NOT_COUNTED] * 22, 3, 4]}


@pytest.mark.parametrize(
    "header", ["Datum;Zeitraum;a", "Datum;von;a", "Datum;von;bis;a", "Datum;bis;von;a", "Date;Period;a"]
)
def test_a_column_of_clock_times_is_that_of_hours_whatever_it_is_called(tmp_path: Path, header: str) -> None:
    lines = [header]
    for count in range(30):
        parts = {"a": str(count % 7), "bis": f"{(count + 1) % 24}:00"}
        day = f"{2 + count // 24:02}.03.2026"
        cells = [
            parts.get(name, day if name[:3] == "Dat" else f"{count % 24}:00") for name in header.split(";")
        ]
        lines.append(";".join(cells))
    assert counts_of(taken(tmp_path, "\n".join(lines))) == {"a": [count % 7 for count in range(30)]}


@pytest.mark.parametrize("form", ["%y/%m/%d", "%d/%m/%y", "%d-%m-%y", "%y-%m-%d", "%m/%d/%y"])
def test_which_of_two_digits_are_the_year_shows_over_some_days(tmp_path: Path, form: str) -> None:
    """24/05/06 was the 24th of May, and 24/05/07 that of another year."""
    days = [datetime(2024, 5, 6) + timedelta(days=day) for day in range(20)]
    text = "time,a\n" + "".join(f"{day:{form}},{number % 7}\n" for number, day in enumerate(days))
    found = taken(tmp_path, text, timezone="UTC")
    assert (f"{found.origin:%Y-%m-%d}", len(found.table)) == ("2024-05-06", 20)
    hours = "time,a\n" + "".join(f"{days[0]:{form}} {hour}:00,{hour % 7}\n" for hour in range(20))
    with pytest.raises(InputError, match="can be read in one way, got several ways"):
        taken(tmp_path, hours)


def test_times_of_utc_may_say_so_in_letters(tmp_path: Path) -> None:
    found = taken(tmp_path, "time,a\n2026-03-02 08:00:00 UTC,3\n2026-03-02 09:00:00 UTC,4\n", timezone=None)
    assert (f"{found.origin:%H:%M}", counts_of(found)) == ("08:00", {"a": [3, 4]})
    with pytest.raises(InputError, match="can be read in one way, got none"):
        taken(tmp_path, "time,a\n2026-03-02 08:00 CET,3\n2026-03-02 09:00 CET,4\n")


@pytest.mark.parametrize(("minutes", "early"), [(60, 1), (60, 60), (15, 1), (15, 60), (5, 1)])
def test_times_just_before_full_ones_are_asked_whether_they_are_ends(
    tmp_path: Path, minutes: int, early: int
) -> None:
    """08:59:59 was the beginning of a count from 8 to 9, in the hour of the day before its own."""
    step = timedelta(minutes=minutes)
    ends = [datetime(2026, 3, 2) + step * number - timedelta(seconds=early) for number in range(1, 30)]
    text = "time,a\n" + "".join(f"{end},{number % 7}\n" for number, end in enumerate(ends))
    with pytest.raises(InputError, match=rf"times {early} s before full ones.*times_are = \"end\""):
        taken(tmp_path, text)
    found = taken(tmp_path, text, timezone="UTC", times_are="end")
    assert (f"{found.origin:%d %H:%M:%S}", found.step_seconds) == ("02 00:00:00", minutes * 60)
    assert taken(tmp_path, text, times_are="start").origin.second == (59 if early == 1 else 0)
    totals = "time,a\n" + "".join(f"{end},{500 + number}\n" for number, end in enumerate(ends))
    found = taken(tmp_path, totals, timezone="UTC", kind="total")
    assert (found.origin.replace(tzinfo=None), counts_of(found)["a"]) == (
        datetime(2026, 3, 2) + step,
        [1] * 28,
    )


@pytest.mark.parametrize("name", ["Date (UTC)", "time_utc", "UTC", "GMT time"])
def test_a_column_that_is_called_utc_is_of_utc(tmp_path: Path, name: str) -> None:
    """Whose hours of the day --timezone says; they were shifted by it."""
    rows = "2026-07-02 08:00,3\n2026-07-02 09:00,4\n"
    found = taken(tmp_path, f"{name},a\n{rows}")
    assert (f"{found.origin:%H:%M}", found.zone) == ("08:00", "Europe/Berlin")
    assert any("taken as UTC, as it is called" in remark for remark in found.remarks)
    for other in ("Zeit (UTC+2)", "time_gmt+1", "Autcome"):
        assert f"{taken(tmp_path, f'{other},a{chr(10)}{rows}', start=[other]).origin:%H:%M}" == "06:00"


def test_when_a_row_was_recorded_is_no_time_of_a_count(tmp_path: Path) -> None:
    rows = "".join(
        f"2026-03-02 {hour:02}:00,2026-03-02 {hour:02}:59:{hour + 10},{hour}\n" for hour in range(9)
    )
    for name in ("created_at", "LastUpdated", "inserted"):
        assert counts_of(taken(tmp_path, f"timestamp,{name},a\n{rows}")) == {"a": list(range(9))}
        alone = "".join(f"2026-03-02 {hour:02}:00,{hour}\n" for hour in range(9))
        assert counts_of(taken(tmp_path, f"{name},a\n{alone}")) == {"a": list(range(9))}


def test_hours_from_1_to_24_are_asked_about(tmp_path: Path) -> None:
    """They are the ends of hours, or the counter never counts at midnight: nobody can tell."""
    lines = "".join(f"2026-03-02,{hour},{hour % 7}\n" for hour in range(1, 25))
    with pytest.raises(InputError, match='set times_are = "end" in a file for --preset'):
        taken(tmp_path, f"date,hour,a\n{lines}")
    found = taken(tmp_path, f"date,hour,a\n{lines}", times_are="end")
    assert (f"{found.origin:%d %H}", found.table[:, 0].tolist()) == (
        "01 23",
        [hour % 7 for hour in range(1, 25)],
    )


def test_headers_of_two_lines_are_joined_and_pieces_of_a_site_are_named(tmp_path: Path) -> None:
    merged = ";Hafen;;Markt;\nZeit;In;Out;In;Out\n2026-03-02 08:00;1;2;3;4\n2026-03-02 09:00;5;6;7;8\n"
    found = taken(tmp_path, merged)
    assert counts_of(found)["Hafen In"] == [1, 5]
    assert counts_of(found)["Markt Out"] == [4, 8]
    pattern = {"start": "Hafen Zeit", "column_pattern": "(?P<sensor>.+) (?P<channel>In|Out)"}
    with pytest.raises(InputError, match="must have the column of `start`"):
        read_archive([tmp_path / "counts.csv"], FilesMap.model_validate({**pattern, "timezone": "UTC"}))
    mapping = FilesMap.model_validate({**pattern, "start": "Zeit", "timezone": "UTC", "channels": "sum"})
    assert counts_of(read_archive([tmp_path / "counts.csv"], mapping)) == {"Hafen": [3, 11], "Markt": [7, 15]}


MODES = "time,site,mode,n\n" + "".join(
    f"2026-03-02 {hour:02}:00,mill,{mode},{n}\n"
    for hour in range(8, 12)
    for n, mode in enumerate(("car", "Pedestrian", "bike"), 5)
)


def test_rows_are_chosen_by_what_they_say(tmp_path: Path) -> None:
    """Who is counted is asked: cars and people of one hour would have been summed."""
    with pytest.raises(InputError, match=r"3 kinds in column 'mode': Pedestrian, bike, car.*\"Pedestrian\""):
        taken(tmp_path, MODES)
    people = taken(tmp_path, MODES, where={"mode": ["Ped*"]}, sensor=["site"], count=["n"])
    assert counts_of(people) == {"mill": [6] * 4}
    assert "8 rows of counts.csv are left out by `where`." in people.remarks
    others = taken(tmp_path, MODES, where={"mode": ["!car", "bike"]}, sensor=["site"], count=["n"])
    assert counts_of(others) == {"mill": [6] * 4}
    torn = MODES.replace("08:00,mill,Pedestrian,6", "08:00,mill,Pedestrian,six")
    with pytest.raises(InputError, match=r"the first is row 2 \(line 3 of counts.csv\)"):
        taken(tmp_path, torn, where={"mode": ["Ped*"]}, sensor=["site"], count=["n"])
    with pytest.raises(InputError, match="`where` must leave rows"):
        taken(tmp_path, MODES, where={"mode": ["tram"]}, sensor=["site"], count=["n"])


@pytest.mark.parametrize("mark", ["-", "k.A.", "ND", "n/a", "NaN", "null"])
def test_marks_of_no_count_are_known_and_others_are_declared(tmp_path: Path, mark: str) -> None:
    content = "time;a\n2026-03-02 08:00;7\n2026-03-02 09:00;{}\n2026-03-02 10:00;9\n"
    assert counts_of(taken(tmp_path, content.format(mark))) == {"a": [7, NOT_COUNTED, 9]}
    closed = content.format("-1")
    with pytest.raises(InputError, match="if it marks what was not counted, say --missing -1"):
        taken(tmp_path, closed)
    assert counts_of(taken(tmp_path, closed, missing=["-1"])) == {"a": [7, NOT_COUNTED, 9]}


def test_several_files_have_columns_that_come_and_go(tmp_path: Path) -> None:
    """A counter that is new in April is not owed in March, one that has gone not in April."""
    march = saved(
        tmp_path, "time,a IN,a OUT,b IN\n2026-03-31 22:00,1,2,7\n2026-03-31 23:00,3,4,8\n", "march.csv"
    )
    april = saved(
        tmp_path, "time,a IN,a OUT,c IN\n2026-04-01 00:00,5,6,9\n2026-04-01 01:00,7,8,1\n", "april.csv"
    )
    mapping = FilesMap.model_validate(
        {
            "start": "time",
            "timezone": "UTC",
            "column_pattern": "(?P<sensor>.) (?P<channel>.+)",
            "channels": "sum",
        }
    )
    none = NOT_COUNTED
    assert counts_of(read_archive([march, april], mapping)) == {
        "a": [3, 7, 11, 15],
        "b": [7, 8, none, none],
        "c": [none, none, 9, 1],
    }


def test_columns_of_words_and_of_the_calendar_are_no_counts(tmp_path: Path) -> None:
    content = "Nr,time,weekday,Hour,weather,Temp (°C),Rain mm,a,b\n" + "".join(
        f"{hour},2026-03-02 {hour:02}:00,Monday,{hour},rain,{hour % 7},{hour % 2},{hour % 5},{hour % 3}\n"
        for hour in range(30 % 24)
    )
    found = taken(tmp_path, content)
    assert found.sensors == ("a", "b")
    assert any("weather" in remark for remark in found.remarks)


def test_a_workbook_of_several_sheets_and_a_document_of_several_lists_are_asked_about(tmp_path: Path) -> None:
    path = workbook(tmp_path / "counts.xlsx", [HEADER, *ROWS], [HEADER, *ROWS])
    with pytest.raises(InputError, match='2 with cells: S1, S2; say sheet = "S1"'):
        read_counts(path, timezone="UTC")
    assert counts_of(read_counts(path, timezone="UTC", sheet="S2")) == COUNTED
    both = saved(tmp_path, json.dumps({"in": RECORDS, "out": RECORDS}), "counts.json")
    with pytest.raises(InputError, match="'in', 'out'; say records = \"in\""):
        read_counts(both, timezone="UTC")
    assert counts_of(read_counts(both, timezone="UTC", records="out")) == COUNTED
    nested = [
        {"site": {"name": name}, "counts": [{"from": row[0], "n": n} for row in ROWS]}
        for n, name in enumerate("ab")
    ]
    found = read_counts(
        saved(tmp_path, json.dumps(nested), "c.json"), timezone="UTC", sensor="site.name", count="n"
    )
    assert counts_of(found) == {"a": [0] * 3, "b": [1] * 3}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("c.xlsx", b"PK\x03\x04 torn", "must be a workbook that can be opened"),
        ("c.json", b'[{"a": 1},', "something else in line 1, column 11"),
        ("c.json", b"3", "no list of records"),
        ("c.csv", b"", "no row"),
        ("c.parquet", b"PAR1", "must be a table"),
        (
            "c.zip",
            b"PK\x03\x04...",
            r"got a packed file, .*; unpack it \(gzip, and a zip of one CSV or JSON, are read as they are\)",
        ),
        ("c.csv", b"PK\x03\x04...", r"one of these by another name; .* name it \.xlsx"),
        ("c.csv.bz2", b"BZh91AY", "got a packed file"),
        (
            "c.csv",
            "time;a\n2026-03-02 08:00;1\n2026-03-02 09:00;2;3\n2026-03-02 10:00;2\n2026-03-02 11:00;2\n",
            "line 3 with 3",
        ),
    ],
)
def test_what_is_no_table_is_told_by_its_line_in_words(
    tmp_path: Path, name: str, content: Any, words: str
) -> None:
    with pytest.raises(InputError, match=words) as raised:
        taken(tmp_path, content, name)
    assert "Arrow" not in str(raised.value)


@pytest.mark.parametrize("kind", ["csv", "xlsx"])
def test_columns_without_a_name_are_said_to_be_left_out(tmp_path: Path, kind: str) -> None:
    """Below a name that spans two columns the second went without a word."""
    rows = [["Zeit", "Hafen", "", "Markt", "", ""], *([row[0], "3", "4", "5", "", "6"] for row in ROWS)]
    if kind == "xlsx":
        found = read_counts(workbook(tmp_path / "counts.xlsx", rows), timezone="UTC")
    else:
        found = taken(tmp_path, "\n".join(map(",".join, rows)))
    assert found.sensors == ("Hafen", "Markt")
    assert f"Columns of counts.{kind} without a name are left out: 3, 6." in found.remarks


def test_guess_prints_a_mapping_with_reasons_that_reads_the_same(tmp_path: Path) -> None:
    """And what is to be answered stands in it as a question, without a count."""
    path = saved(tmp_path, "City of X\n" + text(";"))
    said = proposal(path, {"timezone": "Europe/Berlin"}).text
    status, printed = invoked(
        *("connect", "guess", path, "--timezone", "Europe/Berlin", "--picture", tmp_path / "read.svg")
    )
    assert (status, " ".join(said.split()) in printed) == (0, True)
    drawn = (tmp_path / "read.svg").read_text()
    assert drawn.count("#f2d5d0") == 1  # the hour that nobody counted
    assert "Straße Süd" in drawn
    assert ">109 (0.0%)<" in drawn
    document = json.loads(
        called("connect", "guess", str(path), "--timezone", "Europe/Berlin", "--json").stdout
    )
    assert (document["counts"], document["question"], document["mapping"]) == (5, None, said)
    assert [each["people"] for each in document["by_sensor"]] == [28, 109]
    own = saved(tmp_path, said, "mine.toml")
    mapped = read_archive([path], resolved_map(FilesMap(preset=str(own))))
    assert counts_of(mapped) == counts_of(read_counts(path, timezone="Europe/Berlin")) == COUNTED
    assert "start = [\"Zeit\"]  # times are those of column 'Zeit'" in said
    total = saved(
        tmp_path,
        "time,all,a,b\n2026-03-02 08:00,91,47,44\n2026-03-02 09:00,83,42,41\n2026-03-02 10:00,72,40,32\n",
        "t.csv",
    )
    asked = proposal(total, {"timezone": "UTC"}).text
    assert "# QUESTION: each person must be counted in one place, got 'all', the sum of 'a', 'b'" in asked
    assert "91" not in asked
    assert guessed(total, {}).keys["column_pattern"] == "(?P<sensor>.+)"
    open_zone = proposal(path, {}).text
    assert "# QUESTION: the time zone of column 'Zeit' must be known" in open_zone


def test_from_a_workbook_to_a_checked_deployment_in_three_commands_and_an_edit(tmp_path: Path) -> None:
    """The hour that stands once, IN and OUT, a total: what the guess asks is answered in its file."""
    head = ["Zeit", "Hafen IN", "Hafen OUT", "Gesamt"]
    counted = [(hour % 7, hour % 4) for hour in range(24)]
    rows = [[f"02.03.2026 {at:02}:00", f"{a}", f"{b}", f"{a + b}"] for at, (a, b) in enumerate(counted)]
    path = workbook(tmp_path / "counts.xlsx", [["Stadt", "X"], head, *rows])
    said = proposal(path, {"timezone": "Europe/Berlin"}).text
    assert "'Gesamt', the sum of 'Hafen IN', 'Hafen OUT'" in said
    own = saved(tmp_path, said + 'ignore = ["Gesamt"]\n', "mine.toml")
    city = tmp_path / "city"
    status, said = invoked("init", path, "--preset", own, "--output", city)
    assert status == 0, said
    status, said = invoked(
        "check", "--config", city / "tallyguard.toml", "--schedule", city / "schedule.json"
    )
    assert status == 0, said


HOURS = [(day, hour) for day in (14, 15) for hour in range(24)]
VENDORS = {
    "a date at midnight beside the hour": (
        "FECHA;HORA;IDENTIFICADOR;PEATONES;DISTRITO;LATITUD",
        lambda d, h, n: f"{d}/09/2019 0:00;{h}:00;PERM_1;{n};Centro;40,42",
    ),
    "Finnish days and months": ("Päivämäärä;Baana", lambda d, h, n: f"ke {d} tammi 2014 {h:02}:00;{n}"),
    "days in words, hours as ranges": (
        "Date,Time,107 Quay Street",
        lambda d, h, n: f"Tuesday {d} January 2020,{h}:00-{h}:59,{n}",
    ),
    "begin and end in Norwegian": (
        "Punkt;Navn;Fra;Til;Dato;Trafikkmengde;Volume;Dekningsgrad (%)",
        lambda d, h, n: (
            f"9V;Hjulet;2022-01-{d}T{h:02}:00+01:00;2022-01-{d}T{h:02}:59:59+01:00;2022-01-{d};x;{n};100,0"
        ),
    ),
    "local time beside UTC, modes in columns": (
        "UTC Datetime,Local Datetime,countlineName,Cyclist,Pedestrian,Car",
        lambda d, h, n: f"2021-07-{d} {h:02}:00,2021-07-{d} {h:02}:00,S1,7,{n},9",
    ),
    "month first": ("Date,Bridge", lambda d, h, n: f"7/{d}/2022 {h}:00,{n}"),
    "rows numbered, the hour a number": (
        "ID;Location_ID;Sensing_Date;HourDay;Direction_1;Direction_2;Total_of_Directions;Sensor_Name",
        lambda d, h, n: f"{100 * d + h};5;2022-05-{d};{h};{n};2;{n};PriNW",
    ),
    "a number of the place in each row": (
        "gid,ident,mdate,comptage_5m,etat",
        lambda d, h, n: f"7,Z7,2022-05-{d}T{h:02}:00:00+02:00,{n},FLUIDE",
    ),
    "when it was recorded beside when it began": (
        "recorded_at,interval_start,site,pedestrians",
        lambda d, h, n: f"2022-05-{d} {h:02}:17:{h:02},2022-05-{d} {h:02}:00,X,{n}",
    ),
    "a decimal comma": ("Zeit;Ort;Anzahl;Temperatur", lambda d, h, n: f"{d}.7.2022 {h}:00;Markt;{n},0;{h},5"),
}


@pytest.mark.parametrize("kind", VENDORS)
def test_what_other_vendors_write_is_read_as_they_mean_it(tmp_path: Path, kind: str) -> None:
    """Shapes of Madrid, Helsinki, Auckland, Norway and others: every hour has its own count."""
    header, row = VENDORS[kind]
    counted = [number * 7 % 11 for number in range(48)]
    lines = [row(day, hour, n) for (day, hour), n in zip(HOURS, counted, strict=True)]
    more = {"decimal": ","} if kind == "a decimal comma" else {}
    found = taken(tmp_path, "\n".join([header, *lines, ""]), **more)
    assert found.step_seconds == 3600
    assert list(counts_of(found).values()) == [counted]


def test_a_week_in_blocks_is_read_once_its_monday_is_said(tmp_path: Path) -> None:
    """A block a street, days and their IN and OUT across, hours down: as Dublin published until 2018."""
    streets = {"Mill street": 3, "Port": 7}
    lines = ["Week 1,,,,,,,,,,,,,,"]
    for street, factor in streets.items():
        lines += [f"Entrance Name: {street},,,,,,,,,,,,,,", ",Mon,,Tue,,Wed,,Thu,,Fri,,Sat,,Sun,"]
        lines.append("Time," + ",".join(["In,Out"] * 7))
        for hour in range(24):
            cells = [f"{factor * (24 * day + hour) % 11},{hour % 3}" for day in range(7)]
            lines.append(f"{hour:02}:00:00,{','.join(cells)}")
    path = saved(tmp_path, "\n".join(lines), "week.csv")
    with pytest.raises(InputError, match=r"say the Monday of the week.*week = 2007-01-01"):
        read_counts(path, timezone="Europe/Dublin")
    found = read_counts(path, timezone="Europe/Dublin", week="2007-01-01", where={"Channel": ["In"]})
    assert counts_of(found) == {
        street: [factor * step % 11 for step in range(168)] for street, factor in streets.items()
    }
    assert found.origin.isoformat() == "2007-01-01T00:00:00+00:00"
    both = read_counts(path, timezone="Europe/Dublin", week="2007-01-01", channels="sum")
    assert counts_of(both)["Port"] == [7 * step % 11 + step % 24 % 3 for step in range(168)]
    with pytest.raises(SettingsError, match="must be a Monday, got 2007-01-02"):
        resolved_map(FilesMap(preset=str(saved(tmp_path, "week = 2007-01-02", "own.toml"))))
    with pytest.raises(InputError, match="must have lines of weekdays"):
        read_counts(saved(tmp_path, "time,a\n2026-01-01,3\n", "other.csv"), week="2007-01-01")


@pytest.mark.parametrize(
    ("header", "row", "words"),
    [
        ("time,site,people_in,people_out", "{t},X,{n},2", "what several channels of a sensor are"),
        ("t,door a,length_min", "{t},{n},60", "the same number of 'length_min'"),
        ("Date,Uptime,Total,A,B", "{t},{up},{sum},{n},2", "'Total', the sum of 'A', 'B'"),
    ],
)
def test_columns_beside_the_counts_are_asked_about(tmp_path: Path, header: str, row: str, words: str) -> None:
    """In and out of which one would have been taken; constants, and a camera's uptime, would be sensors."""
    lines = [
        row.format(t=f"2026-03-0{2 + at // 24} {at % 24:02}:00", n=n, sum=n + 2, up=int(at % 5 > 0))
        for at, n in enumerate(at * 7 % 11 for at in range(72))
    ]
    with pytest.raises(InputError, match=words):
        taken(tmp_path, "\n".join([header, *lines, ""]))
    if "Uptime" in header:
        path = saved(tmp_path, "\n".join([header, *lines, ""]), "up.csv")
        found = read_counts(path, timezone="UTC", ignore=["Total"], keep=["B"])
        assert counts_of(found)["A"] == [at * 7 % 11 if at % 5 else -1 for at in range(1, 72)]


@pytest.mark.parametrize("form", ["{0:02}", "kl.{0:02}-{1:02}"])
def test_a_table_with_the_hours_across_is_asked_about(tmp_path: Path, form: str) -> None:
    """Nantes and Copenhagen write a day in a row: each hour would have been a sensor of its own."""
    hours = ";".join(form.format(hour, hour + 1) for hour in range(24))
    rows = "".join(f"743;2021-01-{day};" + ";".join(["3"] * 24) + "\n" for day in range(10, 20))
    with pytest.raises(InputError, match="24 columns that are named as hours of the day"):
        taken(tmp_path, f"boucle;Jour;{hours}\n{rows}")


@pytest.mark.parametrize("name", ["muenster.csv", "mta.csv", "golemio.json", "zurich.csv"])
def test_a_guess_by_a_preset_is_a_file_of_its_own(tmp_path: Path, name: str) -> None:
    """It holds the preset's keys, what was said over them, and reads the same."""
    path = FIXTURES / name
    own = saved(tmp_path, proposal(path, {"timezone": "UTC"}).text, "mine.toml")
    mapping = resolved_map(FilesMap(preset=str(own)))
    assert mapping.timezone == "UTC"
    assert counts_of(read_archive([path], mapping)) == counts_of(read_counts(path, timezone="UTC"))


def cells(path: Path, separator: str = ",") -> Iterator[dict[str, str]]:
    """The rows of a file by the csv module: another reader than ours."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as file:
        yield from csv.DictReader(file, delimiter=separator)


def number(cell: str | None) -> int:
    return int(float(cell)) if cell and cell.strip() else 0


REAL: dict[str, tuple[dict[str, Any], Callable[[Path], int]]] = {
    "01-muenster-15min-wide-spring.csv": (
        {},
        lambda path: sum(number(row["300037926 (Bohlweg)"]) for row in cells(path)),
    ),
    "01b-muenster-15min-wide-autumn.csv": (
        {},
        lambda path: sum(
            number(row["300037926 (Bohlweg)"])
            for row in cells(path)
            if not row["Datetime"].startswith("2025-10-26 02")
        ),
    ),
    "01d-muenster-no-empty-columns.csv": (
        {},
        lambda path: sum(number(row["300037926 (Bohlweg)"]) for row in cells(path)),
    ),
    "03-koeln-daily.csv": (
        {"timezone": "Europe/Berlin"},
        lambda path: sum(number(row["Zaehlerstand"]) for row in cells(path)),
    ),
    "04-leeds-date-and-hour.csv": (
        {},
        lambda path: sum(
            number(row["InCount"]) for row in cells(path) if (row["Date"], row["Hour"]) != ("30/03/2014", "1")
        ),
    ),
    "05-edinburgh-date-hour-channels.csv": (
        {},
        lambda path: sum(number(row["channel_1"]) + number(row["channel_2"]) for row in cells(path)),
    ),
    "13-prague-golemio-detections.json": (
        {},
        lambda path: sum(each["value_pedestrians"] for each in json.loads(path.read_text())),
    ),
    "14-moers-hystreet-hourly.csv": (
        {},
        lambda path: sum(
            number(cell)
            for row in cells(path, ";")
            for name, cell in row.items()
            if name.endswith("insgesamt")
        ),
    ),
    "11-ngsi-crowdflow.json": ({}, lambda path: int(json.loads(path.read_text())["peopleCount"])),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files_that_are_read_by_themselves_hold_what_another_reader_finds(name: str) -> None:
    given, independent = REAL[name]
    path = shared(f"data/counters/{name}")
    table = read_counts(path, **given).table
    assert int(table[table > 0].sum()) == independent(path)


def test_telraams_hours_and_turnstiles_gates_hold_what_another_reader_finds() -> None:
    """Hours of which a camera saw less than half are none; a gate's people are differences of its totals."""
    path = shared("data/counters/08b-telraam-hourly-flat.csv")
    hours = [row for row in cells(path) if float(row["uptime"] or 0) >= 0.5]
    wanted = sum(int(float(row["pedestrian"]) + 0.5) for row in hours)
    for name in ("08-telraam-hourly.json", "08b-telraam-hourly-flat.csv"):
        table = read_counts(shared(f"data/counters/{name}")).table
        assert int(table[table > 0].sum()) == wanted
        assert int((table >= 0).sum()) == len(hours)
    path = shared("data/counters/10-mta-turnstile-accumulated.txt")
    gates: dict[tuple[str, str], list[int]] = {}
    for row in cells(path):
        gates.setdefault((row["C/A"], row["SCP"]), []).append(int(row["ENTRIES"]))
    table = read_counts(path).table
    assert int(table[table > 0].sum()) == sum(totals[-1] - totals[0] for totals in gates.values())


@pytest.mark.parametrize("name", ["07-dublin-2007-week1.xlsx", "07b-dublin-2007-week1-saved-as.csv"])
def test_dublins_week_holds_what_another_reader_finds(name: str) -> None:
    table = read_counts(
        shared(f"data/counters/{name}"),
        timezone="Europe/Dublin",
        week="2007-01-01",
        where={"Channel": ["In"]},
    ).table
    with shared("data/counters/07b-dublin-2007-week1-saved-as.csv").open(newline="") as file:
        wanted = sum(
            int(cell) for row in csv.reader(file) if row and row[0].endswith(":00:00") for cell in row[1:]
        )
    assert (int(table.sum()), table.shape) == (wanted, (168, 6))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("01c-muenster-only-total-and-parts.csv", "'300037926 .Bohlweg.', the sum of"),
        ("07-dublin-2007-week1.xlsx", "days of the week across"),
        ("07b-dublin-2007-week1-saved-as.csv", "days of the week across"),
        ("18-tours-ecocounter-export.csv", "'Pont Wilson Cyclist IN', the sum of"),
        ("17-milesight-vs135-payload.json", "at least two times"),
    ],
)
def test_real_files_with_a_quirk_raise_its_question(name: str, words: str) -> None:
    with pytest.raises(InputError, match=words):
        read_counts(shared(f"data/counters/{name}"), timezone="Europe/Berlin")


@pytest.mark.parametrize("torn", ["first", "last"])
@pytest.mark.parametrize("lines", [3, 40_000])
def test_a_quote_that_stays_open_swallows_no_line(tmp_path, torn, lines):
    """Whatever limit other code of the process has set for the csv module's cells."""
    rows = ["7,1,2"] * lines
    rows[lines // 2] = '7,"1,2' if torn == "first" else '7,1,"2'
    path = tmp_path / "counts.csv"
    path.write_text("\n".join(["time,north,south", *rows]))
    for limit in (1 << 17, 1 << 30):
        before = csv.field_size_limit(limit)
        try:
            with pytest.raises(InputError, match=rf"end with a quote.* from line {lines // 2 + 2} on"):
                read_table(path)
        finally:
            csv.field_size_limit(before)


def test_a_quote_within_a_cell_is_a_character(tmp_path):
    path = tmp_path / "counts.csv"
    path.write_text('time,gate 5" wide\n7,1\n')
    assert read_table(path).to_pylist() == [{"time": "7", 'gate 5" wide': "1"}]
