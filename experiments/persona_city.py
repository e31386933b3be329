"""A closed loop on the demo's city: its people become aggregates, aggregates become personas.

What is known of the agents: how many live here and work there, what each kind of people does in each hour
(one drawn day of everybody), how many visit each location for what, and how many go from where to where in
each hour. Their own chains are the truth that ceilings of personas are held against.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.settings import HORIZON, HorizonSettings
from experiments.ceilings import schedule_of
from models.fitting.calibration import Flows, calibrate, expected_flows
from models.fitting.personas import (
    HOME,
    NO_WORK,
    WORK,
    Activity,
    Classes,
    DayType,
    Surroundings,
    Zones,
    grouped,
    personas,
)
from models.mechanisms import parse
from models.priors import MovementPrior, Population
from models.releases import Schedule
from stream_app.city import HOMES, City, CityOptions, build_city

PEOPLE, HOURS, SLOTS, MISTAKES, PENALTY = 500, 34, 24, 1, 10.0
LEAST_PRESENCE = 0.02
REACH_KM = {
    "shops": 0.8,
    "park": 1.0,
    "sports": 1.5,
    "restaurants": 2.0,
    "station": 0.6,
    "offices": 4.0,
    "visit": 2.5,
}


@dataclass(frozen=True, eq=False)
class Agents:
    """The city's people as a city knows them: homes, work, and one drawn day of each."""

    city: City
    home: NDArray[np.int64]
    work: NDArray[np.int64]
    activity: NDArray[np.int64]  # (N, 24)
    place: NDArray[np.int64]  # (N, 24)
    activities: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Way:
    """One way to make personas of the agents, and which persona stands for each agent."""

    name: str
    population: Population
    persona_of: NDArray[np.int64]


@dataclass(frozen=True)
class CityRow:
    """Ceilings of one way at one kind of noise, beside those of the agents' true chains."""

    way: str
    noise: str
    classes: int
    trips: float  # of everybody in a day
    guess: float
    ceiling: float
    above_quarter: float
    difference: float
    low: float
    high: float
    understated: float
    radius: float
    radius_of_nine_tenths: float


def agents_of(city: City, seed: int) -> Agents:
    """Homes and work where agents are most, and one day of each, drawn from their chains."""
    random, count = np.random.default_rng(seed), len(city.population)
    kinds = np.array(city.places.kinds)
    home, work = np.empty(count, dtype=np.int64), np.full(count, NO_WORK)
    activity, place = (np.empty((count, SLOTS), dtype=np.int64) for _ in range(2))
    activities = (HOME, WORK, *REACH_KM)
    for person in range(count):
        chain = city.population.chain(person)
        presence, own = chain.start.mean(axis=0), chain.places
        at_home, at_work = np.isin(kinds[own], HOMES), kinds[own] == "offices"
        home[person] = own[np.argmax(np.where(at_home, presence, -1.0))]
        if (presence[at_work] > LEAST_PRESENCE).any():
            work[person] = own[np.argmax(np.where(at_work, presence, -1.0))]
        place[person] = _drawn_day(city.population.prior(person), chain.start[0], random)
        names = ["visit" if kinds[z] in HOMES else str(kinds[z]) for z in place[person]]
        activity[person] = [activities.index(name) for name in names]
        activity[person][place[person] == work[person]] = activities.index(WORK)
        activity[person][place[person] == home[person]] = activities.index(HOME)
    return Agents(city, home, work, activity, place, activities)


def _drawn_day(
    prior: MovementPrior, start: NDArray[np.float64], random: np.random.Generator
) -> NDArray[np.int64]:
    """The places of one day."""
    here, found = int(random.choice(start.size, p=start / start.sum())), []
    for matrix in prior.transitions:
        found.append(int(prior.places[here]))
        row = matrix.toarray()[here]
        here = int(random.choice(row.size, p=row / row.sum()))
    return np.array(found)


def ways(agents: Agents) -> list[Way]:
    """Personas by flows alone, by two kinds of day and by five, as made and calibrated to hourly trips."""
    flows = expected_flows(agents.city.population, SLOTS)
    works = np.where(agents.work >= 0, 0, 1)
    found = [_by_flows(agents, flows)]
    kinds = {"2 kinds of day": works, "5 kinds of day": agents.city.habits * 2 + works}
    for name, kind in kinds.items():
        made = _made(agents, kind)
        found.append(Way(f"home, work, {name}", *made))
        calibrated = calibrate(made[0], [_trips(flows)], penalty=PENALTY, tolerance=1e-8).population
        found.append(Way("the same, calibrated to hourly trips", calibrated, made[1]))
    return found


def _by_flows(agents: Agents, flows: NDArray[np.float64]) -> Way:
    """One persona that moves as everybody together: F / N."""
    names, count = agents.city.places.names, len(agents.city.population)
    return Way("one persona, flows alone", flow_chain(flows, names), np.zeros(count, dtype=np.int64))


