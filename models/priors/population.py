"""All priors of a deployment packed in flat arrays, the form that accountants read."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from models.arguments import checked
from models.exceptions import PositionError, PriorError
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors.chain import ChainView, PopulationArrays, chain_view
from models.priors.packing import (
    Lists,
    Moves,
    lay_out,
    mix_in,
    offsets_of,
    pack,
    split_unequal,
    unpack_columns,
)
from models.priors.prior import MovementPrior, Triplets, check_lists, explain, moves_of, real, whole
from models.priors.stationary_kernel import fill_distributions

# The arrays of several people: joined, selected and compared.

Number = TypeVar("Number", bound=np.generic)

_CONTENTS = {
    "places_start": "places",
    "distribution_start": "distribution",
    "column_start_start": "column_start",
    "entry_start": "row",
    "initial_start": "initial",
    "label_start": "label",
}


def joined_lists(parts: Sequence[NDArray[Number]], dtype: type[Number]) -> Lists:
    """The lists of several people."""
    return Lists(offsets_of([part.size for part in parts]), _joined(parts, dtype))


def joined_moves(parts: Sequence[Moves]) -> Moves:
    """The moves of several people, each given as the only one."""
    return Moves(
        offsets_of([part.row.size for part in parts]),
        _joined([part.slot for part in parts], np.int32),
        _joined([part.row for part in parts], np.int32),
        _joined([part.column for part in parts], np.int32),
        _joined([part.probability for part in parts], np.float64),
    )


def _kept_moves(moves: Moves) -> Moves:
    """The moves in the types that kernels are compiled for, without those of probability zero."""
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


def _taken_people(arrays: PopulationArrays, index: Integers) -> PopulationArrays:
    """The arrays of the people at ``index``."""
    taken: dict[str, Any] = {"slots": arrays.slots[index]}
    for offsets, contents in _CONTENTS.items():
        start = getattr(arrays, offsets)
        length = start[index + 1] - start[index]
        taken[offsets] = offsets_of(length)
        source = np.repeat(start[index] - taken[offsets][:-1], length) + np.arange(length.sum())
        taken[contents] = getattr(arrays, contents)[source]
        if contents == "row":
            taken["value"] = arrays.value[source]
    return PopulationArrays(**taken)


def _joined_people(parts: Sequence[PopulationArrays]) -> PopulationArrays:
    """The arrays of several populations, one after the other."""
    joined: dict[str, Any] = {
        name: np.concatenate([getattr(part, name) for part in parts]) for name in ("slots", "value")
    }
    for offsets, contents in _CONTENTS.items():
        joined[offsets] = offsets_of(np.concatenate([np.diff(getattr(part, offsets)) for part in parts]))
        joined[contents] = np.concatenate([getattr(part, contents) for part in parts])
    return PopulationArrays(**joined)


def _words_of(arrays: PopulationArrays) -> list[tuple[Integers, NDArray[Any]]]:
    """Everything that makes two priors equal: offsets, and numbers of up to 64 bits, compared bit by bit."""
    return [
        (arrays.places_start, arrays.places),
        (arrays.column_start_start, arrays.column_start),
        (arrays.entry_start, arrays.row),
        (arrays.entry_start, arrays.value.view(np.uint64)),
        (arrays.initial_start, arrays.initial.view(np.uint64)),
    ]


def _joined(parts: Sequence[NDArray[Number]], dtype: type[Number]) -> NDArray[Number]:
    """The pieces as one array; empty where there are none."""
    return np.concatenate(parts) if parts else np.empty(0, dtype=dtype)


@dataclass(frozen=True, slots=True)
class FittedWindows:
    """The windows that priors were fitted to: the options of the fit, and the end of the last fitted window.

    A check of the priors must use later windows. ``origin`` is the Unix time in seconds of window 0, in slot
    0, or ``"epoch"`` for whole windows since 1970; windows from ``until_seconds`` on were not fitted. With a
    ``timezone`` slots are those of its clock, and ``holidays`` (dates) those of Sundays.
    """

    window_seconds: int
    origin: int | str
    window_place: str
    elsewhere: str
    elsewhere_name: str
    until_seconds: int
    timezone: str | None = None
    holidays: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The members of a file of priors; clock and holidays only where there are any."""
        found = asdict(self)
        if self.timezone is None:
            del found["timezone"], found["holidays"]
        return found


