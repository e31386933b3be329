"""Counts by step and sensor, and the way from times and cells to them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime

import numpy as np
from numpy.typing import NDArray

from stream_app.exceptions import InputError

_DAY = 86_400
NOT_COUNTED = -1


@dataclass(frozen=True)
class Counts:
    """``table`` (steps, sensors) of counts, :data:`NOT_COUNTED` where there is none.

    Step 0 begins at ``origin``; ``first_hour`` is the hour of its local day. ``remarks`` say how the file was
    understood.
    """

    sensors: tuple[str, ...]
    table: NDArray[np.int64]
    origin: datetime
    step_seconds: int
    first_hour: int
    remarks: tuple[str, ...] = ()

    def last_days(self, days: int) -> Counts:
        """The last days alone; everything for 0 or more days than there are."""
        steps = days * _DAY // self.step_seconds
        if steps == 0 or steps >= len(self.table):
            return self
        skipped = len(self.table) - steps
        origin = datetime.fromtimestamp(self.origin.timestamp() + skipped * self.step_seconds, UTC)
        hour = (self.first_hour + skipped * self.step_seconds // 3600) % 24
        table = self.table[skipped:]
        counted = np.flatnonzero((table != NOT_COUNTED).any(axis=0))
        names = tuple(self.sensors[index] for index in counted)
        return Counts(names, table[:, counted], origin, self.step_seconds, hour, self.remarks)


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
