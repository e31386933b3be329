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
from models.priors import FlatChains
from stream_app.city.city_habits import HABITS, HOURS, ROLES, Habit
from stream_app.city.places import CityMap

BLOCK = 4096  # people built at once; bounds the memory of the dense (people, slots, K, K) block
_UNWANTED_LINGER = 0.15  # probability of overstaying an hour where the habit has moved on
_TASTE_SPREAD = 0.5  # standard deviation of the log of how much a person likes a role
_SHIFT = ((-1, 0, 1), (0.2, 0.6, 0.2))  # hours by which a person's day is earlier or later


class Block(NamedTuple):
    """The chains of some people of one habit: own places, increasing, and each possible move as a triplet."""

    places: NDArray[np.int32]  # (n, K)
    person: NDArray[np.int32]  # (entries,) increasing, 0..n-1
    slot: NDArray[np.int32]
    row: NDArray[np.int32]
    column: NDArray[np.int32]
    probability: NDArray[np.float64]


def draw_habits(people: int, random: Generator) -> NDArray[np.int64]:
    """The habit of each person, by the shares of :data:`HABITS`."""
    shares = np.array([habit.share for habit in HABITS])
    return random.choice(len(HABITS), size=people, p=shares / shares.sum())


def build_chains(places: CityMap, habits: NDArray[np.int64], slots: int, random: Generator) -> FlatChains:
    """Priors of all people, in the order of their ``habits``, as triplets.

    ``slots`` is 24 for a day, or 1 for the same people without a cycle (the average hour).
    """
    blocks: list[Block] = []
    members: list[NDArray[np.int64]] = []
    for index, habit in enumerate(HABITS):
        everybody = np.flatnonzero(habits == index)
        for first in range(0, everybody.size, BLOCK):
            group = everybody[first : first + BLOCK]
            members.append(group)
            blocks.append(_build_block(places, habit, group.size, slots, random))
    return _in_order(blocks, np.concatenate(members), slots)


def _build_block(places: CityMap, habit: Habit, people: int, slots: int, random: Generator) -> Block:
    where = _draw_places(places, habit, people, random)
    transition = _transitions(_draw_weights(habit, people, random), _draw_linger(habit, people, random))
    if slots == 1:
        transition = transition.mean(axis=1, keepdims=True)
    order = np.argsort(where, axis=1, kind="stable")
    by_person = np.arange(people)[:, None, None]
    transition = transition[by_person, :, order[:, :, None], order[:, None, :]].transpose(0, 3, 1, 2)
    found = np.nonzero(transition)
    person, slot, row, column = (index.astype(np.int32) for index in found)
    return Block(np.take_along_axis(where, order, axis=1), person, slot, row, column, transition[found])


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
    following = np.roll(weights, -1, axis=1)
    stay = np.where(following > 0.0, linger[:, None, None], _UNWANTED_LINGER)
    transition = (1.0 - stay)[:, :, :, None] * following[:, :, None, :]
    diagonal = np.arange(weights.shape[2])
    transition[:, :, diagonal, diagonal] += stay
    return transition


def _in_order(blocks: list[Block], members: NDArray[np.int64], slots: int) -> FlatChains:
    """The blocks' people as triplets, sorted by person."""
    people = members.size
    size, entries = np.zeros(people, np.int64), np.zeros(people, np.int64)
    done = 0
    for block in blocks:
        group = members[done : done + len(block.places)]
        size[group] = block.places.shape[1]
        entries[group] = np.bincount(block.person, minlength=group.size)
        done += group.size
    flat = _empty(_starts(size), _starts(entries), slots)
    done = 0
    for block in blocks:
        group = members[done : done + len(block.places)]
        _copy_block(flat, block, group)
        done += group.size
    return flat


def _copy_block(flat: FlatChains, block: Block, group: NDArray[np.int64]) -> None:
    """Write the chains of a block to where the people ``group`` have their slices."""
    own = flat.places_start[group][:, None] + np.arange(block.places.shape[1])
    flat.places[own] = block.places
    sizes = np.bincount(block.person, minlength=group.size)
    within = np.arange(block.person.size) - _starts(sizes)[block.person]
    target = flat.entry_start[group][block.person] + within
    flat.slot[target], flat.row[target], flat.column[target] = block.slot, block.row, block.column
    flat.probability[target] = block.probability


def _starts(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)


def _empty(places_start: NDArray[np.int64], entry_start: NDArray[np.int64], slots: int) -> FlatChains:
    people, entries = places_start.size - 1, int(entry_start[-1])
    return FlatChains(
        slots=np.full(people, slots, dtype=np.int32),
        places_start=places_start,
        places=np.empty(int(places_start[-1]), dtype=np.int32),
        entry_start=entry_start,
        slot=np.empty(entries, dtype=np.int32),
        row=np.empty(entries, dtype=np.int32),
        column=np.empty(entries, dtype=np.int32),
        probability=np.empty(entries),
        initial_start=np.zeros(people + 1, dtype=np.int64),
        initial=np.empty(0),
    )
