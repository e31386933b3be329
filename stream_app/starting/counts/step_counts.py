"""Counts by step and sensor, and the way from times and cells to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from stream_app.exceptions import InputError

_DAY = 86_400
NOT_COUNTED = -1
MOST_COUNTS = "most_counts"
"""Column of tables that are handed from command to command: by how much one person moves a count."""


@dataclass(frozen=True)
class Counts:
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

    def last_days(self, days: int) -> Counts:
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
