"""Lines of a run's logs, as commands read them while the run may go on."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from stream_app.setup.run_folder.durable import parsed_line, whole_lines
from stream_app.setup.run_folder.run_settings import RunTimes
from stream_app.steps import Intervals, public_release
from stream_app.wire import SensorValue, StepRelease

# The public releases of a run as rows, a day at a time.


class ReleasedRow(NamedTuple):
    """What a sensor published of a step; ``value`` None where nothing was published, which is no 0.

    ``sigma`` is the noise's standard deviation in people, ``epsilon`` the privacy level of a tier in nats,
    ``version`` 2 and above for a corrected value. The count is from ``low`` to ``high`` with the declared
    probability; of what was suppressed there is no upper end.
    """

    step: int
    start: datetime
    end: datetime
    sensor: str
    mechanism: str
    sigma: float | None
    epsilon: float | None
    value: int | None
    version: int = 1
    low: int | None = None
    high: int | None = None


def released_days(
    folder: Path, intervals: Intervals | None = None
) -> Iterator[tuple[date, list[ReleasedRow]]]:
    """The days (UTC) of a run with what was released in each, in order, read while the run may go on.

    Of tiered releases only the public values. Without ``intervals`` they are those of the run.
    """
    intervals = intervals or Intervals.of_run(folder)
    times = RunTimes(folder)
    rows = (row for release in public_releases(folder) for row in rows_of(release, times, intervals))
    for day, of_day in groupby(rows, lambda row: row.start.date()):
        yield day, list(of_day)


def public_releases(folder: Path) -> Iterator[StepRelease]:
    """The public values of each step that is out, with late and corrected ones.

    Lines that only a commit holds are not noted beside the noise key yet: given away now, they could be drawn
    again with other counts from an older copy of the folder.
    """
    revised: dict[int, tuple[SensorValue, ...]] = {}  # late and corrected values by step
    for release in _out(folder / "revised.jsonl"):
        revised[release.step] = (*revised.get(release.step, ()), *release.releases)
    for release in _out(folder / "releases.jsonl"):
        later = revised.get(release.step, ())
        late = {entry.sensor for entry in later if entry.version is None}
        first = tuple(entry for entry in release.releases if entry.sensor not in late)
        yield public_release(release.model_copy(update={"releases": (*first, *later)}))


def _out(path: Path) -> Iterator[StepRelease]:
    return (parsed_line(StepRelease, path, line) for line in whole_lines(path))


def rows_of(release: StepRelease, times: RunTimes, intervals: Intervals) -> Iterator[ReleasedRow]:
    """The rows of one step."""
    for entry in release.releases:
        yield ReleasedRow(
            release.step,
            times.start(entry.first_step(release.step)),
            times.start(release.step + 1),
            entry.sensor,
            entry.mechanism,
            entry.sigma,
            entry.epsilon,
            entry.value,
            entry.version or 1,
            *intervals.of(entry),
        )
