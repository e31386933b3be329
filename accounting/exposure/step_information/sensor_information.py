"""What each sensor reveals about an average person, release by release."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from models.calendar import Calendar, slot_of_cycle
from models.mechanisms import Mechanism
from models.numerics.arrays import Floats, Integers
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule, parts_of


class _Entries(NamedTuple):
    """The places at which a sensor counts, of all people who have one; all of shape (n,) but ``people``."""

    people: Integers  # (P,), who have one
    owner: Integers  # by number among these
    at_slot_zero: Integers  # index into the packed distributions
    place_count: Integers  # K of the owner
    slots: Integers  # C of the owner


class SensorInformation:
    """Mean information of single releases over everybody in a population.

    Each release is taken on its own and each person at the habitual distribution of the step's slot, so the
    figures of several sensors or steps may count the same knowledge twice: they rank sensors, and the bounds
    say what all of them reveal together. They need priors and schedule only, never a count.
    """

    def __init__(
        self,
        population: Population,
        first_slot: int = 0,
        people: Integers | None = None,
        calendar: Calendar | None = None,
    ) -> None:
        """``first_slot`` is the slot of step 0 in the priors' cycle; slots follow the ``calendar``, if any.

        So many ``people`` (N,) are as each one of the population; None for everybody alone.
        """
        self._population = population
        self._first_slot = first_slot
        self._people = people
        self._calendar = calendar
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
        return slot_of_cycle(self._first_slot, step, self._cycle, self._calendar)

    def probability(self, sensor: Sensor, slot: int) -> Floats:
        """How likely each person is counted by the sensor in this slot, (N,)."""
        probability = np.zeros(len(self._population))
        probability[self._entries(sensor).people] = self._own_probability(sensor, slot)
        return probability

    def people_of(self, sensor: Sensor) -> Integers:
        """Those who have a place that the sensor counts at, whenever they are there, (n,)."""
        return self._entries(sensor).people

    def _entries(self, sensor: Sensor) -> _Entries:
        if sensor.locations not in self._entries_of:
            self._entries_of[sensor.locations] = self._find_entries(sensor)
        return self._entries_of[sensor.locations]

    def _own_probability(self, sensor: Sensor, slot: int) -> Floats:
        """How likely the sensor counts each person who has one of its places, (P,)."""
        entries = self._entries(sensor)
        index = entries.at_slot_zero + (slot % entries.slots) * entries.place_count
        weights = self._population.arrays.distribution[index]
        return np.bincount(entries.owner, weights, minlength=entries.people.size).astype(np.float64)

    def _mean_nats(self, sensor: Sensor, mechanism: Mechanism, slot: int) -> float:
        key = (sensor.locations, mechanism, slot)
        if key not in self._mean_of:
            self._mean_of[key] = self._compute_mean(sensor, mechanism, slot)
        return self._mean_of[key]

    def _compute_mean(self, sensor: Sensor, mechanism: Mechanism, slot: int) -> float:
        if not mechanism.is_released or not len(self._population):
            return 0.0
        own = np.minimum(self._own_probability(sensor, slot), 1.0)  # sums of shares may round above one
        is_concerned = own > 0.0
        nats = mechanism.information(own[is_concerned])
        if self._people is None:
            return float(nats.sum() / len(self._population))
        people = self._people[self._entries(sensor).people[is_concerned]]
        return float((nats * people).sum() / self._people.sum())

    @cached_property
    def _by_location(self) -> tuple[Integers, Integers]:
        """Positions among everybody's places, location by location, and where each location's begin."""
        places = self._population.arrays.places
        begins = np.cumsum(np.bincount(places, minlength=len(self._population.location_names)))
        return np.argsort(places, kind="stable"), np.concatenate([[0], begins])

    def _find_entries(self, sensor: Sensor) -> _Entries:
        arrays = self._population.arrays
        position, begin = self._by_location
        found = np.sort(np.concatenate([position[begin[x] : begin[x + 1]] for x in set(sensor.locations)]))
        owner = np.searchsorted(arrays.places_start, found, side="right") - 1
        people, number = np.unique(owner, return_inverse=True)
        local = found - arrays.places_start[owner]
        place_count = np.diff(arrays.places_start)[owner]
        at_slot_zero = arrays.distribution_start[owner] + local
        return _Entries(people, number, at_slot_zero, place_count, arrays.slots[owner].astype(np.int64))
