"""Counts by step and sensor, as they are read from files and written to a deployment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from typing import NamedTuple
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from models.calendar import Calendar
from models.text import number_of
from stream_app.exceptions import InputError
from stream_app.starting.counts.doubts import NOT_COUNTED, some_of

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
        return self.calendar(self.slots).first_slot

    def calendar(self, cycle: int, holidays: Sequence[date] = ()) -> Calendar:
        """The clock on the wall, which says in which slot of a cycle of a day or a week each step is."""
        origin, days = int(self.origin.timestamp()), tuple(holidays)
        return Calendar(self.zone, origin, self.step_seconds, holidays=days).from_monday(cycle)

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
        counted = (table != NOT_COUNTED).any(axis=0)
        names, silent = (
            [self.sensors[index] for index in np.flatnonzero(each)] for each in (counted, ~counted)
        )
        left = (
            f"{number_of(len(silent), 'sensor')} without a count in these days left out: {some_of(silent)}."
        )
        remarks = (*self.remarks, left) if silent else self.remarks
        return replace(self, sensors=tuple(names), table=table[:, counted], origin=origin, remarks=remarks)

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

    def announced(self) -> Iterator[tuple[str, ...]]:
        """The sensors of each step: each from its first count to its last; no gap reveals a count."""
        counted = self.table != NOT_COUNTED
        first = counted.argmax(axis=0)
        last = len(counted) - 1 - counted[::-1].argmax(axis=0)
        ever = counted.any(axis=0)
        changed = {0, *first[ever].tolist(), *(last[ever] + 1).tolist()}
        names: tuple[str, ...] = ()
        for step in range(len(counted)):
            if step in changed:
                at_work = (first <= step) & (step <= last) & ever
                names = tuple(self.sensors[index] for index in np.flatnonzero(at_work))
            yield names

    def _time_of(self, step: int) -> datetime:
        """When a step begins, on the clock on the wall."""
        instant = self.origin.timestamp() + step * self.step_seconds
        return datetime.fromtimestamp(instant, ZoneInfo(self.zone))


def but_repeated(instants: NDArray[np.int64]) -> NDArray[np.int64]:
    """Those that differ from the one before: rows of many sensors come hour by hour."""
    is_another = np.append(True, instants[1:] != instants[:-1])
    return np.asarray(instants[is_another[: instants.size]])


def interval_seconds(instants: NDArray[np.int64]) -> int:
    """The interval of counts at these times (unix seconds); :class:`InputError` where it is not one."""
    times = np.unique(but_repeated(instants))
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
