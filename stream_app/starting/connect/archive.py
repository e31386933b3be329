"""An archive of counts, understood by a declared mapping: cells of files become counts by step and sensor."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from models.private_files import private_file
from models.releases import CountingWindow
from models.text import safe_cell
from stream_app.exceptions import InputError, OutputError, SettingsError
from stream_app.setup.declared import most_counts_of
from stream_app.setup.run_folder.durable import make_folder
from stream_app.setup.sections import FilesMap
from stream_app.starting.connect.archive_file import ArchiveTable, Coded, SiteNames, column_form
from stream_app.starting.counts.count_table import MOST_COUNTS, CountTable, but_repeated, interval_seconds
from stream_app.starting.counts.doubts import (
    ABSENT,
    NOT_COUNTED,
    ask_about,
    differences,
    remarks_of,
    some_of,
)
from stream_app.starting.counts.message_lines import NO_WINDOWS, message_lines
from stream_app.starting.counts.tables import Progress, count_cells
from stream_app.starting.counts.times import calendar_days, check_zone, local_times, parse_times
from stream_app.wire import MAX_COUNT

# When each row's interval starts: instants, also where a clock shows an hour twice or never.

Integers = NDArray[np.int64]
_MINUTE, _QUARTER, _DAY = 60, 900, 86_400
_MANY = 1000
_AMBIGUOUS = 'set ambiguous = "earlier", "later", "in_order" or "pairs" in [connect.files]'
_OF_UTC = re.compile(r"(?:\b|_)(?:UTC|GMT)(?:\b|_)(?! ?[+-]?\d)", re.IGNORECASE)
"""In the name of a column of times: they are instants."""
_WALL_CLOCK = "if they show the clock on the wall, add wall_clock = true in [connect.files]"


@dataclass(frozen=True)
class Starts:
    """``instants`` (unix seconds) of each row, whether it is ``kept``, and the length of all intervals.

    ``seconds`` is None where the file does not say it; ``are_inclusive`` where its ends were recognised as
    the last second that belongs to each interval.
    """

    instants: Integers
    kept: NDArray[np.bool_]
    seconds: int | None
    dropped: int = 0
    are_inclusive: bool = False
    are_numbers: bool = False
    single: int = 0
    skipped: Mapping[int, int] = field(default_factory=dict)
    """Rows of an hour that the clock skips, and what they say it shows."""

    def require_real(self, counts: Integers, mapping: FilesMap) -> None:
        """:class:`InputError` for counts in an hour that the clock skips; spreadsheets have empty rows."""
        found = [shown for row, shown in self.skipped.items() if (counts[row] != NOT_COUNTED).any()]
        if found and mapping.nonexistent == "refuse":
            raise InputError(
                f"every time must exist on a clock in {mapping.timezone}",
                f"{len(found):,} rows in an hour that it skips in spring, the first "
                f"{datetime.fromtimestamp(found[0], UTC):%Y-%m-%d %H:%M}",
                "correct timezone (Etc/GMT+8 if one time is kept all year), or set "
                'nonexistent = "drop" in [connect.files]',
            )


@dataclass(frozen=True)
class _Clock:
    """The different times of a column: what the clock shows, and the two instants that it may mean."""

    shown: Integers
    early: Integers
    late: Integers
    is_real: NDArray[np.bool_]
    are_numbers: bool = False


def interval_starts(table: ArchiveTable, mapping: FilesMap, channel: Integers | None) -> Starts:
    """The starts of all rows; :class:`InputError` for what the mapping leaves undecided.

    ``channel`` is that of each row; None where a row has all of them (wide files).
    """
    coded = table.full(table.chosen.start, "a time")
    clock = _clock(table, table.chosen.start, coded, mapping)
    index = coded.at
    is_real = clock.is_real[index]
    skipped = {int(row): int(clock.shown[index[row]]) for row in np.flatnonzero(~is_real)}
    instants = (clock.late if mapping.ambiguous == "later" else clock.early)[index]
    are_twice = (clock.early != clock.late) & clock.is_real
    twice = np.flatnonzero(are_twice[index]) if are_twice.any() else np.zeros(0, dtype=np.int64)
    if twice.size and mapping.ambiguous == "refuse":
        first = datetime.fromtimestamp(int(clock.shown[index[twice[0]]]), UTC)
        raise InputError(
            f"each time must be of one hour in {mapping.timezone}",
            f"{twice.size:,} rows in an hour that the clock shows twice, the first {first:%Y-%m-%d %H:%M}",
            _AMBIGUOUS,
        )
    single = 0
    if twice.size and mapping.ambiguous in ("in_order", "pairs"):
        second, alone, unknown = _seconds_of_pairs(clock, index, channel)
        instants[second] = clock.late[index[second]]
        left_out = np.append(unknown, alone if mapping.ambiguous == "pairs" else unknown[:0])
        is_real[left_out] = False
        single = left_out.size
    length, are_inclusive = mapping.interval_seconds, False
    if table.chosen.end is not None:
        length = _length(table, clock, index[is_real], is_real, mapping)
        shortest = _short_by(instants[is_real], clock.shown[index][is_real], length)
        if mapping.ends == "recognise" and shortest > 1:
            raise InputError(
                f"intervals of {table.path} must last until the next one begins",
                "ends a minute before that",
                'set ends = "inclusive" in [connect.files] where an end is the last minute of its interval',
            )
        are_inclusive = mapping.ends == "recognise" and shortest == 1
        if are_inclusive and (clock.shown[index][is_real] % _MINUTE == 1).all():
            raise InputError(
                f"intervals of {table.path} must begin where the one before ends",
                "starts one second later, as 08:00:01 to 09:00:00",
                "correct the starts, or name their length with interval_seconds in place of end",
            )
        if mapping.ends == "inclusive":
            length += max(shortest, 1)
        length += are_inclusive
    early = 0 if table.chosen.end is not None else _early_by(instants[is_real])
    if mapping.kind == "total":  # of that moment, whatever it ends
        instants, early = instants + early, 0
    if early and mapping.times_are is None:
        raise InputError(
            f"{table.what(table.chosen.start)} must be the beginnings of intervals",
            f"times {early} s before full ones, as 08:59 is before nine o'clock: they look like the ends",
            'set times_are = "end" in [connect.files], or times_are = "start" if they are none',
        )
    if mapping.times_are == "end":
        length = length or interval_seconds(instants[is_real])
        instants = instants + early - length
    dropped = int((~is_real).sum()) - single
    return Starts(instants, is_real, length, dropped, are_inclusive, clock.are_numbers, single, skipped)


def _early_by(instants: Integers) -> int:
    """1 where all of several times are that many seconds before a minute, 60 before a quarter; else 0."""
    if np.unique(instants[:_MANY]).size < 2:
        return 0
    units = ((1, _MINUTE), (_MINUTE, _QUARTER))
    return next((unit for unit, full in units if not ((instants + unit) % full).any()), 0)


def _short_by(starts: Integers, shown: Integers, length: int) -> int:
    """By how much all intervals (of ``length``) end before the next begins: a second, a minute; else 0.

    They begin whole multiples of the longer length apart, two of them one; ends to the minute count as such
    only beside starts to the minute. Times are in whole seconds here: 08:59:59.999 is 08:59:59.
    """
    times = np.unique(starts)
    gaps = times[1:] - times[:-1]
    units = (1, _MINUTE) if not (shown % _MINUTE).any() and length % _MINUTE == 0 else (1,)
    for unit in units:
        if gaps.size and (gaps % (length + unit) == 0).all() and gaps.min() == length + unit:
            return unit
    return 0


def _seconds_of_pairs(
    clock: _Clock, index: Integers, channel: Integers | None
) -> tuple[Integers, Integers, Integers]:
    """The rows that are the second of their channel and time, those without a second, and undecided pairs.

    Around such a night a channel's rows stand in the order of time or newest first, as two alone do if the
    file does; otherwise nobody knows which of two came first.
    """
    nights = np.unique(clock.shown[(clock.early != clock.late) & clock.is_real] // _DAY)
    is_near = np.isin(clock.shown // _DAY, np.add.outer(nights, (-1, 0, 1)))
    near = np.flatnonzero(is_near[index])
    shown, early, late = (each[index[near]] for each in (clock.shown, clock.early, clock.late))
    of = np.searchsorted(nights, shown // _DAY - 1)
    if channel is not None:
        of = of * (channel.max() + 2) + channel[near] + 1
    rows = np.stack([of, shown, early, late])
    second, is_ordered = _in_order(*rows)
    other, is_reversed = (each[::-1] for each in _in_order(*rows[:, ::-1]))
    is_back = is_reversed & (~is_ordered | (clock.shown[index[0]] > clock.shown[index[-1]]))
    is_pair, is_known = second | other, is_ordered | is_reversed
    is_second = np.where(is_back, other, second) & is_known
    return near[is_second], near[(early != late) & ~is_pair], near[is_pair & ~is_known]


def _in_order(
    of: Integers, shown: Integers, early: Integers, late: Integers
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Which rows are the second of two if they stand in the order of time, and whether all ``of`` one do."""
    by_time = np.lexsort((shown, of))
    again = np.append(False, (np.diff(shown[by_time]) == 0) & (np.diff(of[by_time]) == 0))
    second = np.zeros(of.size, dtype=bool)
    second[by_time] = again & (early != late)[by_time]
    in_file = np.argsort(of, kind="stable")
    is_next = np.diff(of[in_file]) == 0

    def falls(times: Integers) -> NDArray[np.bool_]:
        return np.isin(of, of[in_file][1:][is_next & (np.diff(times[in_file]) < 0)])

    return second, ~(falls(np.where(second, late, early)) & falls(shown))


