"""What is believed about one person's movements: a validated Markov chain on the person's own places."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import csr_array

from models.arguments import checked
from models.exceptions import PriorError
from models.numerics.arrays import Floats, Integers, Integers32
from models.priors.chain import ChainView, PopulationArrays, chain_view, rows_of
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
    lay_out,
    pack,
)
from models.priors.stationary_kernel import cyclo_stationary


def check_lists(
    people: Sequence[str], slots: Integers32, places: Lists, moves: Moves, initial: Lists
) -> None:
    """:class:`PriorError` unless every person's lists lie inside the arrays and have the right lengths.

    Kernels do not check indices, so this has to come before any kernel.
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
    """Refuse anything but a list of numbers of these kinds; whole numbers must fit in 32 bits."""
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


def _check_starts(name: str, starts: Integers, people: int, contents: int) -> None:
    """Refuse offsets that do not rise from 0 to the end of the contents."""
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
    """The error for the person at ``index``, whose id is ``person``: what is wrong, where, and the remedy."""
    code, where, got = int(faults.code[index]), int(faults.where[index]), float(faults.got[index])
    slots = int(packed.slots[index])
    own = packed.places[packed.places_start[index] : packed.places_start[index + 1]]

    def place(x: int) -> str:
        """A local place with the name of its location."""
        if not 0 <= x < own.size:
            return str(x)
        location = int(own[x])
        if location_names is not None and 0 <= location < len(location_names):
            return f"{x} (location {location_names[location]!r})"
        return f"{x} (location {location})"

    def whose(slot: int) -> str:
        return f"of person {person!r}" + (f" in slot {slot}" if slots > 1 else "")

    if code == BAD_PLACES and slots < 1:
        return PriorError(f"person {person!r} must have at least one slot", slots, "give one matrix a slot")
    if code == BAD_PLACES and where < 0:
        return PriorError(
            f"person {person!r} must have at least one place", "none", "list its places or drop it"
        )
    if code == BAD_PLACES:
        limit = "" if location_names is None else f" below {len(location_names)}"
        return PriorError(
            f"places of person {person!r} must be increasing location indices{limit}",
            f"{int(own[where])} at position {where}",
            "sort them, repeat one only where states share it, and use the indices of the list of locations",
        )
    if code == BAD_ROW:
        slot, x = divmod(where, own.size)
        remedy = "renormalise it" if got else "give the row its probabilities"
        return PriorError(
            f"transition row {place(x)} {whose(slot)} must sum to 1",
            f"{got:.6g}",
            f"{remedy}, or drop the place",
        )
    if code == BAD_INITIAL and where < own.size:
        return PriorError(
            f"initial of person {person!r} at place {place(where)} must be finite and at least 0",
            got,
            "correct it",
        )
    if code == BAD_INITIAL:
        return PriorError(
            f"initial of person {person!r} must be {own.size} probabilities that sum to 1",
            f"{got:.6g}",
            "give one number a place and renormalise, or null for the stationary start",
        )
    j = int(moves.start[index]) + where
    x, y, slot = int(moves.row[j]), int(moves.column[j]), int(moves.slot[j])
    move = f"from row {place(x)} to column {place(y)} {whose(slot)}"
    if code == BAD_INDEX:
        return PriorError(
            f"a move {move} must lie in rows and columns 0..{own.size - 1} and slots 0..{slots - 1}",
            f"row {x}, column {y}, slot {slot}",
            "use positions in the person's list of places",
        )
    if code == BAD_PROBABILITY:
        return PriorError(
            f"the probability {move} must be finite and at least 0",
            float(moves.probability[j]),
            "correct it, or leave the move out",
        )
    assert code == DUPLICATE
    return PriorError(f"the move {move} must be given once", "two values", "keep one, or add them up")


class Triplets(NamedTuple):
    """Moves between local places (positions in ``places``), each given once."""

    row: ArrayLike
    column: ArrayLike
    probability: ArrayLike
    slot: ArrayLike | None = None  # None: slot 0


