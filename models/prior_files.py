"""Priors as files and messages, in JSON or Parquet: the formats of ``docs/reference/priors.md``."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import fields, replace
from io import TextIOWrapper
from itertools import pairwise, repeat
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from models.arguments import checked
from models.calendar import Calendar, dates_of
from models.exceptions import CalendarError, PriorError, PriorFileError
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors import (
    NOT_SAID,
    Evidence,
    FittedWindows,
    Lists,
    Moves,
    Population,
    PopulationBuilder,
    Triplets,
    Unchecked,
    numbered_locations,
)
from models.priors.packing import offsets_of
from models.private_files import private_file
from models.text import DocumentError, JsonStream, parse_json

# The member ``fitted`` of a priors file: the windows that its priors were fitted to.

_OF_CLOCK = ("timezone", "holidays")
_LATEST_SECONDS = 10**11  # year 5138
_KINDS = {"int": "a whole number of seconds", "str": "a text", "int | str": "whole seconds or a word"}


def check_fitted(where: str, value: Any) -> FittedWindows:
    """The member ``fitted``, checked; :class:`PriorFileError` says what it must be."""
    kinds = {field.name: str(field.type) for field in fields(FittedWindows) if field.name not in _OF_CLOCK}
    clock = {name: value[name] for name in _OF_CLOCK if isinstance(value, dict) and name in value}
    if not isinstance(value, dict) or value.keys() - clock.keys() != kinds.keys():
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
    return FittedWindows(**{**value, **_fitted_clock(where, clock)})


def _fitted_clock(where: str, clock: dict[str, Any]) -> dict[str, Any]:
    """Time zone and holidays of ``fitted``, checked; nothing where it has none."""
    if not clock:
        return {}
    holidays = clock.get("holidays", [])
    try:
        if not (isinstance(holidays, list) and all(isinstance(each, str) for each in holidays)):
            raise CalendarError("holidays must be a list of dates", type(holidays).__name__, "list them")
        if not isinstance(clock.get("timezone"), str):
            raise CalendarError("timezone must be a text", "another value", "write Europe/Vienna")
        Calendar(clock["timezone"], 0, 3600, holidays=dates_of(holidays))
    except CalendarError as error:
        raise PriorFileError(f"'fitted' in {where}: {error.must}", error.got, error.remedy) from None
    return {"timezone": clock["timezone"], "holidays": tuple(holidays)}


# One person's prior as a JSON object: an element of a priors file's ``people``, or a message.

_MOST_PEOPLE = 1e12  # behind one persona: more than live on earth, and far below the largest float
_MEMBERS = ("person", "effective_from", "weight", "places", "initial", "transition", "transitions")
_MOST_STEP = 2**53
_MOST_NUMBERS = 50_000  # of elements that are read together: of several hundred mostly, and a few megabytes


def elements_of(population: Population, names: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Each person under one of these names as an element of ``people``."""
    arrays, moves = population.arrays, population.moves()
    bounds = (pairwise(each.tolist()) for each in (arrays.places_start, moves.start, arrays.initial_start))
    for person, slots, own, (begin, end), start in zip(names, arrays.slots.tolist(), *bounds, strict=True):
        cuts = (begin + np.searchsorted(moves.slot[begin:end], np.arange(1, slots))).tolist()
        size = own[1] - own[0]
        matrices = [_matrix_record(moves, size, *each) for each in pairwise((begin, *cuts, end))]
        yield {
            "person": person,
            "places": arrays.places[slice(*own)].tolist(),
            "initial": arrays.initial[slice(*start)].tolist() or None,
            **({"transition": matrices[0]} if slots == 1 else {"transitions": matrices}),
        }


def _matrix_record(moves: Moves, size: int, begin: int, end: int) -> Any:
    """One slot's matrix as triplets, or as rows when it is at least half full."""
    row, column, value = (each[begin:end] for each in (moves.row, moves.column, moves.probability))
    if 2 * value.size >= size**2:
        dense = np.zeros((size, size))
        dense[row, column] = value
        return dense.tolist()
    return {"row": row.tolist(), "col": column.tolist(), "probability": value.tolist()}


def unknown_member(where: str, key: str, known: Sequence[str]) -> PriorFileError:
    """The error for a member that does not exist, with the closest one that does."""
    from difflib import get_close_matches

    close = get_close_matches(key, known, n=1)
    remedy = f"did you mean {close[0]!r}?" if close else "remove it"
    return PriorFileError(f"members of {where} must be among {', '.join(known)}", repr(key), remedy)