def _clock(table: ArchiveTable, name: str, coded: Coded, mapping: FilesMap) -> _Clock:
    what, where = table.what(name), table.where(coded)
    cells = coded.values.column(0).combine_chunks()
    times = parse_times(cells, what, mapping.time_format, mapping.wall_clock, where)
    if times.are_ends and name == table.chosen.start and mapping.times_are is None:
        raise InputError(
            f"{what} must be the beginnings of intervals",
            "days from 1 to 24 o'clock without midnight at 0: they look like the ends",
            'set times_are = "end" in [connect.files], or times_are = "start" if they are none',
        )
    is_utc = times.is_local and _OF_UTC.search(name) is not None
    if is_utc and name == table.chosen.start:
        table.remarks.append(f"Times of {what} are taken as UTC, as it is called.")
    if is_utc or not times.is_local:
        everywhere = np.ones(times.seconds.size, dtype=bool)
        return _Clock(times.seconds, times.seconds, times.seconds, everywhere, times.are_numbers)
    if mapping.timezone is None:
        raise InputError(
            f"the time zone of {what} must be known, as its times are those of a clock on the wall",
            "nothing",
            'set timezone = "Europe/Vienna" in [connect.files]; UTC if they are of it',
        )
    check_zone(mapping.timezone)
    days = calendar_days(times.seconds, mapping.timezone)
    if days is not None:
        return _Clock(times.seconds, days, days, np.ones(days.size, dtype=bool))
    found = local_times(times.seconds, mapping.timezone)
    return _Clock(times.seconds, found.early, found.late, found.is_shown)


