"""The sentences for what can be wrong with a prior: which person, slot and row, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorError
from models.priors.chain import PopulationArrays
from models.priors.packing import (
    BAD_INDEX,
    BAD_INITIAL,
    BAD_PLACES,
    BAD_PROBABILITY,
    BAD_ROW,
    DUPLICATE,
    Faults,
    Lists,
    Moves,
)


def check_lists(
    people: Sequence[str], slots: NDArray[np.int32], places: Lists, moves: Moves, initial: Lists
) -> None:
    """:class:`PriorError` unless every person's lists lie inside the arrays, each as long as it should be.

    Kernels read them without looking, so this comes before any kernel sees them.
    """
    if slots.shape != (len(people),):
        raise PriorError(
            "there must be as many people as chains", f"{len(people)} and {slots.size}", "align the two"
        )
    of_a_move = {name: getattr(moves, name) for name in ("slot", "row", "column", "probability")}
    for name, array in {"slots": slots, "places": places.values, **of_a_move}.items():
        _check_kind(name, array, "f" if name == "probability" else "iu")
    _check_kind("initial", initial.values, "f")
    _check_starts("places", places.start, slots.size, places.values.size)
    _check_starts("initial", initial.start, slots.size, initial.values.size)
    for name, array in of_a_move.items():
        _check_starts(name, moves.start, slots.size, array.size)
    if slots.size and slots.min() < 1:
        raise PriorError(
            f"person {people[int(np.argmin(slots))]!r} must have at least one slot",
            int(slots.min()),
            "give one matrix a slot",
        )


def _check_kind(name: str, array: NDArray[Any], kinds: str) -> None:
    """A list of numbers of such a kind; whole ones fit in 32 bits, in which they are kept."""
    if array.ndim != 1 or array.dtype.kind not in kinds:
        raise PriorError(
            f"{name!r} of many people must be a list of {'real' if kinds == 'f' else 'whole'} numbers",
            f"{array.ndim} dimensions of {array.dtype}",
            "convert it without rounding",
        )
    largest = np.iinfo(np.int32).max
    is_wide = kinds != "f" and array.dtype != np.int32
    if is_wide and array.size and not -largest <= array.min() <= array.max() <= largest:
        raise PriorError(
            f"{name!r} of many people must lie in 0..{largest}",
            f"{array.min()} to {array.max()}",
            "give positions, counted from 0",
        )


def _check_starts(name: str, starts: NDArray[np.int64], people: int, contents: int) -> None:
    """Where each person's part begins, and the end of the last: rising from 0 to the end of the contents."""
    are_whole = starts.ndim == 1 and starts.dtype.kind in "iu"
    fits = are_whole and starts.size == people + 1 and starts[0] == 0 and starts[-1] == contents
    if not fits or np.any(starts[1:] < starts[:-1]):
        raise PriorError(
            f"the start of each person's {name!r} must rise from 0 to {contents} in {people + 1} numbers",
            f"{starts.size} numbers" + (f" from {starts[0]} to {starts[-1]}" if starts.size else ""),
            "give each person's beginning and the end of the last",
        )


def explain(
    person: str,
    packed: PopulationArrays,
    moves: Moves,
    faults: Faults,
    index: int,
    location_names: Sequence[str] | None = None,
) -> PriorError:
    """The error for the person at ``index``, whose id is ``person``."""
    code, where, got = int(faults.code[index]), int(faults.where[index]), float(faults.got[index])
    sentence_of = _Fault(person, packed, moves, index, location_names)
    if code == BAD_PLACES:
        return sentence_of.places(where)
    if code == BAD_ROW:
        return sentence_of.row_sum(where, got)
    if code == BAD_INITIAL:
        return sentence_of.initial(where, got)
    return sentence_of.entry(code, where)


class _Fault:
    """One person's part of places and moves, and words for its rows."""

    def __init__(
        self,
        person: str,
        packed: PopulationArrays,
        moves: Moves,
        index: int,
        location_names: Sequence[str] | None,
    ) -> None:
        entries = slice(int(moves.start[index]), int(moves.start[index + 1]))
        own = slice(int(packed.places_start[index]), int(packed.places_start[index + 1]))
        self.person = person
        self.names = location_names
        self.slots = int(packed.slots[index])
        self.own = packed.places[own]
        self.slot, self.row = moves.slot[entries], moves.row[entries]
        self.column, self.probability = moves.column[entries], moves.probability[entries]

    def _place(self, x: int) -> str:
        """A local place with the name of its location."""
        if not 0 <= x < self.own.size:
            return str(x)
        location = int(self.own[x])
        known = self.names is not None and 0 <= location < len(self.names)
        return (
            f"{x} (location {self.names[location]!r})"
            if known and self.names
            else f"{x} (location {location})"
        )

    def _whose(self, slot: int) -> str:
        """The person, and the slot where there are several."""
        return f"of person {self.person!r}" + (f" in slot {slot}" if self.slots > 1 else "")

    def places(self, where: int) -> PriorError:
        """Places that are missing, out of range or not increasing."""
        if self.slots < 1:
            return PriorError(
                f"person {self.person!r} must have at least one slot", self.slots, "give one matrix a slot"
            )
        if where < 0:
            return PriorError(
                f"person {self.person!r} must have at least one place", "none", "list its places or drop it"
            )
        limit = "" if self.names is None else f" below {len(self.names)}"
        return PriorError(
            f"places of person {self.person!r} must be increasing location indices{limit}",
            f"{int(self.own[where])} at position {where}",
            "sort them, drop repeats and use the indices of the list of locations",
        )

    def row_sum(self, where: int, got: float) -> PriorError:
        """A row that does not sum to one."""
        slot, x = divmod(where, self.own.size)
        remedy = (
            "renormalise it, or drop the place"
            if got
            else "give the row its probabilities, or drop the place"
        )
        return PriorError(
            f"transition row {self._place(x)} {self._whose(slot)} must sum to 1", f"{got:.6g}", remedy
        )

    def entry(self, code: int, j: int) -> PriorError:
        """One entry that is out of range, no probability or there twice."""
        x, y, slot = int(self.row[j]), int(self.column[j]), int(self.slot[j])
        move = f"from row {self._place(x)} to column {self._place(y)} {self._whose(slot)}"
        if code == BAD_INDEX:
            return PriorError(
                f"a move {move} must lie in rows and columns 0..{self.own.size - 1}"
                f" and slots 0..{self.slots - 1}",
                f"row {x}, column {y}, slot {slot}",
                "use positions in the person's list of places",
            )
        if code == BAD_PROBABILITY:
            return PriorError(
                f"the probability {move} must be finite and at least 0",
                float(self.probability[j]),
                "correct it, or leave the move out",
            )
        assert code == DUPLICATE
        return PriorError(f"the move {move} must be given once", "two values", "keep one, or add them up")

    def initial(self, where: int, got: float) -> PriorError:
        """A start of the wrong length or that is no distribution."""
        whose = f"initial of person {self.person!r}"
        if where < self.own.size:
            return PriorError(
                f"{whose} at place {self._place(where)} must be finite and at least 0", got, "correct it"
            )
        return PriorError(
            f"{whose} must be {self.own.size} probabilities that sum to 1",
            f"{got:.6g}",
            "give one number a place and renormalise, or null for the stationary start",
        )
