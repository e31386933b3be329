"""When each row's interval starts: instants, also where a clock shows an hour twice or never."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.setup.sections.connect_settings import FilesMap
from stream_app.starting.connect.archive_file import ArchiveTable
from stream_app.starting.counts.times import check_zone, exists, parse_times

Integers = NDArray[np.int64]
_MINUTE = 60
_AMBIGUOUS = 'set ambiguous = "earlier", "later" or "in_order" in [connect.files]'


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


@dataclass(frozen=True)
class _Clock:
    """The different times of a column: what the clock shows, and the two instants that it may mean."""

    shown: Integers
    early: Integers
    late: Integers
    is_real: NDArray[np.bool_]


def interval_starts(table: ArchiveTable, mapping: FilesMap, channel: Integers | None) -> Starts:
    """The starts of all rows; :class:`InputError` for what the mapping leaves undecided.

    ``channel`` is that of each row; None where a row has all of them (wide files).
    """
    coded = table.full(table.chosen.start, "a time")
    clock = _clock(coded.values, table.chosen.start, mapping)
    index = coded.at
    is_real = clock.is_real[index]
    if not is_real.all() and mapping.nonexistent == "refuse":
        first = datetime.fromtimestamp(int(clock.shown[index][~is_real][0]), UTC)
        raise InputError(
            f"every time must exist on a clock in {mapping.timezone}",
            f"{int((~is_real).sum()):,} rows in an hour that it skips, the first {first:%Y-%m-%d %H:%M}",
            'correct timezone (Etc/GMT+8 if one time is kept all year), or set nonexistent = "drop"',
        )
    instants = np.where(mapping.ambiguous == "later", clock.late[index], clock.early[index])
    twice = np.flatnonzero((clock.early != clock.late)[index] & is_real)
    if twice.size and mapping.ambiguous == "refuse":
        first = datetime.fromtimestamp(int(clock.shown[index[twice[0]]]), UTC)
        raise InputError(
            f"each time must be of one hour in {mapping.timezone}",
            f"{twice.size:,} rows in an hour that the clock shows twice, the first {first:%Y-%m-%d %H:%M}",
            _AMBIGUOUS,
        )
    if twice.size and mapping.ambiguous == "in_order":
        later = twice[_is_second(twice, clock.shown[index], channel)]
        instants[later] = clock.late[index[later]]
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
    return Starts(instants, is_real, length, int((~is_real).sum()), are_inclusive)


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


def _is_second(rows: Integers, shown: Integers, channel: Integers | None) -> NDArray[np.bool_]:
    """Which of these rows follow another of their channel and time; newest-first files are read backwards."""
    place = -rows if shown[0] > shown[-1] else rows
    of = np.zeros_like(rows) if channel is None else channel[rows]
    order = np.lexsort((place, of, shown[rows]))
    same = (np.diff(shown[rows][order]) == 0) & (np.diff(of[order]) == 0)
    found = np.zeros(rows.size, dtype=bool)
    found[order[1:]] = same
    return found


def _clock(values: pa.Table, name: str, mapping: FilesMap) -> _Clock:
    times = parse_times(values, name, mapping.time_format, mapping.wall_clock)
    if not times.is_local:
        return _Clock(times.seconds, times.seconds, times.seconds, np.ones(times.seconds.size, dtype=bool))
    if mapping.timezone is None:
        raise InputError(
            f"the time zone of column {name!r} must be known, as its times are those of a clock on the wall",
            "nothing",
            'set timezone = "Europe/Vienna" in [connect.files], or give --timezone; UTC if they are of it',
        )
    check_zone(mapping.timezone)
    naive: Any = pa.array(times.seconds, pa.timestamp("s"))
    zone = mapping.timezone
    early = pc.assume_timezone(naive, zone, ambiguous="earliest", nonexistent="earliest")
    late = pc.assume_timezone(naive, zone, ambiguous="latest", nonexistent="latest")
    first, second = (np.asarray(pc.cast(each, pa.int64())) for each in (early, late))
    return _Clock(times.seconds, first, second, exists(times.seconds, mapping.timezone))


def _length(
    table: ArchiveTable, starts: _Clock, index: Integers, is_kept: NDArray[np.bool_], mapping: FilesMap
) -> int:
    """The one length of all intervals, by the clock or as time passes: they differ twice a year."""
    name = str(table.chosen.end)
    coded = table.full(name, "a time")
    ends, at = _clock(coded.values, name, mapping), coded.at[is_kept]
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
