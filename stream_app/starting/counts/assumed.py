"""Habits assumed where nobody was measured: what they are, and how much the answer depends on them.

They use the sensors' positions and the hour of the day, and no count: risk never depends on one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.fitting.personas import lazy_moves
from models.priors import Population, PopulationBuilder, Triplets
from models.releases import StepSchedule
from stream_app.exceptions import InputError
from stream_app.starting.counts.sensor_places import SensorPlace

ELSEWHERE = "elsewhere"
_HOURS, _DAY, _MORNING = 24, 86_400, 8
_KNOWN_PLACES = 6
_SEED = 1
PEOPLE, _LEAST_PEOPLE = 100, 10
_MATRICES = 28_800  # of everybody together: 100 people at steps of 5 minutes
TABLE_STEPS = 24
OPERATIONS = 200_000_000  # of recomputing in a step: some tenths of a second, enough for invented people
HORIZON, MISTAKES = 10, 0
DEPENDS = (
    "These people are invented. A ceiling holds if habits are as assumed; nobody's were measured. Where the "
    "rows differ, the answer is that of the assumption."
)


@dataclass(frozen=True)
class AssumedHabits:
    """One way in which everybody might move.

    ``linger`` is the probability of staying an hour longer; who does not stay is near a sensor with
    probability ``out_by_day`` (8 to 18), ``out_by_evening`` (18 to 24) or ``out_by_night``.
    """

    name: str
    linger: float
    out_by_day: float
    out_by_evening: float
    out_by_night: float = 0.02


ALTERNATIVES = (
    AssumedHabits("as assumed", 0.6, 0.5, 0.3),
    AssumedHabits("stays longer", 0.85, 0.5, 0.3),
    AssumedHabits("moves more", 0.3, 0.7, 0.4),
    AssumedHabits("evening economy", 0.6, 0.3, 0.7, 0.1),
)


@dataclass(frozen=True)
class Dependence:
    """What one assumption makes of the same steps: means, and the most added to anybody at any of them."""

    habits: str
    mean_guess: float
    mean_ceiling: float
    most_added: float


def assumed_population(habits: AssumedHabits, places: Sequence[SensorPlace], step_seconds: int) -> Population:
    """People who know a few sensors near each other, and "elsewhere", by the hour of the local day.

    The shorter the steps, the longer a day's cycle and the fewer people: the work is bounded.
    """
    slots = _slots(step_seconds)
    people = max(_LEAST_PEOPLE, min(PEOPLE, _MATRICES // slots))
    out = np.roll(_out_shares(habits, slots), -1)  # where people are in the slot they move to
    linger = habits.linger ** (step_seconds / 3600.0)
    random, builder = np.random.default_rng(_SEED), PopulationBuilder()
    for number in range(people):
        own = _known(places, random)
        liking = random.dirichlet(np.ones(own.size))
        goes = np.concatenate([out[:, None] * liking, 1.0 - out[:, None]], axis=1)  # goes[slot, place]
        moves = lazy_moves(goes, linger)
        slot, row, column = (index.ravel() for index in np.indices(moves.shape))
        where = np.append(own, len(places))
        name = f"assumed-{number + 1:03d}"
        builder.add(name, where, Triplets(row, column, moves.ravel(), slot), slots=slots)
    names = (*(place.name for place in places), ELSEWHERE)
    label = f"{people} invented people who stay another hour with probability {habits.linger:g}"
    return replace(builder.build(names), assumed=label)


def dependence(
    places: Sequence[SensorPlace],
    steps: Sequence[StepSchedule],
    step_seconds: int,
    horizon: HorizonSettings,
    progress: Callable[[], None] = lambda: None,
) -> tuple[Dependence, ...]:
    """The guess and ceiling under each alternative; ``progress`` is called for each step of each."""
    rows = []
    for habits in ALTERNATIVES:
        population = assumed_population(habits, places, step_seconds)
        accountant = ContinuousAccountant(population, replace(horizon, operations=OPERATIONS))
        figures = []
        for step in steps:
            accountant.apply(step)
            guess, ceiling = accountant.baseline(), accountant.risk()
            figures.append((guess.mean(), ceiling.mean(), (ceiling - guess).max()))
            progress()
        guesses, ceilings, added = np.array(figures).T
        row = Dependence(habits.name, float(guesses.mean()), float(ceilings.mean()), float(added.max()))
        rows.append(row)
    return tuple(rows)


def table_steps(steps: int, first_slot: int, step_seconds: int) -> range:
    """The steps that the table is made of: from the first 8 in the morning on, while there are any."""
    slots = _slots(step_seconds)
    until_morning = (_MORNING * slots // _HOURS - first_slot) % slots
    first = min(until_morning, max(0, steps - TABLE_STEPS))
    return range(first, min(steps, first + TABLE_STEPS))


def _slots(step_seconds: int) -> int:
    """Steps of a day; :class:`InputError` where they do not fill one."""
    if step_seconds < _DAY and _DAY % step_seconds:
        raise InputError(
            "habits by the hour of the day must have steps that fill a day",
            f"steps of {step_seconds} s",
            "bring the counts to such an interval, or leave out --habits",
        )
    return max(1, _DAY // step_seconds)


def _out_shares(habits: AssumedHabits, slots: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    hour = np.arange(slots) * _HOURS / slots
    by_day = np.where((hour >= _MORNING) & (hour < 18), habits.out_by_day, habits.out_by_night)
    share = np.where(hour >= 18, habits.out_by_evening, by_day)
    return np.asarray(share if slots > 1 else np.array([habits.out_by_day]))


def _known(
    places: Sequence[SensorPlace], random: np.random.Generator
) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Sensors a person passes, increasing: the nearest to a random one, or random where none is placed."""
    count = min(_KNOWN_PLACES, len(places))
    order = random.permutation(len(places))
    degrees = [(place.latitude, place.longitude) for place in places]
    if all(latitude is not None for latitude, _ in degrees):
        at = np.array(degrees, dtype=np.float64)
        centre = at[order[0]]
        apart = (at - centre) * [1.0, np.cos(np.radians(centre[0]))]
        order = np.argsort((apart**2).sum(axis=1), kind="stable")
    return np.asarray(np.sort(order[:count]))
