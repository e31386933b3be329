"""Looks at a service's datastreams and writes releases to it, until asked to stop."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import NamedTuple, Protocol

from stream_app.exceptions import PeerError
from stream_app.setup.settings import Settings
from stream_app.starting.connect.sensorthings.observations_in import ObservationReader, Take
from stream_app.starting.connect.sensorthings.observations_out import ObservationWriter
from stream_app.starting.connect.sensorthings.service import SensorThings, UnknownOutcomeError

logger = logging.getLogger(__name__)

_WAIT_SECONDS = 0.2
_STEPS_AT_ONCE = 50


class Stop(Protocol):
    """Says when to stop."""

    @property
    def is_set(self) -> bool:
        """Whether somebody asked to."""


class Way(NamedTuple):
    """What to do: ``take`` counts; write the releases of ``run``; either may be None.

    ``folder`` is the connector's own, where it keeps how far it came with both.
    """

    take: Take | None
    folder: Path
    run: Path | None


class Exchanged(NamedTuple):
    """What was written: steps gone through, values that are there, and those of them sent by this process.

    ``silent`` are sensors with a datastream of which the run has released nothing.
    """

    steps: int = 0
    values: int = 0
    sent: int = 0
    silent: tuple[str, ...] = ()


def exchange(settings: Settings, way: Way, stop: Stop, *, once: bool) -> Exchanged:
    """Read and write until ``stop`` is set, or all that is there ``once``.

    A service that does not answer ends it only ``once``; else it is asked again after ``poll_seconds``, and
    what one of both ways lacks does not hold up the other.
    """
    return asyncio.run(_exchange(settings, way, stop, once))


async def _exchange(settings: Settings, way: Way, stop: Stop, once: bool) -> Exchanged:
    chosen = settings.connect.sensorthings
    async with SensorThings(chosen) as service:
        reader = writer = None
        if way.take is not None:
            reader = ObservationReader(service, settings, way.take, way.folder / "read.json")
        if way.run is not None:
            writer = ObservationWriter(service, chosen, way.run, way.folder / "written.json")
        reading, writing = (_Attempts(chosen.poll_seconds, stop, once=once) for _ in range(2))
        look_at = 0.0
        while not stop.is_set:
            if reader is not None and time.monotonic() >= look_at:
                await reading.made(reader.look())
                look_at = time.monotonic() + chosen.poll_seconds
            written = 0
            if writer is not None and writing.may_begin:
                written = await writing.made(_written(writer))
            if once and not written:
                break
            if not written:
                await asyncio.sleep(_WAIT_SECONDS)
    if writer is None:
        return Exchanged()
    return Exchanged(writer.steps, writer.values, writer.sent, tuple(writer.silent_sensors))


async def _written(writer: ObservationWriter) -> int:
    await writer.begin()
    return await writer.write(_STEPS_AT_ONCE)


class _Attempts:
    """One of the two ways: what it lacks ends the process at its first attempt only, or ``once``.

    A service that does not answer ends it ``once`` only. Asked to stop, it waits for no service: what was
    begun is asked for by the next process.
    """

    def __init__(self, pause_seconds: float, stop: Stop, *, once: bool) -> None:
        self._pause, self._stop, self._once = pause_seconds, stop, once
        self._again_at = 0.0
        self._has_worked = False

    @property
    def may_begin(self) -> bool:
        """Whether it is not too early after one that failed."""
        return time.monotonic() >= self._again_at

    async def made(self, work: Coroutine[None, None, int]) -> int:
        """What the work returns; 0 where it failed and is to be done again."""
        task = asyncio.create_task(work)
        while not task.done():
            await asyncio.wait({task}, timeout=_WAIT_SECONDS)
            if self._stop.is_set and not task.done():
                task.cancel()
                await asyncio.wait({task})
                return 0
        try:
            done = task.result()
        except PeerError as error:
            if self._once or not (self._has_worked or isinstance(error, UnknownOutcomeError)):
                raise
            logger.warning("%s; trying again in %g s", error, self._pause)
            self._again_at = time.monotonic() + self._pause
            return 0
        self._has_worked = True
        return done
