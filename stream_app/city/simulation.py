"""A city that looks like one: its priors, what really happens, and the messages its sensors would send."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit
from models.priors import ChainView, Population, PopulationArrays, chain_view
from models.releases import Sensor, SensorRegistry
from stream_app.city.city_habits import HABITS
from stream_app.city.city_people import build_people, draw_habits
from stream_app.city.places import CityMap, city_map, sensor_locations
from stream_app.wire import Activation, Reading

STEP_SECONDS = 3600


@dataclass(frozen=True)
class CityOptions:
    """What may be chosen about a simulated city; the same options always give the same city.

    ``active`` of the ``sensors`` are switched on in each step, by turns drawn from the seed. ``slots`` is 24
    (habits by the hour) or 1 (the same people averaged over the day, for very large cities).
    """

    people: int = 2000
    sensors: int = 32
    active: int = 8
    slots: int = 24
    seed: int = 20260

    def __post_init__(self) -> None:
        """Refuse what no city could be."""
        if self.people < 1 or not 1 <= self.active <= self.sensors or self.slots not in (1, 24):
            raise ValueError(f"a city needs people, 1 <= active <= sensors and 1 or 24 slots: {self}")


@dataclass(frozen=True)
class CityStep:
    """One hour: where everybody really is (N,), which sensors count, and what they count."""

    step: int
    locations: NDArray[np.int32]
    active: tuple[Sensor, ...]
    counts: tuple[int, ...]

    def messages(self) -> Iterator[Activation | Reading]:
        """The step as a deployment would send it: the announcement first, then the counts."""
        yield Activation(v=1, step=self.step, sensors=tuple(sensor.name for sensor in self.active))
        for sensor, count in zip(self.active, self.counts, strict=True):
            yield Reading(v=1, step=self.step, sensor=sensor.name, count=count)


@dataclass(frozen=True)
class City:
    """Priors, map and sensors of a simulated city; ``habits`` (N,) are indices into :data:`HABITS`."""

    options: CityOptions
    places: CityMap
    population: Population
    registry: SensorRegistry
    habits: NDArray[np.int64]

    def habit_of(self, person: int) -> str:
        """The name of a person's way of life, for the demo's table; a deployment does not know it."""
        return HABITS[self.habits[person]].name

    def steps(self, count: int) -> Iterator[CityStep]:
        """The first ``count`` hours from midnight; the same ones each time it is called."""
        random = np.random.default_rng((self.options.seed, 1))
        arrays = self.population.arrays
        own = _start(arrays, random.random(self.options.people))
        for step in range(count):
            locations = _locations(arrays, own)
            active = self._switched_on(random)
            crowd = np.bincount(locations, minlength=len(self.places.names))
            counts = tuple(int(sum(crowd[list(sensor.locations)])) for sensor in active)
            yield CityStep(step, locations, active, counts)
            own = _walk(arrays, step, own, random.random(self.options.people))

    def messages(self, count: int) -> Iterator[Activation | Reading]:
        """All messages of the first ``count`` hours, in order."""
        for step in self.steps(count):
            yield from step.messages()

    def _switched_on(self, random: np.random.Generator) -> tuple[Sensor, ...]:
        chosen = random.choice(len(self.registry.sensors), size=self.options.active, replace=False)
        return tuple(self.registry.sensors[index] for index in np.sort(chosen))


def build_city(options: CityOptions) -> City:
    """The city of these options: same options, same city."""
    random = np.random.default_rng((options.seed, 0))
    places = city_map()
    habits = draw_habits(options.people, random)
    population = build_people(places, habits, options.slots, random)
    where = sensor_locations(places, _expected_crowd(population.arrays, len(places.names)), options.sensors)
    east_north = places.position_km.tolist()
    sensors = tuple(Sensor(places.names[at], (at,), places.kinds[at], tuple(east_north[at])) for at in where)
    return City(options, places, population, SensorRegistry(places.names, sensors), habits)


@jit
def _draw(probability: NDArray[np.float64], uniform: float) -> int:
    """Index drawn from a distribution by its cumulative sum; never one of probability zero."""
    last = 0
    for x in range(probability.size):
        if probability[x] > 0.0:
            last = x
            uniform -= probability[x]
            if uniform < 0.0:
                return x
    return last


@jit
def _next_place(chain: ChainView, slot: int, place: int, row: NDArray[np.float64], uniform: float) -> int:
    """The next own place after ``place``; ``row`` (K,) is scratch for the matrix row."""
    for y in range(row.size):
        row[y] = 0.0
        for j in range(chain.column_start[slot, y], chain.column_start[slot, y + 1]):
            if chain.row[j] == place:
                row[y] = chain.value[j]
    return _draw(row, uniform)


@jit
def _start(population: PopulationArrays, uniforms: NDArray[np.float64]) -> NDArray[np.int32]:
    """Everybody's own place (N,) at midnight, from the (cyclo-)stationary distribution."""
    own = np.empty(uniforms.size, dtype=np.int32)
    for person in range(own.size):
        own[person] = _draw(chain_view(population, person).start[0], uniforms[person])
    return own


@jit
def _walk(
    population: PopulationArrays, step: int, own: NDArray[np.int32], uniforms: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Everybody's own place an hour later."""
    moved = np.empty_like(own)
    for person in range(own.size):
        chain = chain_view(population, person)
        slot = step % chain.start.shape[0]
        row = np.empty(chain.places.size)
        moved[person] = _next_place(chain, slot, own[person], row, uniforms[person])
    return moved


@jit
def _locations(population: PopulationArrays, own: NDArray[np.int32]) -> NDArray[np.int32]:
    """Location indices (N,) of everybody's own place."""
    locations = np.empty(own.size, dtype=np.int32)
    for person in range(own.size):
        locations[person] = population.places[population.places_start[person] + own[person]]
    return locations


@jit
def _expected_crowd(population: PopulationArrays, location_count: int) -> NDArray[np.float64]:
    """People expected at each location, averaged over the day."""
    crowd = np.zeros(location_count)
    for person in range(population.slots.size):
        chain = chain_view(population, person)
        for slot in range(chain.start.shape[0]):
            for x in range(chain.places.size):
                crowd[chain.places[x]] += chain.start[slot, x] / chain.start.shape[0]
    return crowd
