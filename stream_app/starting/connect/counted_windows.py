"""Counts of windows as connectors take them: whole ones, placed in their last steps."""

from __future__ import annotations

from typing import NamedTuple

from models.releases import CountingWindow
from stream_app.setup.given_priors import location_names
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings


class CountedWindows(NamedTuple):
    """Which windows a sensor publishes: of so many ``steps``, the first with the step ``first_end``."""

    steps: int
    first_end: int

    @classmethod
    def of(cls, window: CountingWindow) -> CountedWindows:
        """Those of a sensor's window."""
        return cls(window.steps, window.first_end)

    def ends_with(self, step: int) -> bool:
        """Whether a count is published with this step."""
        return step >= self.first_end and (step + 1) % self.steps == 0


def windows_of(settings: Settings) -> dict[str, CountedWindows]:
    """The windows that the deployment's sensors publish, where its sensors are known."""
    if settings.locations is None:
        return {}
    sensors = load_registry(settings.sensors, location_names(settings, "", "")).windowed
    return {each.name: CountedWindows.of(each.window) for each in sensors if each.window is not None}
