"""What a finished or running output folder tells: settings, risk at each step, people, releases."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accounting.differential_privacy import ZcdpSpend
from models.correlated_noise import CorrelatedNoise
from models.mechanisms import Mechanism, parse
from models.mechanisms.correlated import know_design
from models.schedule import SensorRelease
from models.sensors import Sensor
from stream_app.exceptions import OutputError
from stream_app.messages import PersonRisk, RiskSummary, StepDecision

DELTA = 1e-6


@dataclass(frozen=True)
class SensorLog:
    """One sensor's releases: how many, with which mechanism last, its expected error, epsilon of all."""

    sensor: str
    releases: int
    mechanism: str
    error: float | None  # in people; None where nothing is published
    epsilon: float  # nats at DELTA; inf once a raw count was released


@dataclass(frozen=True)
class RunLog:
    """Everything a report needs of a run. ``exposed`` are people's records with the highest added risk."""

    settings: Mapping[str, Any]
    summaries: tuple[RiskSummary, ...]
    exposed: tuple[PersonRisk, ...]
    sensors: tuple[SensorLog, ...]
    releases: Mapping[str, int]  # by mechanism
    rejected: int

    @property
    def worst(self) -> RiskSummary:
        """The step at which the releases added most on average."""
        return max(self.summaries, key=lambda summary: summary.mean_added)


def read_run(folder: Path, most_exposed: int = 10) -> RunLog:
    """Read an output folder; :class:`OutputError` where it is not one or has no closed step."""
    settings = _json(folder / "run.json")
    _know_design(settings)
    summaries, people = _risks(folder / "risks.jsonl")
    if not summaries:
        raise OutputError(f"{folder} must hold at least one closed step", "none", "let the run go on first")
    ranked = sorted(people.values(), key=lambda record: (-record.added, record.person))
    sensors, releases = _decisions(folder / "decisions.jsonl")
    rejected = sum(1 for _ in _lines(folder / "rejected.jsonl"))
    return RunLog(settings, tuple(summaries), tuple(ranked[:most_exposed]), sensors, releases, rejected)


def _know_design(settings: Mapping[str, Any]) -> None:
    """The noise design of the run, if its file is still there; the log names it by a number only."""
    covariance = settings.get("release", {}).get("covariance")
    if covariance is not None and Path(covariance).exists():
        know_design(CorrelatedNoise.load(Path(covariance)))


def _risks(path: Path) -> tuple[list[RiskSummary], dict[str, PersonRisk]]:
    """All summaries, and for each person the record with the highest added risk."""
    summaries: list[RiskSummary] = []
    people: dict[str, PersonRisk] = {}
    for line in _lines(path):
        if line.startswith(b'{"v":1,"type":"risk_summary"'):
            summaries.append(RiskSummary.model_validate_json(line))
            continue
        record = PersonRisk.model_validate_json(line)
        known = people.get(record.person)
        if known is None or record.added > known.added:
            people[record.person] = record
    return summaries, people


def _decisions(path: Path) -> tuple[tuple[SensorLog, ...], Mapping[str, int]]:
    count: Counter[str] = Counter()
    mechanisms: Counter[str] = Counter()
    last: dict[str, Mechanism] = {}
    spent: dict[str, ZcdpSpend] = {}
    for line in _lines(path):
        for decision in StepDecision.model_validate_json(line).decisions:
            count[decision.sensor] += 1
            mechanisms[decision.mechanism] += 1
            mechanism = last[decision.sensor] = parse(decision.mechanism, decision.parameters)
            release = SensorRelease(Sensor(decision.sensor, (0,)), mechanism)
            spent.setdefault(decision.sensor, ZcdpSpend()).add([release])
    logs = (
        SensorLog(
            name,
            count[name],
            kind.name,
            kind.expected_absolute_error() if kind.is_released else None,
            spent[name].epsilon(DELTA),
        )
        for name, kind in last.items()
    )
    return tuple(sorted(logs, key=lambda log: (-log.releases, log.sensor))), mechanisms


def _lines(path: Path) -> Iterator[bytes]:
    """Complete lines; a last one that is still being written is left out."""
    if not path.exists():
        return
    with path.open("rb") as content:
        for line in content:
            if line.endswith(b"\n"):
                yield line


def _json(path: Path) -> Mapping[str, Any]:
    if not path.exists():
        raise OutputError(
            f"{path.parent} must be the output folder of a run", "no run.json", "name the folder of --output"
        )
    loaded: Mapping[str, Any] = json.loads(path.read_bytes())
    return loaded