def flow_chain(flows: NDArray[np.float64], names: Sequence[str]) -> Population:
    """One persona that moves by ``F / N`` on the places where anybody ever is."""
    places = np.flatnonzero(flows.sum(axis=(0, 2)))
    between = flows[:, places][:, :, places]
    leaving, arriving = between.sum(axis=2, keepdims=True), between.sum(axis=1, keepdims=True)
    otherwise = np.broadcast_to(arriving / arriving.sum(axis=2, keepdims=True), between.shape).copy()
    moves = np.divide(between, leaving, out=otherwise, where=leaving > 0.0)
    return Population.pack([MovementPrior.from_dense("everybody", moves, places)], names)


def _made(agents: Agents, kind: NDArray[np.int64]) -> tuple[Population, NDArray[np.int64]]:
    """Personas by home, work and kind of day."""
    labels, number = np.unique(kind, return_inverse=True)
    days = [
        DayType.of_sequences(f"day {label}", agents.activities, agents.activity[number == index])
        for index, label in enumerate(labels)
    ]
    classes = grouped(number, agents.home, agents.work, np.ones(number.size))
    names = agents.city.places.names
    at = agents.city.places.position_km
    visits = {
        name: np.bincount(agents.place[agents.activity == index], minlength=len(names)).astype(float)
        for index, name in enumerate(agents.activities)
    }
    around = Surroundings(
        Zones.on_plane(names, at[:, 0].tolist(), at[:, 1].tolist()),
        {name: Activity(name, reach_km=reach) for name, reach in REACH_KM.items()},
        visits,
        np.arange(len(names)),
        names,
    )
    return personas(classes, days, around), persona_of(classes, number, agents.home, agents.work)


def persona_of(
    classes: Classes, day: NDArray[np.int64], home: NDArray[np.int64], work: NDArray[np.int64]
) -> NDArray[np.int64]:
    """The class of each person; -1 where there is none."""
    keys = zip(classes.day.tolist(), classes.home.tolist(), classes.work.tolist(), strict=True)
    index = {key: number for number, key in enumerate(keys)}
    wanted = zip(day.tolist(), home.tolist(), work.tolist(), strict=True)
    return np.array([index.get(key, -1) for key in wanted], dtype=np.int64)


def _trips(flows: NDArray[np.float64]) -> Flows:
    """Everybody who goes somewhere else."""
    moving = flows * ~np.eye(flows.shape[1], dtype=np.bool_)
    slot, origin, destination = np.nonzero(moving)
    return Flows(slot, origin, destination, moving[slot, origin, destination])


def last_figures(
    population: Population, schedule: Schedule
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Guess and ceiling of everybody after the last step."""
    accountant = ContinuousAccountant(population, HorizonSettings(HORIZON, MISTAKES, sharpen_above=0.0))
    accountant.apply_all(schedule.steps)
    return accountant.baseline(), accountant.risk()


def city_rows(noises: Sequence[str], seed: int = 1) -> list[CityRow]:
    """Every way at every noise, the truth first."""
    city = build_city(CityOptions(people=PEOPLE))
    agents = agents_of(city, seed)
    truth = Way("the agents' true chains", city.population, np.arange(PEOPLE))
    all_ways, rows = [truth, *ways(agents)], []
    for noise in noises:
        mechanism = parse("raw", {}) if noise == "raw" else parse("gaussian", {"sigma": float(noise)})
        schedule = schedule_of(city, mechanism, HOURS)
        _, true_ceiling = last_figures(city.population, schedule)
        for way in all_ways:
            guess, ceiling = last_figures(way.population, schedule)
            rows.append(_row(way, noise, (guess, ceiling), true_ceiling))
    return rows


def trips_of(way: Way) -> float:
    """Moves from one location to another in a day, of as many people as there are agents."""
    flows, weights = expected_flows(way.population, SLOTS), way.population.weights
    stand_for = len(way.population) if weights is None else float(weights.sum())
    return float((flows * ~np.eye(flows.shape[1], dtype=np.bool_)).sum()) * PEOPLE / stand_for


def _row(
    way: Way, noise: str, figures: tuple[NDArray[np.float64], NDArray[np.float64]], truth: NDArray[np.float64]
) -> CityRow:
    guess, ceiling = (each[way.persona_of] for each in figures)
    off = ceiling - truth
    low, high = np.quantile(off, (0.1, 0.9))
    radii = [least_radius(*pair) for pair in zip(truth.tolist(), ceiling.tolist(), strict=True)]
    return CityRow(
        way.name,
        noise,
        len(way.population),
        trips_of(way),
        float(guess.mean()),
        float(ceiling.mean()),
        float((ceiling > 0.25).mean()),
        float(off.mean()),
        float(low),
        float(high),
        float((off < -0.05).mean()),
        least_radius(float(truth.mean()), float(ceiling.mean())),
        float(np.quantile(radii, 0.9)),
    )


def least_radius(success: float, ceiling: float) -> float:
    """``d(success || ceiling)``, nats: the least radius that lifts the ceiling to this success, or 0."""
    if success <= ceiling:
        return 0.0
    from scipy.special import rel_entr

    return float(rel_entr(success, ceiling) + rel_entr(1.0 - success, 1.0 - ceiling))
