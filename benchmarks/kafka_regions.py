"""Claim: sensors of several regions are taken in side by side; the further hop to a decision costs little.

``python -m benchmarks.kafka_regions [--regions 1 2 4] [--sensors 500] [--steps 100] [--pace 10]`` starts a
real broker, one release worker or, for more regions, as many intake workers and a coordinator, and one
account worker with a few people; sends steps of batches, first all at once, then at the pace (steps a
second). Times are the broker's: from a step's last reading to its last release, and to its last risks. What
compares on two cores is the processor's time; memory is that of the largest process of each kind.
"""

from __future__ import annotations

import argparse
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.engine_run import SEED, draw_population
from benchmarks.kafka_load import latencies, processor_seconds, step_lines
from stream_app.kafka.broker.clients import consuming, records
from stream_app.wire import batched
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka, Process
from tests.watching.services import wait_until

PEOPLE, PLACES, WARM_STEPS = 200, 10, 20
_TOPICS = ("activations", "readings", "sealed", "decisions", "releases", "whole", "progress", "coordination")


class Case(NamedTuple):
    """So many steps of sensors in so many regions, at a pace (steps a second) or all at once."""

    regions: int
    sensors: int
    steps: int
    pace: float | None


def run(server: Broker, folder: Path, case: Case) -> list[str]:
    """One row of the table."""
    regions, sensors, steps, pace = case
    listed = [(f"s{index}", (index % PLACES,)) for index in range(sensors)]
    region_of = {f"s{index}": f"r{index % regions}" for index in range(sensors)} if regions > 1 else None
    settings: dict[str, Any] = {
        "horizon": 10,
        "risk_every": 10**9,
        "grace": 2,
        "sharpen": False,
        "attack_draws": 0,
    }
    people = draw_population(np.random.default_rng(SEED), PEOPLE, PLACES)
    with OnKafka(folder, server.address, people, listed, regions=region_of, **settings) as deployment:
        deployment.load_people()
        deployment.start("account")
        kinds = {"release": 1} if regions == 1 else {"intake": regions, "coordinator": 1}
        started = {kind: [deployment.start(kind) for _ in range(number)] for kind, number in kinds.items()}
        every = list(batched(step_lines(WARM_STEPS + steps, sensors)))
        size = len(every) // (WARM_STEPS + steps)
        deployment.produce(every[: WARM_STEPS * size])
        deployment.wait_for_steps(WARM_STEPS)
        before = {kind: _processor(processes) for kind, processes in started.items()}
        deployment.produce(every[WARM_STEPS * size :], None if pace is None else pace * size)
        deployment.wait_for_steps(WARM_STEPS + steps)
        used = {kind: _processor(processes) - before[kind] for kind, processes in started.items()}
        memory = ", ".join(f"{kind} {_memory(processes)}" for kind, processes in started.items())
        release, risk, _ = latencies(deployment, WARM_STEPS + steps)
        held = _bytes_a_step(deployment, WARM_STEPS + steps)
    total = sum(used.values()) / (steps * sensors) * 1e6
    return [
        str(regions),
        str(sensors),
        "all at once" if pace is None else f"{pace:g} steps/s",
        *(
            f"{np.quantile(seconds, 0.5):.3f} / {np.quantile(seconds, 0.99):.3f}"
            for seconds in (release, risk)
        ),
        f"{total:.0f}",
        ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in used.items()),
        memory,
        ", ".join(f"{topic} {size:.1f}" for topic, size in held.items() if size >= 0.05),
    ]


def _processor(processes: list[Process]) -> float:
    return sum(processor_seconds(each.pid) for each in processes)


def _memory(processes: list[Process]) -> int:
    return round(max(each.resident_bytes for each in processes) / 2**20)


def _bytes_a_step(deployment: OnKafka, steps: int) -> dict[str, float]:
    """KiB of records in each topic, a step."""
    found: dict[str, float] = defaultdict(float)
    names = {plan.name for plan in deployment.topics.plans()}
    with consuming(deployment.connection) as consumer:
        for topic in _TOPICS:
            name = f"{deployment.topics.prefix}{topic}"
            for record in records(consumer, name) if name in names else ():
                found[topic] += (len(record.key or b"") + len(record.value or b"")) / 1024 / steps
    return found


def rows(server: Broker, folder: Path, chosen: argparse.Namespace) -> Iterator[list[str]]:
    """Every row, as it is measured."""
    for number in chosen.regions:
        for pace in (None, chosen.pace):
            name = folder / f"regions{number}-{'paced' if pace else 'burst'}"
            yield run(server, name, Case(number, chosen.sensors, chosen.steps, pace))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--regions", type=int, nargs="*", default=[1, 2, 4])
    parser.add_argument("--sensors", type=int, default=500)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--pace", type=float, default=10.0)
    chosen = parser.parse_args()
    head: tuple[str, ...] = ("regions", "sensors", "sent", "to release, p50 / p99 s", "to risk, p50 / p99 s")
    head += ("processor, µs a reading", "of it, s", "memory, MB", "KiB a step")
    print(f"| {' | '.join(head)} |\n|{'---:|' * len(head)}", flush=True)
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        wait_until("the broker", lambda: bool(server.address), 60.0)
        for row in rows(server, Path(folder), chosen):
            print(f"| {' | '.join(row)} |", flush=True)


if __name__ == "__main__":
    main()
