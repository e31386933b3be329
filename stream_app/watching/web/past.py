"""What the page shows of earlier steps: each step as the public saw it, and a week by sensor and hour.

Bounded: the last steps with at most :data:`MOST_RELEASES` releases, and of the week a row a sensor.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np

from models.calendar import zone_of
from models.mechanisms import public_error
from models.releases import SensorRelease
from stream_app.setup.settings import Settings

MOST_RELEASES = 200_000
HOURS = 168  # of a week, from Monday
MOST_ROWS = 50  # of the week in one answer
_NOTHING, SILENT, NOISED, RAW = -1, 0, 1, 2


class PastSteps:
    """Keeps steps and the week; the caller's lock protects it."""

    def __init__(self, about: Settings | None) -> None:
        self._about = about
        self._zone = zone_of(None if about is None else about.clock)
        self._steps: OrderedDict[int, tuple[Mapping[str, Any], int]] = OrderedDict()  # with how many releases
        self._releases = 0
        self._rows: dict[str, int] = {}
        self._bits, self._errors = (np.full((0, HOURS), np.nan, np.float32) for _ in range(2))
        self._kinds = np.full((0, HOURS), _NOTHING, np.int8)

    def note(
        self,
        step: int,
        releases: Sequence[SensorRelease],
        published: Mapping[str, int],
        bits: Mapping[str, float],
        shown: Mapping[str, Any],
    ) -> None:
        """One more closed step; the week has each sensor's latest release of an hour."""
        self._steps[step] = ({"step": step, "bits": bits, **shown}, len(releases))
        self._releases += len(releases)
        while self._releases > MOST_RELEASES and len(self._steps) > 1:
            self._releases -= self._steps.popitem(last=False)[1][1]
        hour = self._hour_of(step)
        self._grow(releases)
        for release in releases:
            name, mechanism = release.sensor.name, release.mechanism
            row = self._rows[name]
            is_shown = name in published
            self._bits[row, hour] = bits.get(name, np.nan)
            self._errors[row, hour] = public_error(mechanism) if is_shown else np.nan
            self._kinds[row, hour] = (RAW if mechanism.is_exact else NOISED) if is_shown else SILENT

    def at(self, step: int) -> Mapping[str, Any] | None:
        """A step; None where it is not kept."""
        found = self._steps.get(step)
        return None if found is None else found[0]

    @property
    def first(self) -> int | None:
        """The earliest step that is kept."""
        return next(iter(self._steps), None)

    def week(self, sensors: Sequence[str]) -> dict[str, Any]:
        """Of some sensors, a row each, what the latest release of each hour of the week was."""
        rows = [self._rows[name] for name in sensors[:MOST_ROWS] if name in self._rows]
        names = [name for name in sensors[:MOST_ROWS] if name in self._rows]
        return {
            "sensors": names,
            "bits": [_numbers(self._bits[row]) for row in rows],
            "errors": [_numbers(self._errors[row]) for row in rows],
            "kinds": [self._kinds[row].tolist() for row in rows],
        }

    def _grow(self, releases: Sequence[SensorRelease]) -> None:
        for release in releases:
            self._rows.setdefault(release.sensor.name, len(self._rows))
        more = len(self._rows) - len(self._kinds)
        if more > 0:
            empty = np.full((more, HOURS), np.nan, np.float32)
            self._bits, self._errors = (np.vstack((each, empty)) for each in (self._bits, self._errors))
            self._kinds = np.vstack((self._kinds, np.full((more, HOURS), _NOTHING, np.int8)))

    def _hour_of(self, step: int) -> int:
        """The hour of the week that a step begins in, by the deployment's clock."""
        if self._about is None:
            return step % HOURS
        seconds = self._about.origin_seconds + step * self._about.step_seconds
        try:
            begin = datetime.fromtimestamp(seconds, self._zone)
        except (ValueError, OverflowError, OSError):  # beyond the calendar
            return step % HOURS
        return 24 * begin.weekday() + begin.hour


def _numbers(values: np.ndarray[Any, np.dtype[np.float32]]) -> list[float | None]:
    return [None if np.isnan(value) else round(float(value), 5) for value in values]
