"""Tables from files as cities have them: CSV, Excel, JSON, JSON lines, GeoJSON and Parquet."""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import string
import zipfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, time, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.setup.sections import FilesMap

# How a file is laid out, and what its columns are called.

_HEAD_BYTES, _TAIL_BYTES = 65_536, 4_096
_HEAD_ROWS = 200
_INDEX = "index"
"""What a first column is called that has cells and no name: data frames save their rows' names so."""
_BLOCK_BYTES = 4 << 20
_BATCH_ROWS = 1 << 18
UNREADABLE = (pa.ArrowException, OSError, UnicodeError, EOFError, csv.Error, zipfile.BadZipFile, zlib.error)
"""What reading a file that is no table raises."""
WORKBOOKS = (".xlsx", ".xlsm", ".xls", ".ods")
_SEPARATORS = ";\t|,"
"""Of two that part the lines as evenly the first: a comma stands in names and numbers, too."""
_FALLBACK = "windows-1252"
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))
_NO_TEXT = (
    b"PK\x03\x04",
    b"PAR1",
    b"BZh",
    b"7z\xbc\xaf",
    b"\xfd7zXZ",
    b"\x28\xb5\x2f\xfd",
    b"\xd0\xcf\x11\xe0",
)
_DIGIT = re.compile(r"\d")
_COMPUTE: Any = pc  # its stubs lack some functions
Progress = Callable[[int], None]


AS_FOUND = FilesMap()
"""A layout that says nothing: what is not said is found by looking at the file's beginning."""


@dataclass(frozen=True)
class OpenedTable:
    """A file whose columns are known, before it is read. Its first row is in ``first_line``, or 0.

    ``blank`` is what its rows without a cell look like, as spreadsheets save them; None if it has none.
    """

    path: Path
    names: list[str]
    first_line: int = 0
    encoding: str = "utf-8"
    separator: str | None = None
    footer: int = 0
    rows: pa.Table | None = None
    remarks: tuple[str, ...] = ()
    blank: re.Pattern[bytes] | None = None
    _cells: list[str] = field(default_factory=list)

    def batches(
        self, names: Sequence[str], progress: Progress = lambda size: None, plain: Sequence[str] = ()
    ) -> Iterator[pa.RecordBatch]:
        """The columns, texts of a CSV as dictionaries unless they are to stay ``plain``.

        ``progress`` is given the bytes that were read.
        """
        try:
            if self.rows is not None:
                yield from self.rows.select(list(names)).to_batches()
                progress(self.path.stat().st_size)
                return
            if self.separator is not None:
                self._check_quotes()
            with self.path.open("rb") as file:
                reader = self._reader(file, list(names), plain)
                read_bytes = 0
                for batch in reader:
                    if self.separator is None:
                        yield batch
                    else:
                        yield pa.record_batch([*map(_in_codes, batch.columns)], batch.schema.names)
                    progress(file.tell() - read_bytes)
                    read_bytes = file.tell()
        except UNREADABLE as error:
            raise self._fault(error) from None

    def _reader(self, file: Any, names: list[str], plain: Sequence[str]) -> Any:
        if self.path.suffix.lower() == ".parquet":
            return pq.ParquetFile(file).iter_batches(_BATCH_ROWS, columns=names)
        if self.blank is None and not self.footer:
            content = opened_text(self.path, file)
        else:
            with opened_text(self.path) as whole:
                read = whole.read()
            file.seek(0, io.SEEK_END)
            if self.blank is not None:
                lines = read.split(b"\n", self.first_line - 1)
                lines[-1] = self.blank.sub(b"", lines[-1])
                read = b"\n".join(lines)
            if self.footer:
                read = b"\n".join(read.rstrip(b"\r\n").split(b"\n")[: -self.footer]) + b"\n"
            content = io.BytesIO(read)
        return pa_csv.open_csv(
            content,
            pa_csv.ReadOptions(
                block_size=_BLOCK_BYTES,
                skip_rows=self.first_line - 1,
                column_names=self._cells,
                encoding=self.encoding.replace("utf-8-sig", "utf-8"),
            ),
            pa_csv.ParseOptions(delimiter=self.separator or ","),
            pa_csv.ConvertOptions(
                include_columns=names,
                column_types={name: pa.string() if name in plain else pa.binary() for name in names},
                strings_can_be_null=True,
            ),
        )

    def _fault(self, error: Exception) -> InputError:
        """What to say of a file that cannot be read on: which line has other cells, or what it is not."""
        if self.separator is None or not ("Expected" in str(error) or isinstance(error, csv.Error)):
            return no_table(self.path, error)
        line = 0
        try:
            for line, cells in self._records():
                if line >= self.first_line and cells and len(cells) != len(self._cells):
                    return InputError(
                        f"each line of {self.path} must have the {len(self._cells)} cells of its header",
                        f"line {line} with {len(cells)}",
                        "correct that line; lines at the end that are no counts are told by footer = 1 in "
                        "[connect.files]",
                    )
        except csv.Error:
            return InputError(
                f"each quoted cell of {self.path} must end with a quote",
                f"one that does not, from line {line + 1} on",
                "close the quote there, or delete it",
            )
        return no_table(self.path, error)

    def _check_quotes(self) -> None:
        """``csv.Error`` where a quote stays open: the reader would take all lines below it for one cell."""
        with opened_text(self.path) as content:
            blocks = iter(lambda: content.read(4 * _HEAD_BYTES), b"")
            marks = sum(np.count_nonzero(np.frombuffer(block, np.uint8) == ord('"')) for block in blocks)
        if marks % 2:
            for _ in self._records():
                pass

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """The lines on which the records of a CSV end, and their cells."""
        with opened_text(self.path) as content:
            text = io.TextIOWrapper(
                io.BytesIO(content.read()), encoding=self.encoding, errors="replace", newline=""
            )
        reader = csv.reader(text, delimiter=self.separator or ",", strict=True)
        yield from ((reader.line_num, cells) for cells in reader)


