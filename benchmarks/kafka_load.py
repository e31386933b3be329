"""Claim: one release worker and two account workers keep up with 10 steps a second on two cores.

``python -m benchmarks.kafka_load [--people N ...] [--sensors N ...] [--batch] [--pace N]`` starts a real
broker, loads people with sparse matrices of their own, produces steps at a fixed pace (0: as fast as it can),
as single readings or in batches, and prints rates and latencies. The sender stands for sensors elsewhere: it
puts a step's messages into one batch of records, which costs next to nothing. All times are the broker's own
time stamps, read afterwards by this process: from the last reading of a step to its release, and to the last
partition's risks. What compares on a busy machine is the processor's time: the release worker's for each
reading.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from benchmarks.engine_run import SEED, draw_population
from stream_app.kafka.broker.clients import consuming, records
from stream_app.wire import batched
from stream_app.wire.messages import Activation, Reading
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, Process
from tests.watching.services import free_port, get, wait_until

PLACES = 10
STEPS_PER_SECOND = 10.0
WARM_STEPS = 120  # left out: everybody's risks are written once, and things are shown for the first time


@dataclass(frozen=True)
class LoadResult:
    """One row of the table; latencies in seconds, shape (steps,)."""

    people: int
    sensors: int
    steps: int
    seconds: float
    to_release: NDArray[np.float64]
    to_risk: NDArray[np.float64]
    load_seconds: float
    memory_bytes: dict[str, int]
    processor_seconds: float  # of the release worker

    def row(self) -> str:
        """The row in Markdown."""
        rate = self.steps / self.seconds
        release, risk = (
            " / ".join(f"{np.quantile(values, q):.3f}" for q in (0.5, 0.99))
            for values in (self.to_release, self.to_risk)
        )
        memory = " / ".join(f"{size / 2**20:.0f}" for size in self.memory_bytes.values())
        processor = self.processor_seconds / (self.steps * max(self.sensors, 1)) * 1e6
        return (
            f"| {self.people:,} | {self.sensors} | {rate * self.sensors:,.0f} | {rate:.1f} | "
            f"{rate * self.people / 1e6:.2f} M | {release} | {risk} | {processor:.0f} | "
            f"{self.load_seconds:.0f} | {memory} |"
        )


class Sent(NamedTuple):
    """What is sent: so many steps of so many sensors, at a pace (steps a second), in batches or not."""

    sensors: int
    steps: int
    pace: float = STEPS_PER_SECOND
    in_batches: bool = False

    def lines(self) -> Iterator[bytes]:
        """Each step's activation, then a reading from each sensor."""
        single = step_lines(self.steps, self.sensors)
        return batched(single) if self.in_batches else single


def run_load(server: Broker, folder: Path, people: int, sent: Sent) -> LoadResult:
    """Load people, start the workers, produce, measure."""
    sensors, steps = sent.sensors, sent.steps
    population = draw_population(np.random.default_rng(SEED), people, PLACES)
    listed = [(f"s{index}", (index,)) for index in range(max(sensors, 1))]
    settings: dict[str, Any] = {"horizon": 10, "mistakes": 5, "risk_every": 10**9, "grace": 2}
    with OnKafka(folder, server.address, population, listed, **settings) as deployment:
        deployment.load_people()
        began = time.monotonic()
        accounts = [deployment.start("account", NUMBA_NUM_THREADS="1") for _ in range(2)]
        release = deployment.start("release")
        wait_until("the people are loaded", lambda: _loaded(accounts) >= people, 900.0)
        load_seconds = time.monotonic() - began
        before = processor_seconds(release.pid)
        asyncio.run(send(deployment, sent))
        deployment.wait_for_steps(steps, 600.0)
        processor = processor_seconds(release.pid) - before
        memory = {"release": release.resident_bytes} | {
            f"account {number}": process.resident_bytes for number, process in enumerate(accounts)
        }
        to_release, to_risk, span = latencies(deployment, steps)
        return LoadResult(people, sensors, steps, span, to_release, to_risk, load_seconds, memory, processor)


async def send(deployment: OnKafka, sent: Sent) -> None:
    """Each step's messages when it is due: its activation, then its readings as one batch of records."""
    from aiokafka import AIOKafkaProducer

    topics, due = deployment.topics, time.monotonic()
    async with AIOKafkaProducer(**deployment.connection.aiokafka(), max_batch_size=1 << 20) as producer:
        for _, group in groupby(sent.lines(), key=_step_of):
            activation, *readings = group
            for topic, lines in ((topics.activations, [activation]), (topics.readings, readings)):
                batch = producer.create_batch()
                for line in lines:
                    assert batch.append(key=None, value=line, timestamp=None) is not None, "a batch is full"
                await producer.send_batch(batch, topic, partition=0)
            due += 1.0 / sent.pace if sent.pace else 0.0
            await asyncio.sleep(max(0.0, due - time.monotonic()))


def _step_of(line: bytes) -> int:
    return int(json.loads(line)["step"])


def processor_seconds(pid: int) -> float:
    """What a process has used of the processor so far."""
    used = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, used)) / os.sysconf("SC_CLK_TCK")


