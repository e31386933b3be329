"""What counts of windows and moves reveal about everybody, nats, added up by the step in which it comes out.

A release that depends on the places up to step ``t`` reveals ``i >= I(n; Y)`` of its own count, given
whatever else was released. Carried to later steps it counts as what a count of presence in step ``t`` would:

- one more release adds ``i`` to what all reveal about any steps: ``H(Y | others) <= H(Y)``, and its noise is
  independent of everything else;
- of a later step ``w`` it reveals ``eta i``, ``eta`` the contraction of the moves from ``t`` to ``w``: given
  what was released before, and the place in step ``t``, the place in step ``w`` does not depend on it;
- a trace that ends with ``t`` learns ``i`` more than the one before it did.

So ``i`` may stand among the terms of step ``t`` (:mod:`accounting.continuous.horizon_kernel`), though the
release also reveals earlier places. It does not bound what is left of it once the horizon is shown: for a
horizon that begins within a window the account as if every count were exact must add it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.own_counts.revealed_moves_kernel import MovesInto, add_move_information
from models.mechanisms import Tabulated
from models.priors import PopulationArrays
from models.releases import RevealedAmount, RevealedMove


class RevealedInformation:
    """Of one population; places it has been asked about are kept."""

    def __init__(self, population: PopulationArrays, locations: int) -> None:
        self._population = population
        self._locations = locations
        self._reach: dict[tuple[int, ...], NDArray[np.bool_]] = {}

    def nats(
        self,
        revealed: Iterable[RevealedMove | RevealedAmount],
        slot_before: int,
        own_before: NDArray[np.float64],
    ) -> NDArray[np.float64]:
        """What a step reveals about each person, (N,).

        ``slot_before`` is the slot of the step before it, ``own_before`` the law in that step of the people
        who start from a distribution of their own.
        """
        found = np.zeros(self._population.slots.size)
        for each in revealed:
            if isinstance(each, RevealedAmount):
                found += np.where(self._reaches(each.locations), each.nats, 0.0)
                continue
            assert isinstance(each.mechanism, Tabulated)
            before, after = (np.stack([self._at(pair[side]) for pair in each.counted]) for side in (0, 1))
            moves = MovesInto(before, after, slot_before, each.mechanism.information_table())
            add_move_information(self._population, own_before, moves, found)
        return found

    def _at(self, locations: tuple[int, ...]) -> NDArray[np.bool_]:
        """Which locations these are, (M,)."""
        found = np.zeros(self._locations, dtype=np.bool_)
        found[list(locations)] = True
        return found

    def _reaches(self, locations: tuple[int, ...]) -> NDArray[np.bool_]:
        """Who can be at one of them, (N,)."""
        if locations not in self._reach:
            arrays = self._population
            owner = np.repeat(np.arange(arrays.slots.size), np.diff(arrays.places_start))
            here = self._at(locations)[arrays.places]
            self._reach[locations] = np.bincount(owner, here, minlength=arrays.slots.size) > 0.0
        return self._reach[locations]
