"""Counts from a CSV or Parquet file, wide (a column a sensor) or long (time, sensor, count)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from models.text import cell_text
from stream_app.exceptions import InputError
from stream_app.starting.counts.doubts import (
    NOT_COUNTED,
    ON_COMMAND_LINE,
    Answers,
    ask_about,
    differences,
    remarks_of,
)
from stream_app.starting.counts.tables import (
    AS_USUAL,
    Written,
    calendar_days,
    check_zone,
    column_in_words,
    columns_in_words,
    count_cells,
    is_named,
    local_times,
    named_columns,
    parse_times,
    read_table,
    text_column,
    to_instants,
)
from stream_app.wire import MAX_COUNT

# Counts by step and sensor, and the way from times and cells to them.

_DAY = 86_400
MOST_COUNTS = "most_counts"
"""Column of tables that are handed from command to command: by how much one person moves a count."""


class SensorCounts(NamedTuple):
    """What was read of a sensor: its first and last step on the clock on the wall, and sums for its owner.

    ``missing`` are the steps between them without a count.
    """

    sensor: str
    first: datetime
    last: datetime
    counted: int
    missing: int
    people: int
    largest: int


@dataclass(frozen=True)
class CountTable:
    """``table`` (steps, sensors) of counts, :data:`NOT_COUNTED` where there is none.

    Step 0 begins at ``origin``; hours of the day are those of ``zone``. ``remarks`` say how the file was
    understood. One person moves a count by ``most_counts`` at most.
    """

    sensors: tuple[str, ...]
    table: NDArray[np.int64]
    origin: datetime
    step_seconds: int
    zone: str = "UTC"
    remarks: tuple[str, ...] = ()
    most_counts: int = 1

    @property
    def slots(self) -> int:
        """Steps of a day: the cycle of habits; 1 where a step is a day or longer."""
        return max(1, _DAY // self.step_seconds)

    @property
    def first_slot(self) -> int:
        """The slot of step 0 in a cycle of one local day."""
        time = self._time_of(0)
        seconds = time.hour * 3600 + time.minute * 60 + time.second
        return seconds // self.step_seconds if self.slots > 1 else 0

    @property
    def clock_change(self) -> datetime | None:
        """The first step before which the clock on the wall is put forward or back; None where it is not."""
        times = (self._time_of(step) for step in range(len(self.table)))
        return next((time for time in times if time.utcoffset() != self._time_of(0).utcoffset()), None)

    def last_days(self, days: int) -> CountTable:
        """The last days alone; everything for 0 or more days than there are."""
        steps = days * _DAY // self.step_seconds
        if steps == 0 or steps >= len(self.table):
            return self
        skipped = len(self.table) - steps
        origin = datetime.fromtimestamp(self.origin.timestamp() + skipped * self.step_seconds, UTC)
        table = self.table[skipped:]
        counted = np.flatnonzero((table != NOT_COUNTED).any(axis=0))
        names = tuple(self.sensors[index] for index in counted)
        return replace(self, sensors=names, table=table[:, counted], origin=origin)

    def by_sensor(self) -> list[SensorCounts]:
        """What was read of each sensor that counted, in their order."""
        found = []
        for name, counts in zip(self.sensors, self.table.T, strict=True):
            steps = np.flatnonzero(counts >= 0)
            if steps.size:
                first, last = int(steps[0]), int(steps[-1])
                times = self._time_of(first), self._time_of(last)
                taken, between = counts[steps], last - first + 1 - steps.size
                found.append(
                    SensorCounts(name, *times, steps.size, between, int(taken.sum()), int(taken.max()))
                )
        return found

    def _time_of(self, step: int) -> datetime:
        """When a step begins, on the clock on the wall."""
        instant = self.origin.timestamp() + step * self.step_seconds
        return datetime.fromtimestamp(instant, ZoneInfo(self.zone))


def interval_seconds(instants: NDArray[np.int64]) -> int:
    """The interval of counts at these times (unix seconds); :class:`InputError` where it is not one."""
    times = np.unique(instants)
    if times.size < 2:
        raise InputError("counts must be of at least two times", f"{times.size}", "give a longer file")
    gaps = np.diff(times)
    usual = Counter(gaps.tolist()).most_common(1)[0][0]
    odd = np.flatnonzero(gaps % usual)
    if odd.size:
        at = datetime.fromtimestamp(int(times[odd[0] + 1]), UTC)
        raise InputError(
            f"counts must come at one interval, {usual} s as most do",
            f"{odd.size} that do not, the first at {at:%Y-%m-%d %H:%M:%S} UTC",
            "bring all counts to one interval, or give each interval a file of its own",
        )
    return int(usual)


# Steps times sensors, at most: one time with a wrong year would fill the memory otherwise.
_CELLS, _CELLS_A_ROW = 10_000_000, 1000
_WALL_CLOCK = "if they show the clock on the wall, add --wall-clock"
_TIME_NAMES = ("time", "date", "datetime", "date_time", "timestamp", "time_local", "date & time")
_SENSOR_NAMES = ("sensor", "sensor_id", "sensor id", "sensor_name", "site", "counter", "location")
_COUNT_NAMES = ("count", "counts", "hourly_counts", "value", "n", "total_of_directions", "pedestrians")


@dataclass(frozen=True)
class _CountRows:
    """One count a row: of which time, which sensor (index into ``names``)."""

    row: NDArray[np.int64]
    sensor: NDArray[np.int64]
    count: NDArray[np.int64]
    names: tuple[str, ...]

    def without(self, names: Sequence[str]) -> _CountRows:
        """Those of other sensors."""
        kept = [number for number, name in enumerate(self.names) if not is_named(name, names)]
        if len(kept) == len(self.names):
            return self
        number = np.full(len(self.names), -1, dtype=np.int64)
        number[kept] = np.arange(len(kept))
        is_kept = number[self.sensor] >= 0
        found = tuple(self.names[each] for each in kept)
        return _CountRows(self.row[is_kept], number[self.sensor[is_kept]], self.count[is_kept], found)


def read_counts(
    path: Path,
    *,
    time_column: str | None = None,
    sensor_column: str | None = None,
    count_column: str | None = None,
    timezone: str | None = None,
    time_format: str | None = None,
    wall_clock: bool = False,
    ignore: Sequence[str] = (),
    keep: Sequence[str] = (),
    kind: Literal["periodic", "total"] = "periodic",
    written: Written = AS_USUAL,
    options: tuple[str, str, str] = ON_COMMAND_LINE,
    drop_repeated: bool = False,
    skip_missing_hour: bool = False,
    most_counts: int = 1,
) -> CountTable:
    """The counts of a file; what is None is found out, and ``options`` name answers to what looks wrong.

    :class:`InputError` says what is wrong, with its row, and never shows a count.
    """
    if timezone is not None:
        check_zone(timezone)
    table = read_table(path)
    columns = [name for name in table.column_names if is_named(name, ignore)]  # others may be sensors
    table = table.drop_columns(columns)
    if MOST_COUNTS in table.column_names:  # as `connect files` writes it for counts that were scaled
        most_counts = max(most_counts, int(_whole(table, MOST_COUNTS).max(initial=1)))
        table = table.drop_columns([MOST_COUNTS])
    remarks = []
    time = _named(table, time_column, _TIME_NAMES, "--time-column")
    if time is None and (time := _only_times(table, time_format)) is not None:
        remarks.append(f"Times are those of {column_in_words(table, time)}, the only column that has any.")
    if time is None:
        raise InputError(
            "the column of times must be known",
            columns_in_words(table),
            "name it with --time-column, or add a header line",
        )
    seconds, is_local, are_numbers = parse_times(table, time, time_format, wall_clock)
    if is_local and timezone is None:
        raise InputError(
            f"the time zone of {column_in_words(table, time)} must be known, as its times are those of a "
            "clock on the wall",
            "nothing",
            "name it with --timezone, e.g. Australia/Melbourne; UTC if that is what they are",
        )
    sensor = _named(table, sensor_column, _SENSOR_NAMES, "--sensor-column")
    count = _named(table, count_column, _COUNT_NAMES, "--count-column")
    if sensor is not None and count is not None:
        cells, left_out = (
            _long(table, sensor, count, written),
            set(table.column_names) - {time, sensor, count},
        )
    else:
        cells, left_out = _wide(table, time, written), set()
    for name in ignore:
        if not any(is_named(each, [name]) for each in (*columns, *cells.names)):
            _column(table, name, "--ignore")
    cells = cells.without(ignore)
    if left_out:
        remarks.append(f"Columns left out: {', '.join(sorted(left_out))}.")
    if are_numbers and not is_local:
        remarks.append(f"Numbers of {column_in_words(table, time)} are taken as unix seconds; {_WALL_CLOCK}.")
    if timezone is None:
        remarks.append("Hours of the day are those of UTC, as no --timezone was given.")
    answers = Answers(keep, kind == "total", sensor is None or count is None, options)
    return _counts(
        *(cells, seconds, is_local, timezone or "UTC", drop_repeated, skip_missing_hour, most_counts),
        *(remarks, answers),
    )


def _long(table: pa.Table, sensor: str, count: str, written: Written) -> _CountRows:
    names = text_column(table, sensor)
    if names.null_count:
        raise InputError(
            f"{column_in_words(table, sensor)} must name a sensor in each row", "an empty cell", "fill it"
        )
    found, index = np.unique(np.asarray(names.to_pylist(), dtype=str), return_inverse=True)
    values = _whole(table, count, written)
    row = np.flatnonzero(values != NOT_COUNTED)
    return _CountRows(row, index[row], values[row], tuple(map(cell_text, found.tolist())))


def _wide(table: pa.Table, time: str, written: Written) -> _CountRows:
    names = tuple(name for name in table.column_names if name != time)
    if not names:
        raise InputError("the file must have a column for each sensor", "none", "give a file with counts")
    values = np.stack([_whole(table, name, written) for name in names], axis=1)
    row, sensor = np.nonzero(values != NOT_COUNTED)
    return _CountRows(row, sensor, values[row, sensor], names)


def _whole(table: pa.Table, name: str, written: Written = AS_USUAL) -> NDArray[np.int64]:
    """Counts of a column, :data:`NOT_COUNTED` where a cell is empty."""
    text = count_cells(table, name, written)
    good: Any = pc.fill_null(pc.match_substring_regex(text, r"^[0-9]{1,13}(\.0+)?$"), True)
    if not pc.all(good).as_py():
        row = pc.index(good, False).as_py()
        raise InputError(
            f"{column_in_words(table, name)} must hold whole counts of 0 or more, or nothing where nobody "
            "counted",
            f"something else in row {row + 1}",
            "if -1 marks what was not counted, say --missing=-1; else correct or --ignore it"
            if pc.any(pc.match_substring_regex(text, "^-[0-9]+$")).as_py()
            else "correct the file, name the columns, or leave this one out with --ignore",
        )
    values = np.asarray(pc.fill_null(pc.cast(pc.cast(text, pa.float64()), pa.int64()), NOT_COUNTED))
    if values.size and values.max() > MAX_COUNT:
        raise InputError(
            f"{column_in_words(table, name)} must hold counts up to {MAX_COUNT}", "a larger one", "correct it"
        )
    return values


def _counts(
    cells: _CountRows,
    seconds: NDArray[np.int64],
    is_local: bool,
    zone: str,
    drop_repeated: bool,
    skip_missing_hour: bool,
    most_counts: int,
    remarks: list[str],
    answers: Answers,
) -> CountTable:
    """The counts by step and sensor; ``seconds`` are the times of all rows, also of those without a count."""
    days = calendar_days(seconds, zone) if is_local else None
    if days is not None:
        is_local, seconds = False, days
        remarks.append("A step is a calendar day, also where the clock changes and it has 23 or 25 hours.")
    times = seconds[cells.row]
    kept = np.ones(times.size, dtype=bool)
    if is_local and skip_missing_hour:
        kept = local_times(times, zone).is_shown
        remarks.append(f"Left out {int((~kept).sum()):,} counts of hours that the clock skips.")
    order = np.lexsort((cells.row[kept], times[kept], cells.sensor[kept]))
    index = np.flatnonzero(kept)[order]
    sensor, times, count = cells.sensor[index], times[index], cells.count[index]
    if seconds.size > 1 and seconds[0] > seconds[-1]:  # newest first: the later hour comes first
        same = np.lexsort((-cells.row[index], times, sensor))
        sensor, times, count = sensor[same], times[same], count[same]
    if is_local:
        repeat = np.concatenate([[0], _same(sensor, times).astype(np.int64)])[: times.size]
        times, is_single = to_instants(times, repeat, zone)
        if is_single.any():
            remarks.append(
                f"{int(is_single.sum()):,} counts stand once where the clock shows the hour twice, and may "
                "be of either hour or of both: taken as not counted."
            )
            sensor, times, count = sensor[~is_single], times[~is_single], count[~is_single]
        again = np.argsort(times, kind="stable")
        again = again[np.argsort(sensor[again], kind="stable")]
        sensor, times, count = sensor[again], times[again], count[again]
    twice = _same(sensor, times)
    hint = "" if is_local else f"; {_WALL_CLOCK}"
    if twice.any() and not drop_repeated:
        raise InputError(
            "each sensor must be counted once at a time",
            f"{int(twice.sum())} counts more, the first at "
            f"{datetime.fromtimestamp(int(times[1:][twice][0]), UTC):%Y-%m-%d %H:%M} UTC",
            f"correct the file, or treat such times as not counted with --drop-repeated{hint}",
        )
    if twice.any():
        bad = np.concatenate([[False], twice]) | np.concatenate([twice, [False]])
        sensor, times, count = sensor[~bad], times[~bad], count[~bad]
        remarks.append(f"Repeated counts taken as not counted: {int(bad.sum()):,}.")
    step_seconds = interval_seconds(times)
    first, last = int(times.min()), int(times.max())
    steps = (last - first) // step_seconds + 1
    if steps * len(cells.names) > max(_CELLS, _CELLS_A_ROW * seconds.size):
        raise InputError(
            "counts must lie close together in time",
            f"{steps:,} steps of {step_seconds} s from {datetime.fromtimestamp(first, UTC):%Y-%m-%d} on, "
            "few of them with counts",
            "look for a time of another year or century in the file, or name --time-format",
        )
    table = np.full((steps, len(cells.names)), NOT_COUNTED, dtype=np.int64)
    table[(times - first) // step_seconds, sensor] = count
    ask_about(table, cells.names, answers)
    if answers.are_totals:
        table, unknown = differences(table)
        remarks.append("Counts are the differences of running totals.")
        if unknown:
            remarks.append(f"{unknown:,} differences are not known: a reset, or a total that is missing.")
    remarks += remarks_of(table, cells.names, step_seconds)
    origin = datetime.fromtimestamp(first, UTC)
    return CountTable(cells.names, table, origin, step_seconds, zone, tuple(remarks), most_counts)


def _same(sensor: NDArray[np.int64], times: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Where a row has the sensor and time of the one before."""
    return np.asarray((sensor[1:] == sensor[:-1]) & (times[1:] == times[:-1]))


def _named(table: pa.Table, wanted: str | None, usual: tuple[str, ...], option: str) -> str | None:
    """The column asked for, else the one of a usual name."""
    if wanted is not None:
        return _column(table, wanted, option)
    return next((name for name in table.column_names if name.strip().lower() in usual), None)


def _only_times(table: pa.Table, form: str | None) -> str | None:
    """The only column that holds times; None where none does, or several do."""
    found = []
    for name in named_columns(table):  # digits in a name are those of a file without a header
        with suppress(InputError):
            if not parse_times(table, name, form, wall_clock=False).are_numbers:
                found.append(name)
    return found[0] if len(found) == 1 else None


def _column(table: pa.Table, name: str, option: str) -> str:
    if name in table.column_names:
        return name
    close = get_close_matches(name, named_columns(table), n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {columns_in_words(table)}"
    raise InputError(f"{option} must name a column of the file", repr(name), hint)
