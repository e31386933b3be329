"""Order statistics and means of figures that several people have, as if each stood there by itself."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

_PARTS, _HALF = 52, 26
"""A mean counts values in parts of 2^-52, in two halves so that sums over many people fit their integers."""


class Ranked:
    """``values`` (G,) from 0 to 1, each of so many ``people`` (G,)."""

    def __init__(self, values: NDArray[np.float64], people: NDArray[np.int64]) -> None:
        self._values, self._people = values, people

    @cached_property
    def people(self) -> int:
        """How many there are."""
        return int(self._people.sum())

    def reached(self, levels: Sequence[float]) -> dict[float, int]:
        """How many people are at or above each level."""
        return {level: int(self._people[self._values >= level].sum()) for level in levels}

    def quantiles(self, levels: Sequence[float]) -> dict[float, float]:
        """Order statistics without interpolation, every one some person's; 0 where there is nobody."""
        if not self.people:
            return dict.fromkeys(levels, 0.0)
        if self.people == self._values.size:
            found = np.quantile(self._values, levels, method="higher")
            return {level: float(value) for level, value in zip(levels, found, strict=True)}
        return {level: self.at(int(np.ceil((self.people - 1) * level))) for level in levels}

    def mean(self) -> float:
        """The mean over people, 0 of nobody.

        Whole parts are added up, so that the bits do not depend on who has a figure in common with whom, nor
        on any order. For example 3 people at 1/4 and 1 at 1 have (3 * 2^50 + 2^52) / (4 * 2^52) = 7/16.
        """
        if not self.people:
            return 0.0
        parts = np.rint(self._values * 2.0**_PARTS).astype(np.int64)
        upper = int(((parts >> _HALF) * self._people).sum())
        lower = int(((parts & ((1 << _HALF) - 1)) * self._people).sum())
        return ((upper << _HALF) + lower) / (self.people << _PARTS)

    def median(self) -> float:
        """The middle figure, or the mean of both; 0 where there is nobody."""
        if not self.people:
            return 0.0
        return (self.at((self.people - 1) // 2) + self.at(self.people // 2)) / 2.0

    def at(self, rank: int) -> float:
        """The figure of the person at this rank, from 0 on."""
        values, behind = self._rising
        return float(values[np.searchsorted(behind, rank, side="right")])

    @cached_property
    def _rising(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The figures in rising order, and how many people are behind each of them or one before it."""
        order = np.argsort(self._values, kind="stable")
        return self._values[order], np.cumsum(self._people[order])