def _length(
    table: ArchiveTable, starts: _Clock, index: Integers, is_kept: NDArray[np.bool_], mapping: FilesMap
) -> int:
    """The one length of all intervals, by the clock or as time passes: they differ twice a year."""
    name = str(table.chosen.end)
    coded = table.full(name, "a time")
    ends, at = _clock(table, name, coded, mapping), coded.at[is_kept]
    shown = ends.shown[at] - starts.shown[index]
    usual = int(np.bincount(shown[shown > 0]).argmax()) if (shown > 0).any() else 0
    fits = (
        (shown == usual)
        | (ends.early[at] - starts.early[index] == usual)
        | (ends.late[at] - starts.late[index] == usual)
        | (ends.late[at] - starts.early[index] == usual)
    )
    if usual <= 0:
        raise InputError(
            f"intervals of {table.path} must end after they start",
            "none that does",
            "correct start and end of the mapping, or name the length with interval_seconds in place of end",
        )
    if not fits.all():
        raise InputError(
            f"intervals of {table.path} must all have one length, and end after they start",
            f"{int((~fits).sum()):,} rows that do not last {usual:,} s as most do",
            "give each resolution in a file of its own, and inclusive ends apart from exclusive ones",
        )
    return usual


# Cells as whole counts: an empty one is "not counted" and never 0, decimals are as declared.


