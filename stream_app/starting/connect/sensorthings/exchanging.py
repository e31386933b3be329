"""Looks at a service's datastreams and writes releases to it, until asked to stop."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import NamedTuple, Protocol

from stream_app.setup.settings import Settings
from stream_app.starting.connect.released import ReleaseLog
from stream_app.starting.connect.sensorthings.observations_in import ObservationReader, Take
from stream_app.starting.connect.sensorthings.observations_out import ObservationWriter
from stream_app.starting.connect.sensorthings.service import SensorThings

_WAIT_SECONDS = 0.2
_STEPS_AT_ONCE = 50


class Stop(Protocol):
    """Says when to stop."""

    @property
    def is_set(self) -> bool:
        """Whether somebody asked to."""


class Way(NamedTuple):
    """What to do: ``take`` counts, keeping ``place``; write the releases of ``run``; either may be None."""

    take: Take | None
    place: Path
    run: Path | None


def exchange(settings: Settings, way: Way, stop: Stop, *, once: bool) -> int:
    """Read and write until ``stop`` is set, or all that is there ``once``; steps of releases gone through."""
    return asyncio.run(_exchange(settings, way, stop, once))


async def _exchange(settings: Settings, way: Way, stop: Stop, once: bool) -> int:
    chosen = settings.connect.sensorthings
    steps = 0
    async with SensorThings(chosen) as service:
        reader = None if way.take is None else ObservationReader(service, settings, way.take, way.place)
        writer = None if way.run is None else ObservationWriter(service, chosen.releases, ReleaseLog(way.run))
        if writer is not None:
            await writer.begin()
        look_at = 0.0
        while not stop.is_set:
            if reader is not None and time.monotonic() >= look_at:
                await reader.look()
                look_at = time.monotonic() + chosen.poll_seconds
            written = 0 if writer is None else await writer.write(_STEPS_AT_ONCE)
            steps += written
            if once and not written:
                break
            if not written:
                await asyncio.sleep(_WAIT_SECONDS)
    return steps