@checked(PriorError)
@dataclass(frozen=True, eq=False)
class MovementPrior:
    """One person's Markov chain on ``K`` own places, with one matrix or a cycle of ``C`` of them.

    Strictly, on ``K`` *states*, each at one place: several may share one, as stages of a stay, the place one
    came from, an activity, or a kind of day that nobody sees. What is to be guessed is the place even then.

    ``places`` (K,) are location indices that increase, repeated where states share a place;
    ``transitions[k]`` (K, K) moves from slot ``k`` of the cycle to ``k + 1``; ``initial`` (K,) is the law of
    the first step, None for the (cyclo-)stationary start. Rows may miss a sum of one by 1e-6 and are then
    renormalised. :class:`~models.exceptions.PriorError` names the person, the slot, the row and what to do.
    """

    person: str
    places: Integers32
    transitions: tuple[csr_array, ...]
    initial: Floats | None = None

    def __post_init__(self) -> None:
        """Check everything, then keep the checked and normalised form."""
        places = whole(self.person, "places", self.places)
        start = None if self.initial is None else real(self.person, "initial", self.initial)
        for matrix in self.transitions:
            if matrix.shape != (places.size, places.size):
                raise _shape_error(self.person, matrix.shape, int(places.size))
        self._keep(_columns(self.person, places, len(self.transitions), _moves(self.transitions), start))

    def __repr__(self) -> str:
        """The person's id and the chain's size."""
        return f"MovementPrior({self.person!r}, places={self.size}, slots={self.slots})"

    def _keep(self, columns: _Columns) -> None:
        set_once = object.__setattr__
        set_once(self, "places", columns.view.places)
        set_once(self, "transitions", transition_matrices(columns.view))
        set_once(self, "initial", columns.initial)
        set_once(self, "_view", columns.view._replace(start=np.zeros((self.slots, self.size))))

    @classmethod
    @checked(PriorError)
    def from_dense(
        cls,
        person: str,
        matrices: ArrayLike | Sequence[ArrayLike],
        places: ArrayLike | None = None,
        initial: ArrayLike | None = None,
    ) -> MovementPrior:
        """A prior from one matrix (K, K) or a cycle of them (C, K, K).

        States that share a place may come in any order; they are sorted by place.
        """
        for matrix in matrices if isinstance(matrices, Sequence) else (matrices,):
            _check_labels(person, matrix, initial)
        dense = np.asarray(matrices, dtype=np.float64)
        stack = dense[np.newaxis] if dense.ndim == 2 else dense
        if stack.ndim != 3 or stack.shape[1] != stack.shape[2]:
            raise _shape_error(person, dense.shape)
        size = stack.shape[1] if len(stack) else 0
        own = whole(person, "places", np.arange(size) if places is None else places)
        start = None if initial is None else real(person, "initial", initial)
        if len(stack) and own.size != size:
            raise _shape_error(person, stack.shape[1:], own.size)
        if np.unique(own).size < own.size:
            order = np.argsort(own, kind="stable")
            own, stack = own[order], stack[:, order][:, :, order]
            start = start[order] if start is not None and start.size == size else start
        slot, row, column = (part.astype(np.int32) for part in np.nonzero(stack))
        moves = _of_one(slot, row, column, stack[slot, row, column])
        prior = object.__new__(
            cls
        )  # checked here: the constructor would take the slow way by sparse matrices
        object.__setattr__(prior, "person", person)
        prior._keep(_columns(person, own, len(stack), moves, start))
        return prior

    @classmethod
    @checked(PriorError)
    def from_csr(
        cls,
        person: str,
        matrices: Sequence[csr_array],
        places: ArrayLike | None = None,
        initial: ArrayLike | None = None,
    ) -> MovementPrior:
        """A prior from sparse matrices (K, K), one a slot; ``places`` are 0..K-1 if not given."""
        for matrix in matrices:
            if matrix.ndim != 2 or matrix.shape != (matrices[0].shape[0],) * 2:
                raise _shape_error(person, matrix.shape)
        own = np.arange(matrices[0].shape[0] if matrices else 0) if places is None else places
        start = None if initial is None else np.asarray(initial)
        return cls(person, np.asarray(own), tuple(matrices), start)

    @classmethod
    @checked(PriorError)
    def from_triplets(
        cls,
        person: str,
        places: ArrayLike,
        triplets: Triplets,
        *,
        slots: int = 1,
        initial: ArrayLike | None = None,
    ) -> MovementPrior:
        """A prior from moves between local places."""
        moves = moves_of(person, triplets)
        own = whole(person, "places", places)
        start = None if initial is None else real(person, "initial", initial)
        columns = _columns(person, own, slots, moves, start)
        return cls(person, columns.view.places, transition_matrices(columns.view), columns.initial)

    @property
    def slots(self) -> int:
        """Number of slots ``C`` of the cycle."""
        return len(self.transitions)

    @property
    def size(self) -> int:
        """Number of places ``K``."""
        return int(self.places.size)

    def moves(self) -> Moves:
        """All transitions, those of probability zero left out."""
        rows = rows_of(self._view)  # type: ignore[attr-defined]
        slots, size = self.slots, self.size
        row = np.repeat(np.tile(np.arange(size, dtype=np.int32), slots), np.diff(rows.start).reshape(-1))
        slot = np.repeat(np.arange(slots, dtype=np.int32), rows.start[:, -1] - rows.start[:, 0])
        return _of_one(slot, row, rows.column.astype(np.int32), rows.value)

    def chain(self) -> ChainView:
        """The chain for kernels, with its (cyclo-)stationary distribution, which is computed once."""
        view: ChainView = self._view  # type: ignore[attr-defined]
        if not view.start.any():
            cyclo_stationary(view.column_start, view.row, view.value, view.start)
        return view


def _check_labels(person: str, matrix: Any, initial: Any) -> None:
    """Refuse data frames whose rows, columns and start name other places: numpy would leave the names out."""
    named = (*(getattr(matrix, each, None) for each in ("index", "columns")), getattr(initial, "index", None))
    labels = [list(each) for each in named if isinstance(each, Iterable)]
    for one, other in combinations(labels, 2):
        is_numbered = list(range(len(one))) in (one, other) and set(one) != set(other)
        if one != other and len(one) == len(other) and not is_numbered:
            raise PriorError(
                f"rows, columns and start of person {person!r} must be of the same places in one order",
                "other names, or another order",
                "reindex them: frame.reindex(index=places, columns=places, fill_value=0)",
            )


