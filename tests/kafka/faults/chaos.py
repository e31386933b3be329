"""Workers killed at random while messages flow: what must hold afterwards, and how often it was tried."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import numpy as np

from tests.kafka.support import OnKafka, Process

_LOOK_SECONDS = 0.5
ONE_REGION: Mapping[str, int] = MappingProxyType({"release": 1, "account": 2})


@dataclass
class ChaosReport:
    """What was done to a run and what came of it."""

    steps: int
    people: int
    kills: dict[str, int] = field(default_factory=dict)
    kills_at_work: int = 0
    """Those before which steps had been decided since the kill before."""
    seconds: float = 0.0
    steps_released: int = 0
    steps_lost: int = 0
    contradictions: int = 0
    risks_compared: int = 0
    risks_equal: bool = False
    releases_equal: bool = False
    repeated_summaries: int = 0

    @property
    def is_sound(self) -> bool:
        """Nothing lost, nothing twice with another value, all risks those of the embedded run."""
        return (
            self.steps_lost == self.contradictions == 0
            and self.steps_released == self.steps
            and self.risks_equal
            and self.releases_equal
        )


class Victims:
    """The workers of a deployment, so many of each kind, replaced when killed."""

    def __init__(self, deployment: OnKafka, workers: Mapping[str, int]) -> None:
        self._deployment = deployment
        self._workers: list[tuple[str, Process]] = [
            (kind, deployment.start(kind)) for kind, number in workers.items() for _ in range(number)
        ]
        self.kills = dict.fromkeys(workers, 0)

    def kill(self, random: np.random.Generator) -> None:
        """Kill one of them, chosen at random, and start another in its place."""
        index = int(random.integers(len(self._workers)))
        kind, process = self._workers[index]
        process.kill()
        self.kills[kind] += 1
        self._workers[index] = kind, self._deployment.start(kind)

    def check(self) -> None:
        """No worker may have ended by itself."""
        for kind, process in self._workers:
            assert process.is_running, f"a worker ({kind}) ended: {process.text[-3000:]}"


def run_chaos(
    deployment: OnKafka,
    lines: Sequence[bytes],
    steps: int,
    kills: int,
    *,
    seed: int,
    workers: Mapping[str, int] = ONE_REGION,
    between_seconds: tuple[float, float] = (1.0, 4.0),
    messages_per_second: float = 400.0,
    seconds: float = 900.0,
) -> ChaosReport:
    """Produce all lines while workers die, wait for the last step, compare with the embedded run.

    Every second kill comes after a step was decided since the last one: where a start takes longer than the
    pauses, nobody would ever be killed at work.
    """
    random = np.random.default_rng(seed)
    report = ChaosReport(steps, len(deployment.population))
    began = time.monotonic()
    deployment.load_people()
    victims = Victims(deployment, workers)
    producing = threading.Thread(
        target=deployment.produce, args=(lines, messages_per_second), name="producer", daemon=True
    )
    producing.start()
    decided = 0
    for number in range(kills):
        time.sleep(random.uniform(*between_seconds))
        victims.check()
        now = deployment.steps_decided()
        deadline = time.monotonic() + seconds
        while number % 2 and decided == now < steps and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
            victims.check()
            now = deployment.steps_decided()
        report.kills_at_work += now > decided
        decided = now
        victims.kill(random)
    producing.join()
    deployment.wait_for_steps(steps, seconds, victims.check)
    report.seconds = time.monotonic() - began
    report.kills = victims.kills
    _judge(report, deployment, lines)
    return report


def _judge(report: ChaosReport, deployment: OnKafka, lines: Sequence[bytes]) -> None:
    """Hold what is on the topics against the embedded run."""
    released = deployment.releases()
    numbers = [json.loads(line)["step"] for line in released]
    report.steps_released = len(numbers)
    report.steps_lost = len(set(range(report.steps)) - set(numbers))
    values: dict[tuple[str, int], set[str]] = {}
    for line in released:
        release = json.loads(line)
        for each in release["releases"]:
            values.setdefault((each["sensor"], release["step"]), set()).add(json.dumps(each, sort_keys=True))
    report.contradictions = sum(len(found) > 1 for found in values.values())
    expected_releases, expected_risks = deployment.embedded(lines)
    report.releases_equal = released == expected_releases
    written = deployment.person_risks()
    report.risks_compared = len(written)
    report.risks_equal = written == expected_risks
    summaries = deployment.summaries()
    report.repeated_summaries = sum(len(found) > 1 for found in summaries.values())
    assert len(summaries) == report.steps * deployment.topics.partitions
