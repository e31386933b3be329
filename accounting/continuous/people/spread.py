"""Figures that people have in common, as each person's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.people.holders import Holders

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Spread:
    """Figures (G,) of groups or accounts, ``of_cell`` (B,) those of each cell of the ``holders``."""

    holders: Holders
    of_cell: NDArray[np.int64]
    groups: int

    def each(self, values: NDArray[Value]) -> NDArray[Value]:
        """Every person's, (N,), of figures (G,)."""
        return np.take(np.take(values, self.of_cell), self.holders.cell)

    def of(self, people: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whose figures these people have, by position."""
        return np.take(self.of_cell, self.holders.cell[people])

    @cached_property
    def people(self) -> NDArray[np.int64]:
        """How many people have each figure, (G,)."""
        found = np.zeros(self.groups, dtype=np.int64)
        np.add.at(found, self.of_cell, self.holders.people)
        return found

    def whose(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The people with the ``chosen`` (G,) figures, by position, increasing."""
        if not chosen.any():
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.each(chosen))