NOT_SAID = -1
"""In place of a step: nothing says when a person came, so the whole log counts for them."""

_OF_EACH = {"weights": 1.0, "effective_from": NOT_SAID, "told": False}
"""What is said of each person of a population, and what stands for a person of whom it is not said."""

_MOST_NUMBERED = 1_000_000  # locations without a list of names: one wrong number must not fill the memory


@dataclass(frozen=True, eq=False)
class Population:
    """The movement priors of all people, on the same ``M`` locations; immutable, in the order given.

    ``people`` are ids or pseudonyms, ``location_names[m]`` names location ``m``. All numbers are in
    ``arrays`` (:class:`models.priors.chain.PopulationArrays`): each person has places and a cycle of their
    own. ``assumed`` says what the priors rest on where nobody was measured; None for priors of measured
    people. ``fitted`` are the windows they were fitted to, None where these are not known. ``weights`` (N,)
    is how many people each persona stands for; None where each prior is of one person. ``drawn`` are several
    chains of each person, one person after the other, that the person's data could have given
    (:func:`~models.priors.evidence.with_draws`); None where the priors are not uncertain. ``effective_from``
    (N,) is the step of a log from which each person was there, :data:`NOT_SAID` where nothing says so.
    ``told`` (N,) are people whose habits changed at that step, where they start from ``initial``: an
    adversary is taken to know that place.
    """

    people: tuple[str, ...]
    location_names: tuple[str, ...]
    arrays: PopulationArrays
    assumed: str | None = None
    fitted: FittedWindows | None = None
    weights: Floats | None = None
    drawn: Population | None = None
    effective_from: Integers | None = None
    told: Flags | None = None

    def __post_init__(self) -> None:
        """Refuse weights that are not positive numbers, and steps that are none."""
        since = self.effective_from
        if since is not None and (since.shape != (len(self),) or since.min(initial=0) < NOT_SAID):
            raise PriorError(
                "effective_from must be one step for each person, 0 or later",
                f"{since.min()}" if since.shape == (len(self),) else since.shape,
                "leave it out for people who were there from the first step on",
            )
        if self.weights is None:
            return
        wrong = np.flatnonzero(~((self.weights > 0.0) & (self.weights < np.inf)))
        if self.weights.shape != (len(self),) or wrong.size:
            raise PriorError(
                "weights must be one positive number of people for each persona",
                f"{self.weights[wrong[0]]} for {self.people[wrong[0]]!r}"
                if wrong.size
                else self.weights.shape,
                "leave out personas that stand for nobody",
            )

    def __repr__(self) -> str:
        """The numbers of people and locations; no names."""
        return f"Population(people={len(self)}, locations={self.location_count})"

    @classmethod
    @checked(PriorError)
    def pack(cls, priors: Iterable[MovementPrior], location_names: Sequence[str] | None = None) -> Population:
        """Pack priors in their order; locations are named "0".."M-1" up to the highest place if not given."""
        given = list(priors)
        starts = [np.empty(0) if prior.initial is None else prior.initial for prior in given]
        return cls.from_moves(
            [prior.person for prior in given],
            joined_lists([prior.places for prior in given], np.int32),
            joined_moves([prior.moves() for prior in given]),
            slots=np.array([prior.slots for prior in given], dtype=np.int32),
            initial=joined_lists(starts, np.float64),
            location_names=location_names,
        )

    @classmethod
    def from_moves(
        cls,
        people: Sequence[str],
        places: Lists,
        moves: Moves,
        *,
        slots: Integers32,
        initial: Lists | None = None,
        location_names: Sequence[str] | None = None,
    ) -> Population:
        """Pack many people at once, their places and moves given one person after the other.

        ``slots`` (N,) is the number of slots of each; an empty list in ``initial`` is the stationary start.
        Makes all checks of a prior: :class:`~models.exceptions.PriorError` names the first wrong person, slot
        and row, and the remedy.
        """
        _check_ids(people)
        own = Lists(np.zeros(len(people) + 1, dtype=np.int64), np.empty(0)) if initial is None else initial
        check_lists(people, slots, places, moves, own)
        names = _names(location_names, places.values)
        moves = _kept_moves(moves)
        arrays = lay_out(slots, places, moves.start, own)
        faults = pack(arrays, moves, len(names))
        wrong = np.flatnonzero(faults.code)
        if wrong.size:
            raise explain(people[wrong[0]], arrays, moves, faults, int(wrong[0]), names)
        fill_distributions(arrays)
        return cls(tuple(people), names, arrays)

    def __len__(self) -> int:
        """Number of people."""
        return len(self.people)

    @property
    def location_count(self) -> int:
        """Number of locations ``M``."""
        return len(self.location_names)

    @property
    def shares_places(self) -> bool:
        """Whether states of somebody share a place."""
        places, start = self.arrays.places, self.arrays.places_start
        is_same = places[1:] == places[:-1]
        is_same[start[1:-1][(start[1:-1] > 0) & (start[1:-1] < places.size)] - 1] = False
        return bool(is_same.any())

    @property
    def accounted(self) -> Population:
        """The chains whose risk is computed: the drawn ones, or the priors."""
        return self if self.drawn is None else self.drawn

    @property
    def draws(self) -> int:
        """How many chains are accounted for each person."""
        return 1 if self.drawn is None else len(self.drawn) // len(self)

    @property
    def chains_named(self) -> str | None:
        """A short name of the drawn chains; None where the priors are accounted."""
        return None if self.drawn is None else self.drawn.fingerprint[:16]

    def chains_of(self, people: Integers) -> Integers:
        """Positions of these people's chains among the accounted ones, in the order of the people."""
        return (people[:, np.newaxis] * self.draws + np.arange(self.draws)).reshape(-1)

    def any_draw(self, chains: Flags) -> Flags:
        """Whether it is true for any of a person's chains, (N,), from the truth for each accounted chain."""
        return np.asarray(chains.reshape(-1, self.draws).any(axis=1), dtype=np.bool_)

    def mean_draw(self, chains: Floats) -> Floats:
        """The mean over each person's chains, (N,), added in a fixed order, for the same bits everywhere."""
        if self.draws == 1:
            return chains
        total = chains[:: self.draws].copy()
        for number in range(1, self.draws):
            total += chains[number :: self.draws]
        return total / self.draws

    @property
    def bytes_per_person(self) -> float:
        """Memory of the packed arrays a person, without the ids."""
        return float(sum(array.nbytes for array in self.arrays)) / max(len(self), 1)

    @cached_property
    def stands_for(self) -> Integers | None:
        """How many people each persona stands for, (N,), at least one: the weight in whole people.

        None where each prior is of one person. Weights 0.2, 1.5 and 7 are 1, 2 and 7 people.
        """
        if self.weights is None:
            return None
        return np.maximum(1, np.floor(self.weights + 0.5)).astype(np.int64)

    @property
    def people_each(self) -> Integers:
        """How many people each prior stands for, (N,); ones without personas."""
        return np.ones(len(self), dtype=np.int64) if self.stands_for is None else self.stands_for

    @property
    def unweighted(self) -> Population:
        """The same priors, each of one person."""
        return self if self.weights is None else replace(self, weights=None)

    @property
    def everybody(self) -> int:
        """How many people there are, all people of each persona included."""
        return int(self.people_each.sum())

    @cached_property
    def unweighted_fingerprint(self) -> str:
        """:attr:`fingerprint` without the weights."""
        return self.unweighted.fingerprint

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all priors, with names and weights."""
        digest = hashlib.sha256()
        for names in (self.location_names, self.people):
            digest.update(json.dumps(names).encode())
        for name, array in self.arrays._asdict().items():
            if name != "label_start" or self.arrays.label.size:
                digest.update(array.tobytes())
        if self.weights is not None:
            digest.update(self.weights.tobytes())
        return digest.hexdigest()

    @cached_property
    def alike(self) -> Integers:
        """For each person the first one with an equal prior and start, (N,): mostly the person."""
        words = _words_of(self.arrays)
        digest = np.zeros(len(self), dtype=np.uint64)
        for start, contents in words:
            mix_in(start, contents, digest)
        _, position, group = np.unique(digest, return_index=True, return_inverse=True)
        first = position[group.reshape(-1)].astype(np.int64)
        others = np.flatnonzero(first != np.arange(len(self)))
        for start, contents in words:
            split_unequal(others, start, contents, first)
        return first

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {person: position for position, person in enumerate(self.people)}

    @checked(PriorError)
    def position(self, person: str) -> int:
        """The position of a person; :class:`~models.exceptions.PriorError` for an unknown id."""
        if person not in self._positions:
            raise PriorError(
                "a person must be one of those whose prior is known", repr(person), "check the id"
            )
        return self._positions[person]

    @checked(PriorError)
    def chain(self, person: int) -> ChainView:
        """The chain of the person at this position: views, not copies."""
        return chain_view(self.arrays, self._known(person))

    def _known(self, person: int) -> int:
        if not 0 <= person < len(self):
            must = f"lie in 0..{len(self) - 1}" if len(self) else "be of a population with people in it"
            raise PositionError(f"a person's position must {must}", person, "count people from 0")
        return person

    @checked(PriorError)
    def initial(self, person: int) -> Floats | None:
        """The person's initial distribution (K,), or None for the (cyclo-)stationary one."""
        self._known(person)
        begin, end = self.arrays.initial_start[person : person + 2]
        return self.arrays.initial[begin:end] if end > begin else None

    @checked(PriorError)
    def prior(self, person: int | str) -> MovementPrior:
        """The prior of the person at this position or with this id, unpacked."""
        person = self.position(person) if isinstance(person, str) else self._known(person)
        own = self.subset([person])
        moves = own.moves()
        return MovementPrior.from_triplets(
            self.people[person],
            own.arrays.places,
            Triplets(moves.row, moves.column, moves.probability, moves.slot),
            slots=int(own.arrays.slots[0]),
            initial=self.initial(person),
        )

    def priors(self) -> Iterable[MovementPrior]:
        """All priors, one after the other."""
        return (self.prior(person) for person in range(len(self)))

    def subset(self, chosen: Sequence[int] | Integers) -> Population:
        """The people at these positions, in this order, as a population of its own."""
        index = np.asarray(chosen, dtype=np.int64)
        drawn = self.drawn
        if drawn is not None:
            drawn = drawn.subset(self.chains_of(index)) if index.size else None
        said: dict[str, Any] = {name: getattr(self, name) for name in _OF_EACH}
        said = {name: None if each is None else each[index] for name, each in said.items()}
        people, arrays = tuple(self.people[i] for i in index), _taken_people(self.arrays, index)
        return replace(self, people=people, arrays=arrays, drawn=drawn, **said)

    @checked(PriorError)
    def renamed(self, people: Sequence[str]) -> Population:
        """The same priors under other names, in their order."""
        drawn = self.drawn
        if drawn is not None:
            drawn = drawn.renamed([draw_name(each, k) for each in people for k in range(self.draws)])
        return replace(self, people=tuple(people), drawn=drawn)

    @checked(PriorError)
    def split(self, parts: int) -> list[Population]:
        """All people in consecutive partitions of nearly equal size."""
        if parts < 1:
            raise PriorError("people must be split in 1 part or more", parts, "ask for 1")
        if parts == 1:
            return [self]
        return [self.subset(part) for part in np.array_split(np.arange(len(self)), parts)]

    @classmethod
    @checked(PriorError)
    def concatenate(cls, parts: Sequence[Population]) -> Population:
        """Several populations on the same locations as one, e.g. packed in chunks to save memory."""
        names = {part.location_names for part in parts}
        if len(names) != 1:
            raise PriorError(
                "populations to be joined must have the same locations", f"{len(names)} lists", "align them"
            )
        people = tuple(person for part in parts for person in part.people)
        _check_ids(people)
        assumed = next((part.assumed for part in parts if part.assumed is not None), None)
        fitted = {part.fitted for part in parts}
        same = fitted.pop() if len(fitted) == 1 else None
        said: dict[str, Any] = {}
        for name, unsaid in _OF_EACH.items():
            if any(getattr(part, name) is not None for part in parts):
                each = [(getattr(part, name), len(part)) for part in parts]
                said[name] = np.concatenate([np.full(n, unsaid) if own is None else own for own, n in each])
        drawn = [part.drawn for part in parts if part.drawn is not None and len(part)]
        if len({part.draws for part in parts if len(part)}) > 1:
            raise PriorError(
                "populations to be joined must have as many chains a person", "several numbers", "draw alike"
            )
        return cls(
            people,
            names.pop(),
            _joined_people([part.arrays for part in parts]),
            assumed,
            same,
            drawn=cls.concatenate(drawn) if drawn else None,
            **said,
        )

    def moves(self) -> Moves:
        """All moves; :meth:`from_moves` makes the same arrays of them, bit for bit."""
        arrays = self.arrays
        slot, row, column = (np.empty(arrays.row.size, dtype=np.int32) for _ in range(3))
        unpack_columns(arrays, slot, row, column)
        return Moves(arrays.entry_start, slot, row, column, arrays.value)


