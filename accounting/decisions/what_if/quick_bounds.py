"""A quick upper bound on what a step says of each person: the sum over the sensors that can count them.

``I(X; Y_1..Y_n) <= sum_k I(X; Y_k)``, and each summand is a look-up. Most people need nothing sharper to be
seen within their limit.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import UNITS_PER_NAT
from accounting.exposure.step_information import SensorInformation
from models.mechanisms import Mechanism, Raw, Tabulated
from models.noise import binary_entropy, fill_information
from models.releases import Sensor, StepSchedule

_MARGIN_UNITS = 64.0  # rounding of sums of a few look-ups


@dataclass(frozen=True, eq=False)
class _Reach:
    """The people a sensor can count, (n,), and how likely it counts each of them in the step's slot."""

    people: NDArray[np.int64]
    probability: NDArray[np.float64]


class QuickBounds:
    """Bounds of one step's sensors on everybody's information, units."""

    def __init__(
        self,
        information: SensorInformation,
        sensors: Sequence[Sensor],
        slot: int,
        is_nonstationary: NDArray[np.bool_],
    ) -> None:
        """``slot`` is the step's; people with an initial distribution (N,) have no bound here."""
        self._unknown = np.where(is_nonstationary, np.inf, 0.0)
        self._reach = {sensor.name: _reach(information, sensor, slot) for sensor in sensors}
        self._units: dict[tuple[str, Mechanism], NDArray[np.float64]] = {}

    def people_of(self, sensors: Sequence[str]) -> NDArray[np.bool_]:
        """Whom one of these sensors can count, (N,); all with an initial distribution."""
        found = np.isinf(self._unknown)
        for name in sensors:
            found[self._reach[name].people] = True
        return found

    def at_most(self, step: StepSchedule) -> NDArray[np.float64]:
        """What the step says of each person at most, units, (N,)."""
        total = self._unknown.copy()
        for release in step.releases:
            if release.mechanism.is_released:
                name = release.sensor.name
                total[self._reach[name].people] += self._of(name, release.accounted)
        return total

    def raw(self) -> NDArray[np.float64]:
        """What all sensors, raw, say of each person at most, units, (N,)."""
        total = self._unknown.copy()
        for name, reach in self._reach.items():
            total[reach.people] += self._of(name, Raw())
        return total

    def _of(self, name: str, mechanism: Mechanism) -> NDArray[np.float64]:
        key = name, mechanism
        if key not in self._units:
            probability = self._reach[name].probability
            self._units[key] = np.ceil(_nats(mechanism, probability) * UNITS_PER_NAT) + _MARGIN_UNITS
        return self._units[key]


def _nats(mechanism: Mechanism, probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information by the mechanism's table, as in the accountant's kernels; without a table the entropy."""
    if not isinstance(mechanism, Tabulated):
        return binary_entropy(probability)
    nats = np.empty(probability.size)
    fill_information(mechanism.information_table(), probability, nats)
    return nats


def _reach(information: SensorInformation, sensor: Sensor, slot: int) -> _Reach:
    probability = np.minimum(information.probability(sensor, slot), 1.0)
    people = np.flatnonzero(probability)
    return _Reach(people, probability[people])