class _Matrix(NamedTuple):
    """One slot's matrix as triplets, with its number of rows where it was dense."""

    row: Integers
    column: Integers
    probability: Floats
    size: int | None


def read_record(where: str, record: Any, find_location: Callable[[str], int | None]) -> Unchecked:
    """The person in one element of ``people``, the places sorted.

    Errors call the element ``where``; ``find_location`` gives the index of a location by its name.
    :class:`PriorFileError` where the element has another form; whether it is a chain is checked later.
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
    return _Reading(where, record, find_location).read(person)


def read_records(
    records: Iterable[tuple[str, Any]], find_location: Callable[[str], int | None]
) -> Iterator[Unchecked | PriorFileError | PriorError]:
    """What :func:`read_record` finds in each of these elements or raises, given after what errors call them.

    The numbers of many elements become arrays at once, which takes a twelfth of the time. An error of
    ``records`` is raised after what was found before it.
    """
    elements = iter(records)
    ended: Exception | None = None
    while ended is None:
        together = _Together()
        listed: list[tuple[str, Any]] = []
        taken: list[bool] = []
        try:
            while together.numbers < _MOST_NUMBERS and all(taken[-1:]):
                listed.append(next(elements))
                taken.append(together.take(listed[-1][1]))
        except Exception as error:
            ended = error
        try:
            people = iter(together.people())
        except (TypeError, OverflowError):  # what is no number, or no place, is named one by one
            taken, people = [False] * len(taken), iter(())
        for is_taken, element in zip(taken, listed, strict=True):
            try:
                yield next(people) if is_taken else read_record(*element, find_location)
            except (PriorError, PriorFileError) as error:
                yield error
    if not isinstance(ended, StopIteration):
        raise ended


class _Together:
    """Elements of the usual form, whose numbers are made arrays and sorted together.

    Their places are given by number, or are those of a dense matrix.
    """

    def __init__(self) -> None:
        self._heads: list[tuple[str, int, bool, float | None, int | None]] = []
        self._sizes: list[int] = []
        self._places: list[int] = []
        self._initial: list[float] = []
        self._matrices: list[tuple[int, int, int, bool]] = []  # person, slot, entries, whether it is dense
        self._row: list[int] = []
        self._column: list[int] = []
        self._probability: list[float] = []

    @property
    def numbers(self) -> int:
        """How many were taken: the moves, and some for the rest of each element."""
        return len(self._row) + 50 * len(self._heads)

    def take(self, record: Any) -> bool:
        """Whether the element has the usual form and its lists fit; nothing is taken of any other."""
        if not isinstance(record, dict) or not record.keys() <= _MEMBER_SET:
            return False
        person, places, initial = record.get("person"), record.get("places"), record.get("initial")
        one, several = record.get("transition"), record.get("transitions")
        if not isinstance(person, str) or not person or ("transition" in record) == ("transitions" in record):
            return False
        matrices = several if one is None else (one,)
        if not isinstance(matrices, _LIST) or not matrices:
            return False
        if places is None and isinstance(matrices[0], _LIST):
            places = [*range(len(matrices[0]))]
        triplets = [_triplets(matrix, places) for matrix in matrices]
        if not isinstance(places, _LIST) or not places or None in triplets:
            return False
        if initial is not None and not (isinstance(initial, _LIST) and len(initial) == len(places)):
            return False
        reading = _Reading("", record, lambda _: None)
        try:
            head = person, len(matrices), initial is not None, reading.weight(), reading.effective_from()
        except PriorFileError:
            return False
        for slot, (row, column, probability, is_dense) in enumerate(filter(None, triplets)):
            self._matrices.append((len(self._heads), slot, len(row), is_dense))
            self._row.extend(row)
            self._column.extend(column)
            self._probability.extend(probability)
        self._heads.append(head)
        self._sizes.append(len(places))
        self._places.extend(places)
        self._initial.extend(repeat(0.0, len(places)) if initial is None else initial)
        return True

    def people(self) -> list[Unchecked]:
        """All of them, in their order; an error where one cannot be read like this."""
        if not self._heads:
            return []
        listed, from_, to = map(_whole_numbers, (self._places, self._row, self._column))
        initial, probability = map(_real_numbers, (self._initial, self._probability))
        # Places are sorted within each person; a row or column that is none of them stays as it is, and the
        # packer's error names it.
        start, size = offsets_of(self._sizes), np.array(self._sizes)
        person = np.repeat(np.arange(size.size), size)
        order = np.lexsort((listed, person))
        position = np.empty_like(order)
        position[order] = np.arange(order.size) - start[person]
        of_person, of_slot, entries, is_dense = np.array(self._matrices).T
        kept = (probability != 0.0) | ~np.repeat(is_dense.astype(np.bool_), entries)
        owner, slot = (np.repeat(each, entries)[kept] for each in (of_person, of_slot.astype(np.int32)))
        probability = probability[kept]

        def local(index: Integers) -> Integers32:
            inside = (index >= 0) & (index < size[owner])
            found = np.where(inside, position[start[owner] + np.where(inside, index, 0)], index)
            return found.astype(np.int32)

        row, column = local(from_[kept]), local(to[kept])
        places, initial = listed[order].astype(np.int32), initial[order]
        begins = offsets_of(np.bincount(owner, minlength=size.size)).tolist()
        found = []
        for number, (a, b) in enumerate(pairwise(start.tolist())):
            name, slots, has_initial, weight, since = self._heads[number]
            c, d = begins[number], begins[number + 1]
            moves = Moves(np.array((0, d - c)), slot[c:d], row[c:d], column[c:d], probability[c:d])
            own = initial[a:b] if has_initial else initial[:0]
            found.append(Unchecked(name, slots, places[a:b], moves, own, weight, since))
        return found


_LIST = (list, tuple)
_MEMBER_SET = frozenset(_MEMBERS)
_TRIPLETS = ("row", "col", "probability")
_Listed = tuple[Sequence[int], Sequence[int], Sequence[float], bool]


def _triplets(matrix: Any, places: Any) -> _Listed | None:
    """Rows, columns and probabilities of a matrix, and whether it is dense; None if its lists do not fit."""
    if isinstance(matrix, dict):
        found: list[Any] = [matrix.get(key) for key in _TRIPLETS]
        fits = len(matrix) == len(found) and all(isinstance(each, _LIST) for each in found)
        return (*found, False) if fits and len({*map(len, found)}) == 1 else None
    rows = matrix if isinstance(matrix, _LIST) and isinstance(places, _LIST) else ()
    size = len(rows)
    if (
        not size
        or size != len(places)
        or not all(isinstance(row, _LIST) and len(row) == size for row in rows)
    ):
        return None
    numbers = range(size)
    probability = [each for row in rows for each in row]
    return [number for number in numbers for _ in numbers], [*numbers] * size, probability, True


def _whole_numbers(values: list[int]) -> Integers:
    """The values, all of them integers of 32 bits."""
    if not set(map(type, values)) <= {int}:
        raise TypeError("not whole numbers")
    found = np.array(values, dtype=np.int64)
    if (found.astype(np.int32) != found).any():
        raise OverflowError("not below 2^31")
    return found


def _real_numbers(values: list[float]) -> Floats:
    """The values, all of them numbers."""
    if not set(map(type, values)) <= {int, float}:
        raise TypeError("not numbers")
    return np.array(values, dtype=np.float64)


class _Reading:
    """Reads the members of one element one by one and checks them."""

    def __init__(
        self, where: str, record: dict[str, Any], find_location: Callable[[str], int | None]
    ) -> None:
        self.where = where
        self.record = record
        self.find_location = find_location

    def read(self, person: str) -> Unchecked:
        matrices = self._matrices()
        places = self._places(matrices)
        order = np.argsort(places, kind="stable")
        position = np.empty_like(order)  # of each listed place among the sorted ones
        position[order] = np.arange(order.size)
        row = np.concatenate([matrix.row for matrix in matrices])
        column = np.concatenate([matrix.column for matrix in matrices])
        # triplets without a list of places name locations
        local = places if self.record.get("places") is None and matrices[0].size is None else None
        return Unchecked.of(
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
            weight=self.weight(),
            effective_from=self.effective_from(),
        )

    def effective_from(self) -> int | None:
        """The step from which the person was there; None where that is not said."""
        step = self.record.get("effective_from")
        if step is None:
            return None
        if not isinstance(step, int) or isinstance(step, bool) or not 0 <= step < _MOST_STEP:
            raise self._error("effective_from", "the number of a step, 0 or later", step)
        return step

    def weight(self) -> float | None:
        """How many people the persona stands for; None where that is not said."""
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
        for key in value:
            if key not in _TRIPLETS:
                raise unknown_member(f"{member} of {self.where}", key, _TRIPLETS)
        for key in _TRIPLETS:
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

    def _places(self, matrices: Sequence[_Matrix]) -> Integers:
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
        """The index of a place given by name; anything else unchanged."""
        if not isinstance(place, str):
            return place
        index = self.find_location(place)
        if index is None:
            raise PriorFileError(
                f"'places' of {self.where} must be in the file's 'locations'", repr(place), "add the location"
            )
        return index

    def _local(self, index: Integers, places: Integers | None, position: Integers) -> Integers:
        """Local positions; an index outside the list stays outside, and the packer's error names it."""
        if places is not None:
            return np.searchsorted(places, index)
        inside = (index >= 0) & (index < position.size)
        return np.where(inside, position[np.where(inside, index, 0)], index) if position.size else index

    def _initial(self, places: Integers, order: Integers, is_global: bool) -> Floats | None:
        """The initial distribution over the sorted places; None for the stationary one."""
        value = self.record.get("initial")
        if value is None:
            return None
        initial = self._numbers("initial", value)
        if initial.ndim != 1 or not initial.size:
            raise self._error("initial", "a list of probabilities or null", value)
        if is_global:
            return self._initial_of_locations(initial, places)
        return initial[order] if initial.size == order.size else initial

    def _initial_of_locations(self, initial: Floats, places: Integers) -> Floats:
        """An initial distribution over all locations, cut to the person's places; the rest must be zero."""
        outside = np.setdiff1d(np.flatnonzero(initial), places)
        if outside.size or places.max(initial=-1) >= initial.size:
            raise PriorFileError(
                f"'initial' of {self.where} must cover the locations of the matrix and no others",
                f"{initial.size} numbers, not zero outside at {outside.tolist()}",
                "give one number a location, zero where the person is never",
            )
        return initial[places]

    def _numbers(self, member: str, value: Any) -> Floats:
        try:
            return np.asarray(value, dtype=np.float64)
        except (TypeError, ValueError):
            raise self._error(member, "numbers in rows of equal length", value) from None

    def _indices(self, member: str, value: Any) -> Integers:
        """A list of whole numbers as an array."""
        try:
            found = np.asarray(value)
        except ValueError:
            raise self._error(member, "a list of whole numbers", value) from None
        if found.ndim != 1 or (found.size and found.dtype.kind not in "iu"):
            raise self._error(member, "a list of whole numbers", value)
        if (found.astype(np.int32) != found).any():
            raise self._error(member, "whole numbers below 2^31", value)
        return found.astype(np.int64)

    def _error(self, member: str, wanted: str, value: Any) -> PriorFileError:
        """The error for a member of the wrong form, with the beginning of what was found."""
        found = json.dumps(value, default=str)
        shown = found if len(found) <= 60 else found[:57] + "..."
        must = f"{member!r} of {self.where} must be {wanted}"
        return PriorFileError(must, shown, "see docs/reference/priors.md")