def _in_codes(cells: Any) -> Any:
    """Bytes as a dictionary of texts: sooner than the reader makes it, who looks up each cell."""
    if pa.types.is_string(cells.type):
        return cells
    head = cells[:_HEAD_ROWS]
    if 2 * len(_COMPUTE.run_end_encode(head).values) < len(head):  # rows of many sensors come hour by hour
        runs = _COMPUTE.run_end_encode(cells)
        coded = _in_codes(runs.values)
        index = _COMPUTE.run_end_decode(pa.RunEndEncodedArray.from_arrays(runs.run_ends, coded.indices))
        return pa.DictionaryArray.from_arrays(index, coded.dictionary)
    coded = cells.dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string()))


def opened_table(path: Path, layout: FilesMap = AS_FOUND) -> OpenedTable:
    """The columns of a file; :class:`InputError` where it is no table."""
    check_is_file(path)
    try:
        kind = _kind(path)
        if layout.week is not None:
            opened = _opened_week(path, layout, layout.week)
        elif kind == ".parquet":
            with pq.ParquetFile(path) as file:
                opened = OpenedTable(path, [name for name in file.schema_arrow.names if name])
        elif kind in WORKBOOKS:
            opened = _opened_cells(path, _sheet_rows(path, layout), layout)
        elif kind in _RECORDS:
            opened = _opened_records(path, layout, are_lines=kind in _LINES)
        else:
            opened = _opened_csv(path, layout)
    except UNREADABLE as error:
        raise no_table(path, error) from None
    if not opened.names:
        raise InputError(
            f"columns of {path} must have names", "none", "write a line of names above the first row"
        )
    twice = [name for name, times in Counter(opened.names).items() if times > 1]
    if twice:
        raise InputError(
            f"columns of {path} must have different names",
            "a name twice" if _DIGIT.search(twice[0]) else f"{twice[0]!r} twice",
            "rename one; if lines above say of what they are, set header_lines = 3 in [connect.files]",
        )
    return opened


def check_is_file(path: Path) -> None:
    """:class:`InputError` where there is none."""
    if not path.is_file():
        found = "a folder" if path.is_dir() else "nothing"
        raise InputError(f"file {path} must exist", found, "check the path")