def draw_name(person: str, number: int) -> str:
    """The name of a chain that a person's data could have given."""
    return f"{person}, draw {number}"


def _names(location_names: Sequence[str] | None, places: Integers32) -> tuple[str, ...]:
    """The given names, or the indices up to the highest place."""
    if location_names is not None:
        return tuple(location_names)
    return numbered_locations(int(places.max()) if places.size else -1, "a population")


def numbered_locations(highest: int, where: str) -> tuple[str, ...]:
    """Numbers as names up to the highest place; :class:`PriorError` where there would be too many."""
    if highest >= _MOST_NUMBERED:
        raise PriorError(
            f"locations of {where} must have names, or numbers below {_MOST_NUMBERED:,}",
            f"location {highest:,}",
            "give the list of names, or number the locations from 0 without gaps",
        )
    return tuple(map(str, range(highest + 1)))


def _check_ids(people: Sequence[str]) -> None:
    """Refuse two priors of one person, and an id that no file can hold."""
    for each in people:
        if not each or (not each.isascii() and each.encode(errors="ignore").decode() != each):
            raise PriorError("a person's id must be text that files can hold", repr(each), "give another id")
    if len(set(people)) < len(people):
        twice = next(a for a, b in pairwise(sorted(people)) if a == b)
        raise PriorError("each person must have one prior", f"{twice!r} twice", "keep one of the two")


