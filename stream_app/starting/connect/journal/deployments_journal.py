"""The journal of a deployment's connector: its steps, its sensors, and what its mapping declares."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

from stream_app.exceptions import SettingsError
from stream_app.setup.declared import require_most_counts
from stream_app.setup.location_names import location_names
from stream_app.setup.sections.payload_settings import PayloadSettings
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.starting.connect.journal.count_journal import CountJournal
from stream_app.starting.connect.journal.step_fold import StepRules


def journal_of(
    folder: Path, settings: Settings, mapping: PayloadSettings, sensors: Sequence[str]
) -> CountJournal:
    """The journal in a connector's folder, which announces these sensors."""
    rules = StepRules(
        settings.origin_seconds,
        settings.step_seconds,
        sums_shorter=mapping.shorter == "sum",
        tolerance_seconds=mapping.tolerance_seconds,
        resets=mapping.resets,
        ends=mapping.ends,
    )
    return CountJournal(folder, rules, sensors, time.time, settings.max_ahead_seconds)


def announced_sensors(settings: Settings, mapping: PayloadSettings, table: str) -> tuple[str, ...]:
    """The deployment's sensors, or those that the mapping names; :class:`SettingsError` where neither is.

    ``table`` is where the mapping stands, as ``connect.http.map``.
    """
    if settings.locations is not None:
        registry = load_registry(settings.sensors, location_names(settings, "", ""))
        registry.refuse_windows("counts that are connected", "write their readings as messages (JSON lines)")
        require_most_counts(registry, [mapping])
        return tuple(sensor.name for sensor in registry.sensors)
    require_most_counts(None, [mapping])
    named = tuple(dict.fromkeys(mapping.names.values()))
    if not named:
        raise SettingsError(
            "the sensors must be known before their counts",
            f"neither locations nor {table}.names",
            f"set locations (and sensors) in the settings, or name each sensor in [{table}.names]",
        )
    return named