_GZIP, _ZIP = b"\x1f\x8b", b"PK\x03\x04"
_LINES = (".jsonl", ".ndjson")
_RECORDS = (".json", ".geojson", *_LINES)


def _kind(path: Path) -> str:
    """By the ending of its name: a packed file of JSON is such a file."""
    own = path.suffix.lower()
    inside = Path(path.stem).suffix.lower() if own == ".gz" else ""
    if own == ".zip" and (packed := _only_file(path)) is not None:
        inside = Path(packed.name).suffix.lower()
    return inside if inside in _RECORDS else own


def opened_text(path: Path, file: Any = None) -> Any:
    """A file of text, unpacked by its content, as names say otherwise now and then: gzip, a zip of one file.

    ``file`` is the same one, already open.
    """
    with path.open("rb") as beginning:
        mark = beginning.read(len(_ZIP))
    if mark == _ZIP and (packed := _only_file(path if file is None else file)) is not None:
        return pa.PythonFile(packed, "r")
    as_it_is: Any = None  # which the stubs of pyarrow do not know
    content: Any = pa.input_stream(str(path), compression=as_it_is) if file is None else file
    return pa.CompressedInputStream(content, "gzip") if mark.startswith(_GZIP) else content


def _only_file(of: Any) -> Any:
    """The one file of a zip; None where it has several, has a password, or is torn."""
    with suppress(zipfile.BadZipFile, NotImplementedError):  # packed in a way that Python does not know
        archive = zipfile.ZipFile(of)
        names = [each for each in archive.infolist() if not each.is_dir()]
        inside = [each for each in names if not each.filename.startswith("__MACOSX/")]
        if len(inside) == 1 and not inside[0].flag_bits & 1:
            return archive.open(inside[0])
    return None


def _opened_csv(path: Path, layout: FilesMap) -> OpenedTable:
    with opened_text(path) as content:
        head = content.read(_HEAD_BYTES)
    if head.startswith(_NO_TEXT):
        raise InputError(
            f"{path} must be a table: CSV with a header line, Excel, JSON or Parquet",
            "a packed file, or one of these by another name",
            "unpack it (gzip, and a zip of one CSV or JSON, are read as they are), or name it .xlsx, .xls, "
            ".ods or .parquet",
        )
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    encoding, remarks = layout.encoding or _encoding(head), []
    if encoding == _FALLBACK and layout.encoding is None:
        remarks.append(f"{path.name} is not UTF-8: its names are read as {_FALLBACK}.")
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except LookupError:
        raise InputError(
            "encoding must be one that is known", repr(encoding), 'set encoding = "utf-8" in [connect.files]'
        ) from None
    lines = io.StringIO(text if len(head) < _HEAD_BYTES else text[: text.rfind("\n") + 1], newline="")
    separator = layout.separator or _separator(text)
    reader = csv.reader(lines, delimiter=separator)
    numbered = []
    for cells in reader:
        if any(cell.strip() for cell in cells):  # a spreadsheet saves its blank rows as separators
            numbered.append((reader.line_num, cells))
        if len(numbered) == _HEAD_ROWS:
            break
    if not numbered:
        raise InputError(f"{path} must hold counts", "no row", "give a file with counts")
    line, names = _header(path, numbered, layout)
    cell = separator.encode(encoding)  # two bytes or more in UTF-16, where such rows are left to the reader
    blank = re.compile(rb"(?m)^[%b \t]+(?:\r?\n|\Z)" % re.escape(cell[:1]))
    below = b"".join(head.splitlines(keepends=True)[line:])
    is_padded = len(cell) == 1 and (blank.search(below) or blank.search(tail)) is not None
    remarks += _nameless(path, names, (cells for number, cells in numbered if number > line))
    own = [name or f"\0{place}" for place, name in enumerate(names)]
    named = [name for name in own if not name.startswith("\0")]
    if line > 1 and layout.header is None:
        remarks.append(f"Lines 1 to {line - 1} of {path.name} stand before the names of its columns.")
    return OpenedTable(
        path,
        named,
        line + 1,
        encoding,
        separator,
        layout.footer,
        None,
        tuple(remarks),
        blank if is_padded else None,
        own,
    )


