"""An attacker who does not know where the others are, and follows them all at once.

Knows everybody's habits and sees every count of some steps. The others' sum at all sensors and steps
together is taken for a normal vector with their exact means and covariances (people who linger make counts of
different steps hang together); in its light the likeliest trace of one target is searched for, step by step,
keeping the best beginnings. Nearly the best that can be done in a large crowd, and a lower bound in any.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.crowd_attackers.scene import Floats, Habits, Integers, Moments, Scene, Watched
from models.priors import ChainView

_BEAM = 128


class CollectiveFilter:
    """Guesses one target's trace from counts, the others being a normal vector."""

    def __init__(self, watched: Watched, target: ChainView, others: Moments) -> None:
        self._mean, self._habits = others.mean, Habits.of(target, watched)
        self._root = np.linalg.cholesky(others.covariance_of_counts)
        self._blocks = [np.flatnonzero(watched.steps_of == t) for t in range(len(watched.count_at))]

    def guess(self, counts: Floats) -> Integers:
        """The likeliest own places (T,) for these counts (J,)."""
        paths, scores = np.zeros((1, 0), np.int64), np.zeros(1)
        residual = np.zeros((1, 0))
        left, habits = counts - self._mean, self._habits
        for t, block in enumerate(self._blocks):
            prior = habits.start[None] if t == 0 else habits.moves[t - 1][paths[:, -1]]
            total = scores[:, None] + prior
            if block.size:
                inverse = np.linalg.inv(self._root[np.ix_(block, block)])
                known = self._root[block, : block[0]]
                without = (left[block] - residual @ known.T) @ inverse.T
                added = np.zeros((prior.shape[1], block.size))
                seen = np.flatnonzero(habits.own[t] >= 0)
                added[seen, habits.own[t, seen] - block[0]] = 1.0
                both = without[:, None, :] - (added @ inverse.T)[None]
                total = total - 0.5 * (both**2).sum(axis=2)
            best = np.argsort(-total, axis=None, kind="stable")[:_BEAM]
            best = best[np.isfinite(total.reshape(-1)[best])]
            parent, place = np.divmod(best, prior.shape[1])
            paths = np.column_stack([paths[parent], place])
            scores = total[parent, place]
            residual = residual[parent]
            if block.size:
                residual = np.hstack([residual, both[parent, place]])
        return paths[0]


class Collective:
    """A :class:`CollectiveFilter` for each target."""

    name = "collective filter"

    def guesses(self, scene: Scene, targets: Sequence[int], counts: Floats) -> Integers:
        """See :class:`~experiments.crowd_attackers.scene.CrowdAttack`."""
        found = []
        for target in targets:
            chain = scene.population.chain(target)
            follower = CollectiveFilter(scene.watched, chain, scene.others(target))
            found.append([chain.places[follower.guess(seen)] for seen in counts])
        return np.array(found, np.int64)
