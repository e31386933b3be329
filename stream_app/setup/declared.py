"""Counts that were scaled, filled in or converted before they came: how far one person moves them.

A value ``round(a N + b)`` with a public ``a`` of at most ``A`` is moved by one person by ``floor(a)`` or
``ceil(a)``, so noise and accounts take one person for ``ceil(A)`` counts. Nothing is assumed where ``A`` is
not declared: a count with decimals was scaled by something.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import ceil
from typing import Literal, Protocol

from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import CrowdSettings


def require_strangers(registry: SensorRegistry, crowd: CrowdSettings) -> None:
    """:class:`~models.exceptions.SensorError` for strangers at a sensor that there is not."""
    for each in crowd.strangers.values():
        registry.get(each.sensor)


class ScaledCounts(Protocol):
    """What a mapping of files or payloads, or of datastreams, says of its counts."""

    @property
    def decimals(self) -> Literal["refuse", "round"]:
        """Whether counts with decimals are taken."""

    @property
    def largest_factor(self) -> float | None:
        """By how much one person moves a count at most; None where it was not declared."""


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
