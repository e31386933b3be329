"""An attacker who does not know where the others are, and follows them all at once.

Knows everybody's habits and sees every count of some steps. The others' sum at all sensors and steps
together is taken for a normal vector with their exact means and covariances (people who linger make counts of
different steps hang together); in its light the likeliest trace of one target is searched for, step by step,
keeping the best beginnings. Nearly the best that can be done in a large crowd, and a lower bound in any.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.contraction_kernel import dense_matrix
from models.priors import ChainView, Population
from models.releases import StepSchedule

_BEAM = 128
_OWN_VARIANCE = 1.0 / 12.0  # of a rounded number: counts are integers

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Moments:
    """Mean (J,) and covariance (J, J) of what people add to the ``J`` counts of some steps."""

    mean: Floats
    covariance: Floats

    def without(self, other: Moments) -> Moments:
        """Of all but one of them."""
        return Moments(self.mean - other.mean, self.covariance - other.covariance)


@dataclass(frozen=True, eq=False)
class Watched:
    """The counts of consecutive steps: for each step the number of the count of each location, or -1."""

    first_slot: int
    count_at: NDArray[np.int64]  # (T, M)
    steps_of: NDArray[np.int64]  # (J,) step of each count

    @classmethod
    def of(cls, steps: Sequence[StepSchedule], first_slot: int, locations: int) -> Watched:
        """Of sensors that do not overlap."""
        count_at = np.full((len(steps), locations), -1)
        steps_of = []
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


class CollectiveFilter:
    """Guesses one target's trace from counts, the others being a normal vector."""

    def __init__(self, watched: Watched, target: ChainView, others: Moments) -> None:
        self._chain, self._watched, self._mean = target, watched, others.mean
        noise = _OWN_VARIANCE * np.eye(others.mean.size)
        self._root = np.linalg.cholesky(others.covariance + noise)
        self._blocks = [np.flatnonzero(watched.steps_of == t) for t in range(len(watched.count_at))]
        cycle = target.start.shape[0]
        with np.errstate(divide="ignore"):
            self._log_start = np.log(target.start[watched.first_slot % cycle])
            self._log_moves = [
                np.log(dense_matrix(target, (watched.first_slot + t) % cycle))
                for t in range(len(self._blocks))
            ]
        self._own = watched.count_at[:, target.places]

    def guess(self, counts: Floats) -> NDArray[np.int64]:
        """The likeliest own places (T,) for these counts (J,)."""
        paths, scores = np.zeros((1, 0), np.int64), np.zeros(1)
        residual = np.zeros((1, 0))
        left = counts - self._mean
        for t, block in enumerate(self._blocks):
            prior = self._log_start[None] if t == 0 else self._log_moves[t - 1][paths[:, -1]]
            total = scores[:, None] + prior
            if block.size:
                inverse = np.linalg.inv(self._root[np.ix_(block, block)])
                known = self._root[block, : block[0]]
                without = (left[block] - residual @ known.T) @ inverse.T
                added = np.zeros((prior.shape[1], block.size))
                seen = np.flatnonzero(self._own[t] >= 0)
                added[seen, self._own[t, seen] - block[0]] = 1.0
                both = without[:, None, :] - (added @ inverse.T)[None]
                total = total - 0.5 * (both**2).sum(axis=2)
            best = np.argsort(-total, axis=None, kind="stable")[:_BEAM]
            best = best[np.isfinite(total.reshape(-1)[best])]
            parent, place = np.divmod(best, prior.shape[1])
            paths = np.column_stack([paths[parent], place])
            scores = total[parent, place]
            if block.size:
                residual = np.hstack([residual[parent], both[parent, place]])
        return paths[0]
