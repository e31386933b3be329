"""Claim: steps of 10,000 sensors walk through every topic; what that takes, with and without a risk budget.

``python -m benchmarks.kafka_sensors [--sensors N ...] [--people N] [--steps N]`` starts a real broker, one
release worker and two account workers (a thread each), and announces steps in which every sensor counts. All
times are the broker's: from a step's first proposal to its last answer, which ``kafka.answer_seconds`` must
allow, and from its last reading to its release and to the last partition's risks. Beside them stand the
largest record of each topic, and pages.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.engine_run import SEED
from models.priors import MovementPrior, Population
from stream_app.kafka.broker.clients import consuming, records
from stream_app.wire.messages import Activation, Reading
from tests.kafka.broker import Broker, broker
from tests.kafka.support import OnKafka
from tests.watching.services import free_port, get, wait_until

PLACES = 8
PATIENCE_SECONDS = 300.0
PAGES = ("/state.json", "/metrics")


@dataclass(frozen=True)
class Walk:
    """One row: seconds of the worst step but the first, which warms up; largest bytes by topic and page."""

    sensors: int
    policy: str
    rounds: int
    asked_seconds: float
    release_seconds: float
    risk_seconds: float
    sizes: dict[str, int]

    def row(self) -> str:
        """The row in Markdown."""
        times = f"{self.asked_seconds:.1f} | {self.release_seconds:.1f} | {self.risk_seconds:.1f}"
        sizes = " | ".join(f"{size / 1024:,.0f}" for size in self.sizes.values())
        return f"| {self.sensors:,} | {self.policy} | {self.rounds} | {times} | {sizes} |"


POLICIES: dict[str, dict[str, Any]] = {
    "gaussian": {"mechanism": "gaussian", "sigma": 2.0},
    "budget": {"mechanism": "budget", "budget.share": 0.05, "budget.added": 0.3},
}


def run(server: Broker, folder: Path, policy: str, sensors: int, people: int, steps: int) -> Walk:
    """Send steps of all sensors, then read what the broker stamped."""
    names = tuple(f"corner of street {number:05d}" for number in range(sensors))
    settings: dict[str, Any] = {
        "release": POLICIES[policy],
        "kafka": {"answer_seconds": PATIENCE_SECONDS, "stall_seconds": PATIENCE_SECONDS},
        "risk_every": 10**6,
    }
    listed = [(name, (number,)) for number, name in enumerate(names)]
    with OnKafka(folder, server.address, draw(people, names), listed, **settings) as deployment:
        deployment.load_people()
        port = free_port()
        accounts = [deployment.start("account") for _ in range(2)]
        wait_until("both have their share", lambda: all(each.says("next step") for each in accounts), 300.0)
        deployment.start("release", "--listen", f"127.0.0.1:{port}")
        for step in range(steps):  # one after the other: no step waits for the one before
            deployment.produce(step_lines(step, names))
            deployment.wait_for_steps(step + 1, 600.0)
        pages = {path: len(get(f"http://127.0.0.1:{port}{path}", 60.0)[1]) for path in PAGES}
        return measured(deployment, policy, steps, pages)


def draw(people: int, names: tuple[str, ...]) -> Population:
    """People on a few places of their own."""
    random = np.random.default_rng(SEED)
    priors = []
    for number in range(people):
        places = np.sort(random.choice(len(names), PLACES, replace=False))
        matrix = random.dirichlet(np.ones(PLACES), size=PLACES)
        priors.append(MovementPrior.from_dense(f"person {number}", matrix, places=places))
    return Population.pack(priors, names)


def step_lines(step: int, names: tuple[str, ...]) -> Iterator[bytes]:
    """A step in which every sensor counts."""
    yield Activation(v=1, step=step, sensors=names).line().rstrip()
    for number, name in enumerate(names):
        yield Reading(v=1, step=step, sensor=name, count=number % 500).line().rstrip()


def measured(deployment: OnKafka, policy: str, steps: int, pages: dict[str, int]) -> Walk:
    """Seconds by the broker's stamps, and sizes."""
    topics = deployment.topics
    shown = (topics.activations, topics.proposals, topics.decisions, topics.releases, topics.progress)
    stamps: dict[str, dict[int, list[float]]] = {}
    sizes = dict.fromkeys(shown, 0)
    with consuming(deployment.connection) as consumer:
        for topic in (*shown, topics.readings, topics.answers, topics.risks):
            for record in records(consumer, topic):
                sizes[topic] = max(sizes.get(topic, 0), len(record.value or b""))
                step = json.loads(record.value or b"{}").get("step")
                if step is not None:
                    stamps.setdefault(topic, {}).setdefault(step, []).append(record.timestamp / 1000.0)
    proposed, answered = (stamps.get(topic, {}) for topic in (topics.proposals, topics.answers))
    read, released, accounted = (stamps[topic] for topic in (topics.readings, topics.releases, topics.risks))
    later = range(1, steps)
    return Walk(
        sensors=len(read[0]),
        policy=policy,
        rounds=max(len(proposed.get(step, ())) for step in later) // topics.partitions,
        asked_seconds=max(max(answered[step]) - min(proposed[step]) if proposed else 0.0 for step in later),
        release_seconds=max(max(released[step]) - max(read[step]) for step in later),
        risk_seconds=max(max(accounted[step]) - max(read[step]) for step in later),
        sizes={topic: sizes[topic] for topic in shown} | pages,
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sensors", type=int, nargs="*", default=[1000, 10_000])
    parser.add_argument("--people", type=int, default=2000)
    parser.add_argument("--steps", type=int, default=3)
    chosen = parser.parse_args()
    head = ("sensors", "release", "rounds", "asked and answered, s", "to release, s", "to risks, s")
    sizes = ("activation", "proposal", "decision", "release", "progress", *(f"`{page}`" for page in PAGES))
    print(f"| {' | '.join((*head, *(f'{each}, KiB' for each in sizes)))} |")
    print(f"|{'---:|' * (len(head) + len(sizes))}")
    with tempfile.TemporaryDirectory() as folder, broker(Path(folder) / "broker") as server:
        for sensors in chosen.sensors:
            for policy in POLICIES:
                where = Path(folder) / f"{policy}{sensors}"
                print(run(server, where, policy, sensors, chosen.people, chosen.steps).row(), flush=True)


if __name__ == "__main__":
    main()