def _nameless(path: Path, names: Sequence[str], below: Iterable[Sequence[str]]) -> tuple[str, ...]:
    """Which columns have cells and no name, as below a name that spans two."""
    pairs = ((place, cell) for cells in below for place, cell in enumerate(cells[: len(names)], start=1))
    found = sorted({place for place, cell in pairs if cell.strip() and not names[place - 1]})
    said = f"Columns of {path.name} without a name are left out: {', '.join(map(str, found))}."
    return (said,) if found else ()


def _encoding(head: bytes) -> str:
    """That of a file's beginning: by its mark, or UTF-8 where it is that."""
    for mark, name in _MARKS:
        if head.startswith(mark):
            return name
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return _FALLBACK
    return "utf-8"


def _separator(text: str) -> str:
    """What parts most lines into the same number of cells, and into most of them."""
    lines = text.splitlines()[:_HEAD_ROWS]
    if lines and re.fullmatch("sep=[,;\t|]", lines[0]):
        return lines[0][4]

    def evenness(separator: str) -> tuple[int, int]:
        cells = Counter(len(row) for row in csv.reader(lines, delimiter=separator))
        width, times = max(cells.items(), key=lambda each: (each[0] > 1, each[1], each[0]), default=(1, 0))
        return (times, width) if width > 1 else (0, 1)

    return max(_SEPARATORS, key=evenness)


def _header(
    path: Path, numbered: Sequence[tuple[int, Sequence[str]]], layout: FilesMap
) -> tuple[int, list[str]]:
    """The line of the names of columns, and these; of several lines they are joined, the upper spread out.

    Above it stands what has fewer cells than most lines, or hardly one that is filled.
    """
    widths = Counter(len(cells) for _, cells in numbered)
    width = max(widths, key=lambda each: widths[each])
    filled = Counter(
        sum(bool(cell.strip()) for cell in cells) for _, cells in numbered if len(cells) == width
    )
    usual = max(filled, key=lambda each: filled[each])
    if layout.header is not None:
        found = [place for place, (line, _) in enumerate(numbered) if line == layout.header]
        if not found:
            raise InputError(
                f"{path} must name its columns in line {layout.header}",
                "an empty line, or none",
                "correct header in [connect.files]: 1 is the first line",
            )
        place = found[0]
    else:
        place = next(
            number
            for number, (_, cells) in enumerate(numbered)
            if len(cells) == width
            and (5 * sum(bool(cell.strip()) for cell in cells) >= 3 * usual or all(map(str.strip, cells[1:])))
        )
    line, names = numbered[place]
    joined = [" ".join(name.split()) for name in names]
    are_twice = len({name for name in joined if name}) < sum(map(bool, joined))
    # "In", "Out", "In", "Out": the line above says of what.
    more = max(layout.header_lines, 2 if are_twice else 1) - 1
    for _, upper in reversed(numbered[max(0, place - more) : place]):
        above = ""
        for column in range(len(joined)):
            cell = upper[column].strip() if column < len(upper) else ""
            above = cell or above
            joined[column] = f"{above} {joined[column]}".strip()
    below = [cells[0].strip() for _, cells in numbered[place + 1 :]]
    if below and all(below) and not joined[0] and _INDEX not in joined:
        joined[0] = _INDEX
    return line, joined


def _sheet_rows(path: Path, layout: FilesMap) -> list[tuple[int, list[str]]]:
    """The rows of a workbook's sheet as texts; blank ones are left out."""
    try:
        import python_calamine
    except ImportError:
        raise InputError(
            f"reading {path.suffix} files needs a package that is not installed",
            "no python-calamine",
            "pip install python-calamine, or save the sheet as CSV",
        ) from None
    try:
        book = python_calamine.load_workbook(str(path))
        sheets = {
            name: book.get_sheet_by_name(name).to_python(skip_empty_area=False) for name in book.sheet_names
        }
    except (python_calamine.CalamineError, python_calamine.ZipError, python_calamine.PasswordError) as error:
        raise InputError(
            f"{path} must be a workbook that can be opened",
            type(error).__name__,
            "save it again as .xlsx or CSV",
        ) from None
    if layout.sheet is not None and layout.sheet not in sheets:
        raise InputError(
            f"{path} must have the sheet {layout.sheet!r}", f"{', '.join(sheets)}", "correct sheet"
        )
    full = {
        name: rows for name, rows in sheets.items() if any(any(cell != "" for cell in row) for row in rows)
    }
    if layout.sheet is None and len(full) > 1:
        raise InputError(
            f"it must be known which sheet of {path} holds the counts",
            f"{len(full)} with cells: {', '.join(list(full)[:10])}",
            f'say sheet = "{next(iter(full))}" in [connect.files]',
        )
    rows = sheets[layout.sheet] if layout.sheet is not None else next(iter(full.values()), [])
    texts = [(number, [_cell(each) for each in row]) for number, row in enumerate(rows, start=1)]
    return [(number, row) for number, row in texts if any(row)]