class Unchecked(NamedTuple):
    """One person whose lists fit each other; whether they are a chain is not checked yet."""

    person: str
    slots: int
    places: Integers32
    moves: Moves
    initial: Floats  # empty for the stationary start
    weight: float | None = None
    effective_from: int | None = None

    @classmethod
    def of(
        cls,
        person: str,
        places: ArrayLike,
        triplets: Triplets,
        *,
        slots: int = 1,
        initial: ArrayLike | None = None,
        weight: float | None = None,
        effective_from: int | None = None,
    ) -> Unchecked:
        """A person by triplets, or a persona that stands for ``weight`` people.

        :class:`~models.exceptions.PriorError` where the lists do not fit each other.
        """
        moves = moves_of(person, triplets)
        own = whole(person, "places", places)
        start = np.empty(0) if initial is None else real(person, "initial", initial)
        count = int(whole(person, "slots", [slots])[0])
        return cls(person, count, own, moves, start, weight, effective_from)


class PopulationBuilder:
    """Collects people one at a time, e.g. from messages; :meth:`build` checks and packs them all."""

    def __init__(self, people: Iterable[Unchecked] = ()) -> None:
        self._people = list(people)

    def add(self, *person: Any, **numbers: Any) -> None:
        """Add :meth:`Unchecked.of` these; where that raises, the builder is unchanged."""
        self._people.append(Unchecked.of(*person, **numbers))

    def build(self, location_names: Sequence[str] | None = None) -> Population:
        """Pack all people added so far; a person without a weight among personas counts as one."""
        added = self._people
        packed = Population.from_moves(
            [each.person for each in added],
            joined_lists([each.places for each in added], np.int32),
            joined_moves([each.moves for each in added]),
            slots=np.array([each.slots for each in added], dtype=np.int32),
            initial=joined_lists([each.initial for each in added], np.float64),
            location_names=location_names,
        )
        steps, weights = [each.effective_from for each in added], [each.weight for each in added]
        if any(step is not None for step in steps):
            since = [NOT_SAID if step is None else step for step in steps]
            packed = replace(packed, effective_from=np.array(since, dtype=np.int64))
        if all(weight is None for weight in weights):
            return packed
        counted = [1.0 if weight is None else weight for weight in weights]
        return replace(packed, weights=np.array(counted, dtype=np.float64))