def whole_counts(table: ArchiveTable, name: str, mapping: FilesMap) -> tuple[NDArray[np.int64], int]:
    """The count of each row, :data:`NOT_COUNTED` where a cell is empty, and how many were rounded."""
    digits = None if mapping.missing else table.digits(name)
    if digits is not None and digits.max() <= MAX_COUNT:
        return digits, 0
    coded = table.coded(name)
    text = count_cells(coded.values.column(0).combine_chunks(), table.what(name), mapping, table.where(coded))
    form = r"^[0-9]{1,13}(\.0+)?$" if mapping.decimals == "refuse" else r"^[0-9]{1,13}(\.[0-9]{1,20})?$"
    good = np.asarray(pc.fill_null(pc.match_substring_regex(text, form), True), dtype=bool)
    bad = ~np.append(good, True)  # the last is of rows without a cell, whose code is -1
    row = np.flatnonzero(bad[coded.at]) if bad.any() else np.zeros(0, dtype=np.int64)
    if row.size:
        if mapping.decimals == "refuse" and _has_any(text, r"^[0-9]+\.[0-9]+$"):
            remedy = 'set decimals = "round" and largest_factor in [connect.files] if they were scaled'
        elif _has_any(text, "^[0-9]+,[0-9]+$"):
            remedy = 'set decimal = "," in [connect.files] if a comma is the decimal mark'
        elif _has_any(text, r"^-[0-9]+(\.0*)?$"):
            mark = (
                'set missing = "-1"' if _has_any(text, r"^-1(\.0*)?$") else 'name it, like missing = "-999",'
            )
            remedy = f"if it marks what was not counted, {mark} in [connect.files]"
        else:
            remedy = "correct it, or name it in ignore of [connect.files]"
        raise InputError(
            f"{table.what(name)} must hold whole counts of 0 or more, or nothing where nobody counted",
            f"something else in {row.size:,} rows, the first is {table.place(int(row[0]))}",
            remedy,
        )
    text = pc.if_else(pa.array(good), text, None)  # others are of rows that `where` leaves out
    exact = np.asarray(pc.fill_null(pc.cast(text, pa.float64()), NOT_COUNTED), dtype=np.float64)
    values = np.floor(exact + 0.5).astype(np.int64)
    if values.size and values.max() > MAX_COUNT:
        raise InputError(
            f"{table.what(name)} must hold counts up to {MAX_COUNT}", "a larger one", "correct it"
        )
    rounded = np.append(values != exact, False)
    several = int(rounded[coded.at].sum()) if rounded.any() else 0
    return np.append(values, NOT_COUNTED)[coded.at], several


def _has_any(text: Any, form: str) -> bool:
    return bool(pc.any(pc.match_substring_regex(text, form)).as_py())


def least_share(table: ArchiveTable, name: str, least: float) -> NDArray[np.bool_]:
    """Where a counter worked for at least this share of the interval; an empty cell is none."""
    coded = table.coded(name)
    try:
        cells: Any = pc.cast(coded.values.column(0), pa.float64())
        share = np.asarray(pc.fill_null(cells, 0.0), dtype=np.float64)
    except pa.ArrowException:
        share = np.array([np.nan])
    if not ((share >= 0) & (share <= 1)).all():
        raise InputError(f"{table.what(name)} must hold shares from 0 to 1", "something else", "correct it")
    return np.append(share >= least, False)[np.where(coded.at < 0, share.size, coded.at)]


# Intervals times channels, at most: one time with a wrong year would fill the memory otherwise.
_CELLS, _CELLS_A_ROW = 10_000_000, 1000


@dataclass(frozen=True)
class ArchiveSteps:
    """The steps that counts are brought to; without, they keep their own intervals from the first one on."""

    origin_seconds: int
    step_seconds: int
    windows: Mapping[str, CountingWindow] = field(default_factory=dict)
    """Those of the deployment's sensors: their counts are of whole windows, placed in the last steps."""


@dataclass(frozen=True)
class _Cells:
    """One cell a row: the start of its interval in unix seconds, its channel, people or NOT_COUNTED."""

    instants: Integers
    channel: Integers
    count: Integers
    seconds: int | None
    remarks: tuple[str, ...]
    are_numbers: bool = False

    def only(self, kept: NDArray[np.bool_]) -> _Cells:
        """Those of them that are kept."""
        if kept.all():
            return self
        instants, channel, count = self.instants[kept], self.channel[kept], self.count[kept]
        return replace(self, instants=instants, channel=channel, count=count)


