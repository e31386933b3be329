"""Claim: 37,000 people with daily cycles in one partition are taken over within 2 GB, with signs of life.

``python -m benchmarks.kafka_people [--people N] [--exits N] [--steps N]`` sends people with 24 sparse
matrices each, 6 to 10 places, to a real broker, and a log of decided steps. An account worker's own code, in
a process of its own, takes the partition over (load, catch up), then gets new priors for all (the log again).
The longest silence is the longest time between two signs of life; the watchdog's limit is
``kafka.stall_seconds``, 60 s unless set otherwise.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Awaitable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np

from benchmarks.engine_run import SEED, sparse_population
from models.mechanisms import Raw
from models.priors import Population
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.broker.clients import writing
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.warm_up import compile_kernels
from stream_app.kafka.worker_process import Pulse
from stream_app.setup.settings_sources import load_settings
from stream_app.wire.messages import decision_of
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka

SLOTS, LOCATIONS, SENSORS = 24, 200, 20
PLACES = (6, 7, 8, 9, 10)


@dataclass(frozen=True)
class Phase:
    """What one piece of long work took."""

    name: str
    seconds: float
    processor_seconds: float
    silence_seconds: float
    peak_bytes: int

    def row(self) -> str:
        """The row in Markdown."""
        peak = self.peak_bytes / 2**20
        times = f"{self.seconds:.0f} | {self.processor_seconds:.0f} | {self.silence_seconds:.1f}"
        return f"| {self.name} | {times} | {peak:,.0f} |"


class Listening(Pulse):
    """Measures phases of work, with the longest time between two signs of life in each."""

    def __init__(self) -> None:
        super().__init__()
        self.longest = 0.0
        self.phases: list[Phase] = []

    async def phase(self, name: str, task: Awaitable[Any]) -> Any:
        """Wait for one piece of work and note what it took."""
        self.progress()
        self.longest, began, before = 0.0, time.monotonic(), time.process_time()
        done = await task
        self.progress()
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        took = time.monotonic() - began, time.process_time() - before
        self.phases.append(Phase(name, *took, self.longest, peak))
        return done

    def progress(self) -> None:
        """Something was finished."""
        self.longest = max(self.longest, self.stalled_seconds(), time.monotonic() - self._progress_seconds)
        super().progress()


def draw_cycles(people: int, exits: int) -> Population:
    """People with 24 matrices of their own on 6 to 10 places, each row with so many exits."""
    random = np.random.default_rng(SEED)
    sizes = [len(part) for part in np.array_split(np.arange(people), len(PLACES))]
    names = [f"place {index}" for index in range(LOCATIONS)]
    parts, first = [], 0
    for size, count in zip(PLACES, sizes, strict=True):
        parts.append(_of_size(random, size, range(first, first + count), min(exits, size), names))
        first += count
    return Population.concatenate(parts)


def _of_size(
    random: np.random.Generator, size: int, people: range, exits: int, names: list[str]
) -> Population:
    """People with equally many places."""
    count, rows = len(people), SLOTS * size
    places = np.sort(random.random((count, LOCATIONS)).argsort(axis=1)[:, :size], axis=1)
    column = (np.arange(rows)[:, None] % size + np.arange(exits)) % size
    columns = np.broadcast_to(column.reshape(SLOTS, size, exits), (count, SLOTS, size, exits))
    probability = random.dirichlet(np.ones(exits), size=(count, rows))
    return sparse_population([f"person {number}" for number in people], places, columns, probability, names)


def run(server: Broker, folder: Path, people: int, exits: int, steps: int) -> list[Phase]:
    """Send people and log, then measure in a process of its own."""
    listed = [(f"s{index}", (index,)) for index in range(SENSORS)]
    settings: dict[str, Any] = {"horizon": 10, "mistakes": 1, "kafka": {"partitions": 1}}
    with OnKafka(folder, server.address, draw_cycles(5, exits), listed, **settings) as deployment:
        deployment.load_people(draw_cycles(people, exits))
        known = Deployment.of(deployment.settings)
        with writing(deployment.connection) as producer:
            for step in range(steps):
                decision = decision_of(_schedule(known, step), deployment=known.digest)
                producer.send(known.topics.decisions, decision.line().rstrip(), key=str(step).encode())
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            return pool.apply(measure, (deployment.config, steps))


def _schedule(deployment: Deployment, step: int) -> StepSchedule:
    """Some sensors of an hour, the same every day."""
    chosen = [sensor for k, sensor in enumerate(deployment.registry.sensors) if (k + step) % 4 == 0]
    return StepSchedule(step, tuple(SensorRelease(sensor, Raw()) for sensor in chosen))


def measure(config: Path, steps: int) -> list[Phase]:
    """Take a partition over, then get new priors for everybody of it."""
    deployment = Deployment.of(load_settings(config, {}))
    compile_kernels(deployment)
    pulse = Listening()
    worker = AccountWorker(deployment, watch=MagicMock(), pulse=pulse)

    async def work() -> None:
        accounts = await pulse.phase("taken over", worker._loader.load(0, steps))
        again = await pulse.phase("read again", worker._loader.persons.load(0, pulse.progress))
        await pulse.phase("new priors for everybody", worker._loader.enter(accounts, again.changes))

    asyncio.run(work())
    return pulse.phases


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, default=37_000)
    parser.add_argument("--exits", type=int, default=3)
    parser.add_argument("--steps", type=int, default=240)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        phases = run(server, Path(folder) / "people", chosen.people, chosen.exits, chosen.steps)
    print("| what | seconds | of the processor | longest silence, s | peak of memory so far, MB |")
    print("|---|---:|---:|---:|---:|")
    for each in phases:
        print(each.row())


if __name__ == "__main__":
    main()
