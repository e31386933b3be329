"""Long runs on a real broker: workers killed a hundred times, and half an hour of load with memory watched.

``python -m benchmarks.soak [--kills 100] [--minutes 30] [--results docs/results]`` writes ``soak.md``,
``soak.csv`` and ``soak.png``. It ends with 1 if a step was lost, a value contradicted another, or a risk
differed from the embedded run.
"""

from __future__ import annotations

import argparse
import csv
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine_run import SEED, draw_population
from benchmarks.kafka_load import PLACES, latencies, step_lines
from stream_app.kafka.clients import writing
from stream_app.kafka.producing import Pace, produce
from tests.kafka.broker import Broker, broker
from tests.kafka.chaos import ChaosReport, run_chaos
from tests.kafka.support import OnKafka, Process, small_city

SAMPLE_SECONDS = 10.0
SOAK_PEOPLE, SOAK_SENSORS, SOAK_STEPS_PER_SECOND = 10_000, 20, 5.0
SETTLED_MINUTES = 5.0  # caches fill before that


@dataclass
class MemoryLog:
    """Resident megabytes of each process over time."""

    minutes: list[float] = field(default_factory=list)
    megabytes: dict[str, list[float]] = field(default_factory=dict)

    def growth(self, name: str) -> float:
        """Megabytes an hour by a straight line through what was seen after the caches filled."""
        minutes = np.array(self.minutes)
        settled = minutes >= min(SETTLED_MINUTES, minutes[-1] / 2)
        slope = np.polyfit(minutes[settled], np.array(self.megabytes[name])[settled], 1)[0]
        return float(slope * 60.0)


def kill_often(server: Broker, folder: Path, kills: int) -> ChaosReport:
    """1 000 people, four partitions, at least 2 000 steps; a worker dies every few seconds."""
    population, sensors, messages = small_city(1000)
    steps = max(2000, 20 * kills)
    pace = 5 * steps / (kills * 2.5)  # messages last as long as the kills
    with OnKafka(folder, server.address, population, sensors, risk_every=100) as deployment:
        return run_chaos(
            deployment, messages(steps), steps, kills, seed=SEED, messages_per_second=pace, seconds=900.0
        )


def run_long(server: Broker, folder: Path, minutes: float) -> tuple[MemoryLog, str]:
    """Load at a steady pace; memory of every process, and latencies in words."""
    steps = int(minutes * 60 * SOAK_STEPS_PER_SECOND)
    population = draw_population(np.random.default_rng(SEED), SOAK_PEOPLE, PLACES)
    listed = [(f"s{index}", (index,)) for index in range(SOAK_SENSORS)]
    with OnKafka(folder, server.address, population, listed, horizon=10, mistakes=5) as deployment:
        deployment.load_people()
        processes = {"release worker": deployment.start("release")}
        processes |= {f"account worker {number}": deployment.start("account") for number in (1, 2)}
        log, ended = MemoryLog(megabytes={name: [] for name in processes}), threading.Event()
        watching = threading.Thread(target=_watch, args=(log, processes, ended))
        watching.start()
        with writing(deployment.connection) as producer:
            lines = step_lines(steps, SOAK_SENSORS)
            produce(producer, deployment.topics, lines, Pace(SOAK_STEPS_PER_SECOND), paced="steps")
        deployment.wait_for_steps(steps, 120.0)
        ended.set()
        watching.join()
        to_release, to_risk, _ = latencies(deployment, steps)
        words = (
            f"{steps:,} steps of {SOAK_SENSORS} sensors for {SOAK_PEOPLE:,} people; from a step's last "
            f"reading to its release {_quantiles(to_release)}, to its risks {_quantiles(to_risk)}"
        )
        return log, words


def _watch(log: MemoryLog, processes: dict[str, Process], ended: threading.Event) -> None:
    began = time.monotonic()
    while not ended.wait(SAMPLE_SECONDS):
        log.minutes.append((time.monotonic() - began) / 60.0)
        for name, process in processes.items():
            log.megabytes[name].append(process.resident_bytes / 2**20)


def write_results(results: Path, chaos: ChaosReport, log: MemoryLog, words: str) -> None:
    """The page, the figures behind the plot, the plot."""
    results.mkdir(parents=True, exist_ok=True)
    with (results / "soak.csv").open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["minutes", *log.megabytes])
        for row in zip(log.minutes, *log.megabytes.values(), strict=True):
            writer.writerow([f"{value:.2f}" for value in row])
    _draw(results / "soak.png", log)
    (results / "soak.md").write_text(_page(chaos, log, words))


def _quantiles(seconds: NDArray[np.float64]) -> str:
    """Median and the 99th of a hundred, in words."""
    return f"{np.median(seconds):.3f} s (p99 {np.quantile(seconds, 0.99):.3f} s)"


def _page(chaos: ChaosReport, log: MemoryLog, words: str) -> str:
    kills = chaos.kills
    yes = {True: "yes", False: "NO"}
    found = {
        "steps released": f"{chaos.steps_released:,} of {chaos.steps:,}",
        "steps lost": chaos.steps_lost,
        "sensor-steps with two different values": chaos.contradictions,
        "releases, byte for byte those of the embedded run": yes[chaos.releases_equal],
        f"risks of single people ({chaos.risks_compared:,} records), bit for bit likewise": yes[
            chaos.risks_equal
        ],
        "summaries told with two different contents": chaos.repeated_summaries,
    }
    outcome = "\n".join(f"| {what} | {value} |" for what, value in found.items())
    growth = "\n".join(
        f"| {name} | {values[-1]:.0f} | {log.growth(name):+.1f} |" for name, values in log.megabytes.items()
    )
    return f"""# Long runs on a real broker

Made by `make soak`: one Apache Kafka, a release worker and two account workers on two cores.

## Workers killed at random

{sum(kills.values())} times `kill -9`, {kills["release"]} of the release worker and {kills["account"]} of
account workers, within {chaos.seconds:.0f} s; {chaos.steps:,} steps for {chaos.people:,} people in four
partitions.

| what | found |
|---|---:|
{outcome}

## Memory under load

{log.minutes[-1]:.0f} minutes: {words}.

| process | MB at the end | MB an hour, after {SETTLED_MINUTES:.0f} minutes |
|---|---:|---:|
{growth}

![Memory of each process over time](soak.png)
"""


def _draw(path: Path, log: MemoryLog) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    for name, values in log.megabytes.items():
        axes.plot(log.minutes, values, label=name)
    axes.set(xlabel="minutes", ylabel="resident memory, MB", ylim=(0, None), title="Memory under steady load")
    axes.legend(loc="lower right")
    axes.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> int:
    """Run both; 1 if anything was lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--results", type=Path, default=Path("docs/results"))
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        chaos = kill_often(server, Path(folder) / "kills", chosen.kills)
        print(chaos, flush=True)
        log, words = run_long(server, Path(folder) / "long", chosen.minutes)
    write_results(chosen.results, chaos, log, words)
    print(f"written to {chosen.results / 'soak.md'}")
    return 0 if chaos.is_sound else 1


if __name__ == "__main__":
    sys.exit(main())
