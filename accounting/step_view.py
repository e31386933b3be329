"""From what a step shows (:mod:`accounting.observation`) to the arrays its kernels read."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import numpy as np

from accounting.kernels.step_terms import StepView
from accounting.observation import StepObservation
from models.information import InformationTable


@runtime_checkable
class Tabulated(Protocol):
    """A noised mechanism whose information about one person can be looked up in a kernel."""

    def information_table(self) -> InformationTable:
        """Upper bounds on a grid of the probability of being counted."""


def step_view(observation: StepObservation) -> StepView:
    """The kernel form of one step. A mechanism without a table counts as exact, which errs upwards."""
    members = np.zeros((len(observation.outcomes), len(observation.mechanisms)), dtype=np.bool_)
    for outcome, sensors in enumerate(observation.outcomes):
        members[outcome, list(sensors)] = True
    tables = {
        sensor: mechanism.information_table()
        for sensor, mechanism in enumerate(observation.mechanisms)
        if isinstance(mechanism, Tabulated)
    }
    is_exact = np.array(
        [sensor not in tables for sensor in range(len(observation.mechanisms))], dtype=np.bool_
    )
    grid = next(iter(tables.values())).grid if tables else np.zeros(1)
    information = np.zeros((len(is_exact) if tables else 0, grid.size))
    for sensor, table in tables.items():
        information[sensor] = table.information_nats
    overlap = np.exp(-observation.distances_nats)
    return StepView(observation.labels, overlap, members, is_exact, grid, information, observation.is_raw)


def empty_view(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return StepView(
        labels=np.zeros(location_count, dtype=np.int32),
        overlap=np.ones((1, 1)),
        members=np.zeros((1, 0), dtype=np.bool_),
        is_exact=np.zeros(0, dtype=np.bool_),
        information_grid=np.zeros(1),
        information_nats=np.zeros((0, 1)),
        is_raw=True,
    )
