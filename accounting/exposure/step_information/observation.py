"""What one step shows an informed adversary about one person.

Knowing everybody else, the adversary sees for each active sensor whether the person is counted there, exactly
or under noise. So a step is a map from locations to *outcomes*: outcome 0 is "counted nowhere", every other
outcome is one set of sensors that count the person together. Two outcomes are distinguished by
the noise of the sensors in which they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from math import exp

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.step_terms_kernel import StepView
from models.mechanisms import Composite, DrawnPerWindow, Mechanism, Tabulated, truncated_mass
from models.noise import InformationTable, truncation_information_nats
from models.releases import SensorRelease, StepSchedule

_MOST_VIEWS = 256  # a week of hours, each with sensors of its own, and more


@dataclass(frozen=True)
class StepObservation:
    """One step as the accountants see it.

    ``labels`` (M,) gives the outcome of each location, ``outcomes[k]`` the positions (in ``mechanisms``) of
    the sensors that count someone in outcome ``k``; ``outcomes[0]`` is empty. Suppressed sensors are left out
    as they show nothing.
    """

    labels: NDArray[np.int32]
    outcomes: tuple[tuple[int, ...], ...]
    mechanisms: tuple[Mechanism, ...]

    @property
    def is_empty(self) -> bool:
        """Whether nothing is released."""
        return not self.mechanisms

    @cached_property
    def _different(self) -> tuple[Mechanism, ...]:
        """Each mechanism once: sensors share few, and asking what one can do takes longer than comparing."""
        return tuple(dict.fromkeys(self.mechanisms))

    @cached_property
    def is_raw(self) -> bool:
        """Whether everything that is released is released exactly; true for an empty step."""
        return all(mechanism.is_exact for mechanism in self._different)

    @cached_property
    def has_independent_noise(self) -> bool:
        """Whether the noise of every release here is independent of that of other steps.

        Divergence, information and reveal probability of a mechanism hold either way; its noise law is the
        law of one step alone.
        """
        return not any(isinstance(own, DrawnPerWindow) and not own.is_exact for own in self._different)

    @cached_property
    def can_be_drawn(self) -> bool:
        """Whether what is released here has a law of this step alone.

        Not where steps share noise, where nobody knows how often somebody is counted, nor where several
        values are published of one count.
        """
        is_composite = any(isinstance(own, Composite) for own in self._different)
        return self.has_independent_noise and not is_composite

    @property
    def is_disjoint(self) -> bool:
        """Whether no sensor is in two outcomes."""
        members = list(chain.from_iterable(self.outcomes))
        return len(set(members)) == len(members)

    @cached_property
    def view(self) -> StepView:
        """The step in the form kernels read. A mechanism without a table counts as exact: errs upwards."""
        counts = [len(sensors) for sensors in self.outcomes]
        divergence = [mechanism.divergence() for mechanism in self.mechanisms]
        truncation = {mechanism: _truncation_nats(mechanism) for mechanism in self._different}
        members = list(chain.from_iterable(self.outcomes))
        rows: dict[Mechanism, int] = {}
        tables: list[InformationTable] = []
        for mechanism in self._different:
            if isinstance(mechanism, Tabulated):
                rows[mechanism] = len(tables)
                tables.append(mechanism.information_table())
        return StepView(
            labels=self.labels,
            outcome_start=np.concatenate(([0], np.cumsum(counts))).astype(np.int32),
            outcome_sensor=np.array(members, dtype=np.int32),
            divergence=np.array(divergence, dtype=np.float64),
            truncation_nats=np.array([truncation[own] for own in self.mechanisms], dtype=np.float64),
            table=np.array([rows.get(mechanism, -1) for mechanism in self.mechanisms], dtype=np.int32),
            information_grid=tables[0].grid if tables else np.zeros(1),
            information_nats=np.array([table.information_nats for table in tables]).reshape(len(tables), -1)
            if tables
            else np.zeros((0, 1)),
            closeness=np.array([exp(-sum(divergence[each] for each in own)) for own in self.outcomes]),
            is_disjoint=self.is_disjoint,
            is_raw=self.is_raw,
        )


def _truncation_nats(mechanism: Mechanism) -> float:
    """What the sampler's distance from the ideal noise can add to the information."""
    return truncation_information_nats(truncated_mass(mechanism))


def nothing_seen(location_count: int) -> StepView:
    """A step in which nothing is released."""
    return StepObservation(np.zeros(location_count, dtype=np.int32), ((),), ()).view


def observe(step: StepSchedule, location_count: int) -> StepObservation:
    """The observation of one step in a deployment with ``location_count`` locations."""
    released = [release for release in step.releases if release.mechanism.is_released]
    members: dict[int, list[int]] = {}
    for position, release in enumerate(released):
        for location in release.sensor.locations:
            members.setdefault(location, []).append(position)
    outcomes: dict[tuple[int, ...], int] = {(): 0}
    labels = np.zeros(location_count, dtype=np.int32)
    for location in sorted(members):
        labels[location] = outcomes.setdefault(tuple(members[location]), len(outcomes))
    return StepObservation(labels, tuple(outcomes), tuple(release.accounted for release in released))


@lru_cache(_MOST_VIEWS)
def view_of(releases: tuple[SensorRelease, ...], location_count: int) -> StepView:
    """The kernel form of a step with these releases; the same object when they come again."""
    return observe(StepSchedule(0, releases), location_count).view