def _joined(parts: Sequence[_Cells]) -> _Cells:
    """Those of several files, of intervals of one length."""
    return _Cells(
        np.concatenate([part.instants for part in parts]),
        np.concatenate([part.channel for part in parts]),
        np.concatenate([part.count for part in parts]),
        parts[0].seconds,
        tuple(remark for part in parts for remark in part.remarks),
        any(part.are_numbers for part in parts),
    )


def read_archive(
    paths: Sequence[Path],
    mapping: FilesMap,
    steps: ArchiveSteps | None = None,
    progress: Progress = lambda size: None,
    latest_seconds: float = math.inf,
) -> CountTable:
    """The counts of all files together; :class:`InputError` says what is wrong, and never shows a count.

    An interval that ends after ``latest_seconds`` is not over: what a file says of it is no count yet.
    """
    most = check_mapping(mapping)
    names = SiteNames(mapping)
    parts = [_cells(ArchiveTable(path, mapping, progress), mapping, names) for path in paths]
    lengths = {part.seconds for part in parts}
    if len(lengths) > 1:
        raise InputError(
            "all files must have intervals of one length",
            " and ".join(f"{length} s" for length in sorted(filter(None, lengths))),
            "bring in each resolution on its own; the same people would be published twice",
        )
    cells = parts[0] if len(parts) == 1 else _joined(parts)
    interval = cells.seconds or interval_seconds(cells.instants)
    early = (cells.instants > latest_seconds - interval) & (cells.count != NOT_COUNTED)
    if early.any():
        cells = replace(cells, count=np.where(early, NOT_COUNTED, cells.count))
    counted = cells.only(cells.count != NOT_COUNTED).instants
    if not counted.size:
        found = "intervals that are not over only" if early.any() else "empty cells only"
        raise InputError("the files must hold counts", found, "check `count` of the mapping, and its times")
    grid = steps or ArchiveSteps(int(counted.min()), interval)
    cells = cells.only((cells.instants >= counted.min()) & (cells.instants <= counted.max()))
    rows_seconds = _row_seconds(grid, interval, names.sensors)
    table, dropped = _by_interval(cells, replace(grid, step_seconds=rows_seconds), interval, names, mapping)
    are_totals = mapping.kind == "total"
    kept = names.answered(mapping.keep)
    length = None if mapping.end else interval
    ask_about(table, names.texts, kept, are_totals=are_totals, by_place=not mapping.sensor, interval=length)
    table, unknown = differences(table) if are_totals else (table, 0)
    devices = tuple(remarks_of(table, names.texts, interval))
    table, partial = _by_step(table, rows_seconds // interval)
    table, without = _by_sensor(table, names)
    table = np.ascontiguousarray(table)
    np.maximum(table, NOT_COUNTED, out=table)
    if any(name in grid.windows for name in names.sensors):
        table, in_part = _in_windows(table, grid, rows_seconds, names.sensors, mapping)
        partial += in_part
    remarks = [*cells.remarks]
    for number, what in (
        (unknown, "differences are not known: a reset, or a total that is missing"),
        (int(early.sum()), "counts are of intervals that are not over: taken as not counted"),
        (dropped, "counts stood with others of the same channel and interval: none of them was taken"),
        (partial, "steps of a channel were counted in part: taken as not counted"),
        (without, "counts of a sensor lacked a channel: taken as not counted"),
    ):
        remarks += [f"{number:,} {what}."] if number else []
    remarks += devices
    origin = datetime.fromtimestamp(grid.origin_seconds, UTC)
    zone = mapping.timezone or "UTC"
    if most > 1:
        remarks.append(
            f"One person moves a count by up to {most}: the sensors declare most_counts of {most}."
        )
    ever = (table != NOT_COUNTED).any(axis=0)
    sensors = tuple(name for name, counts in zip(names.sensors, ever.tolist(), strict=True) if counts)
    if not ever.all():
        silent = [name for name in names.sensors if name not in sensors]
        remarks.append(f"{len(silent):,} sensors have no count at all, and are left out: {some_of(silent)}.")
        table = table[:, ever]
    return CountTable(sensors, table, origin, grid.step_seconds, zone, tuple(remarks), most)


def _row_seconds(grid: ArchiveSteps, interval: int, sensors: Sequence[str]) -> int:
    """The length of a row: a step; an interval where it is longer, and only windows are counted."""
    has_steps = any(name not in grid.windows for name in sensors)
    is_longer = interval > grid.step_seconds and interval % grid.step_seconds == 0
    return interval if is_longer and not has_steps else grid.step_seconds


def _in_windows(
    table: Integers, grid: ArchiveSteps, row_seconds: int, sensors: Sequence[str], mapping: FilesMap
) -> tuple[Integers, int]:
    """``table[row, sensor]`` as ``table[step, sensor]``, windows in their last steps; and how many in part.

    A window is counted where all its rows are; one that the sensor does not publish is left out.
    """
    steps_a_row = row_seconds // grid.step_seconds
    placed = np.full((len(table) * steps_a_row, len(sensors)), NOT_COUNTED, dtype=np.int64)
    partial = 0
    for column, name in enumerate(sensors):
        own = grid.windows.get(name)
        if own is None:
            placed[:, column] = table[:, column]
            continue
        seconds = own.steps * grid.step_seconds
        _check_interval(row_seconds, seconds, mapping, what="window")
        parts = seconds // row_seconds
        rows = -(-len(table) // parts) * parts
        counts = np.full(rows, NOT_COUNTED, dtype=np.int64)
        counts[: len(table)] = table[:, column]
        split = counts.reshape(-1, parts)
        whole = (split != NOT_COUNTED).all(axis=1)
        partial += int(((split != NOT_COUNTED).any(axis=1) & ~whole).sum())
        ends = np.arange(1, len(split) + 1) * own.steps - 1
        kept = whole & (ends >= own.first_end)
        placed[ends[kept], column] = split.sum(axis=1)[kept]
    return placed, partial


def check_mapping(mapping: FilesMap) -> int:
    """How many counts of a step one person stands for; :class:`SettingsError` for what no file can mend.

    A count that was scaled by uptime was multiplied by up to 1 / least_uptime.
    """
    if mapping.column_pattern is not None:
        column_form(mapping.column_pattern)
    factor = mapping.largest_factor
    if mapping.uptime is not None and factor is not None and mapping.least_uptime * factor < 1.0 - 1e-9:
        raise SettingsError(
            "largest_factor must be at least 1 / least_uptime",
            f"{factor:g}, with counts of intervals counted in {mapping.least_uptime:g} of them",
            "set it so, or a larger least_uptime",
        )
    return most_counts_of(mapping)


def _cells(table: ArchiveTable, mapping: FilesMap, names: SiteNames) -> _Cells:
    chosen = table.chosen
    remarks = table.remarks
    kept = np.ones(table.rows, dtype=bool)
    if chosen.uptime is not None:
        kept = least_share(table, chosen.uptime, mapping.least_uptime)
        if not kept.all():
            remarks.append(
                f"{int((~kept).sum()):,} rows of {table.path.name} were counted in less than "
                f"{mapping.least_uptime:g} of the interval: taken as not counted."
            )
    several = len(chosen.count) > 1
    channels = [names.of_rows(table, name if several else "") for name in chosen.count]
    starts = interval_starts(table, mapping, channels[0] if channels else None)
    columns = chosen.count or [each.name for each in chosen.wide]
    found = [whole_counts(table, name, mapping) for name in columns]
    for each in chosen.wide:
        channels.append(np.full(table.rows, names.numbered(each.sensor, each.channel), dtype=np.int64))
    counts = _side_by_side([count for count, _ in found])
    counts = counts if kept.all() else np.where(kept[:, None], counts, NOT_COUNTED)
    starts.require_real(counts, mapping)
    row: Any = slice(None) if starts.kept.all() else np.flatnonzero(starts.kept)
    channel = _side_by_side(channels)[row].ravel()
    taken = channel >= 0
    if not taken.all():
        remarks.append(f"{int((~taken).sum()):,} counts of {table.path.name} are of what ignore names.")
    remarks += _remarks(table, starts, sum(each for _, each in found))
    instants = starts.instants[row]
    instants = np.repeat(instants, len(columns)) if len(columns) > 1 else instants
    cells = _Cells(instants, channel, counts[row].ravel(), starts.seconds, tuple(remarks), starts.are_numbers)
    return cells.only(taken)


def _side_by_side(columns: Sequence[Integers]) -> Integers:
    """The columns (N, columns), not copied where it is one."""
    return np.stack(columns, axis=1) if len(columns) > 1 else columns[0][:, None]


def _remarks(table: ArchiveTable, starts: Starts, rounded: int) -> list[str]:
    remarks = []
    if rounded:
        remarks.append(
            f"{rounded:,} counts of {table.path.name} had decimals: rounded to whole people. "
            "Ceilings do not hold for counts that were filled in from other hours."
        )
    if starts.are_inclusive:
        remarks.append(
            f"Intervals of {table.path.name} end just before the next one begins: their ends are taken as "
            f'inclusive (ends = "exclusive" in [connect.files] takes them as they are).'
        )
    if starts.are_numbers:
        remarks.append(
            f"Numbers of {table.what(table.chosen.start)} are taken as unix seconds; {_WALL_CLOCK}."
        )
    if starts.single:
        remarks.append(
            f"{starts.single:,} rows of {table.path.name} stand once where the clock shows the hour twice, "
            "or out of order, and may be of either hour or of both: taken as not counted. If a time is kept "
            "all year, the zone is one like Etc/GMT-1."
        )
    if starts.dropped:
        remarks.append(
            f"{starts.dropped:,} rows of {table.path.name} are of hours that the clock skips: not counted."
        )
    return remarks


def _by_interval(
    cells: _Cells, grid: ArchiveSteps, interval: int, names: SiteNames, mapping: FilesMap
) -> tuple[Integers, int]:
    """``table[interval, channel]``, whole steps of it, and how many repeated counts were dropped."""
    _check_interval(interval, grid.step_seconds, mapping)
    flat = cells.instants - grid.origin_seconds  # since then; in the end, where each cell stands
    if flat.min() < 0:
        first = datetime.fromtimestamp(int(cells.instants.min()), UTC)
        raise InputError(
            "counts must not be earlier than step 0",
            f"{int((flat < 0).sum()):,} that are, the first of {first:%Y-%m-%d %H:%M} UTC",
            f"set origin = {first:%Y-%m-%dT%H:%M:%SZ} in the settings of a new deployment, or leave them out",
        )
    if (but_repeated(flat) % interval).any():
        raise InputError(
            f"intervals of {interval:,} s must start as the steps do, a multiple of them after step 0",
            f"{int((flat % interval != 0).sum()):,} counts that start in between",
            "set origin to the start of an interval, or name the length with interval_seconds",
        )
    parts = grid.step_seconds // interval
    rows = (int(flat.max()) // grid.step_seconds + 1) * parts
    if rows * names.channels > max(_CELLS, _CELLS_A_ROW * flat.size):
        raise InputError(
            "counts must lie close together in time, soon after step 0",
            f"{rows:,} intervals of {interval} s, few of them with counts",
            "look for a time of another year in the file, set time_format, or origin near the first count",
        )
    flat //= interval
    flat += cells.channel * rows
    table, count = np.full(names.channels * rows, ABSENT, dtype=np.int64), cells.count
    by_interval = table.reshape(names.channels, rows).T  # each channel's counts lie side by side
    is_count = count != NOT_COUNTED
    if not is_count.all():
        table[flat] = NOT_COUNTED
        flat, count = flat[is_count], count[is_count]
    table[flat] = count
    if np.count_nonzero(table >= 0) == flat.size:
        return by_interval, 0
    times = np.bincount(flat, minlength=table.size)
    again = times > 1
    if mapping.repeated == "refuse":
        number = int(again.reshape(names.channels, rows).any(axis=0).argmax())
        zone = mapping.timezone or "UTC"
        at = datetime.fromtimestamp(grid.origin_seconds + number * interval, ZoneInfo(zone))
        raise InputError(
            "each channel must be counted once in an interval",
            f"{int(again.sum()):,} that have several counts, the first at {at:%Y-%m-%d %H:%M} {zone}",
            "name the column of directions or lanes as channel, take out rows that stand twice, or take "
            'neither: set repeated = "drop" in [connect.files]'
            + (f"; {_WALL_CLOCK}" if cells.are_numbers else ""),
        )
    table[again] = NOT_COUNTED
    return by_interval, int(times[again].sum())


def _check_interval(interval: int, step: int, mapping: FilesMap, what: str = "step") -> None:
    if step % interval or interval > step:
        raise InputError(
            f"intervals must fill the settings' {what}s of {step:,} s",
            f"intervals of {interval:,} s",
            'set ends = "inclusive" in [connect.files] where an end is the last second of its interval'
            if mapping.end and step % (interval + 1) == 0
            else f"set step_seconds = {interval} in a new deployment",
        )
    if interval < step and mapping.shorter == "refuse":
        raise InputError(
            f"an interval must be a {what} of {step:,} s, as the settings say",
            f"intervals of {interval:,} s",
            'set shorter = "sum" in [connect.files] to add them up, or step_seconds in a new deployment',
        )


def _by_step(table: Integers, parts: int) -> tuple[Integers, int]:
    """Sums of the intervals of a step where all were counted, and how many were in part."""
    if parts == 1:
        return table, 0
    split = table.reshape(-1, parts, table.shape[1])
    counted = split >= 0
    whole, some = counted.all(axis=1), counted.any(axis=1)
    without = np.where((split == ABSENT).all(axis=1), ABSENT, NOT_COUNTED)
    return np.where(whole, split.sum(axis=1), without), int((some & ~whole).sum())


def _by_sensor(table: Integers, names: SiteNames) -> tuple[Integers, int]:
    """Sums of the channels of each sensor, where every channel at work was counted."""
    columns, lacking = [], 0
    for channels in names.by_sensor().values():
        part = table[:, channels]
        if len(channels) > 1:
            counted = part >= 0
            whole = (counted | ~_is_at_work(part)).all(axis=1) & counted.any(axis=1)
            lacking += int((counted.any(axis=1) & ~whole).sum())
            part = np.where(whole, np.where(counted, part, 0).sum(axis=1), NOT_COUNTED)[:, None]
        columns.append(part)
    return np.concatenate(columns, axis=1), lacking


def _is_at_work(table: Integers) -> NDArray[np.bool_]:
    """Where each channel is between its first count and its last row, whether that row is empty or not."""
    begun = np.logical_or.accumulate(table >= 0, axis=0)
    goes_on = np.logical_or.accumulate((table != ABSENT)[::-1], axis=0)[::-1]
    return begun & goes_on


# Counts that were understood, as files: messages for a deployment, or a table for `tallyguard init`.

MESSAGES, TABLES = ".jsonl", (".parquet", ".csv")


def require_new_file(path: Path) -> None:
    """:class:`OutputError` for a file that is there already, or is of no kind that can be written."""
    if path.suffix.lower() not in (MESSAGES, *TABLES):
        raise OutputError(
            "--output must end in .jsonl (messages) or .parquet or .csv (a table)",
            path.name,
            "choose one of them",
        )
    if path.exists():
        raise OutputError("--output must be a new file", path, "choose another name, or remove it")


def write_counts(path: Path, counts: CountTable, windows: Mapping[str, CountingWindow] = NO_WINDOWS) -> None:
    """Write them as the name's end says, whole or not at all, readable by the owner only.

    As messages, sensors with ``windows`` are announced with the last steps of these.
    """
    require_new_file(path)
    make_folder(path.parent)
    with private_file(path) as file:
        if path.suffix.lower() == MESSAGES:
            file.writelines(message_lines(counts, windows))
        elif path.suffix.lower() == ".csv":
            names = tuple(map(safe_cell, counts.sensors))
            pa_csv.write_csv(_table(replace(counts, sensors=names)), file)
        else:
            pq.write_table(_table(counts), file)


def _table(counts: CountTable) -> pa.Table:
    """``time`` (start, UTC), ``sensor`` and ``count``, what was counted only; ``most_counts`` above 1."""
    step, sensor = np.nonzero(counts.table != NOT_COUNTED)
    seconds = int(counts.origin.timestamp()) + step * counts.step_seconds
    again = {} if counts.most_counts == 1 else {MOST_COUNTS: pa.array(np.full(step.size, counts.most_counts))}
    index, texts = pa.array(sensor, pa.int32()), pa.array(counts.sensors, pa.string())
    return pa.table(
        {
            "time": pa.array(seconds, pa.timestamp("s", "UTC")),
            "sensor": pa.DictionaryArray.from_arrays(index, texts).cast(pa.string()),
            "count": pa.array(counts.table[step, sensor]),
            **again,
        }
    )
