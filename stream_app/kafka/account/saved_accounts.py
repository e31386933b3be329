"""The accounts of a partition as bytes: its people, which seldom change, and what the steps made of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountPositions, Cells, pack_state, unpack_state
from models.priors import Lists, Population, PopulationArrays
from stream_app.kafka.account.person_source import DIGEST_BYTES

_CHECKED_AT_ONCE = 2_000
_DERIVED = ("distribution_start", "distribution")  # computed again, from the moves


class SavedPeople(NamedTuple):
    """Everybody of a partition, and the accounts they have.

    ``population`` has the prior of each account and is called after its first person, ``since`` (A,) is the
    step from which releases count. ``names`` (N,) are all people; they hold the accounts in ``cells``.
    ``assumed`` is what a prior rests on that was not measured, by pseudonym. ``records`` (N,) are the digests
    of the records of ``persons`` that say all of this.
    """

    population: Population
    since: NDArray[np.int64]
    names: tuple[str, ...]
    cells: Cells
    assumed: Mapping[str, str]
    records: Sequence[bytes] = ()

    def packed(self) -> bytes:
        """As bytes; equal for equal people."""
        population = self.population
        place = {name: number for number, name in enumerate(self.names)}
        first = [place[name] for name in population.people]
        names = json.dumps([self.names, first, dict(self.assumed)]).encode()
        arrays = {name: getattr(population.arrays, name) for name in _stored_names()}
        weighed = self.cells.stands_for
        return pack_state(
            {},
            {
                **arrays,
                "since": self.since,
                "cell": self.cells.cell,
                "account": self.cells.account,
                "stands_for": np.zeros(0, dtype=np.int64) if weighed is None else weighed,
                "records": _bytes(b"".join(self.records)).reshape(-1, DIGEST_BYTES),
                "names": _bytes(names),
            },
        )

    @classmethod
    def unpacked(
        cls, packed: bytes, location_names: Sequence[str], moved: Callable[[], None] = lambda: None
    ) -> SavedPeople:
        """The people in these bytes, their priors checked like any that come in, some at a time."""
        like = Population.pack((), location_names).arrays
        others = {
            "since": np.zeros(0, dtype=np.int64),
            "cell": np.zeros(0, dtype=np.int32),
            "account": np.zeros(0, dtype=np.int64),
            "stands_for": np.zeros(0, dtype=np.int64),
            "records": np.zeros((0, DIGEST_BYTES), dtype=np.uint8),
            "names": _bytes(b""),
        }
        wanted = {**{name: getattr(like, name) for name in _stored_names()}, **others}
        stored = unpack_state(packed, {}, {}, wanted)
        names, first, assumed = json.loads(stored["names"].tobytes())
        people = [names[number] for number in first]
        arrays = like._replace(**{name: stored[name] for name in _stored_names()})
        starts = np.zeros(len(people) + 1, dtype=np.int64)
        np.cumsum(arrays.slots * np.diff(arrays.places_start), out=starts[1:])
        arrays = arrays._replace(distribution_start=starts, distribution=np.zeros(starts[-1]))
        unchecked = Population(tuple(people), tuple(location_names), arrays)
        parts = [Population.pack((), location_names)]
        for start in range(0, len(people), _CHECKED_AT_ONCE):
            some = unchecked.subset(range(start, min(start + _CHECKED_AT_ONCE, len(people))))
            parts.append(_checked(some))
            moved()
        population = Population.concatenate(parts)
        records = [row.tobytes() for row in stored["records"]]
        stands_for = stored["stands_for"] if stored["stands_for"].size else None
        cells = Cells(stored["cell"], AccountPositions(stored["account"]), stands_for)
        return cls(population, stored["since"], tuple(names), cells, assumed, records)


class SavedAccounts(NamedTuple):
    """A partition's accounts before ``next_step``."""

    next_step: int
    people: SavedPeople
    state: bytes


def _checked(people: Population) -> Population:
    """The same people, packed again from what they believe."""
    arrays = people.arrays
    return Population.from_moves(
        people.people,
        Lists(arrays.places_start, arrays.places),
        people.moves(),
        slots=arrays.slots,
        initial=Lists(arrays.initial_start, arrays.initial),
        location_names=people.location_names,
    )


def _stored_names() -> list[str]:
    return [name for name in PopulationArrays._fields if name not in _DERIVED]


def _bytes(values: bytes) -> NDArray[Any]:
    return np.frombuffer(values, dtype=np.uint8)
