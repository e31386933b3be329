"""From what a step shows (:mod:`accounting.observation`) to the arrays its kernels read."""

from __future__ import annotations

import numpy as np

from accounting.kernels.step_terms import StepView
from accounting.observation import StepObservation


def step_view(observation: StepObservation) -> StepView:
    """The kernel form of one step; tables are those of each sensor's own mechanism."""
    members = np.zeros((len(observation.outcomes), len(observation.mechanisms)), dtype=np.bool_)
    for outcome, sensors in enumerate(observation.outcomes):
        members[outcome, list(sensors)] = True
    if observation.is_raw:
        grids, tables = np.zeros((0, 1)), np.zeros((0, 1))
    else:
        curves = [mechanism.information_table() for mechanism in observation.mechanisms]
        grids = np.array([curve.grid for curve in curves])
        tables = np.array([curve.values for curve in curves])
    overlap = np.exp(-observation.distances_nats)
    return StepView(observation.labels, overlap, members, grids, tables, observation.is_raw)


def empty_view(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return StepView(
        labels=np.zeros(location_count, dtype=np.int32),
        overlap=np.ones((1, 1)),
        members=np.zeros((1, 0), dtype=np.bool_),
        information_grid=np.zeros((0, 1)),
        information_table=np.zeros((0, 1)),
        is_raw=True,
    )