def _cell(value: object) -> str:
    """A cell of a workbook or a value of JSON as a CSV has it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    if isinstance(value, datetime):
        if value.microsecond:  # workbooks count days: 13:00 may be half a millisecond early
            value = (value + timedelta(milliseconds=500)).replace(microsecond=0)
        return value.isoformat(sep=" ")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        seconds = round(value.total_seconds())
        return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
    return str(value).strip()


def _opened_cells(path: Path, numbered: list[tuple[int, list[str]]], layout: FilesMap) -> OpenedTable:
    if not numbered:
        raise InputError(f"{path} must hold counts", "no row", "give a file with counts")
    line, names = _header(path, numbered[:_HEAD_ROWS], layout)
    below = [cells for number, cells in numbered if number > line]
    below = below[: len(below) - layout.footer]
    columns = {
        name: pa.array([cells[place] or None if place < len(cells) else None for cells in below], pa.string())
        for place, name in enumerate(names)
        if name
    }
    named = [name for name in names if name]
    table = pa.table(columns) if len(columns) == len(named) else None
    return OpenedTable(path, named, line + 1, rows=table, remarks=_nameless(path, names, below))


# A week in blocks: the line of the weekdays, which of them is in and out, and a line for each hour; above a
# block stands of which sensor it is, "Entrance Name: Mill street" or the name alone.

_DAY_NAMES = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOUR_OF_BLOCK = re.compile(r"([01]?\d|2[0-3])(:00(:00)?)?")
WEEK_COLUMNS = ("Date", "Time", "Sensor", "Channel", "Count")


def _opened_week(path: Path, layout: FilesMap, week: date) -> OpenedTable:
    if path.suffix.lower() in WORKBOOKS:
        lines = [cells for _, cells in _sheet_rows(path, layout)]
    else:
        with opened_text(path) as content:
            read = content.read()
        text = read.decode(layout.encoding or _encoding(read))
        separator = layout.separator or _separator(text)
        lines = list(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True))
    found: list[tuple[str, ...]] = []
    sensor, dates, channels = "", list[str](), list[str]()
    for cells in lines[: len(lines) - layout.footer]:
        filled = [cell.strip() for cell in cells if cell.strip()]
        named = [cell.strip().lower()[:3] for cell in cells]
        if sum(name in _DAY_NAMES for name in named) > 4:
            dates, channels, day = [], [], ""
            for name in named:
                day = (week + timedelta(_DAY_NAMES.index(name))).isoformat() if name in _DAY_NAMES else day
                dates.append(day)
        elif dates and filled and _HOUR_OF_BLOCK.fullmatch(cells[0].strip()):
            hour = f"{int(cells[0].strip().partition(':')[0]):02}:00"
            found += [
                (day, hour, sensor, channel, cell.strip())
                for day, channel, cell in zip(dates, channels or [""] * len(dates), cells, strict=False)
                if day
            ]
        elif dates and not channels and len(filled) > 1:
            channels = [cell.strip() for cell in cells]
        elif len(filled) == 1:
            sensor, dates = filled[0].partition(":")[2].strip() or filled[0], []
    if not found:
        raise InputError(
            f"{path} must have lines of weekdays, Mon to Sun, and below each the hours",
            "none",
            "leave week out for tables in which each row says its date",
        )
    columns = zip(*found, strict=True)
    rows = {
        name: pa.array([cell or None for cell in column], pa.string())
        for name, column in zip(WEEK_COLUMNS, columns, strict=True)
        if any(column)
    }
    return OpenedTable(path, list(rows), rows=pa.table(rows))


# Documents: a list of records, wherever it stands; what holds of all of them is a column, too.

Records = list[dict[str, Any]]
_SHAPES = ("geometry", "coordinates", "bbox")


def _opened_records(path: Path, layout: FilesMap, *, are_lines: bool) -> OpenedTable:
    with opened_text(path) as file:
        content = file.read()
    text = content.decode(layout.encoding or json.detect_encoding(content))
    documents = []
    for line, part in enumerate(text.split("\n") if are_lines else [text], start=1):
        if are_lines and not part.strip():
            continue
        try:
            documents.append(json.loads(part))
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path} must be JSON, or JSON lines by the name .jsonl",
                f"something else in line {line + error.lineno - 1}, column {error.colno}"
                if isinstance(error, json.JSONDecodeError)
                else "numbers of thousands of digits, or lists too deep in each other",
                "correct it there",
            ) from None
    document: Any = documents if are_lines else documents[0]
    found = _lists(document, "")
    if layout.records is not None:
        chosen = found.get(layout.records)
        if not chosen:
            raise InputError(
                f"{path} must have a list of records at {layout.records!r}",
                ", ".join(map(repr, found)) or "no list of records",
                "correct records in [connect.files]",
            )
    else:
        most = max(map(len, found.values()), default=0)
        largest = [name for name, records in found.items() if len(records) == most]
        largest = [name for name in largest if name] or largest
        if not most or len(largest) > 1:
            raise InputError(
                f"{path} must have one list of records that are counts",
                ", ".join(map(repr, largest)) if most else "no list of records",
                f'say records = "{largest[0]}" in [connect.files]' if most else "give a file of such a list",
            )
        chosen = found[largest[0]]
    names = list(dict.fromkeys(name for record in chosen for name in record))
    table = pa.table(
        {name: pa.array([_cell(each.get(name)) or None for each in chosen], pa.string()) for name in names}
    )
    return OpenedTable(path, names, rows=table.slice(0, max(0, len(table) - layout.footer)))


def _lists(node: Any, path: str) -> dict[str, Records]:
    """Every list of records of a document by its path; a record has its single values, with dots."""
    found: dict[str, Records] = {}
    if (
        isinstance(node, dict)
        and not any(isinstance(each, dict | list) for each in node.values())
        and not path
    ):
        return {"": [node]}
    items = node if isinstance(node, list) else [node]
    records = [_flat(each) for each in items if isinstance(each, dict)]
    if isinstance(node, list) and items and all(isinstance(each, list) for each in items):
        is_named = all(isinstance(each, str) and not _DIGIT.search(each) for each in items[0])
        names, rows = (items[0], items[1:]) if is_named else (string.ascii_lowercase, items)
        return {path: [dict(zip(names, each, strict=False)) for each in rows]}
    if isinstance(node, list) or not path:
        found[path] = records
    for own, each in zip(records, (each for each in items if isinstance(each, dict)), strict=True):
        for name, value in each.items():
            if name in _SHAPES:
                continue
            if isinstance(value, list) or (isinstance(value, dict) and _has_records(value)):
                for below, inner in _lists(value, f"{path}.{name}".strip(".")).items():
                    around = {f"{name}": cell for name, cell in own.items()}
                    found.setdefault(below, []).extend({**around, **record} for record in inner)
    return {name: rows for name, rows in found.items() if rows}


def _has_records(value: Mapping[str, Any]) -> bool:
    return any(
        isinstance(each, list) and each and isinstance(each[0], dict | list) for each in value.values()
    )


def _flat(node: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    """The single values of a record, those of records in it by dots; NGSI's ``{"value": 3}`` is 3."""
    found: dict[str, Any] = {}
    for name, value in node.items():
        if isinstance(value, dict):
            if "value" in value and not isinstance(value["value"], dict | list):
                found[f"{before}{name}"] = value["value"]
            elif name == "properties":  # of a feature of GeoJSON
                found |= _flat(value, before)
            elif name not in _SHAPES:
                found |= _flat(value, f"{before}{name}.")
        elif not isinstance(value, list):
            found[f"{before}{name}"] = value
    shape = node.get("geometry")
    if isinstance(shape, dict) and shape.get("type") == "Point":
        found = {**dict(zip(("lon", "lat"), shape.get("coordinates") or (), strict=False)), **found}
    return found


