"""Reading check-ins (who was where when) from Parquet, CSV or data frames; coordinates are ignored."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from models.arguments import checked
from models.calendar import known_zone
from models.exceptions import CheckinError
from models.numerics.arrays import Integers, Integers32

if TYPE_CHECKING:
    import pyarrow as pa

_COLUMNS = ("user", "time", "loc")
_LATEST_SECONDS = 10**11  # year 5138; larger numbers are milliseconds
_BATCH_ROWS = 1 << 18

OnBadRow = Literal["fail", "reject"]


class RejectedRow(NamedTuple):
    """A row that is no check-in: its line in a CSV file, or its number from 1 in Parquet, and the reason."""

    row: int
    reason: str


@dataclass(frozen=True, eq=False)
class Checkins:
    """Check-ins as codes: row ``i`` says that ``user_names[user[i]]`` was at ``location_names[location[i]]``.

    ``time_seconds`` (R,) is Unix time, UTC. Names are sorted, whole numbers by value. ``rejected`` rows are
    not among the R; ``without_zone`` is how many of a file's times name no time zone.
    """

    user: Integers32
    time_seconds: Integers
    location: Integers32
    user_names: tuple[str, ...]
    location_names: tuple[str, ...]
    rejected: tuple[RejectedRow, ...] = ()
    without_zone: int = 0

    def __len__(self) -> int:
        """Number of check-ins."""
        return int(self.user.size)

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, int, str]]) -> Checkins:
        """Check-ins from ``(user, time in seconds, location)``."""
        collected = list(rows)
        users, times, locations = zip(*collected, strict=True) if collected else ((), (), ())
        return _coded([users], np.array(times, dtype=np.int64), [locations])


@checked(CheckinError, leave=("on_bad_row",))
def read_checkins(path: str | Path, on_bad_row: OnBadRow = "fail", timezone: str | None = None) -> Checkins:
    """Read a ``.parquet`` or ``.csv`` file with columns user, time and loc.

    Times are Unix seconds, timestamps or ISO 8601; those without a zone are of ``timezone``, else UTC. A bad
    row is a :class:`~models.exceptions.CheckinError` with its number and what is wrong or, with
    ``"reject"``, is left out and listed in ``rejected``.
    """
    path = Path(path)
    if not path.is_file():
        raise CheckinError("the check-ins file must exist", str(path), "check the path")
    if not isinstance(on_bad_row, str) or on_bad_row not in ("fail", "reject"):
        raise CheckinError("on_bad_row must be 'fail' or 'reject'", repr(on_bad_row), "choose one of them")
    if path.suffix.lower() not in (".parquet", ".csv"):
        raise CheckinError("a check-ins file must end in .parquet or .csv", path.name, "rename it")
    rows = _csv_rows if path.suffix.lower() == ".csv" else _parquet_rows
    return _collect(path, rows(path, _zone(timezone)), on_bad_row)


def _zone(timezone: str | None) -> tzinfo:
    """What times without a zone are of."""
    try:
        return UTC if timezone is None else known_zone(timezone)
    except ValueError:
        raise CheckinError(
            "timezone must be one of the time zone database", repr(timezone), "write Europe/Vienna"
        ) from None


CONVENTIONS = {
    "user": ("user", "user_id", "uid", "traj_id", "person"),
    "time": ("time", "started_at", "tracked_at", "datetime", "start_time", "t", "timestamp"),
    "loc": ("loc", "location_id", "tile_ID", "cluster", "place", "location", "stop_id"),
}
"""Names of columns: ours, then those of trackintel, scikit-mobility and movingpandas."""


@checked(CheckinError, leave=("frame",))
def checkins_of(
    frame: Any,
    user: str | None = None,
    time: str | None = None,
    place: str | None = None,
    on_bad_row: OnBadRow = "fail",
) -> Checkins:
    """Check-ins from a frame of pandas, polars or Arrow, or of a library whose frames are pandas' underneath.

    Columns without a name given are found by :data:`CONVENTIONS`: of scikit-mobility ``uid``, ``datetime``
    and ``cluster`` or ``tile_ID``; of trackintel ``user_id``, ``started_at`` or ``tracked_at`` and
    ``location_id``; of movingpandas ``traj_id`` and the index ``t``. Times are Unix seconds, timestamps or
    ISO 8601; those without a zone are UTC. Rows of a stay that has no place (trackintel's -1 or null) are
    rejected or an error, as in :func:`read_checkins`.
    :class:`~models.exceptions.CheckinError` for a frame without such columns.
    """
    import pyarrow as pa

    if getattr(getattr(frame, "index", None), "names", [None]) != [None]:
        frame = frame.reset_index()  # movingpandas' time is the index
    names = [str(each) for each in getattr(frame, "columns", ())]
    if isinstance(frame, pa.Table):
        names = frame.column_names
    if not names:
        raise CheckinError(
            "check-ins must be a data frame of pandas, polars or Arrow",
            f"a {type(frame).__name__}",
            "or read a file with read_checkins",
        )
    chosen = [_column(names, *each) for each in (("user", user), ("time", time), ("loc", place))]
    picked = frame.select(chosen) if hasattr(frame, "select") else frame[chosen]  # Arrow, polars; pandas
    table = picked if isinstance(picked, pa.Table) else _arrow(picked)
    columns = [table.column(name).combine_chunks() for name in chosen]
    if pa.types.is_string(columns[1].type) or pa.types.is_large_string(columns[1].type):
        columns[1] = pa.array([_iso_seconds(each, UTC)[0] for each in columns[1].to_pylist()], pa.float64())
    if pa.types.is_floating(columns[2].type):  # pandas has no whole numbers where some are missing
        columns[2] = columns[2].cast(pa.int64(), safe=True)
    values = [None if each in (None, -1, "-1") else each for each in columns[2].to_pylist()]
    columns[2] = pa.array(values, columns[2].type)
    source = Path("the frame")
    return _collect(source, iter([_parquet_batch(source, 1, columns, UTC)]), on_bad_row)


def _column(names: Sequence[str], what: str, given: str | None) -> str:
    """The column of this meaning; :class:`CheckinError` where it is not there."""
    if given is not None and given not in names:
        raise CheckinError(f"the frame must have the column {given!r}", ", ".join(names), "correct its name")
    found = given or next((name for name in CONVENTIONS[what] if name in names), None)
    if found is None:
        remedy = f"name it: {'place' if what == 'loc' else what}=..."
        if what == "loc" and {"geom", "geometry", "lat"} & set(names):
            remedy = "make places of points first, with stays_of"
        raise CheckinError(
            f"the frame must have a column of its {'places' if what == 'loc' else what + 's'}",
            ", ".join(names),
            remedy,
        )
    return found


def _arrow(picked: Any) -> Any:
    """A frame of a few columns as an Arrow table."""
    import pyarrow as pa

    if hasattr(picked, "to_arrow"):
        return picked.to_arrow()
    return pa.Table.from_pandas(picked, preserve_index=False)


def _iso_seconds(text: str | None, zone: tzinfo) -> tuple[float, bool]:
    """Unix seconds of a time in ISO 8601, and whether it names no zone; NaN for anything else."""
    try:
        moment = datetime.fromisoformat(text or "")
    except ValueError:
        return math.nan, False
    return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp(), moment.tzinfo is None


class _Batch(NamedTuple):
    """Some good rows as columns, and the bad ones among them."""

    users: Sequence[str] | pa.StringArray
    times: Integers
    locations: Sequence[str] | pa.StringArray
    rejected: list[RejectedRow]
    without_zone: int


def _collect(path: Path, batches: Iterator[_Batch], on_bad_row: OnBadRow) -> Checkins:
    """All batches together; the first bad row is an error unless rows may be rejected."""
    good: list[_Batch] = []
    rejected: list[RejectedRow] = []
    for batch in batches:
        if batch.rejected and on_bad_row == "fail":
            row, reason = batch.rejected[0]
            raise CheckinError(f"row {row} of {path} must be a check-in", reason, "correct or reject it")
        good.append(batch)
        rejected.extend(batch.rejected)
    users, locations = [batch.users for batch in good], [batch.locations for batch in good]
    times = np.concatenate([np.empty(0, np.int64), *(batch.times for batch in good)])
    return _coded(users, times, locations, tuple(rejected), sum(batch.without_zone for batch in good))


def _csv_rows(path: Path, zone: tzinfo) -> Iterator[_Batch]:
    """The rows of a CSV file, numbered by their lines."""
    with path.open(encoding="utf-8-sig", errors="replace", newline="") as source:
        first = source.readline()
        reader = csv.reader(chain([first], source), delimiter=max(",;\t|", key=first.count), strict=True)
        records = _records(path, reader)
        header = [name.strip() for name in next(records, [])]
        at = _positions(path, header)
        users: list[str] = []
        times: list[int] = []
        locations: list[str] = []
        rejected: list[RejectedRow] = []
        without_zone = 0
        for record in records:
            fields = [field.strip() for field in record]
            reason, seconds, has_no_zone = _judged(fields, len(header), at, zone)
            if reason:
                rejected.append(RejectedRow(reader.line_num, reason))
                continue
            users.append(fields[at[0]])
            times.append(int(seconds))
            locations.append(fields[at[2]])
            without_zone += has_no_zone
    yield _Batch(users, np.array(times, dtype=np.int64), locations, rejected, without_zone)


def _records(path: Path, reader: Any) -> Iterator[list[str]]:
    """The records of a CSV file that are not empty lines."""
    try:
        yield from filter(None, reader)
    except csv.Error as error:
        place = f"line {reader.line_num} of {path}"
        raise CheckinError(f"{place} must be CSV", error, "look for a quote that is not closed") from None


def _judged(fields: list[str], width: int, at: tuple[int, int, int], zone: tzinfo) -> tuple[str, float, bool]:
    """What is wrong with the fields of one CSV row, if anything, quoting none; else its Unix seconds, and
    whether its time names no zone.
    """
    if len(fields) != width:
        return f"{len(fields)} fields where the header has {width}", math.nan, False
    user, time, location = (fields[position] for position in at)
    try:
        seconds, has_no_zone = float(time), False
    except ValueError:
        seconds, has_no_zone = _iso_seconds(time, zone)
        if math.isnan(seconds):
            reason = _row_fault(user, location, 0.0) or "time is not Unix seconds, nor ISO 8601"
            return reason, math.nan, False
    return _row_fault(user, location, seconds), seconds, has_no_zone


def _row_fault(user: str, location: str, seconds: float) -> str:
    """What is wrong with the values of one row; empty if nothing is."""
    if not user or not location:
        return "no user" if not user else "no loc"
    if "\ufffd" in f"{user}{location}":  # two names would become one
        return "a name in another encoding than UTF-8"
    if seconds >= _LATEST_SECONDS:
        return "time is not Unix seconds; milliseconds?"
    if not seconds >= 0 or seconds != int(seconds):
        return "time is not whole Unix seconds from 1970 on"
    return ""


def _parquet_rows(path: Path, zone: tzinfo) -> Iterator[_Batch]:
    """The rows of a Parquet file, numbered from 1."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        with pq.ParquetFile(path) as file:
            _positions(path, file.schema_arrow.names)
            first = 1
            for batch in file.iter_batches(batch_size=_BATCH_ROWS, columns=list(_COLUMNS)):
                columns = [batch.column(name) for name in _COLUMNS]
                yield _parquet_batch(path, first, columns, zone)
                first += batch.num_rows
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise CheckinError(
            f"{path} must be a Parquet file with names in user and loc, seconds in time",
            type(error).__name__,
            "write it again",
        ) from None


def _parquet_batch(path: Path, first: int, columns: list[Any], zone: tzinfo) -> _Batch:
    """One batch of columns user, time, loc whose first row has number ``first``."""
    import pyarrow as pa
    import pyarrow.compute as pc

    user, time, location = columns
    has_no_zone = pa.types.is_timestamp(time.type) and time.type.tz is None
    if has_no_zone and zone is not UTC:
        time = pc.assume_timezone(time, str(zone), ambiguous="earliest", nonexistent="latest")
    if pa.types.is_timestamp(time.type):
        time = time.cast(pa.timestamp("s", time.type.tz), safe=False).cast(pa.int64())
    if not (pa.types.is_integer(time.type) or pa.types.is_floating(time.type)):
        raise CheckinError(
            f"column 'time' of {path} must be Unix seconds", f"type {time.type}", "convert it to int64"
        )
    seconds = time.cast(pa.float64()).fill_null(np.nan).to_numpy(zero_copy_only=False)
    good = (seconds >= 0) & (seconds < _LATEST_SECONDS) & (seconds == np.floor(seconds))
    names = [column.cast(pa.string()).fill_null("") for column in (user, location)]
    for name in names:
        good &= pc.not_equal(name, pa.scalar("")).to_numpy(zero_copy_only=False)
    users, locations = names
    rejected = [
        RejectedRow(
            first + i,
            _row_fault(users[i].as_py(), locations[i].as_py(), 0.0 if np.isnan(seconds[i]) else seconds[i])
            or "no time",
        )
        for i in np.flatnonzero(~good).tolist()
    ]
    kept = pa.array(good)
    times, without_zone = seconds[good].astype(np.int64), int(good.sum()) if has_no_zone else 0
    return _Batch(users.filter(kept), times, locations.filter(kept), rejected, without_zone)


def _positions(path: Path, header: Sequence[str]) -> tuple[int, int, int]:
    """The positions of user, time and loc in the header."""
    missing = [name for name in _COLUMNS if name not in header]
    if missing:
        near = next((name for name in header if name.strip().lower() == missing[0]), None)
        raise CheckinError(
            f"{path} must have the columns user, time, loc",
            f"{len(header)} columns without {missing[0]!r}" if header else "an empty file",
            f"rename {near!r}" if near else f"add a header line that names the column {missing[0]!r}",
        )
    repeated = [name for name in _COLUMNS if list(header).count(name) > 1]
    if repeated:
        raise CheckinError(f"{path} must have each column once", f"{repeated[0]!r} twice", "rename one")
    user, time, location = (list(header).index(name) for name in _COLUMNS)
    return user, time, location


def _coded(
    users: Sequence[Sequence[str] | pa.StringArray],
    times: Integers,
    locations: Sequence[Sequence[str] | pa.StringArray],
    rejected: tuple[RejectedRow, ...] = (),
    without_zone: int = 0,
) -> Checkins:
    """Check-ins, in parts, with names replaced by their positions in sorted order."""
    user, user_names = _codes(users)
    location, location_names = _codes(locations)
    return Checkins(user, times, location, user_names, location_names, rejected, without_zone)


def _codes(parts: Sequence[Sequence[str] | pa.StringArray]) -> tuple[Integers32, tuple[str, ...]]:
    """Codes of values, and the names they stand for."""
    import pyarrow as pa

    texts: Any = pa.chunked_array([pa.array(part, pa.string()) for part in parts], pa.string())
    coded = texts.combine_chunks().dictionary_encode()
    found = coded.dictionary.to_pylist()
    order = sorted(range(len(found)), key=lambda number: _by_number(found[number]))
    code = np.empty(len(found), dtype=np.int32)
    code[order] = np.arange(len(found))
    return code[coded.indices.to_numpy()], tuple(found[number] for number in order)


def _by_number(name: str) -> tuple[bool, int, str, str]:
    """Sort key: whole numbers by value, of whatever length, then everything else as text."""
    is_number = name.isascii() and name.isdigit()
    digits = name.lstrip("0") if is_number else ""
    return not is_number, len(digits), digits, name