_MOST_PARTS = 60


def in_finer_steps(population: Population, parts: int) -> Population:
    """The same people in steps of ``1 / parts`` the length, who move only where a long step ends.

    That is what an hourly prior says about quarters of an hour: a person is at one place for all four. Slot
    ``k`` of a cycle becomes the slots ``parts k`` to ``parts k + parts - 1``, and its moves leave the last of
    them. ``fitted`` is dropped, as those windows have another length.
    """
    if not 2 <= parts <= _MOST_PARTS:
        raise PriorError(
            f"a step must be cut into 2 to {_MOST_PARTS} parts",
            parts,
            "for counts by quarters of an hour and priors by hours, say 4",
        )
    arrays, moves = population.arrays, population.moves()
    finer = Population.from_moves(
        population.people,
        Lists(arrays.places_start, arrays.places),
        _finer_moves(population, moves, parts),
        slots=arrays.slots * np.int32(parts),
        initial=Lists(arrays.initial_start, arrays.initial),
        location_names=population.location_names,
    )
    drawn = None if population.drawn is None else in_finer_steps(population.drawn, parts)
    since = population.effective_from
    if since is not None:
        since = np.where(since == NOT_SAID, NOT_SAID, since * parts)
    return replace(
        finer, assumed=population.assumed, weights=population.weights, drawn=drawn, effective_from=since
    )


def _finer_moves(population: Population, moves: Moves, parts: int) -> Moves:
    """The moves at the ends of long steps, and staying within them."""
    arrays = population.arrays
    sizes, people = np.diff(arrays.places_start), np.arange(len(population))
    stays = sizes * arrays.slots * (parts - 1)
    staying = np.repeat(people, stays)
    step, place = np.divmod(np.arange(staying.size) - offsets_of(stays)[staying], sizes[staying])
    slot = step + step // (parts - 1)  # the last part of a long step is left
    order = np.argsort(np.concatenate((np.repeat(people, np.diff(moves.start)), staying)), kind="stable")
    return Moves(
        offsets_of(np.diff(moves.start) + stays),
        np.concatenate((moves.slot * parts + parts - 1, slot)).astype(np.int32)[order],
        np.concatenate((moves.row, place)).astype(np.int32)[order],
        np.concatenate((moves.column, place)).astype(np.int32)[order],
        np.concatenate((moves.probability, np.ones(place.size)))[order],
    )
