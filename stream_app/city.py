"""A simulated city for the demo, tests and benchmarks: its priors, its people's days, its sensors' messages.

``python -m stream_app.city FOLDER`` writes its ``sensors.json`` and ``locations.txt``. They fit `tallyguard
persons load --city-people N` and `tallyguard produce --city-people N` with the same number of people and
seed: a deployment to try out before there are sensors.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from models.numerics.elementwise import exp
from models.numerics.jit import jit
from models.priors import ChainView, Lists, Moves, Population, PopulationArrays, chain_view
from models.releases import Sensor, SensorRegistry
from stream_app.wire import Activation, Reading

# The map of the simulated city: twelve quarters on a plane, each with homes, work and places to go.

QUARTERS = {  # position in kilometres from the centre
    "Old Town": (0.0, 0.0),
    "Market": (0.8, 0.5),
    "Station": (-0.9, 0.4),
    "Harbour": (0.4, -1.9),
    "University": (-1.6, 1.5),
    "Mill": (2.1, -0.6),
    "Garden": (1.7, 2.0),
    "River": (-2.2, -1.0),
    "Hill": (-0.2, 3.1),
    "Meadow": (3.4, 1.1),
    "Abbey": (-3.5, 0.8),
    "Lake": (-1.4, -3.2),
}
KINDS = ("homes north", "homes south", "offices", "shops", "park", "restaurants", "sports", "station")
HOMES = ("homes north", "homes south")
SENSOR_KINDS = (("station",), ("shops",), ("offices",), ("restaurants",), ("park",), ("sports",), HOMES)


@dataclass(frozen=True)
class CityMap:
    """Named locations with a kind and a position; index ``i`` is the location's index everywhere."""

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    position_km: NDArray[np.float64]  # (M, 2)

    def of_kind(self, *kinds: str) -> NDArray[np.int32]:
        """Indices of the locations of these kinds, increasing."""
        return np.flatnonzero(np.isin(np.array(self.kinds), kinds)).astype(np.int32)

    def distance_km(self, origin: NDArray[np.int32], to: NDArray[np.int32]) -> NDArray[np.float64]:
        """Distances (len(origin), len(to)) as the crow flies."""
        difference = self.position_km[origin][:, None, :] - self.position_km[to][None, :, :]
        return np.asarray(np.hypot(difference[..., 0], difference[..., 1]))


def city_map() -> CityMap:
    """The one map every simulated city shares; only its people differ from seed to seed."""
    names, kinds, positions = [], [], []
    for quarter, (east, north) in QUARTERS.items():
        for number, kind in enumerate(KINDS):
            angle = 2.0 * np.pi * number / len(KINDS)
            names.append(f"{quarter} {kind}")
            kinds.append(kind)
            positions.append((east + 0.3 * np.cos(angle), north + 0.3 * np.sin(angle)))
    return CityMap(tuple(names), tuple(kinds), np.array(positions))


def sensor_locations(places: CityMap, crowd: NDArray[np.float64], count: int) -> tuple[int, ...]:
    """Where a city would put ``count`` sensors: at the busiest places of each kind, homes included.

    ``crowd`` (M,) is the number of people expected at each location over the day. Kinds take turns, so one
    sensor in seven looks at homes: those are the ones that matter most to the people who live there.
    """
    of_kind = [places.of_kind(*kinds) for kinds in SENSOR_KINDS]
    ranked = [among[np.argsort(-crowd[among], kind="stable")] for among in of_kind]
    rounds = max(len(locations) for locations in ranked)
    in_turn = [
        int(locations[turn]) for turn in range(rounds) for locations in ranked if turn < len(locations)
    ]
    return tuple(sorted(in_turn[:count]))


# How different kinds of people spend a day, hour by hour, as weights over the roles places play for them.

HOURS = 24

#: Where a role's place is found: kind of location, near which other role, and how far people go for it (km).
ROLES: Mapping[str, tuple[tuple[str, ...], str, float]] = {
    "home": (("homes north", "homes south"), "", 0.0),
    "work": (("offices",), "home", 2.5),
    "lunch": (("restaurants",), "work", 0.6),
    "shop": (("shops",), "home", 0.8),
    "park": (("park",), "home", 1.0),
    "sports": (("sports",), "home", 1.5),
    "evening": (("restaurants",), "home", 2.0),
    "station": (("station",), "home", 0.6),
    "friend": (("homes north", "homes south"), "home", 2.5),
    "round a": (("shops", "restaurants"), "work", 4.0),
    "round b": (("shops", "restaurants"), "work", 4.0),
    "round c": (("offices", "station"), "work", 4.0),
    "round d": (("offices", "station"), "work", 4.0),
    "round e": (("homes north", "homes south"), "work", 4.0),
    "round f": (("homes north", "homes south"), "work", 4.0),
}


