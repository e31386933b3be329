"""The files of a deployment made from counts: written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accounting.differential_privacy import ZcdpSpend
from models.mechanisms import Gaussian
from models.population import Population
from models.prior_files import save_population
from models.schedule import SensorRelease, StepSchedule
from models.sensors import Sensor
from stream_app.exceptions import OutputError
from stream_app.messages import Activation, Reading
from stream_app.starting.assumed import ELSEWHERE, Dependence
from stream_app.starting.counts import NOT_COUNTED, Counts
from stream_app.starting.sensor_places import SensorPlace
from stream_app.wording import in_a_hundred

ASSUMED_PRIORS = "assumed-priors.json"


@dataclass(frozen=True)
class Deployment:
    """Counts, where they were made, and by how much noise they are to be released."""

    name: str
    counts: Counts
    places: tuple[SensorPlace, ...]
    sigma: float

    def announced(self) -> Iterator[tuple[str, ...]]:
        """The sensors of each step: each from its first count to its last; no gap tells of a count."""
        counted = self.counts.table != NOT_COUNTED
        first = counted.argmax(axis=0)
        last = len(counted) - 1 - counted[::-1].argmax(axis=0)
        for step in range(len(counted)):
            yield tuple(
                name
                for name, begin, end in zip(self.counts.sensors, first, last, strict=True)
                if begin <= step <= end
            )

    def epsilon(self, delta: float) -> float:
        """What releasing all of it costs anybody in differential privacy, whoever looks."""
        spend = ZcdpSpend()
        for step in self.schedule(len(self.counts.table)):
            spend.add(step.releases)
        return spend.epsilon(delta)

    def schedule(self, steps: int) -> list[StepSchedule]:
        """What the first steps release."""
        index = {name: number for number, name in enumerate(self.counts.sensors)}
        noise = Gaussian(self.sigma)
        return [
            StepSchedule(step, tuple(SensorRelease(Sensor(name, (index[name],)), noise) for name in names))
            for step, names in zip(range(steps), self.announced(), strict=False)
        ]


def require_new(folder: Path) -> None:
    """:class:`OutputError` for a folder that holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OutputError("--output must be a new or empty folder", folder, "choose another")


def write_deployment(
    folder: Path,
    deployment: Deployment,
    assumed: Population | None = None,
    table: Sequence[Dependence] = (),
) -> None:
    """Write everything to a new folder; nothing stays where that fails."""
    require_new(folder)
    unfinished = folder.with_name(folder.name + ".unfinished")
    unfinished.mkdir(parents=True)
    try:
        _write(unfinished, deployment)
        if assumed is not None:
            save_population(assumed, unfinished / ASSUMED_PRIORS)
            (unfinished / "assumed-habits.md").write_text(assumption_text(assumed.assumed or "", table))
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def assumption_text(label: str, table: Sequence[Dependence]) -> str:
    """What was assumed, and how much the answer depends on it."""
    rows = [
        f"| {row.habits} | {in_a_hundred(row.mean_guess)} | {in_a_hundred(row.mean_ceiling)} "
        f"| {in_a_hundred(row.worst_ceiling)} |"
        for row in table
    ]
    return "\n".join(
        [
            "# Assumed habits",
            "",
            f"Nobody was measured. {ASSUMED_PRIORS} holds 100 invented people ({label}).",
            "Everything computed with them holds for such people only. No count was used to make them.",
            "",
            "How much the answer depends on the assumption:",
            "",
            "| habits | mean guess | mean ceiling | worst ceiling |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    )


def _write(folder: Path, deployment: Deployment) -> None:
    names = deployment.counts.sensors
    rows = [_sensor_row(place) for place in deployment.places]
    (folder / "sensors.json").write_text(json.dumps({"sensors": rows}, indent=1) + "\n")
    (folder / "locations.txt").write_text("".join(f"{name}\n" for name in (*names, ELSEWHERE)))
    (folder / "tallyguard.toml").write_text(_settings(deployment))
    with (folder / "schedule.json").open("w") as schedule, (folder / "messages.jsonl").open("wb") as messages:
        schedule.write(f'{{"first_slot": {first_slot(deployment.counts)}, "steps": [')
        for step, announced in enumerate(deployment.announced()):
            release = {"mechanism": "gaussian", "sigma": deployment.sigma} if announced else {}
            schedule.write((",\n" if step else "\n") + json.dumps({"sensors": announced, **release}))
            messages.write(Activation(v=1, step=step, sensors=announced).line())
            row = deployment.counts.table[step]
            for index in np.flatnonzero(row != NOT_COUNTED):
                messages.write(Reading(v=1, step=step, sensor=names[index], count=int(row[index])).line())
        schedule.write("\n]}\n")


def _sensor_row(place: SensorPlace) -> dict[str, object]:
    row: dict[str, object] = {"name": place.name, "locations": [place.name]}
    return row if place.latitude is None else {**row, "lat": place.latitude, "lon": place.longitude}


def first_slot(counts: Counts) -> int:
    """The slot of step 0 in a cycle of one local day."""
    return counts.first_hour * 3600 // counts.step_seconds if counts.step_seconds < 86_400 else 0


def _settings(deployment: Deployment) -> str:
    counts = deployment.counts
    return "\n".join(
        [
            "# Written by tallyguard init; every setting: tallyguard config show --config tallyguard.toml",
            f"deployment = {json.dumps(deployment.name)}",
            f"step_seconds = {counts.step_seconds}",
            f"origin = {counts.origin:%Y-%m-%dT%H:%M:%SZ}  # start of step 0",
            f"first_slot = {first_slot(counts)}  # the local hour of step 0, for priors with a daily cycle",
            'sensors = "sensors.json"',
            'locations = "locations.txt"',
            "",
            "[release]",
            'mechanism = "gaussian"',
            f"sigma = {deployment.sigma}  # standard deviation of the noise, in people: yours to decide",
            "",
        ]
    )