_ASSUMED_CHARACTERS = 256


def check_assumed(where: str, value: Any) -> str:
    """The member ``assumed``, what the priors rest on: one line of text, as it is in each person's record."""
    is_text = isinstance(value, str) and value.strip() and value.isprintable()
    if not is_text or len(value) > _ASSUMED_CHARACTERS:
        raise PriorFileError(
            f"'assumed' in {where} must say in one line of at most {_ASSUMED_CHARACTERS} characters what the "
            "priors rest on",
            f"{len(value):,} characters" if isinstance(value, str) else type(value).__name__,
            "write a sentence, or leave it out for measured habits",
        )
    return str(value)


# Priors as JSON: the form that people write by hand and other tools send.


def read_json(path: Path) -> Population:
    """Read a priors file person by person; :class:`PriorFileError` names file, person and member."""
    people: list[Unchecked] = []
    locations: tuple[str, ...] | None = None
    assumed: str | None = None
    fitted: FittedWindows | None = None
    try:
        with path.open(encoding="utf-8-sig") as source:
            stream = JsonStream(source)
            for key in stream.members():
                if key == "locations":
                    locations = _locations(path, stream.value())
                elif key == "assumed":
                    assumed = check_assumed(str(path), stream.value())
                elif key == "fitted":
                    fitted = check_fitted(str(path), stream.value())
                elif key == "people":
                    known = _Names(path, locations)
                    people = _read_people(path, stream, known.index)
                else:
                    stream.value()
                    raise unknown_member(str(path), key, ("assumed", "fitted", "locations", "people"))
            stream.finish()
    except DocumentError as error:
        raise PriorFileError(f"{path} must be JSON", error, "correct the file at that line") from None
    except UnicodeDecodeError as error:
        raise PriorFileError(f"{path} must be UTF-8 text", error.reason, "save it as UTF-8") from None
    return replace(PopulationBuilder(people).build(locations), assumed=assumed, fitted=fitted)


