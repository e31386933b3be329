"""Counts that were scaled, filled in or converted before they came: how far one person moves them.

A value ``round(a N + b)`` with a public ``a`` of at most ``A`` is moved by one person by ``floor(a)`` or
``ceil(a)``, so noise and accounts take one person for ``ceil(A)`` counts. Nothing is assumed where ``A`` is
not declared: a count with decimals was scaled by something.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC
from math import ceil

from models.calendar import DAY, Days
from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import CrowdSettings
from stream_app.setup.sections import ScaledCounts
from stream_app.setup.settings import Settings

_TWO_YEARS = 731 * DAY  # each change of clocks, twice


def days_of(settings: Settings) -> Days:
    """The dates of the deployment's clock, for bounds over a day; UTC where no timezone is set."""
    return Days(settings.origin_seconds, settings.step_seconds, settings.timezone)


def bounded_days(settings: Settings, registry: SensorRegistry) -> Days | None:
    """The days that bounds of sensors are of; None where no sensor has one.

    :class:`SettingsError` for steps that do not fill the days: it could not be said in which of two somebody
    was counted.
    """
    if not registry.is_bounded:
        return None
    days, whole, origin = days_of(settings), settings.step_seconds, settings.origin.astimezone(UTC)
    if DAY % whole or not days.fill_days(min(_TWO_YEARS // whole, 2 * 8_784)):
        raise SettingsError(
            "with bounds over a day each step must lie within one date of the local clock",
            f"steps of {whole} s from {origin.isoformat()}, {settings.timezone or 'UTC'}",
            "set origin to a local midnight and step_seconds to a part of a day, or leave "
            "most_counts_per_day and most_sensors_per_day out of the sensors file",
        )
    return days


def require_strangers(registry: SensorRegistry, crowd: CrowdSettings) -> None:
    """:class:`~models.exceptions.SensorError` for strangers at a sensor that there is not."""
    for each in crowd.strangers.values():
        registry.get(each.sensor)


def most_counts_of(mapping: ScaledCounts) -> int:
    """How many counts of a step one person stands for in counts that come by this mapping.

    :class:`SettingsError` where counts are rounded and their scale is not declared.
    """
    if mapping.largest_factor is not None:
        return max(1, ceil(mapping.largest_factor))
    if mapping.decimals == "round":
        raise SettingsError(
            "a mapping that rounds counts must say by how much one person moves one",
            "no largest_factor",
            "set largest_factor: 2 for counts scaled up from half of an interval, 1 for averages of what one "
            "person changes once; ask for whole counts where hours were filled in from others",
        )
    return 1


def require_most_counts(registry: SensorRegistry | None, mappings: Iterable[ScaledCounts]) -> None:
    """:class:`SettingsError` unless every sensor declares what the scaled counts make of one person.

    ``registry`` is None where a deployment does not say its sensors.
    """
    most = max(map(most_counts_of, mappings), default=1)
    if most == 1:
        return
    if registry is None:
        raise SettingsError(
            "the sensors must be known before their scaled counts are taken",
            "no locations",
            f"set locations and sensors in the settings, with most_counts of {most} or more",
        )
    less = [sensor.name for sensor in registry.sensors if sensor.most_counts < most]
    if less:
        raise SettingsError(
            f"each sensor must declare most_counts of {most} or more, as largest_factor says that one person "
            "moves a count by so much",
            f"less at {len(less):,} of {len(registry.sensors):,}, such as {less[0]!r}",
            f'add "counts": "passages", "most_counts": {most} to the sensors file, or have counts unscaled',
        )
