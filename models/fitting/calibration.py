"""Calibrates personas to what is known of all people together, and changes them as little as possible.

Among all laws of a day, the result has the least relative entropy to the given personas such that (i)
together they make the given flows and mean counts, (ii) each persona stands for as many people as before, and
(iii) a day ends as it began, so that it can be repeated. The solution changes moves by factors: with ``beta_C
= exp(-nu)`` and ``beta_t(x) = sum_y P_t(x, y) alpha_t beta_{t+1}(y)``, the calibrated moves are ``P_t(x, y)
alpha_t(x, y) beta_{t+1}(y) / beta_t(x)`` and the day starts from ``pi_0 exp(nu) beta_0``.

The factors are found by projecting on one constraint after the other (iterative proportional fitting; an
I-projection each, Csiszar 1975): ``alpha <- alpha F / F^`` slot by slot, and then
``nu <- nu + ln(law at C / law at 0) / 2``.
Two slots, one persona at home or at work: if it goes to work with 0.5 and the table says 0.8 of all people,
its factor on home-to-work becomes 4 times that on staying, and its next row is (0.2, 0.8).

Where no law meets all constraints (noisy or contradicting tables) the factors would grow for ever, and
damping would only hide that. A ``penalty`` lambda minimises the relative entropy plus
``lambda sum_t KL(F^_t || F_t)`` instead: ``alpha <- (alpha F / F^)^(lambda / (1 + lambda))``, and factors
stay bounded.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.numerics.elementwise import exp, log
from models.numerics.jit import bare_jit, bare_pjit, jit, pjit
from models.priors import Lists, Moves, Population
from models.priors.chain import PopulationArrays, chain_view

# Kernels of calibration: forward and backward passes over all personas' days, and the flows they make
# together.
#
# A day has the slots 0..C; slot C is slot 0 of the next day. ``factor`` (C, M, M)
# are the factors ``alpha_t`` on moves between locations; a place whose ``tilt`` is zero is one where a day
# neither begins nor ends. Forward and backward masses are scaled to a largest entry of one: only their
# ratios within a persona matter, and so no product of factors leaves the range of numbers.
#
# All personas go through a slot before any goes on to the next, and moves and masses are laid out so: the
# tables of one slot stay in a core's cache, and all else is read from one end to the other.


class Masses(NamedTuple):
    """``exp(nu)``, its inverse and the forward mass of each place, the backward masses of each slot."""

    tilt: NDArray[np.float64]  # (P,), of all personas' places
    end: NDArray[np.float64]  # (P,), ``beta_C``
    forward: NDArray[np.float64]  # (P,)
    beta: NDArray[np.float64]  # (C, P)


class SlotMoves(NamedTuple):
    """The entries of one slot's matrices, to one place after the other."""

    start: NDArray[np.int64]  # (P + 1,), where those to each place begin
    origin: NDArray[np.int32]  # the place that they come from, among all personas' places
    weighted: NDArray[np.float64]  # ``P_t alpha_t``


class Blocks(NamedTuple):
    """Blocks by the number of personas, whose masses are added in order, so that threads change no bit."""

    edges: NDArray[np.int64]  # (B + 1,) where each block begins, and the end of the last
    weight: NDArray[np.float64]  # (N,)


@jit
def _scale(mass: NDArray[np.float64]) -> None:
    """Divide by the largest entry, unless all are zero."""
    largest = mass.max()
    if largest > 0.0:
        mass /= largest


@jit
def _end(tilt: NDArray[np.float64]) -> NDArray[np.float64]:
    """``beta_C = exp(-nu)``; zero where a day may not end."""
    end = np.zeros(tilt.size)
    for x in range(tilt.size):
        end[x] = 1.0 / tilt[x] if tilt[x] > 0.0 else 0.0
    _scale(end)
    return end


