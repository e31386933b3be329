"""The others, step by step: what each released count hides among them, from priors and schedule alone."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SettingsError, StepOrderError
from accounting.exposure.crowd.hiding import SensorCrowd, StepCrowd
from accounting.exposure.crowd.variance_kernel import (
    COLUMNS,
    NOBODY,
    NOT_YET,
    NOT_YET_LATE,
    PEOPLE_A_BLOCK,
    SEVERAL,
    Crowd,
    add_up_crowd,
    advance_laws,
)
from models.priors import Population
from models.releases import StepSchedule

COIN = "tallyguard crowd"
"""Public: the first bit of SHA-256 of this, a zero byte and the person's name is the coin."""

_MOST_BYTES = 64 * 2**20  # of steps that are kept

_Key = tuple[object, ...]


class _KnownStep(NamedTuple):
    """What a step gave, and who is in which state after it."""

    sums: NDArray[np.int64]  # (S, COLUMNS)
    state: NDArray[np.int8]  # (N,)


@dataclass
class Others:
    """Everybody of a population as a crowd; :meth:`apply` asks them at one step after the other.

    ``since[i]`` is the first step that person ``i`` is part of the crowd at, by default ``first_step``.
    Nothing is ever revised: what a step hides depends on that step and earlier ones, and on the next move.
    A step with the same sensors, slot and states as an earlier one is looked up.
    """

    population: Population
    first_slot: int = 0
    first_step: int = 0
    since: NDArray[np.int64] | None = None

    def __post_init__(self) -> None:
        """Toss everybody's coin. :class:`SettingsError` for personas and for drawn chains."""
        if self.population.weights is not None:
            raise SettingsError(
                "a crowd must be made of people with priors of their own",
                "personas that stand for many",
                "use the informed adversary",
            )
        if self.population.draws != 1:
            raise SettingsError(
                "the priors of a crowd must be taken as they are",
                f"{self.population.draws} chains that stand for each person",
                "leave out the evidence, or use the informed adversary",
            )
        arrays = self.population.arrays
        self._next_step = self.first_step
        self._state = np.where(_coins(self.population.people), NOT_YET_LATE, NOT_YET).astype(np.int8)
        self._since = np.full(len(self.population), self.first_step) if self.since is None else self.since
        self._starts_itself = np.diff(arrays.initial_start) > 0
        self._now, self._before = arrays.initial.copy(), arrays.initial.copy()
        self._period = lcm(*np.unique(arrays.slots).tolist())
        self._is_here, self._habitual = 0, np.empty(0, dtype=np.int64)
        self._known: OrderedDict[_Key, _KnownStep] = OrderedDict()

    def apply(self, step: StepSchedule) -> StepCrowd:
        """The crowds of one step's releases; steps come in order without gaps, empty ones included.

        A suppressed sensor is asked about as if it were released, which tells more: so its crowd, and that of
        the others, does not depend on what is decided for a step.
        """
        if step.step != self._next_step:
            raise StepOrderError(
                f"the next step must be {self._next_step}", step.step, "apply steps in order, empty ones too"
            )
        self._next_step += 1
        sensors = _sole_sensor([each.sensor.locations for each in step.releases], self._locations)
        here = self._since <= step.step
        self._advance_laws(step.step)
        count = len(step.releases)
        sums = self._look_up(sensors, count, step.step, here)
        sums = sums + self._ask(sensors, count, step.step, np.flatnonzero(here & self._starts_itself))
        return tuple(SensorCrowd(tuple(row)) for row in sums.tolist())

    @property
    def _locations(self) -> int:
        return self.population.location_count

    def _advance_laws(self, step: int) -> None:
        """Of those who start by themselves, from their second step on."""
        moving = np.flatnonzero(self._starts_itself & (self._since < step))
        if moving.size:
            slot = self.first_slot + step - 1
            advance_laws(self.population.arrays, moving, slot, self._before, self._now)

    def _look_up(
        self, sensors: NDArray[np.int64], count: int, step: int, here: NDArray[np.bool_]
    ) -> NDArray[np.int64]:
        """The sums of people who start like their chain; computed once where everything is as before."""
        slot = (self.first_slot + step) % self._period
        if int(here.sum()) != self._is_here:  # nobody leaves
            self._is_here = int(here.sum())
            self._habitual = np.flatnonzero(here & ~self._starts_itself)
        people = self._habitual
        own = self._state[people]
        key = (slot, count, _digest(sensors), _digest(own))
        if key not in self._known:
            sums = self._ask(sensors, count, step, people)
            self._known[key] = _KnownStep(sums, self._state[people])
            most = max(1, _MOST_BYTES // max(1, people.size))
            if len(self._known) > most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        known = self._known[key]
        self._state[people] = known.state
        return known.sums

    def _ask(
        self, sensors: NDArray[np.int64], count: int, step: int, people: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Ask these people; (S, COLUMNS)."""
        blocks = -(-people.size // PEOPLE_A_BLOCK)
        sums = np.zeros((blocks, count, COLUMNS), dtype=np.int64)
        slot = self.first_slot + step
        crowd = Crowd(self.population.arrays, people, slot, sensors, self._before, self._now)
        add_up_crowd(crowd, self._state, sums)
        return sums.sum(axis=0)


def _sole_sensor(covers: list[tuple[int, ...]], locations: int) -> NDArray[np.int64]:
    """The one sensor that counts at each location, (M,)."""
    found = np.full(locations, NOBODY, dtype=np.int64)
    for number, cover in enumerate(covers):
        for location in cover:
            found[location] = number if found[location] == NOBODY else SEVERAL
    return found


def _coins(people: tuple[str, ...]) -> NDArray[np.bool_]:
    tossed = (hashlib.sha256(f"{COIN}\0{person}".encode()).digest()[0] & 1 for person in people)
    return np.fromiter(tossed, dtype=np.bool_, count=len(people))


def _digest(array: NDArray[np.int64] | NDArray[np.int8]) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()
