"""From what a step shows (:mod:`accounting.observation`) to the arrays its kernels read."""

from __future__ import annotations

from itertools import chain
from typing import Protocol, runtime_checkable

import numpy as np

from accounting.kernels.step_terms import StepView
from accounting.observation import StepObservation
from models.information import InformationTable
from models.mechanisms import Mechanism


@runtime_checkable
class Tabulated(Protocol):
    """A noised mechanism whose information about one person can be looked up in a kernel."""

    def information_table(self) -> InformationTable:
        """Upper bounds on a grid of the probability of being counted."""


def step_view(observation: StepObservation) -> StepView:
    """The kernel form of one step. A mechanism without a table counts as exact, which errs upwards."""
    counts = [len(sensors) for sensors in observation.outcomes]
    rows: dict[Mechanism, int] = {}
    tables: list[InformationTable] = []
    for mechanism in observation.mechanisms:
        if mechanism not in rows and isinstance(mechanism, Tabulated):
            rows[mechanism] = len(tables)
            tables.append(mechanism.information_table())
    return StepView(
        labels=observation.labels,
        outcome_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        outcome_sensor=np.array(list(chain.from_iterable(observation.outcomes)), dtype=np.int32),
        divergence=np.array(
            [mechanism.divergence() for mechanism in observation.mechanisms], dtype=np.float64
        ),
        table=np.array([rows.get(mechanism, -1) for mechanism in observation.mechanisms], dtype=np.int32),
        information_grid=tables[0].grid if tables else np.zeros(1),
        information_nats=np.array([table.information_nats for table in tables]).reshape(len(tables), -1)
        if tables
        else np.zeros((0, 1)),
        is_raw=observation.is_raw,
    )


def empty_view(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return step_view(StepObservation(np.zeros(location_count, dtype=np.int32), ((),), ()))
