"""One person's prior as a JSON object: an element of a priors file's ``people``, or a message."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import fields
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorFileError
from models.priors import ChainView, FittedWindows, PopulationBuilder, Triplets

# What a priors file says of the windows its priors were fitted to.

_LATEST_SECONDS = 10**11  # year 5138
_KINDS = {"int": "a whole number of seconds", "str": "a text", "int | str": "whole seconds or a word"}


def check_fitted(where: str, value: Any) -> FittedWindows:
    """The member ``fitted``, checked; :class:`PriorFileError` says what it must be."""
    kinds = {field.name: str(field.type) for field in fields(FittedWindows)}
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise PriorFileError(
            f"'fitted' in {where} must have the members {', '.join(kinds)}",
            ", ".join(sorted(map(str, value))) if isinstance(value, dict) else type(value).__name__,
            "copy it from what priors fit wrote, or leave it out",
        )
    for name, kind in kinds.items():
        found = value[name]
        is_whole = isinstance(found, int) and not isinstance(found, bool) and abs(found) < _LATEST_SECONDS
        if not (is_whole and kind != "str") and not (isinstance(found, str) and kind != "int"):
            raise PriorFileError(
                f"member {name!r} of 'fitted' in {where} must be {_KINDS[kind]}",
                f"{found}" if isinstance(found, int) else type(found).__name__,
                "copy it from what priors fit wrote",
            )
    return FittedWindows(**value)


_ASSUMED_CHARACTERS = 256
_MOST_PEOPLE = 1e12  # behind one persona: more than there are, and far from where a float ends
_MEMBERS = ("person", "weight", "places", "initial", "transition", "transitions")


def chain_to_record(
    person: str, chain: ChainView, initial: NDArray[np.float64] | None = None
) -> dict[str, Any]:
    """One person as an element of ``people``; a matrix is sparse when less than half full."""
    matrices = [_matrix_record(chain, slot) for slot in range(chain.column_start.shape[0])]
    moves = {"transition": matrices[0]} if len(matrices) == 1 else {"transitions": matrices}
    start = None if initial is None else initial.tolist()
    return {"person": person, "places": chain.places.tolist(), "initial": start, **moves}


def _matrix_record(chain: ChainView, slot: int) -> Any:
    """One slot's matrix as rows, or as triplets when that is shorter."""
    size = chain.places.size
    bounds = chain.column_start[slot]
    row, value = chain.row[bounds[0] : bounds[-1]], chain.value[bounds[0] : bounds[-1]]
    column = np.repeat(np.arange(size), np.diff(bounds))
    if 2 * value.size >= size**2:
        dense = np.zeros((size, size))
        dense[row, column] = value
        return dense.tolist()
    return {"row": row.tolist(), "col": column.tolist(), "probability": value.tolist()}