@jit
def _own(population: PopulationArrays, person: int, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One persona's part (K,) of an array laid out like the places."""
    return values[population.places_start[person] : population.places_start[person + 1]]


@bare_jit
def _scale_part(mass: NDArray[np.float64], begin: int, size: int) -> None:
    """:func:`_scale` of some entries."""
    largest = 0.0
    for x in range(begin, begin + size):
        largest = max(largest, mass[x])
    if largest > 0.0:
        for x in range(begin, begin + size):
            mass[x] /= largest


@pjit(lambda population, *_: population.slots.size, least=64)
def lay_out(
    begin: int,
    end: int,
    population: PopulationArrays,
    slot: int,
    locations: int,
    moves: SlotMoves,
    cell: NDArray[np.int32],
) -> None:
    """Fill in one slot's moves, without factors; ``moves.start`` is known.

    ``cell`` is each entry's in a table of all locations: that of the origin times M plus that of the place.
    """
    for person in range(begin, end):
        view, place = chain_view(population, person), population.places_start[person]
        for y in range(view.places.size):
            k = moves.start[place + y]
            for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                moves.origin[k] = place + view.row[j]
                cell[k] = view.places[view.row[j]] * locations + view.places[y]
                moves.weighted[k] = view.value[j]
                k += 1


@pjit(lambda population, *_: population.slots.size, least=64)
def count_moves(begin: int, end: int, population: PopulationArrays, counts: NDArray[np.int64]) -> None:
    """Fill ``counts`` (C, P) with how many entries lead to each place in each slot."""
    for person in range(begin, end):
        view, place = chain_view(population, person), population.places_start[person]
        for slot in range(view.start.shape[0]):
            for y in range(view.places.size):
                counts[slot, place + y] = view.column_start[slot, y + 1] - view.column_start[slot, y]


@bare_pjit(lambda places, *_: places.size - 1, least=64)
def retreat_slot(
    begin: int,
    end: int,
    places: NDArray[np.int64],
    moves: SlotMoves,
    after: NDArray[np.float64],
    before: NDArray[np.float64],
) -> None:
    """``beta_t(x) = sum_y P_t(x, y) alpha_t(x, y) beta_{t+1}(y)`` of one slot.

    Persona ``i`` has the ``places[i]..places[i + 1] - 1``.
    """
    for person in range(begin, end):
        first, last = places[person], places[person + 1]
        for x in range(first, last):
            before[x] = 0.0
        for y in range(first, last):
            for j in range(moves.start[y], moves.start[y + 1]):
                before[moves.origin[j]] += moves.weighted[j] * after[y]
        _scale_part(before, first, last - first)


@pjit(lambda population, *_: population.slots.size, least=256)
def end_day(begin: int, end: int, population: PopulationArrays, masses: Masses) -> None:
    """``beta_C`` of what ``nu`` is now."""
    for person in range(begin, end):
        own = _own(population, person, masses.end)
        own[:] = _end(_own(population, person, masses.tilt))


@pjit(lambda population, *_: population.slots.size, least=256)
def begin_day(begin: int, end: int, population: PopulationArrays, masses: Masses) -> None:
    """The forward mass at slot 0: ``pi_0 exp(nu)``."""
    for person in range(begin, end):
        start, own = chain_view(population, person).start[0], _own(population, person, masses.forward)
        own[:] = start * _own(population, person, masses.tilt)
        _scale(own)


@bare_jit
def _total(
    first: int, last: int, moves: SlotMoves, forward: NDArray[np.float64], after: NDArray[np.float64]
) -> float:
    """The sum of ``before(x) P(x, y) alpha(x, y) after(y)`` over all entries to these places."""
    total = 0.0
    for y in range(first, last):
        arrived = 0.0
        for j in range(moves.start[y], moves.start[y + 1]):
            arrived += forward[moves.origin[j]] * moves.weighted[j]
        total += arrived * after[y]
    return total


@bare_pjit(lambda blocks, *_: blocks.edges.size - 1)
def slot_masses(
    begin: int,
    end: int,
    blocks: Blocks,
    places: NDArray[np.int64],
    moves: SlotMoves,
    group: NDArray[np.int32],
    forward: NDArray[np.float64],
    after: NDArray[np.float64],
    masses: NDArray[np.float64],
) -> None:
    """Into ``masses`` (B, G): what each block's moves weigh as the factors are now, by their ``group``."""
    for block in range(begin, end):
        own = masses[block]
        for g in range(own.size):
            own[g] = 0.0
        for person in range(blocks.edges[block], blocks.edges[block + 1]):
            first, last = places[person], places[person + 1]
            total = _total(first, last, moves, forward, after)
            if total > 0.0:
                scale = blocks.weight[person] / total
                for y in range(first, last):
                    arriving = scale * after[y]
                    for j in range(moves.start[y], moves.start[y + 1]):
                        own[group[j]] += forward[moves.origin[j]] * moves.weighted[j] * arriving


@bare_pjit(lambda moves, *_: moves.weighted.size, least=1 << 16)
def weigh_moves(
    begin: int, end: int, moves: SlotMoves, group: NDArray[np.int32], ratio: NDArray[np.float64]
) -> None:
    """Multiply each group's moves with its ``ratio`` (G,)."""
    for j in range(begin, end):
        moves.weighted[j] *= ratio[group[j]]


@pjit(lambda blocks, *_: blocks.edges.size - 1)
def own_flows(
    begin: int,
    end: int,
    blocks: Blocks,
    population: PopulationArrays,
    slot: int,
    block_flows: NDArray[np.float64],
) -> None:
    """The flows (B, M, M) of a slot by the personas' own moves, from their long-run distribution."""
    for block in range(begin, end):
        flows = block_flows[block]
        flows[:] = 0.0
        for person in range(blocks.edges[block], blocks.edges[block + 1]):
            view, weight = chain_view(population, person), blocks.weight[person]
            at = slot % view.start.shape[0]
            for y in range(view.places.size):
                for j in range(view.column_start[at, y], view.column_start[at, y + 1]):
                    x = view.row[j]
                    flows[view.places[x], view.places[y]] += weight * view.start[at, x] * view.value[j]


@jit
def _widest(population: PopulationArrays) -> int:
    """The most places of anybody."""
    most = 0
    for person in range(population.slots.size):
        most = max(most, population.places_start[person + 1] - population.places_start[person])
    return most


@bare_jit
def _advance(
    first: int,
    last: int,
    moves: SlotMoves,
    own: NDArray[np.float64],
    later: NDArray[np.float64],
) -> None:
    """One persona's part of :func:`advance`."""
    for y in range(first, last):
        later[y - first] = 0.0
        for j in range(moves.start[y], moves.start[y + 1]):
            later[y - first] += own[moves.origin[j]] * moves.weighted[j]
    for y in range(first, last):
        own[y] = later[y - first]
    _scale_part(own, first, last - first)


@pjit(lambda population, *_: population.slots.size, least=64)
def advance(
    begin: int,
    end: int,
    population: PopulationArrays,
    moves: SlotMoves,
    forward: NDArray[np.float64],
) -> None:
    """The forward mass one slot later: ``a'(y) = sum_x a(x) P(x, y) alpha(x, y)``."""
    later, places = np.empty(_widest(population)), population.places_start
    for person in range(begin, end):
        _advance(places[person], places[person + 1], moves, forward, later)


@pjit(lambda population, *_: population.slots.size, least=64)
def close_day(
    begin: int,
    end: int,
    population: PopulationArrays,
    masses: Masses,
    gap: NDArray[np.float64],
) -> None:
    """``nu <- nu + ln(law at C / law at 0) / 2``; ``gap`` (N,): how far the laws were apart, -1 for none.

    ``forward`` is the mass at slot C. A place where days begin or end only is neither from then on.
    """
    for person in range(begin, end):
        start, own = chain_view(population, person).start[0], _own(population, person, masses.tilt)
        first = start * own * _own(population, person, masses.beta[0])
        last = _own(population, person, masses.forward) * _end(own)
        if not (first.sum() > 0.0 and last.sum() > 0.0):
            gap[person] = -1.0
            continue
        first, last = first / first.sum(), last / last.sum()
        gap[person] = np.abs(last - first).sum()
        for x in range(own.size):
            own[x] *= math.sqrt(last[x] / first[x]) if first[x] > 0.0 else 0.0
        _scale(own)


@pjit(lambda chosen, *_: chosen.size, least=64)
def write_days(
    begin: int,
    end: int,
    chosen: NDArray[np.int64],
    population: PopulationArrays,
    factor: NDArray[np.float64],
    masses: Masses,
    days: NDArray[np.float64],
) -> None:
    """``P_t(x, y) alpha_t(x, y) beta_{t+1}(y) / beta_t(x)`` of some personas, dense (n, C, K, K).

    The row of a place where the persona never is in a slot is the law one slot later, so that no such place
    is a closed class of its own.
    """
    for number in range(begin, end):
        person = chosen[number]
        view, slots = chain_view(population, person), masses.beta.shape[0]
        tilt, size = _own(population, person, masses.tilt), view.places.size
        law = view.start[0] * tilt * _own(population, person, masses.beta[0])
        law /= law.sum()
        for slot in range(slots):
            after = masses.beta[slot + 1] if slot + 1 < slots else masses.end
            after, matrix = _own(population, person, after), days[number, slot]
            matrix[:] = 0.0
            for y in range(size):
                for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                    x = view.row[j]
                    matrix[x, y] = view.value[j] * factor[slot, view.places[x], view.places[y]] * after[y]
            law = _normalise_rows(matrix, law, size)


@jit
def _normalise_rows(matrix: NDArray[np.float64], law: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Rows that sum to one, and the law after them."""
    later = np.zeros(size)
    for x in range(size):
        total = matrix[x, :size].sum()
        if law[x] > 0.0 and total > 0.0:
            matrix[x, :size] /= total
            later += law[x] * matrix[x, :size]
    later /= later.sum()
    for x in range(size):
        if not (law[x] > 0.0 and matrix[x, :size].sum() > 0.0):
            matrix[x, :size] = later
    return later


# Tables of all people together: how many go from each location to each, and how many are at each.

_BLOCKS, _PERSONAS_A_BLOCK = 16, 2048  # see :class:`Blocks`; adding up the tables of few takes longest
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Constraint:
    """Shares of all people that must make the moves of one slot.

    ``group`` (M, M) is the group of the move from one location to another, ``mass`` (G,) the share of each
    group; the groups are all moves, so the shares sum to one. ``names`` (G,) are those of the groups.
    """

    slot: int
    group: NDArray[np.int64]
    mass: NDArray[np.float64]
    names: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Flows:
    """``people`` who go from location ``origin`` to ``destination`` between a slot and the next, by slot.

    People who stay are listed too. All moves that a slot's table leaves out together are one more cell.
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
        """A constraint for each slot with counts: on the moves from each place, wherever they lead."""
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
    block_flows = np.empty((blocks.edges.size - 1, places, places))
    for slot in range(slots):
        own_flows(blocks, population.arrays, slot, block_flows)
        flows[slot] = block_flows.sum(axis=0)
    return flows


def masses_of(group: NDArray[np.int64], flows: NDArray[np.float64], groups: int) -> NDArray[np.float64]:
    """What each group of moves weighs."""
    masses = np.bincount(group.ravel(), weights=flows.ravel(), minlength=groups)
    return masses.astype(np.float64)


def blocks_of(population: Population, weight: NDArray[np.float64]) -> Blocks:
    """The blocks of personas with these weights."""
    blocks = min(_BLOCKS, 1 + len(population) // _PERSONAS_A_BLOCK)
    return Blocks(np.arange(blocks + 1, dtype=np.int64) * len(population) // blocks, weight)


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


# Days written as full matrices, part by part: all of them at once would not fit in memory.

_ENTRIES = 20_000_000  # of full matrices at a time: 160 MB, and as much again for their moves


@dataclass(frozen=True, eq=False)
class Layout:
    """The people of a population, with their places and slots, but without moves."""

    people: tuple[str, ...]
    places: Lists
    slots: int
    location_names: tuple[str, ...]

    @classmethod
    def of(cls, population: Population) -> Layout:
        """That of people who have one number of slots."""
        arrays = population.arrays
        places = Lists(arrays.places_start, arrays.places)
        return cls(population.people, places, int(arrays.slots[0]), population.location_names)


def days_as_population(
    layout: Layout, write: Callable[[NDArray[np.int64], NDArray[np.float64]], None]
) -> Population:
    """The population whose days ``write(chosen, days)`` fills in.

    ``chosen`` (n,) are positions in the layout, ``days`` (n, C, K, K) is for their matrices, where K is the
    largest number of places; people with fewer use the first rows and columns.
    """
    widest = int(np.diff(layout.places.start).max())
    at_once = max(1, _ENTRIES // (layout.slots * widest**2))
    parts = []
    for first in range(0, len(layout.people), at_once):
        chosen = np.arange(first, min(first + at_once, len(layout.people)))
        days = np.zeros((chosen.size, layout.slots, widest, widest))
        write(chosen, days)
        parts.append(_packed(layout, chosen, days))
    return Population.concatenate(parts)


def _packed(layout: Layout, chosen: NDArray[np.int64], days: NDArray[np.float64]) -> Population:
    """Some people with these days."""
    first, last = int(chosen[0]), int(chosen[-1]) + 1
    person, slot, row, column = np.nonzero(days)
    start = np.searchsorted(person, np.arange(chosen.size + 1))
    moves = Moves(
        start,
        slot.astype(np.int32),
        row.astype(np.int32),
        column.astype(np.int32),
        days[person, slot, row, column],
    )
    begins = layout.places.start[first : last + 1]
    return Population.from_moves(
        layout.people[first:last],
        Lists(begins - begins[0], layout.places.values[begins[0] : begins[-1]]),
        moves,
        slots=np.full(chosen.size, layout.slots, dtype=np.int32),
        location_names=layout.location_names,
    )


_LEAST_FACTOR = 1e-200  # of a move that must happen: an infeasible table would make it underflow
_MOST_LISTED = 20


@dataclass(frozen=True)
class MissedCell:
    """A cell of a table that the personas do not meet: people wanted and found."""

    slot: int
    name: str
    wanted: float
    found: float


@dataclass(frozen=True, eq=False)
class Calibration:
    """Calibrated personas and how far they are from the tables.

    ``missed_people`` is the sum of the differences of all cells of ``worst_slot``. ``missed`` are the cells
    with the largest differences, ``impossible`` those where no persona can go. All are of the calibrated
    personas in the long run. ``is_met`` is whether the sweeps converged.
    """

    population: Population
    is_met: bool
    sweeps: int
    missed_people: float
    worst_slot: int
    missed: tuple[MissedCell, ...]
    impossible: tuple[MissedCell, ...]


def calibrate(
    population: Population,
    tables: Sequence[Flows | MeanCounts],
    *,
    penalty: float | None = None,
    tolerance: float = 1e-11,
    most_sweeps: int = 1000,
    progress: Callable[[float], None] = lambda off: None,
) -> Calibration:
    """Calibrate personas with ``weights`` to tables; ``progress`` gets the error after each sweep.

    ``tolerance`` is a share of all people. :class:`~models.exceptions.PersonaError` where tables do not fit
    the personas, or leave one of them no way through the day.
    """
    lengths = np.unique(population.arrays.slots)
    if lengths.size != 1:
        raise PersonaError(
            "personas must have days of one length", f"{lengths.size} lengths", "give each the same slots"
        )
    slots = int(lengths[0])
    if population.weights is None:
        raise PersonaError("people to be calibrated must have weights", "none", "say how many people each is")
    if penalty is not None and not 0.0 < penalty < np.inf:
        raise PersonaError(
            "the penalty must be a positive number", penalty, "leave it out to meet the tables"
        )
    total = float(population.weights.sum())
    constraints = [c for table in tables for c in table.constraints(total, population.location_names, slots)]
    sweeping = _Sweeping(population, constraints, penalty)
    impossible: list[MissedCell] = []
    sweeps, off = 0, np.inf
    while off > tolerance and sweeps < most_sweeps:
        off = sweeping.sweep()
        if sweeps == 0:
            impossible = sweeping.impossible(total)
        sweeps += 1
        progress(off)
    calibrated = sweeping.written()
    missed = _missed(calibrated, constraints, slots)
    off_in_slot = np.zeros(slots)
    for cell in missed:
        off_in_slot[cell.slot] += abs(cell.wanted - cell.found)
    worst_slot = int(off_in_slot.argmax())
    return Calibration(
        calibrated,
        off <= tolerance,
        sweeps,
        float(off_in_slot[worst_slot]),
        worst_slot,
        tuple(sorted(missed, key=lambda cell: -abs(cell.wanted - cell.found))[:_MOST_LISTED]),
        tuple(impossible),
    )


class _Sweeping:
    """The factors and masses between two sweeps of a calibration."""

    def __init__(
        self, population: Population, constraints: Sequence[Constraint], penalty: float | None
    ) -> None:
        arrays, locations = population.arrays, population.location_count
        assert population.weights is not None
        size, slots = arrays.places.size, int(arrays.slots[0])
        self.population = population
        self.exponent = 1.0 if penalty is None else penalty / (1.0 + penalty)
        self.masses = Masses(np.ones(size), np.empty(size), np.empty(size), np.empty((slots, size)))
        self.blocks = blocks_of(population, population.weights / population.weights.sum())
        self.gap = np.empty(len(population))
        self.moves: list[SlotMoves] = []
        self.constraints: list[list[_Fitted]] = []  # by slot
        counts = np.empty((slots, size), np.int64)
        count_moves(arrays, counts)
        for slot in range(slots):
            start = np.concatenate((np.zeros(1, np.int64), np.cumsum(counts[slot])))
            entries = int(start[-1])
            moves, cell = (
                SlotMoves(start, np.empty(entries, np.int32), np.empty(entries)),
                np.empty(entries, np.int32),
            )
            lay_out(arrays, slot, locations, moves, cell)
            fitted = [_Fitted(each, cell) for each in constraints if each.slot == slot]
            for each in fitted:
                weigh_moves(moves, each.group, each.alpha)
            self.moves.append(moves)
            self.constraints.append(fitted)
        most = max((each.alpha.size for of_slot in self.constraints for each in of_slot), default=0)
        self._room = np.empty((self.blocks.edges.size - 1) * most)
        end_day(arrays, self.masses)
        self._go_back()

    def sweep(self) -> float:
        """Project on each constraint in turn, then close the day; the error, as a share of all people."""
        arrays, off = self.population.arrays, 0.0
        begin_day(arrays, self.masses)
        afters = (*self.masses.beta[1:], self.masses.end)
        for moves, constraints, after in zip(self.moves, self.constraints, afters, strict=True):
            for each in constraints:
                off = max(off, self._meet(each, moves, after))
            advance(arrays, moves, self.masses.forward)
        self._go_back()
        close_day(arrays, self.masses, self.gap)
        stuck = np.flatnonzero(self.gap < 0.0)
        if stuck.size:
            raise PersonaError(
                "each persona must have a way through the day that the tables allow",
                f"none for {stuck.size:,} personas, such as {self.population.people[stuck[0]]!r}",
                "list trips only, so that staying is free, or leave out cells of zero people",
            )
        end_day(arrays, self.masses)
        self._go_back()
        return max(off, float((self.blocks.weight * self.gap).sum()))

    def _go_back(self) -> None:
        """The backward masses of the moves as they are weighted now, from the end of the day to its start."""
        places, after = self.population.arrays.places_start, self.masses.end
        for moves, before in zip(self.moves[::-1], self.masses.beta[::-1], strict=True):
            retreat_slot(places, moves, after, before)
            after = before

    def _meet(self, each: _Fitted, moves: SlotMoves, after: NDArray[np.float64]) -> float:
        """Update one constraint's factors to meet its masses; the error before that."""
        blocks, before = self.blocks.edges.size - 1, each.alpha
        found = self._room[: blocks * before.size].reshape(blocks, -1)
        places = self.population.arrays.places_start
        slot_masses(self.blocks, places, moves, each.group, self.masses.forward, after, found)
        off = each.update(found.sum(axis=0), self.exponent)
        ratio = np.divide(each.alpha, before, out=np.zeros_like(before), where=before > 0.0)
        weigh_moves(moves, each.group, ratio)
        return off

    def impossible(self, total: float) -> list[MissedCell]:
        """Cells with people where no persona can go, known after the first sweep."""
        return [
            MissedCell(cell.slot, cell.names[group], cell.mass[group] * total, 0.0)
            for of_slot in self.constraints
            for each in of_slot
            for cell in [each.constraint]
            for group in np.flatnonzero(each.is_impossible)
        ]

    def written(self) -> Population:
        """The personas with the present factors."""
        arrays, locations = self.population.arrays, self.population.location_count
        factor = np.ones((len(self.moves), locations, locations))
        for slot, constraints in enumerate(self.constraints):
            for each in constraints:
                factor[slot] *= each.alpha[each.constraint.group]
        written = days_as_population(
            Layout.of(self.population),
            lambda chosen, days: write_days(chosen, arrays, factor, self.masses, days),
        )
        return replace(
            written,
            assumed=self.population.assumed,
            weights=self.population.weights,
        )


class _Fitted:
    """A constraint during the calibration, with the factor ``alpha`` (G,) of each of its groups."""

    def __init__(self, constraint: Constraint, cell: NDArray[np.int32]) -> None:
        self.constraint = constraint
        self.group = constraint.group.astype(np.int32).reshape(-1)[cell]  # of each entry of the slot
        self.target = constraint.mass.copy()  # (G,) without the cells that no persona can meet
        self.alpha = (constraint.mass > 0.0).astype(np.float64)
        self.is_impossible = np.zeros(constraint.mass.size, dtype=np.bool_)
        self.last_found = np.zeros(constraint.mass.size)
        self.is_begun = False

    def update(self, found: NDArray[np.float64], exponent: float) -> float:
        """``alpha <- (alpha F / F^)^exponent``; the error, or with a penalty the change of the masses."""
        if not self.is_begun:
            self._drop_impossible(found)
        off = np.abs(found - (self.target if exponent == 1.0 else self.last_found)).sum()
        is_open = (self.target > 0.0) & (found > 0.0)
        ratio = np.divide(self.target, found, out=np.ones_like(found), where=is_open)
        moved = self.alpha * ratio
        if exponent != 1.0:
            moved = np.where(moved > 0.0, exp(exponent * log(moved)), 0.0)
        moved /= moved.max()
        self.alpha = np.where(self.target > 0.0, np.maximum(moved, _LEAST_FACTOR), 0.0)
        self.last_found = found
        return float(off)

    def _drop_impossible(self, found: NDArray[np.float64]) -> None:
        """Move the mass of cells that no persona can meet to the rest of the table, or to all other cells."""
        self.is_begun = True
        wanted = self.constraint.mass
        self.is_impossible = (wanted > 0.0) & (found <= 0.0)
        lost = float(wanted[self.is_impossible].sum())
        self.target = np.where(self.is_impossible, 0.0, wanted)
        if lost > 0.0 and self.target[0] > 0.0:
            self.target[0] += lost
        elif lost > 0.0 and self.target.any():
            self.target /= self.target.sum()


def _missed(population: Population, constraints: Sequence[Constraint], slots: int) -> list[MissedCell]:
    """People wanted and found in each cell, of calibrated personas."""
    assert population.weights is not None
    flows, total = expected_flows(population, slots), float(population.weights.sum())
    cells = []
    for each in constraints:
        found = masses_of(each.group, flows[each.slot], each.mass.size)
        cells += [
            MissedCell(each.slot, name, float(wanted * total), float(mass))
            for name, wanted, mass in zip(each.names, each.mass, found, strict=True)
        ]
    return cells