def write_json(population: Population, file: BinaryIO) -> None:
    """Write a population, one line a person; reading the file gives the same population bit for bit."""
    out = TextIOWrapper(file, encoding="utf-8")
    names = json.dumps(population.location_names, ensure_ascii=False)
    label = f'"assumed": {json.dumps(population.assumed)},\n ' if population.assumed is not None else ""
    if population.fitted is not None:
        label += f'"fitted": {json.dumps(population.fitted.as_json(), ensure_ascii=False)},\n '
    out.write(f'{{{label}"locations": {names},\n "people": [')
    for number, record in enumerate(elements_of(population, population.people)):
        if population.weights is not None:
            record["weight"] = float(population.weights[number])
        if population.effective_from is not None and population.effective_from[number] != NOT_SAID:
            record["effective_from"] = int(population.effective_from[number])
        out.write(",\n  " if number else "\n  ")
        out.write(json.dumps(record, ensure_ascii=False))
    out.write("\n ]}\n")
    out.detach()  # flushes and leaves the file open: the caller makes it durable


def _read_people(
    path: Path, stream: JsonStream, find_location: Callable[[str], int | None]
) -> list[Unchecked]:
    """The elements of ``people``; the first wrong thing in the file is named."""
    if stream.peek() != "[":
        raise PriorFileError(
            f"'people' in {path} must be a list", stream.peek(), "write one object a person in [...]"
        )
    people: list[Unchecked] = []
    named = ((f"people[{number}] in {path}", record) for number, record in enumerate(stream.elements()))
    for found in read_records(named, find_location):
        if isinstance(found, Exception):
            raise found
        people.append(found)
    return people