class _Columns(NamedTuple):
    """A checked person: the column form, its distribution still zero, and the initial one if given."""

    view: ChainView
    initial: Floats | None


def transition_matrices(chain: ChainView) -> tuple[csr_array, ...]:
    """The matrices (K, K) of a chain, one a slot."""
    size, rows = chain.places.size, rows_of(chain)
    columns, starts = rows.column.astype(np.int32), rows.start.astype(np.int32)
    matrices = []
    for bounds in starts:
        entries = slice(bounds[0], bounds[-1])
        matrix = csr_array((rows.value[entries], columns[entries], bounds - bounds[0]), shape=(size, size))
        matrices.append(matrix)
    return tuple(matrices)


def _moves(transitions: Sequence[csr_array]) -> Moves:
    """The moves of several matrices, explicit zeros left out."""
    none, parts = np.empty(0, dtype=np.int32), [matrix.tocoo() for matrix in transitions]
    slot = np.concatenate([none, *(np.full(part.data.size, number) for number, part in enumerate(parts))])
    row = np.concatenate([none, *(part.row for part in parts)])
    column = np.concatenate([none, *(part.col for part in parts)])
    value = np.concatenate([np.empty(0), *(part.data for part in parts)])
    kept = value != 0.0
    slot, row, column = (each[kept].astype(np.int32) for each in (slot, row, column))
    return _of_one(slot, row, column, value[kept].astype(np.float64))


def _of_one(slot: Integers32, row: Integers32, column: Integers32, probability: Floats) -> Moves:
    """The moves of a single person."""
    return Moves(np.array([0, row.size], dtype=np.int64), slot, row, column, probability)


def _columns(person: str, places: Integers32, slots: int, moves: Moves, initial: Floats | None) -> _Columns:
    """Check one person and convert it to column form."""
    start = np.empty(0) if initial is None else initial
    packed = lay_out(
        np.array([slots], dtype=np.int32),
        Lists(np.array([0, places.size]), places),
        moves.start,
        Lists(np.array([0, start.size]), start),
    )
    faults = pack(packed, moves, np.iinfo(np.int32).max)
    if faults.code[0]:
        raise explain(person, packed, moves, faults, 0)
    return _Columns(chain_view(packed, 0), packed.initial if packed.initial.size else None)


def moves_of(person: str, triplets: Triplets) -> Moves:
    """A person's triplets as arrays of one length; :class:`PriorError` where the lists do not fit."""
    row, column, probability, slot = triplets
    rows = whole(person, "rows", row)
    moves = _of_one(
        np.zeros_like(rows) if slot is None else whole(person, "slots", slot),
        rows,
        whole(person, "columns", column),
        real(person, "probabilities", probability),
    )
    lengths = {name: part.size for name, part in moves._asdict().items() if name != "start"}
    if len(set(lengths.values())) > 1:
        raise PriorError(
            f"the lists of moves of person {person!r} must be equally long",
            ", ".join(f"{size} of {name}" for name, size in lengths.items()),
            "give row, column and probability of each move",
        )
    return moves


def whole(person: str, what: str, values: ArrayLike) -> Integers32:
    """Indices as a new list; anything but whole numbers is refused, never rounded."""
    found = _flat_list(person, what, np.asarray(values))
    if found.size and found.dtype.kind not in "iu":
        raise PriorError(
            f"{what} of person {person!r} must be whole numbers",
            found.dtype,
            "give positions, counted from 0",
        )
    narrow = found.astype(np.int32)
    if (narrow != found).any():
        raise PriorError(
            f"{what} of person {person!r} must lie in 0..{np.iinfo(np.int32).max}",
            f"{found.min()} to {found.max()}",
            "give positions, counted from 0",
        )
    return narrow


def real(person: str, what: str, values: ArrayLike) -> Floats:
    """Probabilities as a list; :class:`PriorError` for what is no list of numbers."""
    found = _flat_list(person, what, np.asarray(values))
    if found.size and found.dtype.kind not in "iuf":
        raise PriorError(f"{what} of person {person!r} must be numbers", found.dtype, "give one number each")
    return found.astype(np.float64)


def _flat_list(person: str, what: str, found: NDArray[Any]) -> NDArray[Any]:
    """The array, unless it is no list."""
    if found.ndim != 1:
        raise PriorError(
            f"{what} of person {person!r} must be a list", f"{found.ndim} dimensions", "flatten it"
        )
    return found


def _shape_error(person: str, shape: tuple[int, ...], size: int | None = None) -> PriorError:
    """The error for a matrix that is not square, or not as large as the list of places."""
    wanted = "square and of one size" if size is None else f"{size} x {size}, one row a place"
    return PriorError(
        f"transition matrices of person {person!r} must be {wanted}",
        " x ".join(map(str, shape)),
        "give one row and one column a place of the person",
    )
