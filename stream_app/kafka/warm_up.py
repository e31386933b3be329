"""Compiles an account worker's kernels before it joins its group: a member that compiles is a silent member.

``python -m stream_app.kafka.warm_up`` does it without a broker, as when an image is built.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from accounting.decisions import begun_windows
from accounting.decisions.what_if import AnnouncedStep, crowds_of_sensors
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import SensorRelease, StepSchedule, in_single_steps
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.setup.settings_sources import load_settings
from stream_app.steps import Accounts, PeopleAccounts
from stream_app.steps.policy import Decided

_STAY = 0.99
_KINDS: tuple[dict[str, Any], ...] = (  # settings that need different kernels
    {"sharpen": False},
    {"sharpen": True},
    {"release": {"mechanism": "budget", "budget": {"risk": 0.5}}},
    {"adversary": "crowd", "release": {"mechanism": "budget", "budget": {"risk": 0.5}}},
)


def compile_kernels(deployment: Deployment) -> None:
    """Compile by accounting a few steps of two invented people, with a what-if question if there is a budget.

    They hardly move, so that their risk is high and the refined bound is computed too, where it is
    configured.
    """
    places = len(deployment.location_names)
    size = min(2, places)
    matrix = np.full((size, size), (1.0 - _STAY) / size) + _STAY * np.eye(size)
    start = np.full(size, 1.0 / size)
    priors = [
        MovementPrior.from_dense("habitual", matrix, places=range(size)),
        MovementPrior.from_dense("starting", matrix, places=range(size), initial=start),
    ]
    population = Population.pack(priors, deployment.location_names)
    registry, settings = deployment.registry, deployment.settings
    has_windows = bool(registry.windowed)
    accounts = Accounts.of(settings, deployment.horizon(), population, population.people)
    people = PeopleAccounts(settings, accounts, has_windows=has_windows)
    sensors = [sensor for sensor in registry.sensors if sensor.window is None][:2]
    what_if = people.what_if
    for step in range(4):
        mechanism = Raw() if step % 2 else Gaussian(1.0)
        releases = tuple(SensorRelease(sensor, mechanism) for sensor in sensors)
        windows = None
        if what_if is not None and has_windows:
            counted = [SensorRelease(sensor, Gaussian(1.0)) for sensor in registry.windowed]
            windows = begun_windows(people.next_step, counted)
        schedule = StepSchedule(people.next_step, releases, windows=windows)
        single_steps = in_single_steps(schedule, registry)
        crowds = None if accounts.crowd is None else accounts.crowd.ask(single_steps)
        if what_if is not None:
            announced = AnnouncedStep(sensors, crowds_of_sensors(sensors, crowds), [sensors])
            what_if.next_step(announced).count_over([schedule])
        people.apply(Decided(schedule, None, crowds, single_steps))
        people.summary()
    people.accountant.crossings()


def main() -> None:
    """Compile for every kind of settings and sensors; two locations need the kernels of two thousand."""
    with tempfile.TemporaryDirectory() as folder:
        locations = Path(folder) / "locations.txt"
        locations.write_text("here\nthere\n")
        counted = Path(folder) / "sensors.json"
        counted.write_text(json.dumps({"sensors": [{"name": "way", "moves": [[0, 1]], "most_counts": 1}]}))
        for kind in (*_KINDS, {"sensors": counted, "release": {"sigma": 1.0}}):
            flags = {"locations": locations, "kafka": {"servers": ["nowhere:9092"]}, **kind}
            compile_kernels(Deployment.of(load_settings(None, flags)))


if __name__ == "__main__":
    main()