def _locations(path: Path, value: Any) -> tuple[str, ...]:
    """The list of location names, checked."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise PriorFileError(
            f"'locations' in {path} must be a list of names", type(value).__name__, "put each name in quotes"
        )
    if len(set(value)) < len(value):
        twice = next(name for name in value if value.count(name) > 1)
        raise PriorFileError(
            f"'locations' in {path} must be unique", f"{twice!r} twice", "rename one of the two"
        )
    return tuple(value)


class _Names:
    """Location indices by name; reads ahead in the file where people come before the locations."""

    def __init__(self, path: Path, locations: tuple[str, ...] | None) -> None:
        self._path = path
        self._locations = locations
        self._index: dict[str, int] | None = None

    def index(self, name: str) -> int | None:
        """Index of a location, None if there is no such name."""
        if self._index is None:
            names = self._locations if self._locations is not None else self._look_ahead()
            self._index = {name: index for index, name in enumerate(names)}
        return self._index.get(name)

    def _look_ahead(self) -> tuple[str, ...]:
        if not self._path.is_file():
            return ()
        with self._path.open(encoding="utf-8-sig") as source:
            stream = JsonStream(source)
            for key in stream.members():
                if key == "locations":
                    return _locations(self._path, stream.value())
                if key == "people":
                    for _ in stream.elements():
                        pass
                else:
                    stream.value()
        return ()


# Priors as Parquet, for many people: one row a person, its moves in list columns.
#
# Columns: ``person`` (text), ``places`` (int32 list), ``slots`` (int32, optional, 1), ``slot`` (int32 list,
# optional, null with one slot), ``row``, ``col`` (int32 lists of local indices), ``probability`` (double
# list), ``initial`` (double list, optional, null = stationary), ``weight`` (double, optional, how many people
# the persona stands for), ``effective_from`` (int64, optional, the step from which the person was there). The
# names of the locations are JSON in the file's metadata under ``tallyguard.locations``, what assumed priors
# rest on under ``tallyguard.assumed``, and the windows priors were fitted to under ``tallyguard.fitted``.

_LOCATIONS = b"tallyguard.locations"
_ASSUMED = b"tallyguard.assumed"
_FITTED = b"tallyguard.fitted"
_PEOPLE_A_BATCH = 20_000
_REQUIRED = ("person", "places", "row", "col", "probability")
_SCHEMA = pa.schema(
    [
        ("person", pa.string()),
        ("places", pa.list_(pa.int32())),
        ("slots", pa.int32()),
        ("slot", pa.list_(pa.int32())),
        ("row", pa.list_(pa.int32())),
        ("col", pa.list_(pa.int32())),
        ("probability", pa.list_(pa.float64())),
        ("initial", pa.list_(pa.float64())),
    ]
)
_WEIGHT = pa.field("weight", pa.float64())
_EFFECTIVE_FROM = pa.field("effective_from", pa.int64())
_TOLD = pa.field("told", pa.bool_())  # in the copies that a run keeps


def _said_of_each(population: Population) -> dict[pa.Field[Any], pa.Array[Any]]:
    """The columns that only some files have."""
    since = population.effective_from
    said: list[tuple[pa.Field[Any], Any, Any]] = [
        (_WEIGHT, population.weights, None),
        (_EFFECTIVE_FROM, since, None if since is None else since == NOT_SAID),
        (_TOLD, population.told, None),
    ]
    return {field: pa.array(each, field.type, mask=mask) for field, each, mask in said if each is not None}


def read_parquet(path: Path) -> Population:
    """Read a priors file batch by batch; :class:`PriorFileError` names file, column and person."""
    assumed: str | None = None
    fitted: FittedWindows | None = None
    try:
        with pq.ParquetFile(path) as file:
            _check_columns(path, file.schema_arrow.names)
            names = _location_names(path, file)
            metadata = file.schema_arrow.metadata or {}
            if _ASSUMED in metadata:
                assumed = check_assumed(str(path), parse_json(metadata[_ASSUMED]))
            if _FITTED in metadata:
                fitted = check_fitted(str(path), parse_json(metadata[_FITTED]))
            parts = [_packed(path, batch, names) for batch in file.iter_batches(batch_size=_PEOPLE_A_BATCH)]
    except DocumentError as error:
        raise PriorFileError(
            f"metadata 'tallyguard.locations' of {path} must be a JSON list", error, "write it again"
        ) from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise PriorFileError(f"{path} must be a Parquet file", error, "write it again") from None
    packed = Population.concatenate(parts) if parts else PopulationBuilder().build(names)
    return replace(packed, assumed=assumed, fitted=fitted)


def write_parquet(population: Population, file: BinaryIO) -> None:
    """Write a population; reading the file gives the same population bit for bit."""
    names = json.dumps(population.location_names, ensure_ascii=False)
    label = {} if population.assumed is None else {_ASSUMED: json.dumps(population.assumed)}
    if population.fitted is not None:
        label[_FITTED] = json.dumps(population.fitted.as_json(), ensure_ascii=False)
    schema = pa.schema([*_SCHEMA, *_said_of_each(population)]).with_metadata({_LOCATIONS: names, **label})
    parts = max(1, -(-len(population) // _PEOPLE_A_BATCH))
    # a dictionary of probabilities, tried and given up, takes half of the time; nobody asks for statistics
    with pq.ParquetWriter(
        file, schema, compression="zstd", use_dictionary=False, write_statistics=False
    ) as writer:
        for part in population.split(parts):
            writer.write_table(_table(part, schema))


def _table(population: Population, schema: pa.Schema) -> pa.Table:
    """One row a person."""
    arrays, moves = population.arrays, population.moves()
    single = np.asarray(arrays.slots == 1)
    columns = [
        pa.array(population.people, pa.string()),
        _lists(arrays.places_start, arrays.places),
        pa.array(arrays.slots, pa.int32()),
        _lists(moves.start, moves.slot, null=single),
        _lists(moves.start, moves.row),
        _lists(moves.start, moves.column),
        _lists(moves.start, moves.probability),
        _lists(arrays.initial_start, arrays.initial, null=np.diff(arrays.initial_start) == 0),
        *_said_of_each(population).values(),
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _lists(start: Integers, values: NDArray[Any], null: Flags | None = None) -> pa.ListArray[Any]:
    """One list a person; null where ``null`` is true."""
    mask = None if null is None else pa.array(null)
    return pa.ListArray.from_arrays(pa.array(start, pa.int32()), pa.array(values), mask=mask)


def _check_columns(path: Path, found: list[str]) -> None:
    """Refuse missing, unknown and repeated columns."""
    missing = [name for name in _REQUIRED if name not in found]
    known = [*_SCHEMA.names, _WEIGHT.name, _EFFECTIVE_FROM.name]
    unknown = [name for name in found if name not in (*known, _TOLD.name)]
    repeated = sorted({name for name in found if found.count(name) > 1})
    if missing or unknown or repeated:
        raise PriorFileError(
            f"columns of {path} must be {', '.join(known)} (slots, slot, initial, weight and "
            "effective_from may be missing)",
            f"missing {missing}, unknown {unknown}, repeated {repeated}",
            "rename or drop columns; the layout is in docs/reference/priors.md",
        )


def _location_names(path: Path, file: pq.ParquetFile) -> tuple[str, ...]:
    """The names in the metadata, or the indices up to the highest place."""
    metadata = file.schema_arrow.metadata or {}
    if _LOCATIONS in metadata:
        names = parse_json(metadata[_LOCATIONS])
        if not isinstance(names, list):
            raise PriorFileError(
                f"metadata 'tallyguard.locations' of {path} must be a JSON list", names, "write it again"
            )
        return tuple(map(str, names))
    highest = -1
    for batch in file.iter_batches(batch_size=_PEOPLE_A_BATCH, columns=["places"]):
        try:
            top = pc.max(pc.list_flatten(batch.column(0)).cast(pa.int32())).as_py()
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise PriorFileError(
                f"places of {path} must be lists of numbers of locations",
                error,
                "cast them to 32-bit integers",
            ) from None
        highest = max(highest, -1 if top is None else top)
    return numbered_locations(highest, str(path))


def _packed(path: Path, batch: pa.RecordBatch, names: tuple[str, ...]) -> Population:
    """One batch of people."""
    columns = {name: batch.column(name) for name in batch.schema.names}
    for name in _REQUIRED:
        if columns[name].null_count:
            number = columns[name].is_null().to_pylist().index(True)
            raise PriorFileError(
                f"column {name!r} of {path} must have no nulls",
                f"null for person {columns['person'][number].as_py()!r}",
                "fill it, or leave the person out",
            )
    try:
        people = list(map(str, columns["person"].to_pylist()))
        slots, moves = _moves(path, columns)
        initial = Lists(*_column(columns["initial"], pa.float64())) if "initial" in columns else None
        places = Lists(*_column(columns["places"], pa.int32()))
        packed = Population.from_moves(
            people, places, moves, slots=slots, initial=initial, location_names=names
        )
        return replace(
            packed,
            weights=_said(columns, _WEIGHT, 1.0, np.float64),
            effective_from=_said(columns, _EFFECTIVE_FROM, NOT_SAID, np.int64),
            told=_said(columns, _TOLD, False, np.bool_),
        )
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise PriorFileError(
            f"columns of {path} must have the documented types", error, "cast them"
        ) from None


def _said(columns: dict[str, pa.Array[Any]], field: pa.Field[Any], unsaid: object, kind: type[Any]) -> Any:
    """A column that only some files have, ``unsaid`` for a null; None where nothing is said of anybody."""
    if field.name not in columns:
        return None
    found = columns[field.name].cast(field.type)
    if found.null_count == len(found):
        return None
    return np.array(found.fill_null(unsaid).to_numpy(zero_copy_only=False), dtype=kind)


def _moves(path: Path, columns: dict[str, pa.Array[Any]]) -> tuple[Integers32, Moves]:
    """The number of slots of each person, and all moves of one batch."""
    count = len(columns["person"])
    entry_start, row = _column(columns["row"], pa.int32())
    slots = np.ones(count, dtype=np.int32)
    if "slots" in columns:
        slots = columns["slots"].fill_null(1).cast(pa.int32()).to_numpy().astype(np.int32)
    column_start, column = _column(columns["col"], pa.int32())
    probability_start, probability = _column(columns["probability"], pa.float64())
    _check_lengths(path, columns, "col", np.diff(column_start), np.diff(entry_start))
    _check_lengths(path, columns, "probability", np.diff(probability_start), np.diff(entry_start))
    _check_slots(path, columns, slots, np.diff(entry_start))
    slot = _slot(path, columns, slots, entry_start)
    return slots, Moves(entry_start, slot, row, column, probability)


def _check_slots(path: Path, columns: dict[str, pa.Array[Any]], slots: Integers32, moves: Integers) -> None:
    """Refuse more slots than moves before memory is allocated for them: each slot has at least one move."""
    wrong = np.flatnonzero(slots > np.maximum(moves, 1))
    if wrong.size:
        person = columns["person"][int(wrong[0])].as_py()
        raise PriorFileError(
            f"the slots of person {person!r} in {path} must have a move each",
            f"{moves[wrong[0]]} moves for {slots[wrong[0]]} slots",
            "correct 'slots', or give each slot its moves",
        )


def _slot(
    path: Path, columns: dict[str, pa.Array[Any]], slots: Integers32, entry_start: Integers
) -> Integers32:
    """The slot of every entry; zero for people whose list is null."""
    result = np.zeros(entry_start[-1], dtype=np.int32)
    if "slot" not in columns:
        return result
    start, values = _column(columns["slot"], pa.int32())
    lengths = np.diff(start)
    given = lengths > 0
    wanted = np.where(given | (slots > 1), np.diff(entry_start), 0)
    _check_lengths(path, columns, "slot", lengths, wanted)
    result[np.repeat(given, np.diff(entry_start))] = values
    return result


def _column(column: pa.Array[Any], kind: pa.DataType) -> tuple[Integers, NDArray[Any]]:
    """Offsets (N + 1,) and values of a list column; a null is an empty list."""
    lengths = pc.fill_null(pc.list_value_length(column), 0).to_numpy(zero_copy_only=False)
    values = pc.list_flatten(column)
    if values.null_count:
        raise pa.ArrowInvalid("a list contains null")
    start = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
    return start, np.array(values.cast(kind).to_numpy(zero_copy_only=False))


def _check_lengths(
    path: Path, columns: dict[str, pa.Array[Any]], name: str, found: Integers, wanted: Integers
) -> None:
    """Refuse a person's lists of different lengths."""
    wrong = np.flatnonzero(found != wanted)
    if wrong.size:
        person = columns["person"][int(wrong[0])].as_py()
        raise PriorFileError(
            f"lists row, col, probability (and slot) of person {person!r} in {path} must be equally long",
            f"{found[wrong[0]]} in {name!r} for {wanted[wrong[0]]}",
            "give each move one of each",
        )


