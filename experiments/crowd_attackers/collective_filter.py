"""An attacker who does not know where the others are, and follows them all at once.

Knows everybody's habits and sees every count of some steps. The others' sum at all sensors and steps
together is taken for a normal vector with their exact means and covariances (people who linger make counts of
different steps hang together); in its light the likeliest trace of one target is searched for, step by step,
keeping the best beginnings. Nearly the best that can be done in a large crowd, and a lower bound in any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.crowd_attackers.scene import Floats, Habits, Integers, Moments, Scene, Watched
from models.priors import ChainView

_BEAM = 128


class _CountsOfStep(NamedTuple):
    """The counts of one step: what those before say of them, and what the target adds from each place."""

    block: Integers  # (B,)
    known: Floats  # (B, counts before)
    inverse: Floats  # (B, B)
    added: Floats  # (K, B), times the inverse

    @classmethod
    def of(cls, block: Integers, root: Floats, own: Integers) -> _CountsOfStep | None:
        """``own`` (K,) is the count of each of the target's places, -1 for none; None without counts."""
        if not block.size:
            return None
        inverse: Floats = np.linalg.inv(root[np.ix_(block, block)]).astype(np.float64)
        added = np.zeros((own.size, block.size))
        seen = np.flatnonzero(own >= 0)
        added[seen, own[seen] - block[0]] = 1.0
        return cls(block, root[block, : block[0]], inverse, added @ inverse.T)


class CollectiveFilter:
    """Guesses one target's trace from counts, the others being a normal vector."""

    def __init__(self, watched: Watched, target: ChainView, others: Moments) -> None:
        self._mean, self._habits = others.mean, Habits.of(target, watched)
        root = np.linalg.cholesky(others.covariance_of_counts).astype(np.float64)
        self._steps = [
            _CountsOfStep.of(np.flatnonzero(watched.steps_of == t), root, own)
            for t, own in enumerate(self._habits.own)
        ]

    def guess(self, counts: Floats) -> Integers:
        """The likeliest own places (T,) for these counts (J,)."""
        paths, scores = np.zeros((1, 0), np.int64), np.zeros(1)
        residual = np.zeros((1, 0))
        left, habits = counts - self._mean, self._habits
        for t, step in enumerate(self._steps):
            prior = habits.start[None] if t == 0 else habits.moves[t - 1][paths[:, -1]]
            total = scores[:, None] + prior
            if step is not None:
                without = (left[step.block] - residual @ step.known.T) @ step.inverse.T
                both = without[:, None, :] - step.added[None]
                total = total - 0.5 * (both**2).sum(axis=2)
            best = np.argsort(-total, axis=None, kind="stable")[:_BEAM]
            best = best[np.isfinite(total.reshape(-1)[best])]
            parent, place = np.divmod(best, prior.shape[1])
            paths = np.column_stack([paths[parent], place])
            scores = total[parent, place]
            residual = residual[parent]
            if step is not None:
                residual = np.hstack([residual, both[parent, place]])
        return np.asarray(paths[0])


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