def run_rebalance(server: Broker, folder: Path, people: int, sensors: int, steps: int) -> str:
    """A second account worker joins under load, then the first is stopped; what that cost, in words."""
    population = draw_population(np.random.default_rng(SEED), people, PLACES)
    listed = [(f"s{index}", (index,)) for index in range(sensors)]
    settings: dict[str, Any] = {"horizon": 10, "mistakes": 5, "risk_every": 10**9}
    with OnKafka(folder, server.address, population, listed, **settings) as deployment:
        deployment.load_people()
        deployment.start("release")
        ports = [free_port(), free_port()]
        first = deployment.start("account", "--listen", f"127.0.0.1:{ports[0]}")
        wait_until("the people are loaded", lambda: _loaded([first]) >= people, 900.0)
        sending = threading.Thread(target=_send, args=(deployment, steps, sensors))
        sending.start()
        time.sleep(steps / STEPS_PER_SECOND / 4)
        second = deployment.start("account", "--listen", f"127.0.0.1:{ports[1]}")
        wait_until("the second has its share", lambda: second.says("next step"), 120.0)
        time.sleep(steps / STEPS_PER_SECOND / 8)
        counted = [_counters(port) for port in ports]
        first.stop()
        sending.join()
        deployment.wait_for_steps(steps, 300.0)
        counted[1] = _counters(ports[1])
        summaries = deployment.summaries()
        _, to_risk, _ = latencies(deployment, steps)
    missing = steps * 4 - len(summaries)
    dropped, filled = (int(sum(each[k] for each in counted)) for k in range(2))
    return (
        f"One worker joined and the other left while {steps:,} steps of {sensors} sensors came at "
        f"{STEPS_PER_SECOND:g} a second for {people:,} people: {missing} of {steps * 4:,} summaries missing, "
        f"{sum(len(found) > 1 for found in summaries.values())} written with two contents; {dropped} steps "
        f"delivered again and dropped, {filled} taken from the log; the longest wait for a risk was "
        f"{to_risk.max():.1f} s, "
        f"the median {np.median(to_risk):.3f} s."
    )


def _send(deployment: OnKafka, steps: int, sensors: int) -> None:
    asyncio.run(send(deployment, Sent(sensors, steps)))


def _counters(port: int) -> tuple[float, float]:
    """Steps dropped and steps taken from the log, by a worker's own metrics."""
    _, text = get(f"http://127.0.0.1:{port}/metrics")
    values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    names = ("tallyguard_steps_redelivered_total", "tallyguard_steps_from_log_total")
    return float(values[names[0]]), float(values[names[1]])


def step_lines(steps: int, sensors: int) -> Iterator[bytes]:
    """Each step's activation, then a reading from each sensor."""
    names = tuple(f"s{index}" for index in range(sensors))
    random = np.random.default_rng(SEED)
    for step in range(steps):
        yield Activation(v=1, step=step, sensors=names).line().rstrip()
        for name, count in zip(names, random.integers(0, 3000, sensors).tolist(), strict=True):
            yield Reading(v=1, step=step, sensor=name, count=count).line().rstrip()


def latencies(deployment: OnKafka, steps: int) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Seconds from each step's last reading to its release and to its last summary; seconds of it all.

    A summary that is written again after a worker has left counts when it was written first.
    """
    read, released = np.zeros(steps), np.zeros(steps)
    topics = deployment.topics
    written = np.full((steps, topics.partitions), np.inf)
    with consuming(deployment.connection) as consumer:
        for record in records(consumer, topics.readings):
            step = json.loads(record.value)["step"]
            read[step] = max(read[step], record.timestamp / 1000.0)
        for record in records(consumer, topics.releases):
            step = int(record.key)
            released[step] = max(released[step], record.timestamp / 1000.0)  # of the last region
        for record in records(consumer, topics.risks):
            if b'"type":"risk_summary"' in record.value:
                place = int(record.key), record.partition
                written[place] = min(written[place], record.timestamp / 1000.0)
    measured = slice(min(WARM_STEPS, steps // 4), None)
    last_written = written.max(axis=1)
    span = float(last_written.max() - read.min())
    return (released - read)[measured], (last_written - read)[measured], span


def _loaded(accounts: list[Process]) -> int:
    """People in the partitions of the workers, by what they say."""
    latest: dict[int, int] = {}
    for process in accounts:
        for line in process.text.splitlines():
            if " people, next step" in line:
                words = line.split("partition ")[1].split()
                latest[int(words[0].rstrip(":"))] = int(words[1])
    return sum(latest.values()) if len(latest) == 4 else 0


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--people", type=int, nargs="*", default=[10_000, 100_000])
    parser.add_argument("--sensors", type=int, nargs="*", default=[20, 100, 500])
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--pace", type=float, default=STEPS_PER_SECOND)
    parser.add_argument("--batch", action="store_true")
    parser.add_argument("--rebalance", action=argparse.BooleanOptionalAction, default=True)
    chosen = parser.parse_args()
    print(
        "| people | sensors a step | readings/s | steps/s | person-steps/s | to release, p50 / p99 s | "
        "to risk, p50 / p99 s | processor, µs a reading | loading, s | memory, MB |"
    )
    print("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        for people in chosen.people:
            for sensors in chosen.sensors:
                name = Path(folder) / f"load{people}x{sensors}"
                sent = Sent(sensors, chosen.steps, chosen.pace, chosen.batch)
                print(run_load(server, name, people, sent).row(), flush=True)
        if not chosen.rebalance:
            return
        print(f"\n{run_rebalance(server, Path(folder) / 'rebalance', 10_000, 20, 600)}", flush=True)


if __name__ == "__main__":
    main()
