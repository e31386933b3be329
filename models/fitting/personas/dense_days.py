"""Days written as full matrices, part by part, become a population without ever being in memory at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.priors import Lists, Moves, Population

_ENTRIES = 20_000_000  # of full matrices at a time: 160 MB, and as much again for their moves


@dataclass(frozen=True, eq=False)
class Layout:
    """Who has which places and how many slots, before anybody moves."""

    people: tuple[str, ...]
    places: Lists
    slots: int
    location_names: tuple[str, ...]

    @classmethod
    def of(cls, population: Population) -> Layout:
        """That of people who have one number of slots."""
        arrays = population.arrays
        places = Lists(arrays.places_start, arrays.places)
        return cls(population.people, places, int(arrays.slots[0]), population.location_names)


def days_as_population(
    layout: Layout, write: Callable[[NDArray[np.int64], NDArray[np.float64]], None]
) -> Population:
    """People whose days ``write(chosen, days)`` fills in.

    ``chosen`` (n,) are positions in the layout, ``days`` (n, C, K, K) is for their matrices, K the most
    places of anybody; who has fewer uses the first rows and columns.
    """
    widest = int(np.diff(layout.places.start).max())
    at_once = max(1, _ENTRIES // (layout.slots * widest**2))
    parts = []
    for first in range(0, len(layout.people), at_once):
        chosen = np.arange(first, min(first + at_once, len(layout.people)))
        days = np.zeros((chosen.size, layout.slots, widest, widest))
        write(chosen, days)
        parts.append(_packed(layout, chosen, days))
    return Population.concatenate(parts)


def _packed(layout: Layout, chosen: NDArray[np.int64], days: NDArray[np.float64]) -> Population:
    """Some people with these days."""
    first, last = int(chosen[0]), int(chosen[-1]) + 1
    person, slot, row, column = np.nonzero(days)
    start = np.searchsorted(person, np.arange(chosen.size + 1))
    moves = Moves(
        start,
        slot.astype(np.int32),
        row.astype(np.int32),
        column.astype(np.int32),
        days[person, slot, row, column],
    )
    begins = layout.places.start[first : last + 1]
    return Population.from_moves(
        layout.people[first:last],
        Lists(begins - begins[0], layout.places.values[begins[0] : begins[-1]]),
        moves,
        slots=np.full(chosen.size, layout.slots, dtype=np.int32),
        location_names=layout.location_names,
    )