def _is_json(path: Path) -> bool:
    """Whether a file is JSON, and not Parquet, by its name; :class:`PriorFileError` where it is neither."""
    suffix = path.suffix.lower()
    if suffix not in (".json", ".parquet"):
        raise PriorFileError(
            "a priors file must end in .json or .parquet", path.name, "rename it to say which it is"
        )
    return suffix == ".json"


@checked(PriorFileError)
def load_population(path: str | Path, *, kept: bool = False) -> Population:
    """All priors of a ``.json`` or ``.parquet`` file; ``kept`` for the copies that a run keeps.

    :class:`~models.exceptions.PriorFileError` names the file, the person and the place in it.
    """
    path = Path(path)
    if not path.is_file():
        raise PriorFileError("the priors file must exist", str(path), "check the path")
    try:
        population = read_json(path) if _is_json(path) else read_parquet(path)
    except PriorError as error:
        raise PriorFileError(f"in {path}, {error.must}", error.got, error.remedy) from error
    if population.told is not None and not kept:
        raise PriorFileError(
            f"{path} must be priors as they were given to a run",
            "a copy that a run keeps, with starts of its own",
            "name the file that the run was given",
        )
    return population


@checked(PriorFileError)
def save_population(population: Population, path: str | Path) -> None:
    """Write all priors to a file that only its owner can read; it appears whole or not at all.

    :class:`~models.exceptions.PriorFileError` where it cannot be written.
    """
    path = Path(path)
    if not path.parent.is_dir():
        raise PriorFileError("a priors file must be in a folder that exists", str(path), "make the folder")
    write = write_json if _is_json(path) else write_parquet
    with private_file(path) as file:
        write(population, file)