def read_table(path: Path, layout: FilesMap = AS_FOUND) -> pa.Table:
    """A table; the cells of a CSV as text. :class:`InputError` names file and remedy, and quotes no cell."""
    opened = opened_table(path, layout)
    batches = list(opened.batches(opened.names))
    empty = pa.table({name: pa.array([], pa.string()) for name in opened.names})
    table = pa.Table.from_batches(batches) if batches else empty
    texts = {
        name: pc.cast(table[name], pa.string()) if pa.types.is_dictionary(table[name].type) else table[name]
        for name in opened.names
    }
    return pa.table(texts)


def no_table(path: Path, error: Exception) -> InputError:
    """What to say of a file that cannot be read as a table."""
    is_text = isinstance(error, UnicodeError) or "UTF8" in str(error)
    return InputError(
        f"{path} must be a table: CSV with a header line, Excel, JSON or Parquet",
        "another encoding than at its beginning" if is_text else "something that cannot be read",
        'say encoding = "windows-1252" in [connect.files], or whichever it is'
        if is_text
        else "save it so, the same number of cells in each line",
    )


# Cells: texts and counts as they are written.

_EMPTY_CELLS = (
    *("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "none", "-", "--", "–", "—"),
    *("ND", "N.D.", "n.d.", "k.A.", "k. A.", "KA", "*", "...", "#", "?"),
    *("missing", "Missing", "N.B.", "s.d."),
)
"""How cells without a count are written."""
_NO_NUMBERS = {cell.lower() for cell in _EMPTY_CELLS}
_THOUSANDS = "^[0-9]{1,3}([., '\u2019\u00a0\u202f][0-9]{3})+$"


def text_column(table: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """A column as text; :class:`InputError` where its cells are none, such as lists."""
    try:
        return pc.cast(table[name], pa.string())
    except (pa.ArrowException, KeyError, UnicodeDecodeError) as error:
        raise InputError(
            f"{column_in_words(table, name)} must hold texts or numbers", type(error).__name__, "correct it"
        ) from None


def count_cells(
    cells: Any,
    what: str,
    mapping: FilesMap = AS_FOUND,
    where: Callable[[int], str] = lambda index: f"row {index + 1}",
) -> Any:
    """Cells of counts as trimmed text with a decimal point, None where nobody counted.

    :class:`InputError` for 1.234, which is one or a thousand, unless the ``mapping`` says how numbers are
    written.
    ``what`` names the column and ``where`` the place of one cell, as a person finds it.
    """
    is_text = pa.types.is_string(cells.type)
    text: Any = pc.utf8_trim_whitespace(cells if is_text else pc.cast(cells, pa.string()))
    none = pa.array([*_EMPTY_CELLS, *mapping.missing])
    text = pc.if_else(pc.is_in(text, value_set=none), None, text)
    if not is_text:
        return text
    thousands, decimal = mapping.thousands, mapping.decimal
    if decimal is None and thousands is None and mapping.decimals == "round":
        decimal = "."
    if thousands is not None:
        mark = "[ \u00a0\u202f]" if thousands == " " else f"[{re.escape(thousands)}]"
        mark = "['\u2019]" if thousands == "'" else mark
        grouped = rf"^[0-9]{{1,3}}(?:{mark}[0-9]{{3}})+(?:[.,][0-9]+)?$"
        is_grouped = pc.match_substring_regex(text, grouped)
        text = pc.if_else(is_grouped, pc.replace_substring_regex(text, mark, ""), text)
    elif decimal is None:
        several = pc.fill_null(pc.match_substring_regex(text, _THOUSANDS), False)
        if pc.any(several).as_py():
            first = pc.index(several, True).as_py()
            mark = str(text[first].as_py()).strip("0123456789")[0]
            mark = mark if mark in ".," else "'" if mark in "'\u2019" else " "
            choices = [f'{each} = "{mark}"' for each in ("thousands", "decimal")[: 2 if mark in ".," else 1]]
            raise InputError(
                f"{what} must hold numbers that can be read in one way",
                f"digits in groups of three, which may be thousands{' or decimals' if mark in '.,' else ''}, "
                f"first in {where(first)}",
                f"say which: {' or '.join(choices)} in [connect.files]",
            )
    return pc.replace_substring(text, ",", ".") if decimal == "," else text


def is_named(name: str, names: Sequence[str]) -> bool:
    """Whether a name is among these, of which one may have * for anything."""
    return bool(name) and any(name == each or ("*" in each and fnmatchcase(name, each)) for each in names)


def column_in_words(table: pa.Table, name: str) -> str:
    """A column by its name; by its place where digits stand in it: without a header they may be a count."""
    if _DIGIT.search(name):
        return f"column {table.column_names.index(name) + 1}"
    return f"column {name!r}"


def named_columns(table: pa.Table) -> list[str]:
    """The names without a digit."""
    return [name for name in table.column_names if not _DIGIT.search(name)]


def columns_in_words(table: pa.Table) -> str:
    """What columns there are, for people: the first that are named by words."""
    named = named_columns(table)
    counted = f"{len(table.column_names)} column{'s' if len(table.column_names) > 1 else ''}"
    return f"{counted}: {', '.join(named[:20])}" if named else counted


# Columns of tables that people bring along: found by their usual names, read as text or numbers.

LATITUDES = ("lat", "latitude", "latitud", "latitudine", "breitengrad")
LONGITUDES = ("lon", "lng", "long", "longitude", "longitud", "longitudine", "längengrad")


class BroughtTable:
    """A table and the file it is of, which errors name."""

    def __init__(self, path: Path, table: pa.Table | None = None) -> None:
        self.path = path
        self.table = read_table(path) if table is None else table

    def __len__(self) -> int:
        return len(self.table)

    def usual(self, names: Sequence[str]) -> str | None:
        """The column of one of these names, None where there is none; capitals and a path do not matter."""
        plain = {name.strip().lower(): name for name in self.table.column_names}
        found = {**{name.rpartition(".")[2]: own for name, own in plain.items()}, **plain}
        return next((found[name] for name in names if name in found), None)

    def needed(self, names: Sequence[str], what: str) -> str:
        """The same; :class:`InputError` where there is none."""
        found = self.usual(names)
        if found is None:
            raise InputError(
                f"{self.path} must have a column {what}: {', '.join(names)}",
                columns_in_words(self.table),
                "rename the column, or give the file it is in",
            )
        return found

    def texts(self, column: str | Sequence[str], what: str = "") -> list[str]:
        """Every cell of a column, or of the :meth:`needed` one, as text; empty where there is none."""
        name = column if isinstance(column, str) else self.needed(column, what)
        try:
            cells = text_column(self.table, name).to_pylist()
        except UnicodeDecodeError:
            raise InputError(
                f"column {name!r} of {self.path} must be text", "other bytes", "save it as UTF-8"
            ) from None
        return ["" if cell is None else str(cell).strip() for cell in cells]

    def numbers(
        self, column: str | Sequence[str], what: str = "", otherwise: float | None = None
    ) -> NDArray[np.float64]:
        """The same as numbers, ``otherwise`` where a cell is empty; :class:`InputError` names the row.

        Degrees may have a decimal comma: nothing stands between their thousands.
        """
        name = column if isinstance(column, str) else self.needed(column, what)
        are_degrees = name.strip().lower() in (*LATITUDES, *LONGITUDES)
        found = np.empty(len(self))
        for row, cell in enumerate(self.texts(name)):
            is_empty = otherwise is not None and cell.lower() in _NO_NUMBERS
            try:
                value = otherwise if is_empty else float(cell.replace(",", ".") if are_degrees else cell)
            except ValueError:
                value = None
            if value is None or not (is_empty or np.isfinite(value)):
                raise InputError(
                    f"column {name!r} of {self.path} must hold numbers",
                    f"something else in row {row + 1}",
                    "correct it",
                )
            found[row] = value
        return found
