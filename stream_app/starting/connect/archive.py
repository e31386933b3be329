"""An archive of counts, understood by a declared mapping: cells of files become counts by step and sensor."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from stream_app.exceptions import InputError, SettingsError
from stream_app.setup.declared import most_counts_of
from stream_app.setup.sections.connect_settings import FilesMap
from stream_app.starting.connect.archive_file import ArchiveTable, Progress
from stream_app.starting.connect.cell_counts import least_share, whole_counts
from stream_app.starting.connect.interval_starts import Integers, Starts, interval_starts
from stream_app.starting.connect.site_names import SiteNames
from stream_app.starting.counts.step_counts import NOT_COUNTED, Counts, interval_seconds

_ABSENT = NOT_COUNTED - 1  # no row at all; :data:`NOT_COUNTED` is a row with an empty cell
_CELLS, _CELLS_A_ROW = 10_000_000, 1000  # intervals times channels: one wrong year would fill the memory


@dataclass(frozen=True)
class ArchiveSteps:
    """The steps that counts are brought to; without, they keep their own intervals from the first one on."""

    origin_seconds: int
    step_seconds: int


@dataclass(frozen=True)
class _Cells:
    """One cell a row: the start of its interval in unix seconds, its channel, people or NOT_COUNTED."""

    instants: Integers
    channel: Integers
    count: Integers
    seconds: int | None
    remarks: tuple[str, ...]


def read_archive(
    paths: Sequence[Path],
    mapping: FilesMap,
    steps: ArchiveSteps | None = None,
    progress: Progress = lambda size: None,
    latest_seconds: float = math.inf,
) -> Counts:
    """The counts of all files together; :class:`InputError` says what is wrong, and never shows a count.

    An interval that ends after ``latest_seconds`` is not over: what a file says of it is no count yet.
    """
    most = most_counts_of(mapping)
    _check_uptime(mapping)
    names = SiteNames(mapping)
    parts = [_cells(ArchiveTable(path, mapping, progress), mapping, names) for path in paths]
    lengths = {part.seconds for part in parts}
    cells = _Cells(
        np.concatenate([part.instants for part in parts]),
        np.concatenate([part.channel for part in parts]),
        np.concatenate([part.count for part in parts]),
        lengths.pop() if len(lengths) == 1 else _one_length(lengths),
        tuple(remark for part in parts for remark in part.remarks),
    )
    interval = cells.seconds or interval_seconds(cells.instants)
    early = (cells.instants + interval > latest_seconds) & (cells.count != NOT_COUNTED)
    cells = replace(cells, count=np.where(early, NOT_COUNTED, cells.count))
    counted = cells.instants[cells.count != NOT_COUNTED]
    if not counted.size:
        found = "intervals that are not over only" if early.any() else "empty cells only"
        raise InputError("the files must hold counts", found, "check `count` of the mapping, and its times")
    grid = steps or ArchiveSteps(int(counted.min()), interval)
    cells = _between(cells, int(counted.min()), int(counted.max()))
    table, dropped = _by_interval(cells, grid, interval, names, mapping)
    table, partial = _by_step(table, grid.step_seconds // interval)
    table, without = _by_sensor(table, names)
    table = np.maximum(table, NOT_COUNTED)
    remarks = [*cells.remarks]
    for number, what in (
        (int(early.sum()), "counts are of intervals that are not over: taken as not counted"),
        (dropped, "counts stood with others of the same channel and interval: none of them was taken"),
        (partial, "steps of a channel were counted in part: taken as not counted"),
        (without, "counts of a sensor lacked a channel: taken as not counted"),
    ):
        remarks += [f"{number:,} {what}."] if number else []
    origin = datetime.fromtimestamp(grid.origin_seconds, UTC)
    zone = mapping.timezone or "UTC"
    if most > 1:
        remarks.append(
            f"One person moves a count by up to {most}: the sensors declare most_counts of {most}."
        )
    return Counts(names.sensors, table, origin, grid.step_seconds, zone, tuple(remarks), most)


def _check_uptime(mapping: FilesMap) -> None:
    """Who scales by uptime multiplies by what one divided by the least of it is, at most."""
    factor = mapping.largest_factor
    if mapping.uptime is not None and factor is not None and mapping.least_uptime * factor < 1.0 - 1e-9:
        raise SettingsError(
            "largest_factor must be at least 1 / least_uptime",
            f"{factor:g}, with counts of intervals counted in {mapping.least_uptime:g} of them",
            "set it so, or a larger least_uptime",
        )


def _between(cells: _Cells, first: int, last: int) -> _Cells:
    """The cells from the first count to the last one."""
    inside = (cells.instants >= first) & (cells.instants <= last)
    return _Cells(
        cells.instants[inside], cells.channel[inside], cells.count[inside], cells.seconds, cells.remarks
    )


def _one_length(lengths: set[int | None]) -> int:
    raise InputError(
        "all files must have intervals of one length",
        " and ".join(f"{length} s" for length in sorted(filter(None, lengths))),
        "bring in each resolution on its own; the same people would be published twice",
    )


def _cells(table: ArchiveTable, mapping: FilesMap, names: SiteNames) -> _Cells:
    chosen = table.chosen
    remarks: list[str] = []
    kept = np.ones(table.rows, dtype=bool)
    if chosen.uptime is not None:
        kept = least_share(table, chosen.uptime, mapping.least_uptime)
        if not kept.all():
            remarks.append(
                f"{int((~kept).sum()):,} rows of {table.path.name} were counted in less than "
                f"{mapping.least_uptime:g} of the interval: taken as not counted."
            )
    if chosen.sensor is not None:
        channel = names.of_rows(table)
        starts = interval_starts(table, mapping, channel)
        count, rounded = whole_counts(table, str(chosen.count), mapping.decimals)
        row = np.flatnonzero(starts.kept)
        cells = (starts.instants[row], channel[row], np.where(kept, count, NOT_COUNTED)[row])
    else:
        starts = interval_starts(table, mapping, None)
        found = [whole_counts(table, each.name, mapping.decimals) for each in chosen.wide]
        rounded = sum(each for _, each in found)
        values = np.where(kept[:, None], np.stack([count for count, _ in found], axis=1), NOT_COUNTED)
        numbers = np.array([names.of_column(each) for each in chosen.wide], dtype=np.int64)
        row = np.flatnonzero(starts.kept)
        cells = (
            np.repeat(starts.instants[row], numbers.size),
            np.tile(numbers, row.size),
            values[row].ravel(),
        )
    remarks += _remarks(table, starts, rounded)
    return _Cells(*cells, starts.seconds, tuple(remarks))


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
    since = cells.instants - grid.origin_seconds
    if (since < 0).any():
        first = datetime.fromtimestamp(int(cells.instants.min()), UTC)
        raise InputError(
            "counts must not be earlier than step 0",
            f"{int((since < 0).sum()):,} that are, the first of {first:%Y-%m-%d %H:%M} UTC",
            f"set origin = {first:%Y-%m-%dT%H:%M:%SZ} in the settings of a new deployment, or leave them out",
        )
    if (since % interval).any():
        raise InputError(
            f"intervals of {interval:,} s must start as the steps do, a multiple of them after step 0",
            f"{int((since % interval != 0).sum()):,} counts that start in between",
            "set origin to the start of an interval, or name the length with interval_seconds",
        )
    parts = grid.step_seconds // interval
    rows = (int(since.max()) // grid.step_seconds + 1) * parts
    if rows * names.channels > max(_CELLS, _CELLS_A_ROW * since.size):
        raise InputError(
            "counts must lie close together in time, soon after step 0",
            f"{rows:,} intervals of {interval} s, few of them with counts",
            "look for a time of another year in the file, set time_format, or origin near the first count",
        )
    flat = since // interval * names.channels + cells.channel
    is_count = cells.count != NOT_COUNTED
    times = np.bincount(flat[is_count], minlength=rows * names.channels)
    again = times > 1
    if again.any() and mapping.repeated == "refuse":
        number = int(again.argmax()) // names.channels
        at = datetime.fromtimestamp(grid.origin_seconds + number * interval, UTC)
        raise InputError(
            "each channel must be counted once in an interval",
            f"{int(again.sum()):,} that have several counts, the first at {at:%Y-%m-%d %H:%M} UTC",
            'name the column of directions or lanes as channel, or set repeated = "drop" in [connect.files]',
        )
    table = np.full(rows * names.channels, _ABSENT, dtype=np.int64)
    table[flat] = NOT_COUNTED
    table[flat[is_count]] = cells.count[is_count]
    table[again] = NOT_COUNTED
    return table.reshape(rows, names.channels), int(times[again].sum())


def _check_interval(interval: int, step: int, mapping: FilesMap) -> None:
    if step % interval or interval > step:
        raise InputError(
            f"intervals must fill the settings' steps of {step:,} s",
            f"intervals of {interval:,} s",
            'set ends = "inclusive" in [connect.files] where an end is the last second of its interval'
            if mapping.end and step % (interval + 1) == 0
            else f"set step_seconds = {interval} in a new deployment",
        )
    if interval < step and mapping.shorter == "refuse":
        raise InputError(
            f"an interval must be a step of {step:,} s, as the settings say",
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
    without = np.where((split == _ABSENT).all(axis=1), _ABSENT, NOT_COUNTED)
    return np.where(whole, split.sum(axis=1), without), int((some & ~whole).sum())


def _by_sensor(table: Integers, names: SiteNames) -> tuple[Integers, int]:
    """Sums of the channels of each sensor, where every channel at work was counted."""
    columns, lacking = [], 0
    for channels in names.channels_by_sensor():
        part = table[:, channels]
        if len(channels) > 1:
            counted = part >= 0
            whole = (counted | ~_is_at_work(part)).all(axis=1) & counted.any(axis=1)
            lacking += int((counted.any(axis=1) & ~whole).sum())
            part = np.where(whole, np.where(counted, part, 0).sum(axis=1), NOT_COUNTED)[:, None]
        columns.append(part)
    return np.concatenate(columns, axis=1), lacking


def _is_at_work(table: Integers) -> NDArray[np.bool_]:
    """Where each channel lies between its first count and its last row, an empty one included."""
    begun = np.logical_or.accumulate(table >= 0, axis=0)
    goes_on = np.logical_or.accumulate((table != _ABSENT)[::-1], axis=0)[::-1]
    return begun & goes_on
