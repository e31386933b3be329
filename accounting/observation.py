"""What one step shows an informed adversary about one person.

Knowing everybody else, the adversary sees for each active sensor whether the person is counted there, exactly
or under noise. So a step is a map from locations to *outcomes*: outcome 0 is "counted nowhere", every other
outcome is one set of sensors that count the person together. Two outcomes are told apart by the noise of the
sensors in which they differ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import Mechanism
from models.mechanisms.base import DrawnPerWindow
from models.schedule import StepSchedule


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
    def is_raw(self) -> bool:
        """Whether everything that is released is released exactly; true for an empty step."""
        return all(mechanism.is_exact for mechanism in self.mechanisms)

    @property
    def has_independent_noise(self) -> bool:
        """Whether the noise of every release here is independent of that of other steps.

        Divergence, information and reveal probability of a mechanism hold either way; its noise law is the
        law of one step alone.
        """
        return not any(isinstance(own, DrawnPerWindow) and not own.is_exact for own in self.mechanisms)

    @cached_property
    def distances_nats(self) -> NDArray[np.float64]:
        """Kullback-Leibler divergences (O, O) between what outcomes show; inf where an exact count differs.

        The sensors' noises are independent, so the divergence adds over the sensors in which two outcomes
        differ, each at shift one.
        """
        members = np.zeros((len(self.outcomes), len(self.mechanisms)))
        for outcome, sensors in enumerate(self.outcomes):
            members[outcome, list(sensors)] = 1.0
        divergence = np.array([mechanism.divergence() for mechanism in self.mechanisms])
        is_exact = np.isinf(divergence)
        distances = _weight_of_difference(members, np.where(is_exact, 0.0, divergence))
        distances[_weight_of_difference(members, is_exact.astype(np.float64)) > 0.5] = np.inf
        return distances


def _weight_of_difference(members: NDArray[np.float64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """Summed weight (O, O) of the sensors that are in one of two outcomes only."""
    common = (members * weight) @ members.T
    own = np.diag(common)
    difference: NDArray[np.float64] = own[:, np.newaxis] + own - 2.0 * common
    return np.maximum(difference, 0.0)


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
    return StepObservation(labels, tuple(outcomes), tuple(release.mechanism for release in released))
