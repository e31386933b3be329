"""From what a step shows (:mod:`accounting.observation`) to the arrays its kernels read."""

from __future__ import annotations

from functools import lru_cache
from itertools import chain
from math import exp
from typing import Protocol, runtime_checkable

import numpy as np

from accounting.kernels.step_terms import StepView
from accounting.observation import StepObservation, observe
from models.information import InformationTable
from models.mechanisms import Mechanism
from models.schedule import SensorRelease, StepSchedule

_MOST_VIEWS = 256  # a week of hours, each with sensors of its own, and more


@runtime_checkable
class Tabulated(Protocol):
    """A noised mechanism whose information about one person can be looked up in a kernel."""

    def information_table(self) -> InformationTable:
        """Upper bounds on a grid of the probability of being counted."""


def step_view(observation: StepObservation) -> StepView:
    """The kernel form of one step. A mechanism without a table counts as exact, which errs upwards."""
    counts = [len(sensors) for sensors in observation.outcomes]
    divergence = [mechanism.divergence() for mechanism in observation.mechanisms]
    members = list(chain.from_iterable(observation.outcomes))
    rows: dict[Mechanism, int] = {}
    tables: list[InformationTable] = []
    for mechanism in observation.mechanisms:
        if mechanism not in rows and isinstance(mechanism, Tabulated):
            rows[mechanism] = len(tables)
            tables.append(mechanism.information_table())
    return StepView(
        labels=observation.labels,
        outcome_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
        outcome_sensor=np.array(members, dtype=np.int32),
        divergence=np.array(divergence, dtype=np.float64),
        table=np.array([rows.get(mechanism, -1) for mechanism in observation.mechanisms], dtype=np.int32),
        information_grid=tables[0].grid if tables else np.zeros(1),
        information_nats=np.array([table.information_nats for table in tables]).reshape(len(tables), -1)
        if tables
        else np.zeros((0, 1)),
        closeness=np.array([exp(-sum(divergence[each] for each in own)) for own in observation.outcomes]),
        is_disjoint=len(set(members)) == len(members),
        is_raw=observation.is_raw,
    )


@lru_cache(_MOST_VIEWS)
def view_of(releases: tuple[SensorRelease, ...], location_count: int) -> StepView:
    """The kernel form of a step with these releases; the same object when they come again."""
    return step_view(observe(StepSchedule(0, releases), location_count))


def empty_view(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return step_view(StepObservation(np.zeros(location_count, dtype=np.int32), ((),), ()))
