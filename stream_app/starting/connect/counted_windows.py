"""Counts of windows as connectors take them: whole ones, placed in their last steps."""

from __future__ import annotations

from models.releases import CountingWindow
from stream_app.setup.given_priors import location_names
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings


def windows_of(settings: Settings) -> dict[str, CountingWindow]:
    """The windows that the deployment's sensors publish, where its sensors are known."""
    if settings.locations is None:
        return {}
    sensors = load_registry(settings.sensors, location_names(settings, "", "")).windowed
    return {each.name: each.window for each in sensors if each.window is not None}
