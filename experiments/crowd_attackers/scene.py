"""What an attacker on counts has before it: the counts' places, everybody's habits, the map."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.priors import ChainView, Population
from models.releases import StepSchedule

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_OWN_VARIANCE = 1.0 / 12.0  # of a rounded number: counts are integers


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean (J,) and covariance (J, J) of what people add to the ``J`` counts of some steps."""

    mean: Floats
    covariance: Floats

    def without(self, other: Moments) -> Moments:
        """Of all but one of them."""
        return Moments(self.mean - other.mean, self.covariance - other.covariance)

    @property
    def covariance_of_counts(self) -> Floats:
        """With what rounding to integers adds: invertible where nobody moves, too."""
        return self.covariance + _OWN_VARIANCE * np.eye(self.mean.size)


@dataclass(frozen=True, eq=False)
class Watched:
    """The counts of consecutive steps: for each step the number of the count of each location, or -1."""

    first_slot: int
    count_at: Integers  # (T, M)
    steps_of: Integers  # (J,) step of each count

    @classmethod
    def of(cls, steps: Sequence[StepSchedule], first_slot: int, locations: int) -> Watched:
        """Of sensors that do not overlap."""
        count_at = np.full((len(steps), locations), -1)
        steps_of: list[int] = []
        for t, step in enumerate(steps):
            for release in step.releases:
                count_at[t, list(release.sensor.locations)] = len(steps_of)
                steps_of.append(t)
        return cls(first_slot, count_at, np.array(steps_of))

    def moments_of(self, chain: ChainView) -> Moments:
        """Exact, of one person."""
        steps, places, total = len(self.count_at), chain.places.size, self.steps_of.size
        cycle = chain.start.shape[0]
        own = self.count_at[:, chain.places]
        mean, second = np.zeros(total), np.zeros((total, total))
        for t in range(steps):
            slot = (self.first_slot + t) % cycle
            together = np.diag(chain.start[slot])
            here = np.flatnonzero(own[t] >= 0)
            np.add.at(mean, own[t, here], chain.start[slot, here])
            for later in range(t, steps if here.size else t):
                there = np.flatnonzero(own[later] >= 0)
                pairs = np.ix_(own[t, here], own[later, there])
                np.add.at(second, pairs, together[np.ix_(here, there)])
                together = together @ dense_matrix(chain, (self.first_slot + later) % cycle)
        second = np.triu(second, 1) + np.triu(second, 1).T + np.diag(mean)
        assert places == own.shape[1]
        return Moments(mean, second - np.outer(mean, mean))

    def moments(self, population: Population) -> Moments:
        """Of everybody."""
        total = self.steps_of.size
        mean, covariance = np.zeros(total), np.zeros((total, total))
        for person in range(len(population)):
            own = self.moments_of(population.chain(person))
            mean += own.mean
            covariance += own.covariance
        return Moments(mean, covariance)

    def counts_of(self, places: NDArray[np.int32]) -> Floats:
        """The counts (days, J) of people at ``places`` (days, T, N)."""
        counts = np.zeros((len(places), self.steps_of.size))
        for day, walked in enumerate(places):
            for t, here in enumerate(walked):
                number = self.count_at[t, here]
                np.add.at(counts[day], number[number >= 0], 1.0)
        return counts


@dataclass(frozen=True, eq=False)
class Scene:
    """What everybody knows: habits, sensors and the map.

    ``position_km`` (M, D) of the locations, NaN where one has none ("elsewhere"). ``slots_a_day`` is None
    where a step is not an hour or so of a day.
    """

    population: Population
    watched: Watched
    position_km: Floats
    slots_a_day: int | None = None

    @cached_property
    def everybody(self) -> Moments:
        """Of all counts."""
        return self.watched.moments(self.population)

    def others(self, target: int) -> Moments:
        """Of what all but one add to the counts."""
        return self.everybody.without(self.watched.moments_of(self.population.chain(target)))


class CrowdAttack(Protocol):
    """A named attacker on counts, who knows the scene and does not know where anybody is."""

    @property
    def name(self) -> str:
        """A word for tables."""

    def guesses(self, scene: Scene, targets: Sequence[int], counts: Floats) -> Integers:
        """Trajectories (targets, days, T) as locations, each from the counts (J,) of that day alone."""


@dataclass(frozen=True, eq=False)
class Habits:
    """One person's chain over the watched steps, as logarithms."""

    start: Floats  # (K,)
    moves: tuple[Floats, ...]  # T - 1 of (K, K)
    own: Integers  # (T, K) number of the count of each own place, or -1

    @classmethod
    def of(cls, chain: ChainView, watched: Watched) -> Habits:
        """As the schedule meets them."""
        cycle, first = chain.start.shape[0], watched.first_slot
        with np.errstate(divide="ignore"):
            moves = (
                np.log(dense_matrix(chain, (first + t) % cycle)) for t in range(len(watched.count_at) - 1)
            )
            return cls(np.log(chain.start[first % cycle]), tuple(moves), watched.count_at[:, chain.places])

    def likeliest(self, evidence: Floats) -> tuple[Integers, Floats]:
        """Best own places (n, T) by habits and logarithms of ``evidence`` (n, T, K); their scores (n,)."""
        score, back = self.start + evidence[:, 0], []
        for t, moves in enumerate(self.moves, start=1):
            reached = score[:, :, None] + moves
            back.append(reached.argmax(axis=1))
            score = reached.max(axis=1) + evidence[:, t]
        found = [score.argmax(axis=1)]
        for came in reversed(back):
            found.append(came[np.arange(len(score)), found[-1]])
        return np.stack(found[::-1], axis=1), score.max(axis=1)
