"""Releases as Observations of datastreams of our own; the service itself knows which of them are there.

An Observation cannot be taken back from whoever read it. So where one may be there already the datastream is
asked for its intervals and values: after a restart, after an answer that never came, and of late values,
whose intervals lie before others. What somebody else wrote there is none of ours, whatever its time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from yarl import URL

from stream_app.exceptions import PeerError, SettingsError
from stream_app.setup.sections.sensorthings_settings import SensorThingsSettings
from stream_app.starting.connect.released import PublishedLog, StepTimes
from stream_app.starting.connect.sensorthings.phenomenon_time import Interval, in_words
from stream_app.starting.connect.sensorthings.service import SensorThings, UnknownOutcomeError, entity
from stream_app.wire import SensorValue, StepRelease

logger = logging.getLogger(__name__)

_PAUSE_SECONDS, _TRIES = 2.0, 30
_OF_ALL = frozenset({"sensor", "value", "tiers", "version"})
_Key = tuple[float, float, int | None]  # the start of an interval, the value, and its version


def observation(times: StepTimes, step: int, entry: SensorValue) -> dict[str, Any]:
    """One published value: how it was noised stands in ``resultQuality``."""
    quality = entry.model_dump(mode="json", exclude_none=True, exclude=set(_OF_ALL))
    version = {} if entry.version is None else {"version": entry.version}
    return {
        "phenomenonTime": f"{times.start(entry.first_step(step))}/{times.end(step)}",
        "result": entry.value,
        "resultQuality": quality,
        "parameters": {"deployment": times.deployment, "step": step, **version},
    }


class ObservationWriter:
    """Writes what is released of each sensor to its datastream, once, in the order of the steps.

    ``datastreams`` maps sensors to ids; a sensor without one is not written. A corrected value is one more
    Observation of its interval. ``place`` is the file that says how far an earlier process came: what comes
    after it is asked for at the service before it is written; without it, all that is released.
    """

    def __init__(
        self, service: SensorThings, settings: SensorThingsSettings, run: Path, place: Path | None = None
    ) -> None:
        if not settings.releases:
            raise SettingsError(
                "releases must have datastreams to be written to",
                "none",
                'set them in [connect.sensorthings.releases]: "sensor" = "id"',
            )
        self._service, self._page = service, str(settings.page)
        self._log = PublishedLog(run, place)
        self._paths = {
            sensor: f"{entity('Datastreams', identity)}/Observations"
            for sensor, identity in settings.releases.items()
        }
        self._last: dict[str, float] = {}  # start of the last interval that each datastream has
        self._there: dict[
            str, tuple[float, set[_Key]]
        ] = {}  # what it has from a start on, where that was asked
        self._pending: StepRelease | None = None
        self._silent = set(self._paths)
        self.steps = self.values = self.sent = 0

    @property
    def silent_sensors(self) -> list[str]:
        """Sensors with a datastream, of which this process has seen no release."""
        return sorted(self._silent)

    async def begin(self) -> None:
        """Ask each datastream how far an earlier process came."""
        for sensor in self._paths:
            if sensor not in self._last:
                self._last[sensor] = await self._last_start(sensor)

    async def write(self, most: int) -> int:
        """Write the releases of at most so many steps that wait; how many those were.

        Where it raises, what was not written waits for the next call.
        """
        for number in range(most):
            if self._pending is None:
                was_late = self._log.is_late
                self._pending = self._log.next()
                if self._pending is None or self._log.is_late != was_late:
                    self._there.clear()
            if self._pending is None:
                return number
            await self._write_step(self._pending)
            self._log.keep()
            self.steps += not self._log.is_late
            self._pending = None
        return most

    async def _write_step(self, release: StepRelease) -> None:
        times, values = self._log.times, 0
        for entry in release.releases:
            if entry.sensor not in self._paths:
                continue
            self._silent.discard(entry.sensor)
            if entry.value is None:
                continue
            values += 1
            start = Interval.parse(times.start(entry.first_step(release.step))).start
            key = (start, float(entry.value), entry.version)
            if not await self._is_there(entry.sensor, key):
                await self._write_one(entry.sensor, key, observation(times, release.step, entry))
                self.sent += 1
        self.values += values

    async def _is_there(self, sensor: str, key: _Key) -> bool:
        """Whether the datastream has an Observation of this interval with this value (and version)."""
        start = key[0]
        if start > self._last[sensor]:
            return False
        since, known = self._there.get(sensor, (float("inf"), set()))
        if start < since:
            known = await self._observed(sensor, start)
            self._there[sensor] = start, known
        return key in known

    async def _write_one(self, sensor: str, key: _Key, document: Mapping[str, Any]) -> None:
        url, start = self._service.address(self._paths[sensor]), key[0]
        for attempt in range(_TRIES):
            self._last[sensor] = max(self._last[sensor], start)  # it may be there from now on
            try:
                await self._service.create(url, document)
            except UnknownOutcomeError as error:
                self._there.pop(sensor, None)
                if attempt == _TRIES - 1:
                    raise
                wait = max(_PAUSE_SECONDS, error.wait_seconds)
                logger.warning("%s; asking in %.1f s whether it is there", error, wait)
                await asyncio.sleep(wait)
                if await self._is_there(sensor, key):
                    return
            else:
                if sensor in self._there:
                    self._there[sensor][1].add(key)
                return

    async def _observed(self, sensor: str, since: float) -> set[_Key]:
        """The intervals, values and versions that the datastream has from a start on."""
        fields = "phenomenonTime,result,parameters" if self._log.is_late else "phenomenonTime,result"
        query = {
            "$filter": f"phenomenonTime ge {in_words(since)}",
            "$orderby": "phenomenonTime asc",
            "$top": self._page,
            "$select": fields,
        }
        found: set[_Key] = set()
        url: URL | None = self._service.address(self._paths[sensor], query)
        visited: set[URL] = set()
        while url is not None and url not in visited:
            visited.add(url)
            document = await self._service.get(url)
            values = document.get("value")
            for each in values if isinstance(values, list) else ():
                try:
                    start, value = Interval.parse(each["phenomenonTime"]).start, float(each["result"])
                except (TypeError, KeyError, ValueError, OverflowError):
                    continue  # nothing that we wrote
                found |= {(start, value, None), (start, value, (each.get("parameters") or {}).get("version"))}
            url = self._service.next_link(document)
        return found

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
