"""A whole log of releases over windows in single steps, as runs bring them there one step after the other."""

from __future__ import annotations

from collections.abc import Iterable

from models.releases import RevealedAmount, RevealedMove, SensorRelease, StepSchedule, WindowRelease
from models.releases.fine_steps import ShownPlaces, in_step, revealed_in_steps, shown_places


def shown_steps(steps: int, releases: Iterable[WindowRelease]) -> list[StepSchedule]:
    """Steps ``0..steps - 1`` of a log with these releases, in the form that accounts know."""
    shown: list[list[ShownPlaces]] = [[] for _ in range(steps)]
    revealed: list[list[RevealedMove | RevealedAmount]] = [[] for _ in range(steps)]
    plain: list[list[SensorRelease]] = [[] for _ in range(steps)]
    for release in releases:
        if release.as_step is not None:
            plain[release.first].append(release.as_step)
            continue
        for part in shown_places(release):
            shown[release.first + part.places.offset].append(part)
        for offset, own in revealed_in_steps(release):
            revealed[release.first + offset].append(own)
    return [
        in_step(step, tuple(plain[step]), tuple(shown[step]), tuple(revealed[step])) for step in range(steps)
    ]
