"""Compiling an account worker's kernels before it joins its group."""

from __future__ import annotations

import numpy as np

from accounting.continuous import ContinuousAccountant
from models.mechanisms import Gaussian, Raw
from models.population import Population
from models.prior import MovementPrior
from models.schedule import SensorRelease, StepSchedule
from stream_app.kafka.deployment import Deployment


def account_a_little(deployment: Deployment) -> None:
    """Account a few steps of two invented people, one with a start of its own, raw and noised."""
    places = len(deployment.location_names)
    size = min(2, places)
    matrix = np.full((size, size), 1.0 / size)
    start = np.full(size, 1.0 / size)
    people = [
        MovementPrior.from_dense("habitual", matrix, places=range(size)),
        MovementPrior.from_dense("starting", matrix, places=range(size), initial=start),
    ]
    accountant = ContinuousAccountant(
        Population.pack(people, deployment.location_names), deployment.horizon()
    )
    sensors = deployment.registry.sensors[:2]
    for step in range(4):
        mechanism = Raw() if step % 2 else Gaussian(1.0)
        releases = tuple(SensorRelease(sensor, mechanism) for sensor in sensors)
        accountant.apply(StepSchedule(accountant.next_step, releases))
    accountant.summary()
    accountant.crossings()
