"""Everybody's worst moments so far: the highest ceiling, the most that releases added, and their steps."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class WorstMoments(NamedTuple):
    """For each person (N,): ``highest_risk`` and its step, and risk and baseline where releases added most.

    Of equal moments the first counts; a step is -1 before the person's first. Where risks are shown within a
    radius, ``highest_risk`` is; ``risk`` is the prior's, so that what releases added is its difference.
    """

    highest_risk: NDArray[np.float64]
    highest_step: NDArray[np.int64]
    step: NDArray[np.int64]
    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]

    def copy(self) -> WorstMoments:
        """The same figures in arrays of their own."""
        return WorstMoments(**{name: array.copy() for name, array in self._asdict().items()})

    @property
    def added(self) -> NDArray[np.float64]:
        """The most that releases added at any step; 0 before the first."""
        return self.risk - self.baseline

    @property
    def most_added(self) -> float:
        """The most that releases added to anybody at any step."""
        return float(self.added.max(initial=0.0))

    @property
    def most_risk(self) -> float:
        """The highest ceiling of anybody at any step."""
        return float(self.highest_risk.max(initial=0.0))

    def note(
        self, step: int, risk: NDArray[np.float64], baseline: NDArray[np.float64], since: NDArray[np.int64]
    ) -> None:
        """Take a step's figures for those whose releases count from ``since`` on."""
        counts = since <= step
        higher = counts & ((self.highest_step < 0) | (risk > self.highest_risk))
        self.highest_risk[higher], self.highest_step[higher] = risk[higher], step
        worse = counts & ((self.step < 0) | (risk - baseline > self.added))
        self.step[worse], self.risk[worse], self.baseline[worse] = step, risk[worse], baseline[worse]

    def is_first(self, count: int, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of figures that so many ``people`` (N,) have: whose are among the ``count`` most added, or tie."""
        added = self.added
        order = np.argsort(-added, kind="stable")
        behind = np.cumsum(people[order])
        if count <= 0 or not behind.size:
            return np.zeros(added.size, dtype=np.bool_)
        least = added[order[min(int(np.searchsorted(behind, count)), order.size - 1)]]
        return (added >= least) & (added > 0.0)

    def first(self, count: int) -> NDArray[np.int64]:
        """Positions of the ``count`` people to whom most was added, and of who ties with the last of them."""
        added = self.added
        if count <= 0 or added.size == 0:
            return np.empty(0, dtype=np.int64)
        least = np.partition(added, -min(count, added.size))[-min(count, added.size)]
        return np.flatnonzero((added >= least) & (added > 0.0))


def no_moments(people: int) -> WorstMoments:
    """Before the first step."""
    return WorstMoments(
        np.zeros(people),
        np.full(people, -1, dtype=np.int64),
        np.full(people, -1, dtype=np.int64),
        np.zeros(people),
        np.zeros(people),
    )
