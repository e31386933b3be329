"""Building the priors of many simulated people at once: places by gravity, habits with personal taste.

A person's matrix from hour ``k`` to ``k + 1`` is a lazy draw: with the probability of lingering one stays,
otherwise the next place is drawn from the person's own weights of hour ``k + 1``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from models.numerics.elementwise import exp
from models.priors import Lists, Moves, Population
from stream_app.city.city_habits import HABITS, HOURS, ROLES, Habit
from stream_app.city.places import CityMap

BLOCK = 4096  # people built at once; bounds the memory of the dense (people, slots, K, K) block
_UNWANTED_LINGER = 0.15  # probability of overstaying an hour where the habit has moved on
_TASTE_SPREAD = 0.5  # standard deviation of the log of how much a person likes a role
_SHIFT = ((-1, 0, 1), (0.2, 0.6, 0.2))  # hours by which a person's day is earlier or later


class _Block(NamedTuple):
    """The chains of some people of one habit: who, their own places, increasing, and each possible move."""

    group: NDArray[np.int64]  # (n,)
    places: NDArray[np.int32]  # (n, K)
    moves: Moves


def draw_habits(people: int, random: Generator) -> NDArray[np.int64]:
    """The habit of each person, by the shares of :data:`HABITS`."""
    shares = np.array([habit.share for habit in HABITS])
    return random.choice(len(HABITS), size=people, p=shares / shares.sum())


def build_people(places: CityMap, habits: NDArray[np.int64], slots: int, random: Generator) -> Population:
    """Priors of all people, in the order of their ``habits``.

    ``slots`` is 24 for a day, or 1 for the same people without a cycle (the average hour).
    """
    blocks: list[_Block] = []
    for index, habit in enumerate(HABITS):
        everybody = np.flatnonzero(habits == index)
        for first in range(0, everybody.size, BLOCK):
            blocks.append(_build_block(places, habit, everybody[first : first + BLOCK], slots, random))
    number = random.permutation(habits.size)  # so that an id reveals nothing about the habit
    packed = Population.concatenate([_packed(places, block, number[block.group], slots) for block in blocks])
    return packed.subset(np.argsort(np.concatenate([block.group for block in blocks]), kind="stable"))


def _packed(places: CityMap, block: _Block, number: NDArray[np.int64], slots: int) -> Population:
    people, size = block.places.shape
    return Population.from_moves(
        [f"resident-{index:06d}" for index in number],
        Lists(np.arange(people + 1, dtype=np.int64) * size, block.places.ravel()),
        block.moves,
        slots=np.full(people, slots, dtype=np.int32),
        location_names=places.names,
    )


def _build_block(
    places: CityMap, habit: Habit, group: NDArray[np.int64], slots: int, random: Generator
) -> _Block:
    people = group.size
    where = _draw_places(places, habit, people, random)
    transition = _transitions(_draw_weights(habit, people, random), _draw_linger(habit, people, random))
    if slots == 1:
        transition = transition.mean(axis=1, keepdims=True)
    order = np.argsort(where, axis=1, kind="stable")
    by_person = np.arange(people)[:, None, None]
    transition = transition[by_person, :, order[:, :, None], order[:, None, :]].transpose(0, 3, 1, 2)
    person, *move = np.nonzero(transition)
    start = np.searchsorted(person, np.arange(people + 1))
    slot, row, column = (index.astype(np.int32) for index in move)
    moves = Moves(start, slot, row, column, transition[(person, *move)])
    return _Block(group, np.take_along_axis(where, order, axis=1), moves)


def _draw_places(places: CityMap, habit: Habit, people: int, random: Generator) -> NDArray[np.int32]:
    """A location per role (n, K), nobody using one twice; weights fall as exp(-distance / reach)."""
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


def _draw_linger(habit: Habit, people: int, random: Generator) -> NDArray[np.float64]:
    """How likely each person stays another hour where it is wanted: around the habit's, never 0 or 1."""
    return random.beta(20.0 * habit.linger, 20.0 * (1.0 - habit.linger), size=people)


def _transitions(weights: NDArray[np.float64], linger: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lazy draws (n, 24, K, K) from the place in one hour to the place in the next."""
    next_weights = np.roll(weights, -1, axis=1)
    stay = np.where(next_weights > 0.0, linger[:, None, None], _UNWANTED_LINGER)
    transition = (1.0 - stay)[:, :, :, None] * next_weights[:, :, None, :]
    diagonal = np.arange(weights.shape[2])
    transition[:, :, diagonal, diagonal] += stay
    return transition
