"""Days written as full matrices, part by part, become a population without ever being in memory at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.priors import Lists, Moves, Population

_ENTRIES = 20_000_000  # of full matrices at a time: 160 MB, and as much again for their moves


def days_as_population(
    layout: Population, write: Callable[[NDArray[np.int64], NDArray[np.float64]], None]
) -> Population:
    """People with the ids, places and slots of ``layout`` whose days ``write(chosen, days)`` fills in.

    ``chosen`` (n,) are positions in the layout, ``days`` (n, C, K, K) is for their matrices, K the most
    places of anybody; who has fewer uses the first rows and columns.
    """
    arrays = layout.arrays
    sizes = np.diff(arrays.places_start)
    slots, widest = int(arrays.slots[0]), int(sizes.max())
    at_once = max(1, _ENTRIES // (slots * widest**2))
    parts = []
    for first in range(0, len(layout), at_once):
        chosen = np.arange(first, min(first + at_once, len(layout)))
        days = np.zeros((chosen.size, slots, widest, widest))
        write(chosen, days)
        parts.append(_packed(layout, chosen, days))
    return Population.concatenate(parts)


def _packed(layout: Population, chosen: NDArray[np.int64], days: NDArray[np.float64]) -> Population:
    """Some people with these days."""
    arrays, (first, last) = layout.arrays, (chosen[0], chosen[-1] + 1)
    person, slot, row, column = np.nonzero(days)
    start = np.searchsorted(person, np.arange(chosen.size + 1))
    moves = Moves(
        start,
        slot.astype(np.int32),
        row.astype(np.int32),
        column.astype(np.int32),
        days[person, slot, row, column],
    )
    places_start = arrays.places_start[first : last + 1]
    return Population.from_moves(
        layout.people[first:last],
        Lists(places_start - places_start[0], arrays.places[places_start[0] : places_start[-1]]),
        moves,
        slots=arrays.slots[first:last],
        location_names=layout.location_names,
    )
