"""Releases as Observations of datastreams of our own; the service itself knows how far we came.

An Observation cannot be taken back from whoever read it. So a request whose answer never came is not
repeated blindly: the datastream is asked whether the Observation is there.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from stream_app.exceptions import PeerError, SettingsError
from stream_app.starting.connect.released import ReleaseLog, StepTimes
from stream_app.starting.connect.sensorthings.phenomenon_time import Interval
from stream_app.starting.connect.sensorthings.service import SensorThings, UnknownOutcomeError, entity
from stream_app.wire import SensorValue, StepRelease

logger = logging.getLogger(__name__)

_PAUSE_SECONDS, _TRIES = 2.0, 30
_OF_ALL = frozenset({"sensor", "value", "tiers"})


def observation(times: StepTimes, step: int, entry: SensorValue) -> dict[str, Any]:
    """One published value: how it was noised stands in ``resultQuality``."""
    quality = entry.model_dump(mode="json", exclude_none=True, exclude=set(_OF_ALL))
    return {
        "phenomenonTime": f"{times.start(entry.first_step(step))}/{times.end(step)}",
        "result": entry.value,
        "resultQuality": quality,
        "parameters": {"deployment": times.deployment, "step": step},
    }


class ObservationWriter:
    """Writes what is released of each sensor to its datastream, once, in the order of the steps.

    ``datastreams`` maps sensors to ids; a sensor without one is not written.
    """

    def __init__(self, service: SensorThings, datastreams: Mapping[str, str], log: ReleaseLog) -> None:
        if not datastreams:
            raise SettingsError(
                "releases must have datastreams to be written to",
                "none",
                'set them in [connect.sensorthings.releases]: "sensor" = "id"',
            )
        self._service, self._log = service, log
        self._paths = {
            sensor: f"{entity('Datastreams', identity)}/Observations"
            for sensor, identity in datastreams.items()
        }
        self._written: dict[str, float] = {}

    async def begin(self) -> None:
        """Ask each datastream how far an earlier process came."""
        for sensor in self._paths:
            self._written[sensor] = await self._last_start(sensor)

    async def write(self, most: int) -> int:
        """Write the releases of at most so many steps that wait; how many those were."""
        releases = self._log.some(most)
        for release in releases:
            await self._write_step(release)
        return len(releases)

    async def _write_step(self, release: StepRelease) -> None:
        for entry in release.releases:
            if entry.sensor not in self._paths or entry.value is None:
                continue
            start = Interval.parse(self._log.times.start(entry.first_step(release.step))).start
            if start > self._written[entry.sensor]:
                await self._write_one(entry.sensor, start, observation(self._log.times, release.step, entry))
                self._written[entry.sensor] = start

    async def _write_one(self, sensor: str, start: float, document: Mapping[str, Any]) -> None:
        url = self._service.address(self._paths[sensor])
        for attempt in range(_TRIES):
            try:
                await self._service.create(url, document)
                return
            except UnknownOutcomeError as error:
                if attempt == _TRIES - 1:
                    raise
                logger.warning("%s; asking in %.1f s whether it is there", error, _PAUSE_SECONDS)
            await asyncio.sleep(_PAUSE_SECONDS)
            if await self._last_start(sensor) >= start:
                return

    async def _last_start(self, sensor: str) -> float:
        """The start of the last interval that the datastream has; minus infinity for an empty one."""
        query = {"$orderby": "phenomenonTime desc", "$top": "1", "$select": "phenomenonTime"}
        document = await self._service.get(self._service.address(self._paths[sensor], query))
        values = document.get("value")
        if values == []:
            return float("-inf")
        try:
            return Interval.parse(values[0]["phenomenonTime"]).start  # type: ignore[index]
        except (TypeError, KeyError, IndexError, ValueError):
            raise PeerError(
                f"the datastream of {sensor!r} must hold Observations with a phenomenonTime",
                "something else",
                "check the id in [connect.sensorthings.releases]",
            ) from None