@dataclass(frozen=True)
class Habit:
    """One way of life: its share of the city, the roles it knows, and a day as ``(from hour, weights)``.

    A block of hours lasts until the next one begins. ``linger`` is the probability of staying another hour
    where one is wanted anyway; the rest is drawn from the weights of the next hour.
    """

    name: str
    share: float
    roles: tuple[str, ...]
    day: tuple[tuple[int, Mapping[str, float]], ...]
    linger: float

    def hourly_weights(self) -> NDArray[np.float64]:
        """Weights (24, K) of the roles in each hour, rows summing to one."""
        weights = np.zeros((HOURS, len(self.roles)))
        ends = [start for start, _ in self.day[1:]] + [HOURS]
        for (start, block), end in zip(self.day, ends, strict=True):
            for role, weight in block.items():
                weights[start:end, self.roles.index(role)] = weight
        return np.asarray(weights / weights.sum(axis=1, keepdims=True))


COMMUTER = Habit(
    "commuter",
    0.52,
    ("home", "work", "lunch", "shop", "sports", "evening", "station"),
    (
        (0, {"home": 0.995, "evening": 0.005}),
        (6, {"home": 0.7, "station": 0.25, "sports": 0.05}),
        (7, {"home": 0.3, "station": 0.4, "work": 0.3}),
        (9, {"work": 0.92, "home": 0.06, "lunch": 0.02}),
        (12, {"work": 0.55, "lunch": 0.4, "shop": 0.05}),
        (14, {"work": 0.93, "home": 0.04, "shop": 0.03}),
        (17, {"work": 0.25, "station": 0.35, "shop": 0.15, "home": 0.25}),
        (19, {"home": 0.6, "sports": 0.15, "evening": 0.2, "shop": 0.05}),
        (22, {"home": 0.9, "evening": 0.1}),
    ),
    0.75,
)
STAYS_PUT = Habit(
    "stays put",
    0.16,
    ("home", "shop", "park", "friend", "evening"),
    (
        (0, {"home": 1.0}),
        (8, {"home": 0.85, "shop": 0.1, "park": 0.05}),
        (13, {"home": 0.87, "park": 0.06, "friend": 0.07}),
        (18, {"home": 0.96, "evening": 0.02, "friend": 0.02}),
        (21, {"home": 1.0}),
    ),
    0.85,
)
ROAMER = Habit(
    "roams",
    0.12,
    ("home", "work", "round a", "round b", "round c", "round d", "round e", "round f", "evening"),
    (
        (0, {"home": 0.99, "evening": 0.01}),
        (6, {"home": 0.5, "work": 0.5}),
        (8, {"work": 0.1, **{f"round {letter}": 0.15 for letter in "abcdef"}}),
        (18, {"work": 0.3, "home": 0.5, "evening": 0.2}),
        (20, {"home": 0.8, "evening": 0.2}),
    ),
    0.2,
)
STUDENT = Habit(
    "student",
    0.12,
    ("home", "work", "lunch", "sports", "evening", "friend"),
    (
        (0, {"home": 0.9, "friend": 0.06, "evening": 0.04}),
        (3, {"home": 0.97, "friend": 0.03}),
        (9, {"home": 0.35, "work": 0.65}),
        (12, {"work": 0.5, "lunch": 0.4, "home": 0.1}),
        (14, {"work": 0.6, "sports": 0.15, "home": 0.2, "friend": 0.05}),
        (18, {"home": 0.4, "sports": 0.15, "evening": 0.25, "friend": 0.2}),
        (22, {"home": 0.6, "evening": 0.25, "friend": 0.15}),
    ),
    0.6,
)
NIGHT_WORKER = Habit(
    "works at night",
    0.08,
    ("home", "work", "shop", "station", "park"),
    (
        (0, {"work": 0.97, "home": 0.03}),
        (6, {"station": 0.4, "home": 0.5, "shop": 0.1}),
        (8, {"home": 0.97, "shop": 0.03}),
        (15, {"home": 0.7, "shop": 0.15, "park": 0.15}),
        (20, {"home": 0.5, "station": 0.3, "work": 0.2}),
        (22, {"work": 0.95, "home": 0.05}),
    ),
    0.8,
)
HABITS = (COMMUTER, STAYS_PUT, ROAMER, STUDENT, NIGHT_WORKER)


