"""Habits assumed where nobody was measured: what they are, and how much the answer depends on them.

They use the sensors' positions and the hour of the day, and no count: risk never depends on one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from accounting.continuous import ContinuousAccountant, HorizonSettings
from models.population import Population
from models.prior import MovementPrior
from models.schedule import StepSchedule
from stream_app.starting.sensor_places import SensorPlace

ELSEWHERE = "elsewhere"
_HOURS = 24
_KNOWN_PLACES = 6
_SEED = 1
PEOPLE = 100


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
    """What one assumption makes of the first steps: means and the worst over people and steps."""

    habits: str
    mean_guess: float
    mean_ceiling: float
    worst_ceiling: float


def assumed_population(
    habits: AssumedHabits, places: Sequence[SensorPlace], step_seconds: int, people: int = PEOPLE
) -> Population:
    """People who know a few sensors near each other, and "elsewhere", by the hour of the local day."""
    random = np.random.default_rng(_SEED)
    hours = max(1, _HOURS * 3600 // step_seconds) if step_seconds < 86_400 else 1
    share = _out_shares(habits, hours)
    linger = habits.linger ** (step_seconds / 3600.0)
    priors = []
    for number in range(people):
        own = _known(places, random)
        liking = random.dirichlet(np.ones(own.size))
        matrices = []
        for slot in range(hours):
            out = share[(slot + 1) % hours]
            weights = np.append(out * liking, 1.0 - out)
            matrices.append(linger * np.eye(own.size + 1) + (1.0 - linger) * weights)
        where = np.append(own, len(places))
        priors.append(MovementPrior.from_dense(f"assumed-{number + 1:03d}", matrices, where))
    names = (*(place.name for place in places), ELSEWHERE)
    label = f"{people} invented people who stay another hour with probability {habits.linger:g}"
    return replace(Population.pack(priors, names), assumed=label)


def dependence(
    places: Sequence[SensorPlace],
    steps: Sequence[StepSchedule],
    step_seconds: int,
    horizon: HorizonSettings,
) -> tuple[Dependence, ...]:
    """The guess and ceiling under each alternative."""
    rows = []
    for habits in ALTERNATIVES:
        accountant = ContinuousAccountant(assumed_population(habits, places, step_seconds), horizon)
        guess, ceiling, worst = [], [], 0.0
        for step in steps:
            accountant.apply(step)
            guess.append(accountant.baseline().mean())
            ceiling.append(accountant.risk().mean())
            worst = max(worst, float(accountant.risk().max()))
        rows.append(Dependence(habits.name, float(np.mean(guess)), float(np.mean(ceiling)), worst))
    return tuple(rows)


def _out_shares(habits: AssumedHabits, slots: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float64]]:
    hour = np.arange(slots) * _HOURS / slots
    by_day = np.where((hour >= 8) & (hour < 18), habits.out_by_day, habits.out_by_night)
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