# How many moves each row of fitted priors rests on: a Parquet file next to that of the priors.
#
# Columns: ``person`` (text) and ``evidence`` (double list), a number for each slot and place, slot by slot,
# places increasing; infinite for a row that is not uncertain.

_EVIDENCE_SCHEMA = pa.schema([("person", pa.string()), ("evidence", pa.list_(pa.float64()))])


def save_evidence(evidence: Evidence, path: str | Path) -> None:
    """Write evidence to a file that only its owner can read; it appears whole or not at all."""
    columns = [pa.array(evidence.people, pa.string()), _lists(*evidence.rows)]
    table = pa.Table.from_arrays(columns, schema=_EVIDENCE_SCHEMA)
    with private_file(Path(path)) as file:
        pq.write_table(table, file, compression="zstd")


@checked(PriorFileError)
def load_evidence(path: str | Path) -> Evidence:
    """Read evidence; :class:`~models.exceptions.PriorFileError` where the file holds something else."""
    path = Path(path)
    if not path.is_file():
        raise PriorFileError(
            "the file of evidence must exist", str(path), "write it with priors fit --evidence"
        )
    try:
        with pq.ParquetFile(path) as file:
            table = file.read().combine_chunks()
        if table.column_names != _EVIDENCE_SCHEMA.names:
            raise pa.ArrowInvalid(f"columns {', '.join(table.column_names)}")
        table = table.cast(_EVIDENCE_SCHEMA)
        people, lists = table.column("person"), table.column("evidence")
        if lists.null_count or people.null_count:
            raise pa.ArrowInvalid("a column with nulls")
        rows = Lists(*_column(lists.combine_chunks(), pa.float64()))
        names = tuple(map(str, people.to_pylist()))
    except (pa.ArrowException, OSError, TypeError, UnicodeDecodeError) as error:
        raise PriorFileError(
            f"{path} must be evidence of priors: Parquet with columns person and evidence",
            error,
            "write it with priors fit --evidence",
        ) from None
    if len(set(names)) < len(names):
        raise PriorFileError(
            f"{path} must name each person once",
            "a person twice",
            "write it again with priors fit --evidence",
        )
    return Evidence(names, rows)
