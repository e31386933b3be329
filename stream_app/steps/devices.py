"""Devices that seem broken: silent, stuck at one count, or with more people than there can be.

What is found depends on true counts, so it is for the deployment's owner only: a file and the page behind its
token. No metric, no published value and no decision has any of it.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from models.releases import SensorRegistry
from stream_app.setup.sections import QualitySettings
from stream_app.wire import DeviceFinding, Suspicion

logger = logging.getLogger(__name__)


@dataclass
class _Device:
    """What is kept of one device: for how many of its announced steps it is silent, or counts the same.

    ``since`` has the first step of each suspicion.
    """

    silent: int = 0
    silent_since: int = 0
    same: int = 0
    same_since: int = 0
    last: int | None = None
    since: dict[str, int] | None = None


class DeviceWatch:
    """Looks at the counts of closed steps, one step after the other, and says which devices look broken.

    A step counts for the devices that were announced in it. A count that comes after its step was closed is
    not looked at.
    """

    def __init__(self, settings: QualitySettings) -> None:
        self._settings = settings
        self._devices: dict[str, _Device] = {}

    @classmethod
    def of(cls, settings: QualitySettings, registry: SensorRegistry) -> DeviceWatch | None:
        """As the settings say; None where no device is watched. :class:`SensorError` for an unknown one."""
        for name in settings.largest_counts:
            registry.get(name)
        return cls(settings) if settings.watches else None

    @property
    def suspected(self) -> tuple[DeviceFinding, ...]:
        """What is suspected now, in the order in which it began."""
        found = [
            DeviceFinding(step=step, sensor=sensor, suspicion=Suspicion(kind), since=step, is_over=False)
            for sensor, device in self._devices.items()
            for kind, step in (device.since or {}).items()
        ]
        return tuple(sorted(found, key=lambda each: (each.since, each.sensor, each.suspicion)))

    def note(self, step: int, sensors: Sequence[str], counts: Mapping[str, int]) -> tuple[DeviceFinding, ...]:
        """Take a closed step; which suspicions begin with it, and which are over."""
        return tuple(
            finding for sensor in sensors for finding in self._look(step, sensor, counts.get(sensor))
        )

    def _look(self, step: int, sensor: str, count: int | None) -> Iterator[DeviceFinding]:
        device = self._devices.setdefault(sensor, _Device())
        before = dict(device.since or {})
        now = dict(self._suspicions(device, step, sensor, count, before))
        device.since = now or None
        for kind in Suspicion:
            if (kind in now) != (kind in before):
                since = now.get(kind, before.get(kind, step))
                yield DeviceFinding(
                    step=step, sensor=sensor, suspicion=kind, since=since, is_over=kind in before
                )
        if device == _Device():
            del self._devices[sensor]

    def _suspicions(
        self, device: _Device, step: int, sensor: str, count: int | None, before: Mapping[str, int]
    ) -> Iterator[tuple[str, int]]:
        """What is suspected of a device after a step, each with its first step."""
        limits = self._settings
        if limits.silent_steps is not None:
            if count is not None:
                device.silent = device.silent_since = 0
            else:
                device.silent_since = device.silent_since if device.silent else step
                device.silent += 1
            if device.silent >= limits.silent_steps:
                yield Suspicion.SILENT, device.silent_since
        if limits.same_steps is not None:
            if count is not None and count == device.last:
                device.same += 1
            elif count is not None:
                device.last, device.same, device.same_since = count, 1, step
            if device.same >= limits.same_steps:
                yield Suspicion.STUCK, device.same_since
        largest = limits.largest_counts.get(sensor, limits.largest_count)
        if largest is not None:
            is_known = Suspicion.IMPLAUSIBLE in before
            if count is None and is_known:  # nothing new is known
                yield Suspicion.IMPLAUSIBLE, before[Suspicion.IMPLAUSIBLE]
            elif count is not None and count > largest:
                yield Suspicion.IMPLAUSIBLE, before[Suspicion.IMPLAUSIBLE] if is_known else step

    @staticmethod
    def warn(findings: Sequence[DeviceFinding], where: str) -> None:
        """Warn once a step with which a suspicion begins, naming neither device nor reason."""
        for step in sorted({each.step for each in findings if not each.is_over}):
            logger.warning(
                "step %d: a device seems to be silent, stuck or implausible: %s has which, for its owner "
                "only",
                *(step, where),
            )

    def save(self, next_step: int) -> dict[str, Any]:
        """All that is kept before a step, as JSON values; secret, as it has counts."""
        devices = {sensor: asdict(device) for sensor, device in self._devices.items()}
        return {"next_step": next_step, "devices": devices}

    def load(self, saved: Mapping[str, Any], next_step: int) -> None:
        """Continue before a step; anew where what was kept is of another one, as when nobody watched."""
        if saved.get("next_step") == next_step:
            self._devices = {sensor: _Device(**device) for sensor, device in saved["devices"].items()}
