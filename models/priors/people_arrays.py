"""The arrays of several people: joined, taken apart, and as the words in which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from models.priors.chain import PopulationArrays
from models.priors.packing import Lists, Moves, offsets_of

Number = TypeVar("Number", bound=np.generic)

_OFFSETS = ("places_start", "distribution_start", "column_start_start", "entry_start", "initial_start")
_CONTENTS = ("places", "distribution", "column_start", "row", "initial")


def joined_lists(parts: Sequence[NDArray[Number]], dtype: type[Number]) -> Lists:
    """The lists of several people."""
    return Lists(offsets_of([part.size for part in parts]), _joined(parts, dtype))


def joined_moves(parts: Sequence[Moves]) -> Moves:
    """The moves of people, each of whom has some alone."""
    return Moves(
        offsets_of([part.row.size for part in parts]),
        _joined([part.slot for part in parts], np.int32),
        _joined([part.row for part in parts], np.int32),
        _joined([part.column for part in parts], np.int32),
        _joined([part.probability for part in parts], np.float64),
    )


def kept_moves(moves: Moves) -> Moves:
    """The moves as kernels are compiled for them, without those of probability zero."""
    moves = Moves(
        np.ascontiguousarray(moves.start, np.int64),
        np.ascontiguousarray(moves.slot, np.int32),
        np.ascontiguousarray(moves.row, np.int32),
        np.ascontiguousarray(moves.column, np.int32),
        np.ascontiguousarray(moves.probability, np.float64),
    )
    kept = moves.probability != 0.0
    if kept.all():
        return moves
    before = np.concatenate(([0], np.cumsum(kept)))
    slot, row, column = moves.slot[kept], moves.row[kept], moves.column[kept]
    return Moves(before[moves.start], slot, row, column, moves.probability[kept])


def taken_people(arrays: PopulationArrays, index: NDArray[np.int64]) -> PopulationArrays:
    """The arrays of the people at ``index``."""
    taken: dict[str, Any] = {"slots": arrays.slots[index]}
    for offsets, contents in zip(_OFFSETS, _CONTENTS, strict=True):
        start = getattr(arrays, offsets)
        length = start[index + 1] - start[index]
        taken[offsets] = offsets_of(length)
        source = np.repeat(start[index] - taken[offsets][:-1], length) + np.arange(length.sum())
        taken[contents] = getattr(arrays, contents)[source]
        if contents == "row":
            taken["value"] = arrays.value[source]
    return PopulationArrays(**taken)


def joined_people(parts: Sequence[PopulationArrays]) -> PopulationArrays:
    """The arrays of several populations, one after the other."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("slots", "value")
    }
    for offsets, contents in zip(_OFFSETS, _CONTENTS, strict=True):
        joined[offsets] = offsets_of(np.concatenate([np.diff(getattr(part, offsets)) for part in parts]))
        joined[contents] = np.concatenate([getattr(part, contents) for part in parts])
    return PopulationArrays(**joined)


def words_of(arrays: PopulationArrays) -> list[tuple[NDArray[np.int64], NDArray[Any]]]:
    """All that makes a prior: offsets, and numbers of up to 64 bits, which are looked at bit by bit."""
    return [
        (arrays.places_start, arrays.places),
        (arrays.column_start_start, arrays.column_start),
        (arrays.entry_start, arrays.row),
        (arrays.entry_start, arrays.value.view(np.uint64)),
        (arrays.initial_start, arrays.initial.view(np.uint64)),
    ]


def _joined(parts: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    """The pieces as one array, also when there are none."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
