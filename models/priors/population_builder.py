"""A population collected one person at a time, as files, messages and fits give them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.priors.packing import Moves
from models.priors.people_arrays import joined_lists, joined_moves
from models.priors.population import Population
from models.priors.prior import Triplets, moves_of, real, whole


class PopulationBuilder:
    """Collects people one at a time, as yet unchecked; :meth:`build` packs and checks them all at once."""

    __slots__ = ("_initial", "_moves", "_places", "_slots", "_weights", "people")

    def __init__(self) -> None:
        self.people: list[str] = []
        self._slots: list[int] = []
        self._places: list[NDArray[np.int32]] = []
        self._moves: list[Moves] = []
        self._initial: list[NDArray[np.float64]] = []
        self._weights: list[float | None] = []

    def add(
        self,
        person: str,
        places: ArrayLike,
        triplets: Triplets,
        *,
        slots: int = 1,
        initial: ArrayLike | None = None,
        weight: float | None = None,
    ) -> None:
        """Add one person by triplets, or a persona that so many people (``weight``) behave as.

        :class:`~models.exceptions.PriorError` where the lists do not fit each other, and the builder is as
        before; whether they are a chain is checked by :meth:`build`.
        """
        moves = moves_of(person, triplets)
        own = whole(person, "places", places)
        start = np.empty(0) if initial is None else real(person, "initial", initial)
        count = whole(person, "slots", [slots])
        self.people.append(person)
        self._slots.append(int(count[0]))
        self._places.append(own)
        self._moves.append(moves)
        self._initial.append(start)
        self._weights.append(weight)

    def add_all(self, other: PopulationBuilder) -> None:
        """Add everybody who was added to another builder."""
        for name in self.__slots__:
            getattr(self, name).extend(getattr(other, name))

    def build(self, location_names: Sequence[str] | None = None) -> Population:
        """Pack everybody added so far; who has no weight among personas stands for one."""
        packed = Population.from_moves(
            self.people,
            joined_lists(self._places, np.int32),
            joined_moves(self._moves),
            slots=np.array(self._slots, dtype=np.int32),
            initial=joined_lists(self._initial, np.float64),
            location_names=location_names,
        )
        if all(weight is None for weight in self._weights):
            return packed
        weights = [1.0 if weight is None else weight for weight in self._weights]
        return replace(packed, weights=np.array(weights, dtype=np.float64))
