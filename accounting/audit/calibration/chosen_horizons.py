"""Which recorded steps are held against the priors: one horizon a person, chosen without looking."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import HorizonError
from models.priors import Population

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class RecordedPeople:
    """Where people really were, in steps their priors were not fitted to.

    ``places[i, step]`` is the location index of person ``positions[i]`` of the population, or ``-1`` for a
    step that is not known; step 0 is in slot ``first_slot`` of the cycle.
    """

    positions: NDArray[np.int64]
    places: NDArray[np.int32]
    first_slot: int


class ChosenHorizon(NamedTuple):
    """Consecutive known steps of one person: ``trace`` (T,) of location indices, from slot ``first_slot``."""

    person: int
    first_slot: int
    trace: NDArray[np.int32]


def chosen_horizons(
    population: Population, recorded: RecordedPeople, steps: int, seed: int, only_slot: int | None
) -> Iterator[ChosenHorizon]:
    """One horizon a person, drawn among all with ``steps`` known steps; who has none is left out.

    One a person, because only different people are independent under the priors. ``only_slot`` keeps those
    that begin in this slot of the cycle.
    """
    if steps > recorded.places.shape[1]:
        raise HorizonError(
            f"the horizon must be at most the {recorded.places.shape[1]} recorded steps",
            steps,
            "shorten the horizon or record more steps",
        )
    random = np.random.default_rng(seed)
    for position, places in zip(recorded.positions.tolist(), recorded.places, strict=True):
        known = np.lib.stride_tricks.sliding_window_view(places != NOWHERE, steps).all(axis=1)
        slots = int(population.arrays.slots[position])
        slot = (recorded.first_slot + np.arange(known.size)) % slots
        if only_slot is not None:
            known &= slot == only_slot % slots
        starts = np.flatnonzero(known)
        draw = random.random()  # also for who is left out: nobody's horizon depends on the others' traces
        if starts.size:
            start = int(starts[int(draw * starts.size)])
            yield ChosenHorizon(position, int(slot[start]), places[start : start + steps])
