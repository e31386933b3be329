"""What a city knows of all people together: how many go from where to where, and how many are where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.fitting.personas.calibration_kernel import Blocks, own_flows
from models.priors import Population

_BLOCKS = 16  # of personas whose masses are added one after the other; fixed, so that threads change no bit
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Constraint:
    """Masses that moves of one slot must have, as shares of all people.

    ``group`` (M, M) is the group of the move from one location to another, ``mass`` (G,) what each group
    weighs; the groups are all moves, so masses sum to one. ``names`` (G,) are how groups are called.
    """

    slot: int
    group: NDArray[np.int64]
    mass: NDArray[np.float64]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Flows:
    """``people`` who go from location ``origin`` to ``destination`` between a slot and the next, by slot.

    Who stays is listed like everybody else. What a slot's table leaves out is one more cell: everybody else.
    """

    slot: NDArray[np.int64]
    origin: NDArray[np.int64]
    destination: NDArray[np.int64]
    people: NDArray[np.float64]

    def constraints(self, total: float, locations: Sequence[str], slots: int) -> list[Constraint]:
        """A constraint for each slot there is a table of."""
        _check_columns(
            "flows", (self.slot, self.origin, self.destination, self.people), slots, len(locations)
        )
        found = []
        for slot in np.unique(self.slot):
            of_slot = self.slot == slot
            i, j = self.origin[of_slot], self.destination[of_slot]
            group = np.zeros((len(locations),) * 2, dtype=np.int64)
            group[i, j] = np.arange(1, i.size + 1)
            if np.unique(i * len(locations) + j).size < i.size:
                raise PersonaError(
                    "flows must list each move of a slot once", f"one twice in slot {slot}", "add them up"
                )
            names = [
                "all other moves",
                *(f"{locations[a]} to {locations[b]}" for a, b in zip(i, j, strict=True)),
            ]
            found.append(_constraint(int(slot), group, self.people[of_slot] / total, names))
        return found


@dataclass(frozen=True, eq=False)
class MeanCounts:
    """How many ``people`` are at a ``location`` in a slot on average, as its sensor counts them."""

    slot: NDArray[np.int64]
    location: NDArray[np.int64]
    people: NDArray[np.float64]

    def constraints(self, total: float, locations: Sequence[str], slots: int) -> list[Constraint]:
        """A constraint for each slot in which anything was counted: whoever is there, wherever they go."""
        _check_columns("mean counts", (self.slot, self.location, self.people), slots, len(locations))
        found = []
        for slot in np.unique(self.slot):
            of_slot = self.slot == slot
            where = self.location[of_slot]
            group = np.zeros((len(locations),) * 2, dtype=np.int64)
            group[where] = np.arange(1, where.size + 1)[:, None]
            if np.unique(where).size < where.size:
                raise PersonaError(
                    "mean counts must list each location of a slot once",
                    f"one twice in slot {slot}",
                    "add them",
                )
            names = ["elsewhere", *(f"at {locations[place]}" for place in where)]
            found.append(_constraint(int(slot), group, self.people[of_slot] / total, names))
        return found


def expected_flows(population: Population, slots: int) -> NDArray[np.float64]:
    """People (C, M, M) who go from each location to each in every slot, in the long run."""
    count, places = len(population), population.location_count
    weight = np.ones(count) if population.weights is None else population.weights
    flows, blocks = np.empty((slots, places, places)), blocks_of(population, weight)
    for slot in range(slots):
        own_flows(blocks, population.arrays, slot)
        flows[slot] = blocks.flows.sum(axis=0)
    return flows


def masses_of(group: NDArray[np.int64], flows: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """What each group of moves weighs."""
    masses = np.bincount(group.ravel(), weights=flows.ravel(), minlength=groups)
    return masses.astype(np.float64)


def blocks_of(population: Population, weight: NDArray[np.float64]) -> Blocks:
    """Empty arrays for the flows of personas of these weights."""
    edges = np.arange(_BLOCKS + 1, dtype=np.int64) * len(population) // _BLOCKS
    return Blocks(edges, weight, np.empty((_BLOCKS, population.location_count, population.location_count)))


def _constraint(
    slot: int, group: NDArray[np.int64], listed: NDArray[np.float64], names: Sequence[str]
) -> Constraint:
    """The listed masses and the rest; nothing is left for the rest where every move is listed."""
    rest = 1.0 - float(listed.sum())
    is_full = bool(group.all())
    if rest < -_ROUNDING * max(1, listed.size) or (is_full and rest > 1e-6):
        raise PersonaError(
            f"people in the tables of slot {slot} must be {'' if is_full else 'at most '}as many as personas "
            "stand for",
            f"{1.0 - rest:.6g} times as many",
            "scale the table, or say how many people there are",
        )
    rest = 0.0 if is_full or rest < _ROUNDING * max(1, listed.size) else rest
    masses = np.concatenate(([rest], listed / (1.0 if rest > 0.0 else listed.sum())))
    return Constraint(slot, group, masses, tuple(names))


def _check_columns(
    what: str, columns: tuple[NDArray[np.int64] | NDArray[np.float64], ...], slots: int, locations: int
) -> None:
    """Slots, locations and people, each in its range."""
    if len({column.size for column in columns}) != 1:
        raise PersonaError(f"columns of {what} must be equally long", "some that are not", "fill them")
    slot, *where, people = columns
    for name, column, end in (("slot", slot, slots), *(("location", column, locations) for column in where)):
        wrong = np.flatnonzero((column < 0) | (column >= end))
        if wrong.size:
            raise PersonaError(
                f"each {name} of {what} must be in 0..{end - 1}", column[wrong[0]], "correct the table"
            )
    wrong = np.flatnonzero(~((people >= 0.0) & (people < np.inf)))
    if wrong.size:
        raise PersonaError(f"people in {what} must be numbers of 0 or more", people[wrong[0]], "correct it")
