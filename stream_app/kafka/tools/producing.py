"""Sends messages to the topics: from a file, the simulated city or check-ins, at a given pace."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.releases import SensorRegistry
from stream_app.exceptions import InputError
from stream_app.kafka.broker.topics import Topics
from stream_app.wire import Activation, Reading, Readings, parse

_TYPE = re.compile(rb'"type"\s*:\s*"(\w+)"')
_FLUSH_EVERY = 5_000


@dataclass(frozen=True)
class ProducedCount:
    """How many messages were sent; each count of a batch is a reading."""

    activations: int
    readings: int
    seconds: float


class Pace:
    """Limits the messages a second; None: no limit."""

    def __init__(
        self,
        per_second: float | None,
        now_seconds: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._per_second = per_second
        self._now_seconds = now_seconds
        self._sleep = sleep
        self._began = now_seconds()
        self._passed = 0

    def wait(self) -> None:
        """Return when the next message may be sent."""
        if self._per_second is not None:
            due = self._began + self._passed / self._per_second
            ahead = due - self._now_seconds()
            if ahead > 0.0:
                self._sleep(ahead)
        self._passed += 1


class RegionSplitter:
    """Finds the partition of the inputs that a message belongs to, by the regions of its sensors."""

    def __init__(self, region_of: Mapping[str, str]) -> None:
        """``region_of`` names the region of each sensor; empty without regions."""
        numbers = {region: number for number, region in enumerate(sorted(set(region_of.values())))}
        self._partition_of = {sensor: numbers[region] for sensor, region in region_of.items()}
        self._regions = len(numbers)

    def parts(self, line: bytes) -> Iterator[tuple[int, bytes]]:
        """Partition and message of each region's part; what cannot be split goes to partition 0 unchanged.

        An activation is announced in every region, without sensors in a region that has none of its sensors.
        """
        message = parse(line, "") if self._partition_of else None
        if isinstance(message, Reading):
            yield self._partition_of.get(message.sensor, 0), line
        elif isinstance(message, Activation):
            for partition in range(self._regions):
                own = tuple(name for name in message.sensors if self._partition_of.get(name, 0) == partition)
                yield partition, message.model_copy(update={"sensors": own}).line().rstrip()
        elif isinstance(message, Readings):
            counts: dict[int, dict[str, Any]] = {}
            for sensor, count in message.counts.items():
                counts.setdefault(self._partition_of.get(sensor, 0), {})[sensor] = count
            for partition, own_counts in counts.items():
                yield partition, message.model_copy(update={"counts": own_counts}).line().rstrip()
        else:
            yield 0, line


def produce(
    producer: Any,
    topics: Topics,
    lines: Iterable[bytes],
    pace: Pace,
    *,
    paced: str = "messages",
    region_of: Mapping[str, str] | None = None,
    max_ahead: int = 1000,
) -> ProducedCount:
    """Send every line to its topic, unchecked, so that nothing is lost: workers keep what they refuse.

    ``paced`` is ``messages`` or ``steps`` (an activation begins a step). ``region_of`` names the region of
    each sensor, if there are several. Activations may reach the broker before the readings sent with them:
    of half of the ``max_ahead`` steps that a worker lets them be ahead, all is there before more is sent.
    """
    regions, at_once = RegionSplitter(region_of or {}), max(1, max_ahead // 2)
    began, activations, readings = time.monotonic(), 0, 0
    for number, line in enumerate(lines, start=1):
        found = _TYPE.search(line)
        kind = b"" if found is None else found[1]
        if paced == "messages" or kind == b"activation":
            pace.wait()
        if kind == b"activation" and activations % at_once == 0:
            producer.flush()
        topic = topics.activations if kind == b"activation" else topics.readings
        for partition, part in regions.parts(line):
            producer.send(topic, part, partition=partition)
        if kind == b"activation":
            activations += 1
        else:
            batch = parse(line, "") if kind == b"readings" else None
            readings += len(batch.counts) if isinstance(batch, Readings) else 1
        if number % _FLUSH_EVERY == 0:
            producer.flush()
    producer.flush()
    return ProducedCount(activations, readings, time.monotonic() - began)


def file_lines(path: Path) -> Iterator[bytes]:
    """The lines of a JSONL file, without line ends and without empty lines."""
    try:
        with path.open("rb") as source:
            for line in source:
                if stripped := line.strip():
                    yield stripped
    except OSError as error:
        raise InputError(f"input file {path} must be readable", error.strerror, "check the path") from error


def city_lines(people: int, steps: int, seed: int) -> Iterator[bytes]:
    """Activations and readings of the simulated city."""
    from stream_app.city import CityOptions, build_city

    city = build_city(CityOptions(people=people, seed=seed))
    return (message.line().rstrip() for message in city.messages(steps))


def checkin_lines(
    path: Path,
    registry: SensorRegistry,
    step_seconds: int,
    origin_seconds: int,
    timezone: str | None = None,
) -> Iterator[bytes]:
    """Check-ins as people counted by sensor and step: every sensor in every step, zeros included.

    A sensor that is active only if somebody checked in would reveal that somebody did. Locations are matched
    by name; check-ins elsewhere or before the origin are left out.
    """
    from models.fitting import read_checkins

    checkins = read_checkins(path, timezone=timezone)
    index = {name: number for number, name in enumerate(registry.location_names)}
    location = np.array([index.get(name, -1) for name in checkins.location_names], dtype=np.int64)
    where = location[checkins.location]
    step = (checkins.time_seconds - origin_seconds) // step_seconds
    known = (where >= 0) & (step >= 0)
    order = np.argsort(step[known], kind="stable")
    step, where, user = step[known][order], where[known][order], checkins.user[known][order]
    steps = int(step.max(initial=-1)) + 1
    bounds = np.searchsorted(step, np.arange(steps + 1))
    for number in range(steps):
        now = slice(bounds[number], bounds[number + 1])
        yield from _step_lines(number, registry, where[now], user[now])


def _step_lines(
    step: int, registry: SensorRegistry, where: NDArray[np.int64], user: NDArray[np.int32]
) -> Iterator[bytes]:
    """One step: its activation, then the people seen by each sensor."""
    names = tuple(sensor.name for sensor in registry.sensors)
    yield Activation(v=1, step=step, sensors=names).line().rstrip()
    for sensor in registry.sensors:
        count = np.unique(user[np.isin(where, sensor.locations)]).size
        yield Reading(v=1, step=step, sensor=sensor.name, count=count).line().rstrip()
