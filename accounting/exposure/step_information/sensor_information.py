"""What each sensor tells about an average person: information of single releases, averaged over everybody."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import Mechanism
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule, parts_of


class _Entries(NamedTuple):
    """The places a sensor counts at, of all people who know such a place; all of shape (n,)."""

    owner: NDArray[np.int64]
    at_slot_zero: NDArray[np.int64]  # index into the packed distributions
    place_count: NDArray[np.int64]  # K of the owner
    slots: NDArray[np.int64]  # C of the owner


class SensorInformation:
    """Mean information of single releases over everybody in a population.

    Each release is taken on its own and each person at the habitual distribution of the step's slot, so the
    figures of several sensors or steps may count the same knowledge twice: they rank sensors, and the bounds
    say what all of them tell together. They need priors and schedule only, never a count.
    """

    def __init__(
        self, population: Population, first_slot: int = 0, people: NDArray[np.int64] | None = None
    ) -> None:
        """``first_slot`` is the slot of step 0 in the priors' cycle.

        So many ``people`` (N,) are as each one of the population; None for everybody alone.
        """
        self._population = population
        self._first_slot = first_slot
        self._people = people
        self._cycle = int(np.lcm.reduce(population.arrays.slots)) if len(population) else 1
        self._entries_of: dict[tuple[int, ...], _Entries] = {}
        self._mean_of: dict[tuple[tuple[int, ...], Mechanism, int], float] = {}  # there are few of each

    def of_step(self, step: StepSchedule) -> dict[str, float]:
        """Mean nats a person by sensor, for every release of the step; 0 for a suppressed one.

        Of a count over a window it is the sum over what is accounted of its steps.
        """
        return {release.sensor.name: self._of_release(release, step.step) for release in step.releases}

    def _of_release(self, release: SensorRelease, step: int) -> float:
        window = release.sensor.window
        if window is None:
            return self._mean_nats(release.sensor, release.accounted, self._slot(step))
        first = window.first_of(step)
        return sum(
            self._mean_nats(part.sensor, part.mechanism, self._slot(first + part.places.offset))
            for part in parts_of(release)
        )

    def _slot(self, step: int) -> int:
        return (self._first_slot + step) % self._cycle

    def probability(self, sensor: Sensor, slot: int) -> NDArray[np.float64]:
        """How likely each person is counted by the sensor in this slot, (N,)."""
        if sensor.locations not in self._entries_of:
            self._entries_of[sensor.locations] = self._find_entries(sensor)
        entries = self._entries_of[sensor.locations]
        index = entries.at_slot_zero + (slot % entries.slots) * entries.place_count
        weights = self._population.arrays.distribution[index]
        return np.bincount(entries.owner, weights, minlength=len(self._population)).astype(np.float64)

    def _mean_nats(self, sensor: Sensor, mechanism: Mechanism, slot: int) -> float:
        key = (sensor.locations, mechanism, slot)
        if key not in self._mean_of:
            self._mean_of[key] = self._compute_mean(sensor, mechanism, slot)
        return self._mean_of[key]

    def _compute_mean(self, sensor: Sensor, mechanism: Mechanism, slot: int) -> float:
        if not mechanism.is_released or not len(self._population):
            return 0.0
        probability = np.minimum(self.probability(sensor, slot), 1.0)  # sums of shares may round above one
        is_concerned = probability > 0.0
        nats = mechanism.information(probability[is_concerned])
        if self._people is None:
            return float(nats.sum() / len(self._population))
        return float((nats * self._people[is_concerned]).sum() / self._people.sum())

    def _find_entries(self, sensor: Sensor) -> _Entries:
        arrays = self._population.arrays
        found = np.flatnonzero(np.isin(arrays.places, sensor.locations))
        owner = np.searchsorted(arrays.places_start, found, side="right") - 1
        local = found - arrays.places_start[owner]
        place_count = np.diff(arrays.places_start)[owner]
        at_slot_zero = arrays.distribution_start[owner] + local
        return _Entries(owner, at_slot_zero, place_count, arrays.slots[owner].astype(np.int64))
