"""A whole log of releases over windows in single steps, as runs bring them there one step after the other."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from models.releases import (
    CountingWindow,
    MoveSensor,
    RevealedAmount,
    RevealedMove,
    Sensor,
    SensorRelease,
    StepSchedule,
    WindowRelease,
    together,
)
from models.releases.fine_steps import ShownPlaces, in_step, revealed_in_steps, shown_places


def shown_steps(steps: int, releases: Iterable[WindowRelease]) -> list[StepSchedule]:
    """Steps ``0..steps - 1`` of a log with these releases, in the form that accounts know."""
    shown: list[list[ShownPlaces]] = [[] for _ in range(steps)]
    revealed: list[list[RevealedMove | RevealedAmount]] = [[] for _ in range(steps)]
    others: list[list[ShownPlaces]] = [[] for _ in range(steps)]
    plain: list[list[SensorRelease]] = [[] for _ in range(steps)]
    whole: list[list[SensorRelease]] = [[] for _ in range(steps)]
    for release in releases:
        if release.as_step is not None:
            plain[release.first].append(release.as_step)
            continue
        if release.has_own_law and release.mechanism.is_released:
            whole[release.last].append(_published(release))
        for part in shown_places(release):
            shown[release.first + part.places.offset].append(part)
            if not release.has_own_law:
                others[release.first + part.places.offset].append(part)
        for offset, own in revealed_in_steps(release):
            revealed[release.first + offset].append(own)
    return [
        replace(
            in_step(step, tuple(plain[step]), tuple(shown[step]), tuple(revealed[step])),
            published=(*plain[step], *together(tuple(plain[step]), tuple(others[step])), *whole[step]),
        )
        for step in range(steps)
    ]


def _published(release: WindowRelease) -> SensorRelease:
    """A whole window as steps publish it."""
    moves = release.sensor.times_counted if isinstance(release.sensor, MoveSensor) else ()
    window = CountingWindow(release.last - release.first + 1, moves)
    places = sorted({place for move in moves for place in move[:2]})
    locations = tuple(places) if moves else release.sensor.locations
    sensor = Sensor(release.sensor.name, locations, most_counts=release.most_counts, window=window)
    return SensorRelease(sensor, release.mechanism)
