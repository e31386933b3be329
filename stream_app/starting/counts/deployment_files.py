"""The files of a deployment made from counts: written whole or not at all."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accounting.ledgers import ZcdpSpend, epsilon_from_zcdp
from models.mechanisms import Gaussian
from models.prior_files import save_population
from models.priors import Population
from models.private_files import OPEN_FOLDER, new_file, private_file
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.exceptions import InputError, OutputError
from stream_app.setup.run_folder.durable import PUBLIC_MODE, make_folder, replace_file
from stream_app.starting.counts.assumed import (
    DEPENDS,
    ELSEWHERE,
    HORIZON,
    MISTAKES,
    OPERATIONS,
    TABLE_STEPS,
    Dependence,
)
from stream_app.starting.counts.sensor_places import SensorPlace
from stream_app.starting.counts.step_counts import NOT_COUNTED, Counts
from stream_app.watching.wording import UP, ceiling_in_words, in_a_hundred, in_points
from stream_app.wire import Activation, Reading

ASSUMED_PRIORS = "assumed-priors.json"
_MOST_SIGMA = 10_000


@dataclass(frozen=True)
class Deployment:
    """Counts, where they were made, and by how much noise they are to be released."""

    name: str
    counts: Counts
    places: tuple[SensorPlace, ...]
    sigma: float

    def announced(self) -> Iterator[tuple[str, ...]]:
        """The sensors of each step."""
        return announced_steps(self.counts)

    def epsilon(self, delta: float) -> float:
        """What releasing all of it costs anybody in differential privacy, whoever looks."""
        spend = ZcdpSpend()
        for step in self.schedule(range(len(self.counts.table))):
            spend.add(step.releases)
        return spend.epsilon(delta)

    @property
    def steps_with_releases(self) -> int:
        """Steps in which anything is announced."""
        return sum(bool(names) for names in self.announced())

    def schedule(self, steps: range) -> list[StepSchedule]:
        """What these steps release."""
        index = {name: number for number, name in enumerate(self.counts.sensors)}
        noise = Gaussian(self.sigma)
        return [
            StepSchedule(step, tuple(SensorRelease(self._sensor(name, index[name]), noise) for name in names))
            for step, names in enumerate(self.announced())
            if step in steps
        ]

    def _sensor(self, name: str, location: int) -> Sensor:
        return Sensor(name, (location,), most_counts=self.counts.most_counts)


def announced_steps(counts: Counts) -> Iterator[tuple[str, ...]]:
    """The sensors of each step: each from its first count to its last; no gap reveals a count."""
    counted = counts.table != NOT_COUNTED
    first = counted.argmax(axis=0)
    last = len(counted) - 1 - counted[::-1].argmax(axis=0)
    ever = counted.any(axis=0)
    for step in range(len(counted)):
        at_work = (first <= step) & (step <= last) & ever
        yield tuple(counts.sensors[index] for index in np.flatnonzero(at_work))


def least_sigma(steps: int, epsilon: float, delta: float, most_counts: int = 1) -> float:
    """The smallest whole sigma with which so many steps cost at most ``epsilon`` in differential privacy.

    Each sensor counts at a location of its own, so a person is in one count a step, and moves it by
    ``most_counts`` at most.
    """
    for sigma in range(1, _MOST_SIGMA + 1):
        if epsilon_from_zcdp(steps * most_counts**2 / (2.0 * sigma**2), delta) <= epsilon:
            return float(sigma)
    raise InputError(
        f"releases must cost at most epsilon {epsilon:g} together",
        f"more with any noise up to sigma {_MOST_SIGMA:,}",
        "take fewer days, or a larger --epsilon",
    )


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
    make_folder(unfinished.parent)
    unfinished.mkdir(mode=OPEN_FOLDER)
    try:
        _write(unfinished, deployment)
        if assumed is not None:
            save_population(assumed, unfinished / ASSUMED_PRIORS)
            _write_text(unfinished / "assumed-habits.md", assumption_text(assumed.assumed or "", table))
        if folder.exists():
            folder.rmdir()
        unfinished.rename(folder)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def assumption_text(label: str, table: Sequence[Dependence]) -> str:
    """What was assumed, and how much the answer depends on it."""
    rows = [
        f"| {row.habits} | {in_a_hundred(row.mean_guess)} | {ceiling_in_words(row.mean_ceiling)} "
        f"| {in_points(row.most_added, UP)} |"
        for row in table
    ]
    return "\n".join(
        [
            "# Assumed habits",
            "",
            f"Nobody was measured. {ASSUMED_PRIORS} holds {label}.",
            "Everything computed with them holds for such people only. No count was used to make them.",
            "",
            f"How much the answer depends on the assumption, over {TABLE_STEPS} steps at most, from 8 in the",
            f"morning on. Chances that each of a person's last {HORIZON} steps is reconstructed:",
            "",
            "| habits | mean guess | mean ceiling | most added to anybody |",
            "|---|---|---|---|",
            *rows,
            "",
            DEPENDS,
            "",
        ]
    )


def _write(folder: Path, deployment: Deployment) -> None:
    names = deployment.counts.sensors
    rows = [_sensor_row(place) for place in deployment.places]
    most = deployment.counts.most_counts
    counts = {"counts": "passages", "most_counts": most} if most > 1 else {}
    _write_text(folder / "sensors.json", json.dumps({**counts, "sensors": rows}, indent=1) + "\n")
    _write_text(folder / "locations.txt", "".join(f"{name}\n" for name in (*names, ELSEWHERE)))
    _write_text(folder / "tallyguard.toml", _settings(deployment))
    public = os.fdopen(new_file(folder / "schedule.json", PUBLIC_MODE), "w")
    with (
        public as schedule,
        private_file(folder / "messages.jsonl") as messages,
    ):
        schedule.write(f'{{"first_slot": {deployment.counts.first_slot}, "steps": [')
        for step, announced in enumerate(deployment.announced()):
            release = {"mechanism": "gaussian", "sigma": deployment.sigma} if announced else {}
            schedule.write((",\n" if step else "\n") + json.dumps({"sensors": announced, **release}))
            messages.write(Activation(v=1, step=step, sensors=announced).line())
            row = deployment.counts.table[step]
            for index in np.flatnonzero(row != NOT_COUNTED):
                messages.write(Reading(v=1, step=step, sensor=names[index], count=int(row[index])).line())
        schedule.write("\n]}\n")


def _write_text(path: Path, text: str) -> None:
    """What everybody may read, and nobody else write."""
    replace_file(path, text.encode())


def _sensor_row(place: SensorPlace) -> dict[str, object]:
    row: dict[str, object] = {"name": place.name, "locations": [place.name]}
    return row if place.latitude is None else {**row, "lat": place.latitude, "lon": place.longitude}


def _settings(deployment: Deployment) -> str:
    counts = deployment.counts
    return "\n".join(
        [
            "# Written by tallyguard init; every setting: tallyguard config show --config tallyguard.toml",
            f"deployment = {json.dumps(deployment.name)}",
            f"step_seconds = {counts.step_seconds}",
            f"origin = {counts.origin:%Y-%m-%dT%H:%M:%SZ}  # start of step 0",
            f"first_slot = {counts.first_slot}  # place of step 0 in the local day, for a daily cycle",
            "# Slots count steps, not hours on the clock: after the clocks change, habits are an hour off.",
            f"horizon = {HORIZON}  # steps of which an observer tries to tell where a person was",
            f"mistakes = {MISTAKES}  # how many of them may be wrong; with 0 the ceiling is sharpest",
            f"sharpen_operations = {OPERATIONS}  # work for ceilings in a step, of about a nanosecond",
            "# Raise it with the people you have priors of; page, report and check say whether it suffices.",
            'sensors = "sensors.json"',
            'locations = "locations.txt"',
            "",
            "[release]",
            'mechanism = "gaussian"',
            f"sigma = {deployment.sigma:g}  # standard deviation of the noise, in people: yours to decide",
            "",
        ]
    )
