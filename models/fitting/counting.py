"""What is counted: everybody's own places, their moves between windows, and how often each was made."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.fitting.fit_options import FitOptions
from models.fitting.windows import NOWHERE


class Places(NamedTuple):
    """Everybody's own places: ``local[person, location]`` is the local index of a location, or -1."""

    start: NDArray[np.int64]  # (N + 1,)
    locations: NDArray[np.int32]
    local: NDArray[np.int32]  # (N, M)

    @property
    def size(self) -> NDArray[np.int64]:
        """Number of places of each person."""
        return np.diff(self.start)


class Blocks(NamedTuple):
    """Square blocks of ragged size in one flat array: one a person, or one a person and slot."""

    size: NDArray[np.int64]  # rows of each block

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each block's entries begin."""
        return np.concatenate(([0], np.cumsum(self.size**2)))

    @property
    def row_start(self) -> NDArray[np.int64]:
        """The number, over all blocks, of each block's first row."""
        return np.concatenate(([0], np.cumsum(self.size)))

    def row_of_entry(self) -> NDArray[np.int64]:
        """Number of the row, over all blocks, that each entry belongs to."""
        width = np.repeat(self.size, self.size)
        return np.repeat(np.arange(width.size), width)

    def position(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Row and column of each entry within its block."""
        size = np.repeat(self.size, self.size**2)
        inner = np.arange(size.size) - np.repeat(self.start[:-1], self.size**2)
        return (inner // size).astype(np.int32), (inner % size).astype(np.int32)


class MovesMade(NamedTuple):
    """Every move made in the training windows: who, in which slot, from and to which of their own places.

    ``window`` is the one moved to.
    """

    person: NDArray[np.int64]
    slot: NDArray[np.int64]
    window: NDArray[np.int64]
    origin: NDArray[np.int32]
    target: NDArray[np.int32]

    def block(self, slots: int) -> NDArray[np.int64]:
        """The block of each move, one a person and slot."""
        return self.person * slots + self.slot

    def entry(self, blocks: Blocks, block: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where each move stands in blocks; ``block`` is the one of each."""
        return np.asarray(blocks.start[block] + self.origin * blocks.size[block] + self.target)


def own_places(training: NDArray[np.int32], locations: int, options: FitOptions) -> Places:
    """The locations of each person's chain: those of its training windows, or all of them."""
    people = training.shape[0]
    owned = np.full((people, locations), options.smoothing == "all")
    person, window = np.nonzero(training != NOWHERE)
    owned[person, training[person, window]] = True
    local = np.where(owned, np.cumsum(owned, axis=1) - 1, -1).astype(np.int32)
    start = np.concatenate(([0], np.cumsum(owned.sum(axis=1)))).astype(np.int64)
    return Places(start, np.nonzero(owned)[1].astype(np.int32), local)


def moves_made(
    training: NDArray[np.int32], places: Places, first_slot: int, options: FitOptions
) -> MovesMade:
    """Moves between successive windows that are steps."""
    person, window = np.nonzero(training != NOWHERE)
    place = training[person, window]
    succeeds = person[1:] == person[:-1]
    if options.elsewhere == "skip":
        succeeds &= window[1:] == window[:-1] + 1
    at = np.flatnonzero(succeeds)
    mover = person[at]
    return MovesMade(
        mover,
        (first_slot + window[at]) % options.slots,
        window[at + 1],
        places.local[mover, place[at]],
        places.local[mover, place[at + 1]],
    )


def fading(windows: int, recency: float) -> NDArray[np.float64]:
    """``recency ** age`` for ages 0 to ``windows``, by multiplication: the same bits on every machine."""
    return np.concatenate(([1.0], np.cumprod(np.full(windows, recency))))
