"""Tables from files as cities have them: CSV with any usual separator, also packed, and Parquet."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from difflib import get_close_matches
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo, available_timezones

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stream_app.exceptions import InputError

_HEAD_BYTES = 65_536
_KINDS_OF_FAULT = {"UnicodeDecodeError": "another encoding", "ArrowInvalid": "no table, or another encoding"}
UNREADABLE = (pa.ArrowException, OSError, UnicodeDecodeError)
"""What reading a file that is no table raises."""
_EMPTY_CELLS = ("", "NA", "N/A", "n/a", "#N/A", "NaN", "nan", "null", "NULL", "None", "-", "–", "ND", "k.A.")
"""How cells without a count are written."""
_THOUSANDS = "^[0-9]{1,3}([., '\u00a0\u202f][0-9]{3})+$"
_DIGIT = re.compile(r"\d")


class Written(NamedTuple):
    """How counts are written: what stands between thousands, the decimal mark, further marks of no count."""

    thousands: str | None = None
    decimal: str | None = None
    missing: Sequence[str] = ()


AS_USUAL = Written()


class OpenedTable(NamedTuple):
    """What a file shows before it is read: its columns, and what separates cells; None in Parquet."""

    names: list[str]
    separator: str | None


def opened_table(path: Path) -> OpenedTable:
    """The columns of a file; :class:`InputError` where it is no table."""
    if not path.is_file():
        raise InputError(f"file {path} must exist", "nothing", "check the path")
    try:
        if path.suffix.lower() == ".parquet":
            with pq.ParquetFile(path) as file:
                opened = OpenedTable(list(file.schema_arrow.names), None)
        else:
            with pa.input_stream(str(path), compression="detect") as content:
                head = content.read(_HEAD_BYTES).decode("utf-8-sig", errors="replace").split("\n")[0]
            separator = max(",;\t", key=head.count)
            with pa_csv.open_csv(path, parse_options=pa_csv.ParseOptions(delimiter=separator)) as reader:
                opened = OpenedTable(list(reader.schema.names), separator)
    except UNREADABLE as error:
        raise no_table(path, error) from None
    if len(set(opened.names)) < len(opened.names):
        raise InputError(f"columns of {path} must have different names", "a name twice", "rename one")
    return opened


def read_table(path: Path) -> pa.Table:
    """A table; the cells of a CSV as text. :class:`InputError` names file and remedy, and quotes no cell."""
    opened = opened_table(path)
    try:
        if opened.separator is None:
            with pq.ParquetFile(path) as file:
                return file.read()
        kinds = dict.fromkeys(opened.names, pa.string())
        return pa_csv.read_csv(
            path,
            parse_options=pa_csv.ParseOptions(delimiter=opened.separator),
            convert_options=pa_csv.ConvertOptions(column_types=kinds, strings_can_be_null=True),
        )
    except UNREADABLE as error:
        raise no_table(path, error) from None


def no_table(path: Path, error: Exception) -> InputError:
    """What to say of a file that cannot be read as a table."""
    cells = re.search(r"Expected (\d+) columns, got (\d+)", str(error))
    row = re.search(r"Row #(\d+)", str(error))
    if cells is not None:
        where = f"line {row[1]} with {cells[2]}" if row else f"a line with {cells[2]}"
        return InputError(
            f"each line of {path} must have the {cells[1]} cells of its header", where, "correct that line"
        )
    return InputError(
        f"{path} must be a table: CSV in UTF-8 with a header line, or Parquet",
        _KINDS_OF_FAULT.get(type(error).__name__, "something that cannot be read"),
        "save it so, the same number of cells in each line",
    )


def text_column(table: pa.Table, name: str) -> pa.ChunkedArray[Any]:
    """A column as text; :class:`InputError` where its cells are none, such as lists."""
    try:
        return pc.cast(table[name], pa.string())
    except (pa.ArrowException, KeyError, UnicodeDecodeError) as error:
        raise InputError(
            f"{column_in_words(table, name)} must hold texts or numbers", type(error).__name__, "correct it"
        ) from None


def count_cells(table: pa.Table, name: str, written: Written = AS_USUAL) -> Any:
    """The cells of a column of counts as trimmed text with a decimal point, None where nobody counted.

    :class:`InputError` for 1.234, which is one or a thousand, unless it is said how numbers are ``written``.
    """
    is_text = pa.types.is_string(table.schema.field(name).type)
    text: Any = pc.utf8_trim_whitespace(text_column(table, name))
    none = pa.array([*_EMPTY_CELLS, *written.missing])
    text = pc.if_else(pc.is_in(text, value_set=none), None, text)
    if not is_text:
        return text
    if written.thousands is not None:
        grouped = rf"^[0-9]{{1,3}}(?:{re.escape(written.thousands)}[0-9]{{3}})+(?:[.,][0-9]+)?$"
        is_grouped = pc.match_substring_regex(text, grouped)
        text = pc.if_else(is_grouped, pc.replace_substring(text, written.thousands, ""), text)
    elif written.decimal is None:
        several = pc.fill_null(pc.match_substring_regex(text, _THOUSANDS), False)
        if pc.any(several).as_py():
            raise InputError(
                f"{column_in_words(table, name)} must hold numbers that can be read in one way",
                f"digits in groups of three, which may be thousands or decimals, first in row "
                f"{pc.index(several, True).as_py() + 1}",
                'say which: thousands = "." or decimal = "." in [connect.files], --thousands or --decimal',
            )
    return pc.replace_substring(text, ",", ".") if written.decimal == "," else text


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
    found = ", ".join(named[:20])
    return f"{len(table.column_names)} columns: {found}" if named else f"{len(table.column_names)} columns"


# Columns of tables that people bring along: found by their usual names, read as text or numbers.

LATITUDES, LONGITUDES = ("lat", "latitude"), ("lon", "lng", "long", "longitude")


def usual(table: pa.Table, names: tuple[str, ...]) -> str | None:
    """The column of one of these names, None where there is none; capitals do not matter."""
    found = {name.strip().lower(): name for name in table.column_names}
    return next((found[name] for name in names if name in found), None)


def needed(path: Path, table: pa.Table, names: tuple[str, ...], what: str) -> str:
    """The same; :class:`InputError` where there is none."""
    found = usual(table, names)
    if found is None:
        raise InputError(
            f"{path} must have a column {what}: {', '.join(names)}",
            columns_in_words(table),
            "rename the column, or give the file it is in",
        )
    return found


def texts(path: Path, table: pa.Table, name: str) -> list[str]:
    """Every cell as text, empty where there is none."""
    try:
        return ["" if cell is None else str(cell).strip() for cell in text_column(table, name).to_pylist()]
    except UnicodeDecodeError:
        raise InputError(
            f"column {name!r} of {path} must be text", "other bytes", "save it as UTF-8"
        ) from None


def numbers(path: Path, table: pa.Table, name: str, otherwise: float | None = None) -> NDArray[np.float64]:
    """Every cell as a number, ``otherwise`` where it is empty; :class:`InputError` names the row."""
    found = np.empty(len(table))
    for row, cell in enumerate(texts(path, table, name)):
        try:
            is_empty = otherwise is not None and cell.lower() in ("", "nan", "na", "null")
            value = otherwise if is_empty else float(cell)
        except ValueError:
            value = None
        if value is None or not np.isfinite(value):
            raise InputError(
                f"column {name!r} of {path} must hold numbers",
                f"something else in row {row + 1}",
                "correct it",
            )
        found[row] = value
    return found


# Times as cities write them: instants, or what the clock on the wall shows (two odd nights a year).

_FORMATS = (
    *("%Y-%m-%d %H:%M", "%Y/%m/%d %H:%M:%S", "%Y/%m/%d %H:%M", "%d.%m.%Y %H:%M", "%d.%m.%Y %H:%M:%S"),
    *("%m/%d/%Y %I:%M:%S %p", "%d/%m/%Y %I:%M:%S %p", "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M"),
    *("%m/%d/%Y %H:%M:%S", "%d/%m/%Y %H:%M:%S", "%B %d, %Y %I:%M:%S %p", "%m/%d/%Y %I:%M %p"),
    *("%b %d, %Y %I:%M %p", "%b %d, %Y %I:%M:%S %p", "%d-%b-%Y %H:%M", "%d %b %Y %H:%M"),
    *("%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%Y/%m/%d"),
)
_UNIX, _HOURS = "%s", "%Y%m%d%H"
_DIGITS_ONLY = re.compile("(%[YymdHMSj])+")
_OFFSET = r"(\d) ?([+-]\d{2}):?(\d{2})$"
_DAY = 86_400
_END_OF_DAY = r"([T ])24:00((:00([.,]0+)?)?([Z+-].*)?)$"
_EARLIEST, _LATEST = -30_610_224_000, 221_845_392_000  # years that every calendar here knows, in any zone


class Times(NamedTuple):
    """Unix seconds of each row; where ``is_local``, what the clock on the wall shows, as if in UTC.

    ``are_numbers`` where nothing in the file says which of the two.
    """

    seconds: NDArray[np.int64]
    is_local: bool
    are_numbers: bool = False


def check_zone(name: str) -> None:
    """:class:`InputError` for a time zone nobody knows."""
    try:
        ZoneInfo(name)
    except (KeyError, ValueError, OSError):
        known = sorted(available_timezones())
        near = get_close_matches(name, known, n=1) or [zone for zone in known if name.title() in zone][:1]
        hint = f"did you mean {near[0]}?" if near else "write it like Europe/Vienna"
        raise InputError("--timezone must be a name of the IANA database", repr(name), hint) from None


def parse_times(table: pa.Table, name: str, form: str | None, wall_clock: bool) -> Times:
    """The times of a column; :class:`InputError` where they are none we know."""
    column = table[name]
    if column.null_count:
        raise InputError(
            f"{column_in_words(table, name)} must have a time in each row", "an empty cell", "fill or drop it"
        )
    if pa.types.is_timestamp(column.type):
        return Times(_seconds(column), column.type.tz is None)
    if not pa.types.is_string(column.type):
        column = text_column(table, name)
    are_digits = bool(pc.all(pc.match_substring_regex(column, "^[0-9]{9,11}$")).as_py())
    if are_digits and form is None and not wall_clock:
        hours: Any = pc.strptime(column, format=_HOURS, unit="s", error_is_null=True)
        if not hours.null_count and pc.all(pc.match_substring_regex(column, "^[0-9]{10}$")).as_py():
            raise _not_one_way(table, name, "unix seconds, or year, month, day and hour", _HOURS, _UNIX)
    if are_digits and (form in (None, _UNIX) or not _DIGITS_ONLY.fullmatch(str(form))):
        return Times(np.asarray(pc.cast(column, pa.int64())), wall_clock, form != _UNIX)
    column, days = _without_24_hours(column)
    if form is None:
        if pc.all(pc.match_substring_regex(column, _OFFSET)).as_py():
            column = pc.replace_substring_regex(column, _OFFSET, r"\1\2:\3")
        for kind, is_local in ((pa.timestamp("us"), True), (pa.timestamp("us", "UTC"), False)):
            try:
                return Times(_seconds(pc.cast(column, kind)) + days, is_local)
            except pa.ArrowInvalid:
                continue
    forms = _FORMATS if form is None else (form,)
    found = [pc.strptime(column, format=each, unit="s", error_is_null=True) for each in forms]
    read = [times for times in found if not times.null_count]
    if not read or any(not times.equals(read[0]) for times in read):
        raise _not_one_way(table, name, "several ways" if read else "none", "%d/%m/%Y %H:%M")
    is_local = form is None or "%z" not in form  # a time with its offset is an instant
    return Times(_seconds(read[0]) + days, is_local)


def _not_one_way(table: pa.Table, name: str, found: str, *forms: str) -> InputError:
    return InputError(
        f"{column_in_words(table, name)} must hold times that can be read in one way",
        found,
        f"say how with --time-format, e.g. {' or '.join(map(repr, forms))}",
    )


def _without_24_hours(column: Any) -> tuple[Any, Any]:
    """Times as text, the end of a day (24:00) as its beginning, and the seconds that it is later."""
    is_end = pc.match_substring_regex(column, _END_OF_DAY)
    if not pc.any(is_end).as_py():
        return column, 0
    begins = pc.replace_substring_regex(column, _END_OF_DAY, r"\100:00\2")
    return begins, np.asarray(pc.cast(is_end, pa.int64())) * _DAY


class LocalTimes(NamedTuple):
    """The two instants (unix seconds) that each of many times on the clock on the wall may mean.

    They differ in the hour that the clock shows twice in autumn. ``is_shown`` is False in the hour that it
    skips in spring.
    """

    early: NDArray[np.int64]
    late: NDArray[np.int64]
    is_shown: NDArray[np.bool_]


def local_times(local: NDArray[np.int64], zone: str) -> LocalTimes:
    """What times mean that a clock in a time zone shows; ``local`` is in seconds, as if in UTC."""
    naive: Any = pa.array(local, pa.timestamp("s"))
    early = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    late = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    # "latest" moves a skipped time forward: the clock then shows another one.
    is_shown = np.asarray(pc.equal(pc.local_timestamp(late), naive))
    first, second = (np.asarray(pc.cast(each, pa.int64())) for each in (early, late))
    return LocalTimes(first, second, is_shown)


def calendar_days(local: NDArray[np.int64], zone: str) -> NDArray[np.int64] | None:
    """When the steps of daily counts begin: a day each, from midnight by standard time; None for any others.

    A calendar day has 23 or 25 hours where the clock changes, and stays one step.
    """
    times = np.unique(local)
    if times.size < 2 or (np.diff(times) % _DAY).any():
        return None
    first = datetime.fromtimestamp(int(times[0]), UTC).replace(tzinfo=ZoneInfo(zone))
    summer = first.dst() or timedelta(0)
    offset = (first.utcoffset() or timedelta(0)) - max(summer, timedelta(0))
    return local - int(offset.total_seconds())


def to_instants(
    local: NDArray[np.int64], repeat: NDArray[np.int64], zone: str
) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Instants of local times, and which of them stand once in an hour that comes twice.

    ``repeat`` is 1 where a row is a sensor's second one of that time, behind the first: it is of the later of
    the two hours.
    """
    times = local_times(local, zone)
    skipped = local[~times.is_shown]
    if skipped.size:
        first = datetime.fromtimestamp(int(skipped[0]), UTC)
        raise InputError(
            f"every time must exist on a clock in {zone}",
            f"{skipped.size} that the clock skips in spring, the first {first:%Y-%m-%d %H:%M}",
            "correct --timezone, name one without daylight saving such as Etc/GMT+8 if the counter keeps "
            "one time all year, or drop the rows with --skip-missing-hour",
        )
    twice = times.early != times.late
    has_second = np.append(repeat[1:] == 1, False) if repeat.size else np.zeros(0, dtype=bool)
    is_single = twice & (repeat == 0) & ~has_second
    return np.where(repeat == 1, times.late, times.early), is_single


def _seconds(column: Any) -> NDArray[np.int64]:
    kind = pa.timestamp("s", column.type.tz)
    seconds = np.asarray(pc.cast(pc.cast(column, kind, safe=False), pa.int64()))
    beyond = (seconds < _EARLIEST) | (seconds >= _LATEST)
    if beyond.any():
        raise InputError(
            "counts must be of the years 1000 to 8999",
            f"another year in {int(beyond.sum()):,} rows, the first is row {int(beyond.argmax()) + 1}",
            "correct the file, or name --time-format",
        )
    return seconds