def unknown_member(where: str, key: str, known: Sequence[str]) -> PriorFileError:
    """A member nobody reads, with the closest one that is."""
    from difflib import get_close_matches

    close = get_close_matches(key, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "remove it"
    return PriorFileError(f"members of {where} must be among {', '.join(known)}", repr(key), remedy)


class _Matrix(NamedTuple):
    """One slot's matrix as triplets, and its number of rows if it was dense."""

    row: NDArray[np.int64]
    column: NDArray[np.int64]
    probability: NDArray[np.float64]
    size: int | None


def add_record(
    builder: PopulationBuilder, where: str, record: Any, find_location: Callable[[str], int | None]
) -> None:
    """Read one element of ``people`` into a builder; places come out increasing.

    ``where`` says in errors what is being read, ``find_location`` gives the index of a location by its name.
    :class:`PriorFileError` where it is no such element; whether it is a chain is checked by the builder.
    """
    if not isinstance(record, dict):
        raise PriorFileError(
            f"{where} must be an object", type(record).__name__, "see docs/reference/priors.md"
        )
    person = record.get("person")
    if not isinstance(person, str) or not person:
        raise PriorFileError(f"'person' of {where} must be a text", repr(person), "put it in quotes")
    where = f"{where} (person {person!r})"
    for key in record:
        if key not in _MEMBERS:
            raise unknown_member(where, key, _MEMBERS)
    _Reading(where, record, find_location).add_to(builder, person)


class _Reading:
    """The reading of one element: its members, checked one by one."""

    def __init__(
        self, where: str, record: dict[str, Any], find_location: Callable[[str], int | None]
    ) -> None:
        self.where = where
        self.record = record
        self.find_location = find_location

    def add_to(self, builder: PopulationBuilder, person: str) -> None:
        """Read places, matrices and start."""
        matrices = self._matrices()
        places = self._places(matrices)
        order = np.argsort(places, kind="stable")
        position = np.empty_like(order)  # where each listed place comes to stand
        position[order] = np.arange(order.size)
        row = np.concatenate([matrix.row for matrix in matrices])
        column = np.concatenate([matrix.column for matrix in matrices])
        local = places if self._is_global(matrices) else None
        builder.add(
            person,
            places[order],
            Triplets(
                self._local(row, local, position),
                self._local(column, local, position),
                np.concatenate([matrix.probability for matrix in matrices]),
                np.repeat(np.arange(len(matrices)), [matrix.row.size for matrix in matrices]),
            ),
            slots=len(matrices),
            initial=self._initial(places, order, local is not None),
            weight=self._weight(),
        )

    def _weight(self) -> float | None:
        """How many people behave so; None where it is not said."""
        weight = self.record.get("weight")
        if weight is None:
            return None
        is_number = isinstance(weight, int | float) and not isinstance(weight, bool)
        if not is_number or not 0.0 < weight < _MOST_PEOPLE:
            raise self._error("weight", "a positive number of people", weight)
        return float(weight)

    def _matrices(self) -> list[_Matrix]:
        """The matrix of each slot."""
        if ("transition" in self.record) == ("transitions" in self.record):
            found = "both" if "transition" in self.record else "neither"
            raise PriorFileError(
                f"{self.where} must have 'transition' or 'transitions'",
                found,
                "give one matrix or one a slot",
            )
        if "transition" in self.record:
            return [self._matrix("transition", self.record["transition"])]
        listed = self.record["transitions"]
        if not isinstance(listed, list) or not listed:
            raise self._error("transitions", "a list of matrices, one a slot", listed)
        return [self._matrix(f"transitions[{slot}]", matrix) for slot, matrix in enumerate(listed)]

    def _matrix(self, member: str, value: Any) -> _Matrix:
        """One matrix, from rows or from triplets."""
        if isinstance(value, dict):
            return self._triplets(member, value)
        dense = self._numbers(member, value)
        if dense.ndim != 2 or dense.shape[0] != dense.shape[1]:
            raise self._error(member, "a square list of rows, or row, col, probability", value)
        row, column = np.nonzero(dense)
        return _Matrix(row, column, dense[row, column], dense.shape[0])

    def _triplets(self, member: str, value: dict[str, Any]) -> _Matrix:
        """One matrix from its lists of row, col and probability."""
        keys = ("row", "col", "probability")
        for key in value:
            if key not in keys:
                raise unknown_member(f"{member} of {self.where}", key, keys)
        for key in keys:
            if key not in value:
                raise PriorFileError(f"{member} of {self.where} must have {key!r}", "none", "add the list")
        row = self._indices(f"{member}.row", value["row"])
        column = self._indices(f"{member}.col", value["col"])
        probability = self._numbers(f"{member}.probability", value["probability"])
        if probability.ndim != 1 or not row.size == column.size == probability.size:
            lengths = f"{row.size}, {column.size} and {probability.size}"
            raise PriorFileError(
                f"row, col and probability in {member} of {self.where} must be equally long",
                lengths,
                "give each move one of each",
            )
        return _Matrix(row, column, probability, None)

    def _is_global(self, matrices: Sequence[_Matrix]) -> bool:
        """Whether triplets speak of locations, for want of a list of places."""
        return self.record.get("places") is None and matrices[0].size is None

    def _places(self, matrices: Sequence[_Matrix]) -> NDArray[np.int64]:
        """Location of each local place, in the order of the file."""
        listed = self.record.get("places")
        if listed is None and matrices[0].size is not None:
            return np.arange(matrices[0].size)
        if listed is None:
            return np.unique(np.concatenate([part for m in matrices for part in (m.row, m.column)]))
        if isinstance(listed, list) and any(isinstance(place, str) for place in listed):
            listed = [self._index(place) for place in listed]
        places = self._indices("places", listed)
        for slot, matrix in enumerate(matrices):
            if matrix.size not in (None, places.size):
                raise PriorFileError(
                    f"matrix {slot} of {self.where} must have one row a place ({places.size})",
                    f"{matrix.size} rows",
                    "align places and matrix",
                )
        return places

    def _index(self, place: Any) -> Any:
        """Index of a place given by name; anything else as it is."""
        if not isinstance(place, str):
            return place
        index = self.find_location(place)
        if index is None:
            raise PriorFileError(
                f"'places' of {self.where} must be in the file's 'locations'", repr(place), "add the location"
            )
        return index

    def _local(
        self, index: NDArray[np.int64], places: NDArray[np.int64] | None, position: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Local positions; indices outside the list stay outside, for the packer to name them."""
        if places is not None:
            return np.searchsorted(places, index)
        inside = (index >= 0) & (index < position.size)
        return np.where(inside, position[np.where(inside, index, 0)], index) if position.size else index

    def _initial(
        self, places: NDArray[np.int64], order: NDArray[np.int64], is_global: bool
    ) -> NDArray[np.float64] | None:
        """The start, by increasing place; None if it is stationary."""
        value = self.record.get("initial")
        if value is None:
            return None
        initial = self._numbers("initial", value)
        if initial.ndim != 1 or not initial.size:
            raise self._error("initial", "a list of probabilities or null", value)
        if is_global:
            return self._initial_of_locations(initial, places)
        return initial[order] if initial.size == order.size else initial

    def _initial_of_locations(
        self, initial: NDArray[np.float64], places: NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """The part of a start over all locations that lies on the person's places; the rest must be zero."""
        outside = np.setdiff1d(np.flatnonzero(initial), places)
        if outside.size or places.max(initial=-1) >= initial.size:
            raise PriorFileError(
                f"'initial' of {self.where} must cover the locations of the matrix and no others",
                f"{initial.size} numbers, not zero outside at {outside.tolist()}",
                "give one number a location, zero where the person is never",
            )
        return initial[places]

    def _numbers(self, member: str, value: Any) -> NDArray[np.float64]:
        """Numbers as an array."""
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._error(member, "numbers in rows of equal length", value) from None

    def _indices(self, member: str, value: Any) -> NDArray[np.int64]:
        """A list of whole numbers as an array."""
        try:
            found = np.asarray(value)
        except ValueError:
            raise self._error(member, "a list of whole numbers", value) from None
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise self._error(member, "a list of whole numbers", value)
        if found.size and np.abs(found).max() > np.iinfo(np.int32).max:
            raise self._error(member, "whole numbers below 2^31", value)
        return found.astype(np.int64)

    def _error(self, member: str, wanted: str, value: Any) -> PriorFileError:
        """A member of the wrong form; shows the beginning of what was found."""
        found = json.dumps(value, default=str)
        shown = found if len(found) <= 60 else found[:57] + "..."
        must = f"{member!r} of {self.where} must be {wanted}"
        return PriorFileError(must, shown, "see docs/reference/priors.md")


def _is_short_line(text: str) -> bool:
    return text.isprintable() and len(text) <= _ASSUMED_CHARACTERS


def check_assumed(where: str, value: Any) -> str:
    """What a file of assumed priors says they rest on: a line of text that fits in each person's record."""
    if not isinstance(value, str) or not value.strip() or not _is_short_line(value):
        raise PriorFileError(
            f"'assumed' in {where} must say in one line of at most {_ASSUMED_CHARACTERS} characters what the "
            "priors rest on",
            f"{len(value):,} characters" if isinstance(value, str) else type(value).__name__,
            "write a sentence, or leave it out for measured habits",
        )
    return value
