"""Claim: one machine accounts 100 000 people, each with a matrix of its own, over 1 000 steps of 20 sensors.

``python -m benchmarks.engine_run [--people N] [--steps N] [--places K] [--format jsonl|parquet] [--sharpen]``
runs the embedded engine from a JSONL file to an output folder and prints wall time, peak memory, bytes a
person and bytes written.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from models.priors import Lists, Moves, Population
from stream_app.embedded import RunOptions, RunReport, run
from stream_app.setup.option_settings import RiskFormat
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observer, StepClosed
from stream_app.wire.messages import Activation, Reading

LOCATIONS, NEXT_PLACES = (
    1000,
    3,
)  # each row keeps the place and has this many moves in all, one doubled at times
SEED = 2026


def draw_places(random: Generator, people: int, size: int) -> NDArray[np.int32]:
    """Each person's own places (N, K), popular ones more often: location m with weight 1 / (m + 10)."""
    weight = 1.0 / (np.arange(LOCATIONS) + 10.0)
    places = np.empty((people, size), dtype=np.int32)
    for first in range(0, people, 1000):  # the largest of Gumbel draws is a sample without replacement
        rows = places[first : first + 1000]
        score = np.log(weight) + random.gumbel(size=(len(rows), LOCATIONS))
        rows[:] = np.sort(np.argpartition(-score, size, axis=1)[:, :size], axis=1)
    return places


def draw_population(random: Generator, people: int, size: int) -> Population:
    """Everybody with a sparse matrix of its own: stay, go on to the next place, or jump to one other."""
    shift = np.tile([0, 1, 0], (people, size, 1))
    shift[:, :, 2] = random.integers(2, size, size=(people, size))
    column = (np.arange(size)[:, None] + shift) % size
    probability = random.dirichlet([4.0, 1.0, 1.0], size=(people, size))
    return sparse_population(
        [f"person {index}" for index in range(people)],
        draw_places(random, people, size),
        column[:, np.newaxis],
        probability[:, np.newaxis],
        [f"place {index}" for index in range(LOCATIONS)],
    )


def sparse_population(
    people: Sequence[str],
    places: NDArray[Any],
    columns: NDArray[Any],
    probability: NDArray[np.float64],
    locations: Sequence[str],
    *,
    starts_anywhere: bool = False,
) -> Population:
    """People on ``places`` (N, K) with so many exits a row: ``columns``, ``probability`` (N, C, K, exits).

    They start where they are in the long run, or ``starts_anywhere``, with the same chance at each place.
    """
    count, slots, size, exits = columns.shape
    slot, row = (each.repeat(exits) for each in np.divmod(np.arange(slots * size, dtype=np.int32), size))
    moves = Moves(
        np.arange(count + 1) * slots * size * exits,
        np.tile(slot, count),
        np.tile(row, count),
        columns.ravel().astype(np.int32),
        probability.ravel(),
    )
    start = np.arange(count + 1) * size
    return Population.from_moves(
        people,
        Lists(start, places.ravel()),
        moves,
        slots=np.full(count, slots, dtype=np.int32),
        initial=Lists(start, np.full(count * size, 1 / size)) if starts_anywhere else None,
        location_names=locations,
    )


def write_messages(random: Generator, path: Path, steps: int, sensors: int) -> None:
    """Each step announces its sensors and has a count from each."""
    names = tuple(f"place {index}" for index in range(sensors))
    with path.open("wb") as file:
        for step in range(steps):
            file.write(Activation(v=1, step=step, sensors=names).line())
            counts = random.integers(0, 3000, size=sensors).tolist()
            file.writelines(
                Reading(v=1, step=step, sensor=name, count=count).line()
                for name, count in zip(names, counts, strict=True)
            )


def resident_bytes() -> int:
    """Memory of this process now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def peak_bytes() -> int:
    """Largest resident memory of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


class MemoryWatch(Observer):
    """The most memory in use at the end of a step."""

    def __init__(self) -> None:
        self.most_bytes = 0

    def closed(self, event: StepClosed) -> None:
        """Look at every step."""
        self.most_bytes = max(self.most_bytes, resident_bytes())


@dataclass(frozen=True)
class Measured:
    """One run and what it took."""

    report: RunReport
    wall_seconds: float
    most_bytes: int
    parquet_bytes: int


def measure(population: Population, source: Path, output: Path, given: argparse.Namespace) -> Measured:
    """Run the engine on a file."""
    watch, started = MemoryWatch(), time.perf_counter()
    options = RunOptions(output, source, risk_format=given.format, create_keys=True)
    settings = Settings.model_validate({"sharpen": given.sharpen, "release": {"sigma": 2.0}})
    report = run(settings, options, population, observer=watch)
    seconds = time.perf_counter() - started
    parquet_bytes = sum(file.stat().st_size for file in output.glob("risks/*"))
    return Measured(report, seconds, watch.most_bytes, parquet_bytes)


def show(population: Population, measured: Measured, idle_bytes: int) -> None:
    """One table."""
    people, report = len(population), measured.report
    rate = people * report.steps / report.seconds
    print(f"people x steps            {people:,} x {report.steps:,}")
    print(f"wall                      {measured.wall_seconds:.1f} s, {report.seconds:.1f} s of it stepping")
    print(f"person-steps              {rate / 1e6:.2f} M a second")
    print(f"priors                    {population.bytes_per_person:,.0f} bytes a person")
    print(f"all memory over idle      {(measured.most_bytes - idle_bytes) / people:,.0f} bytes a person")
    print(f"peak, generator included  {peak_bytes() / 1e6:,.0f} MB (idle {idle_bytes / 1e6:,.0f} MB)")
    for name, size in report.bytes_written.items():
        print(f"written, {name:<16} {size / 1e6:,.1f} MB")
    print(f"written, risks/*.parquet  {measured.parquet_bytes / 1e6:,.1f} MB")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--people", type=int, default=100_000)
    arguments.add_argument("--steps", type=int, default=1000)
    arguments.add_argument("--places", type=int, default=10)
    arguments.add_argument("--sensors", type=int, default=20)
    arguments.add_argument("--format", type=RiskFormat, default=RiskFormat.JSONL)
    arguments.add_argument("--sharpen", action="store_true", help="tighter bounds for people at high risk")
    given = arguments.parse_args()
    random = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_messages(random, folder / "few.jsonl", 20, given.sensors)
        few = draw_population(random, 100, given.places)
        measure(few, folder / "few.jsonl", folder / "few", given)  # compiles, imports, warms up
        write_messages(random, folder / "messages.jsonl", given.steps, given.sensors)
        idle_bytes = resident_bytes()
        population = draw_population(random, given.people, given.places)
        measured = measure(population, folder / "messages.jsonl", folder / "out", given)
    show(population, measured, idle_bytes)


if __name__ == "__main__":
    main()
