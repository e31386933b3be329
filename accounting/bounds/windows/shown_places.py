"""A release over a window as raw counts of places in its fine steps, which reveal at least as much.

What a person adds is a function of the places at the ends of the moves in the window, so whoever is shown
the places knows it (data processing). A sensor on places is shown as it is, in each of its steps; for one on
moves the places it counts from, at the beginning of each move, and those it counts to, at its end.
"""

from __future__ import annotations

from collections.abc import Iterable

from models.mechanisms import Raw
from models.releases import MoveSensor, Sensor, SensorRelease, StepSchedule, WindowRelease

_RAW = Raw()


def shown_schedule(
    steps: int, shown: Iterable[WindowRelease], beside: Iterable[WindowRelease] = ()
) -> list[StepSchedule]:
    """Steps ``0..steps - 1`` with the places of releases, each place once a step.

    ``beside`` are releases of one step's presence, as they are.
    """
    counted: list[dict[tuple[int, ...], SensorRelease]] = [{} for _ in range(steps)]
    as_they_are: list[list[SensorRelease]] = [[] for _ in range(steps)]
    for release in beside:
        if release.as_step is not None:
            as_they_are[release.first].append(release.as_step)
    for release in shown:
        for step, locations in _places(release):
            name = "+".join(map(str, locations))
            counted[step].setdefault(locations, SensorRelease(Sensor(name, locations), _RAW))
    return [StepSchedule(step, (*as_they_are[step], *counted[step].values())) for step in range(steps)]


def _places(release: WindowRelease) -> Iterable[tuple[int, tuple[int, ...]]]:
    """Pairs of a step and the locations that a raw sensor counts together in it."""
    sensor = release.sensor
    for step in range(release.first, release.last + 1):
        if not isinstance(sensor, MoveSensor):
            yield step, sensor.locations
            continue
        for start, end, _ in sensor.times_counted:
            yield step - 1, (start,)
            yield step, (end,)