# Building the priors of many simulated people at once: places by gravity, habits with personal taste.
#
# A person's matrix from hour ``k`` to ``k + 1`` is a lazy draw: with the probability of lingering one
# stays, otherwise the next place is drawn from the person's own weights of hour ``k + 1``.

BLOCK = 4096  # people built at once; bounds the memory of the dense (people, slots, K, K) block
_UNWANTED_LINGER = 0.15  # probability of overstaying an hour where the habit has moved on
_TASTE_SPREAD = 0.5  # standard deviation of the log of how much a person likes a role
_SHIFT = ((-1, 0, 1), (0.2, 0.6, 0.2))  # hours by which a person's day is earlier or later


def draw_habits(people: int, random: Generator) -> NDArray[np.int64]:
    """The habit of each person, by the shares of :data:`HABITS`."""
    shares = np.array([habit.share for habit in HABITS])
    return random.choice(len(HABITS), size=people, p=shares / shares.sum())


def build_people(places: CityMap, habits: NDArray[np.int64], slots: int, random: Generator) -> Population:
    """Priors of all people, in the order of their ``habits``.

    ``slots`` is 24 for a day, or 1 for the same people without a cycle (the average hour).
    """
    blocks, groups = [], []
    for index, habit in enumerate(HABITS):
        group = np.flatnonzero(habits == index)
        for first in range(0, group.size, BLOCK):
            groups.append(group[first : first + BLOCK])
            blocks.append(_build_block(places, habit, groups[-1], slots, random))
    by_habit = np.concatenate(groups)
    number = random.permutation(habits.size)[by_habit]  # so that an id reveals nothing about the habit
    named = Population.concatenate(blocks).renamed([f"resident-{index:06d}" for index in number])
    return named.subset(np.argsort(by_habit, kind="stable"))


def _build_block(
    places: CityMap, habit: Habit, group: NDArray[np.int64], slots: int, random: Generator
) -> Population:
    """Some people of one habit, by their numbers."""
    people = group.size
    where = _draw_places(places, habit, people, random)
    weights = _draw_weights(habit, people, random)
    # How likely each person stays another hour where it is wanted: around the habit's, never 0 or 1.
    linger = random.beta(20.0 * habit.linger, 20.0 * (1.0 - habit.linger), size=people)
    transition = _transitions(weights, linger)
    if slots == 1:
        transition = transition.mean(axis=1, keepdims=True)
    order = np.argsort(where, axis=1, kind="stable")
    by_person = np.arange(people)[:, None, None]
    transition = transition[by_person, :, order[:, :, None], order[:, None, :]].transpose(0, 3, 1, 2)
    person, *move = np.nonzero(transition)
    start = np.searchsorted(person, np.arange(people + 1))
    slot, row, column = (index.astype(np.int32) for index in move)
    return Population.from_moves(
        list(map(str, group)),
        Lists(
            np.arange(people + 1, dtype=np.int64) * order.shape[1],
            np.take_along_axis(where, order, 1).ravel(),
        ),
        Moves(start, slot, row, column, transition[(person, *move)]),
        slots=np.full(people, slots, dtype=np.int32),
        location_names=places.names,
    )


def _draw_places(places: CityMap, habit: Habit, people: int, random: Generator) -> NDArray[np.int32]:
    """A location per role (n, K), no person using one twice; weights fall as exp(-distance / reach)."""
    where = np.full((people, len(habit.roles)), -1, dtype=np.int32)
    for number, role in enumerate(habit.roles):
        kinds, origin, reach_km = ROLES[role]
        candidates = places.of_kind(*kinds)
        score = random.gumbel(size=(people, candidates.size))  # the largest of weight + Gumbel is a fair draw
        if origin:
            score -= places.distance_km(where[:, habit.roles.index(origin)], candidates) / reach_km
        for earlier in range(number):
            score[where[:, earlier, None] == candidates[None, :]] = -np.inf
        where[:, number] = candidates[np.argmax(score, axis=1)]
    return where


def _draw_weights(habit: Habit, people: int, random: Generator) -> NDArray[np.float64]:
    """Each person's weights (n, 24, K): the habit's day, earlier or later, bent by personal taste."""
    taste = exp(random.normal(0.0, _TASTE_SPREAD, size=(people, 1, len(habit.roles))))
    shift = random.choice(_SHIFT[0], size=people, p=_SHIFT[1])
    hours = (np.arange(HOURS)[None, :] - shift[:, None]) % HOURS
    weights = habit.hourly_weights()[hours] * taste
    return np.asarray(weights / weights.sum(axis=2, keepdims=True))


def _transitions(weights: NDArray[np.float64], linger: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lazy draws (n, 24, K, K) from the place in one hour to the place in the next."""
    next_weights = np.roll(weights, -1, axis=1)
    stay = np.where(next_weights > 0.0, linger[:, None, None], _UNWANTED_LINGER)
    transition = (1.0 - stay)[:, :, :, None] * next_weights[:, :, None, :]
    diagonal = np.arange(weights.shape[2])
    transition[:, :, diagonal, diagonal] += stay
    return transition


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
        """Refuse options that no city could have."""
        if self.people < 1 or not 1 <= self.active <= self.sensors or self.slots not in (1, 24):
            raise ValueError(f"a city needs people, 1 <= active <= sensors and 1 or 24 slots: {self}")


@dataclass(frozen=True)
class CityStep:
    """One hour: where each person really is (N,), which sensors count, and what they count."""

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
    """Priors, map and sensors of a simulated city; ``habits`` (N,) are indices into ``ways`` of life.

    These are for the demo's tables: a deployment does not know them.
    """

    options: CityOptions
    places: CityMap
    population: Population
    registry: SensorRegistry
    habits: NDArray[np.int64]
    ways: tuple[str, ...] = tuple(habit.name for habit in HABITS)

    def steps(self, count: int) -> Iterator[CityStep]:
        """The first ``count`` hours from midnight; the same ones each time it is called."""
        random = np.random.default_rng((self.options.seed, 1))
        arrays = self.population.arrays
        own = _start(arrays, random.random(self.options.people))
        for step in range(count):
            locations = arrays.places[arrays.places_start[:-1] + own]
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
    """Each person's own place (N,) at midnight, from the (cyclo-)stationary distribution."""
    own = np.empty(uniforms.size, dtype=np.int32)
    for person in range(own.size):
        own[person] = _draw(chain_view(population, person).start[0], uniforms[person])
    return own


@jit
def _walk(
    population: PopulationArrays, step: int, own: NDArray[np.int32], uniforms: NDArray[np.float64]
) -> NDArray[np.int32]:
    """Each person's own place an hour later."""
    moved = np.empty_like(own)
    for person in range(own.size):
        chain = chain_view(population, person)
        slot = step % chain.start.shape[0]
        row = np.empty(chain.places.size)
        moved[person] = _next_place(chain, slot, own[person], row, uniforms[person])
    return moved


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


# Sensors and locations of a simulated city as the files a deployment reads.


def sensors_json(city: City) -> str:
    """The text of a sensors file."""
    return json.dumps({"sensors": [_row(sensor) for sensor in city.registry.sensors]}, indent=1) + "\n"


def _row(sensor: Sensor) -> dict[str, object]:
    row: dict[str, object] = {"name": sensor.name, "locations": list(sensor.locations), "group": sensor.group}
    if sensor.position is not None:
        east, north = sensor.position
        row |= {"x": round(east, 3), "y": round(north, 3)}
    return row


def generated(options: CityOptions) -> dict[str, str]:
    """Text of each file by its name."""
    city = build_city(options)
    locations = "".join(f"{name}\n" for name in city.population.location_names)
    return {"sensors.json": sensors_json(city), "locations.txt": locations}


def main() -> None:
    """Write the files into a folder."""
    parser = argparse.ArgumentParser(prog="python -m stream_app.city", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--people", type=int, default=CityOptions.people)
    parser.add_argument("--seed", type=int, default=CityOptions.seed)
    arguments = parser.parse_args()
    for name, text in generated(CityOptions(people=arguments.people, seed=arguments.seed)).items():
        (arguments.folder / name).write_text(text)
        print(arguments.folder / name)


if __name__ == "__main__":
    main()
