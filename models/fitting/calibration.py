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
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import bare_jit, bare_pjit, inline, jit, pjit
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
# All personas go through a slot before any goes on to the next. Eight personas of about as many places make a
# bundle, a persona to a lane, with a matrix for the most places of any of them (personas' matrices are nearly
# full): what is done to one is done to all eight at once, and all is read from one end to the other.

_LANES = 8
_NO_GROUP, _NO_RATIO = np.empty((0, _LANES), np.uint32), np.empty(0)
_MOST_LOG, _HALVINGS = 100.0, 60  # of the factor that shares within their ranges have in common
_LEAST_FACTOR = 1e-200  # of a move that must happen: an infeasible table would make it underflow


class Bundles(NamedTuple):
    """Which personas are in which lane of which bundle (``Q`` bundles, ``P`` places of all of them)."""

    person: Integers  # (Q, 8), -1 for an empty lane
    start: Integers  # (Q + 1,), where the places of each bundle begin
    entry: Integers  # (Q + 1,), where its matrices begin in an array of entries
    edges: Integers  # (B + 1,), blocks of bundles that are added in order: threads change no bit
    weight: Floats  # (Q, 8), shares of all people
    law: Floats  # (P, 8), the long-run distribution in slot 0


class Masses(NamedTuple):
    """``exp(nu)`` and its inverse, and the backward masses of each slot."""

    tilt: Floats  # (P, 8)
    end: Floats  # (P, 8), ``beta_C``
    beta: Floats  # (C, P, 8)
    divided: Floats  # (C, Q, 8), by what each persona's ``beta_t`` was divided


_ONE = np.uint64(1)


@inline
def _range_of(bundles: Bundles, bundle: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """The first of a bundle's places, their end, and its first entry, as numbers that are never negative."""
    return (
        np.uint64(bundles.start[bundle]),
        np.uint64(bundles.start[bundle + 1]),
        np.uint64(bundles.entry[bundle]),
    )


@bare_jit
def _scale(mass: Floats, first: np.uint64, last: np.uint64, divided: Floats) -> None:
    """Divide each lane by its largest entry, unless all are zero; ``divided`` (8,) says by what."""
    for lane in range(_LANES):
        divided[lane] = 0.0
    for x in range(first, last):
        for lane in range(_LANES):
            divided[lane] = max(divided[lane], mass[x, lane])
    for lane in range(_LANES):
        divided[lane] = divided[lane] if divided[lane] > 0.0 else 1.0
    for x in range(first, last):
        for lane in range(_LANES):
            mass[x, lane] /= divided[lane]


@bare_pjit(lambda bundles, *_: bundles.start.size - 1, least=64)
def lay_out(
    begin: int,
    end: int,
    bundles: Bundles,
    population: PopulationArrays,
    slot: int,
    locations: int,
    moves: Floats,
    cell: Integers32,
) -> None:
    """Fill in one slot's moves (E, 8) without factors, to one place after the other.

    ``cell`` is each entry's in a table of all locations: that of the origin times M plus that of the place.
    """
    for bundle in range(begin, end):
        size = bundles.start[bundle + 1] - bundles.start[bundle]
        for lane in range(_LANES):
            person = bundles.person[bundle, lane]
            if person < 0:
                continue
            first = population.places_start[person]
            own = population.places_start[person + 1] - first
            entries = population.entry_start[person]
            columns = population.column_start_start[person] + slot * (own + 1)
            for y in range(own):
                to = bundles.entry[bundle] + y * size
                for x in range(own):
                    cell[to + x, lane] = (
                        population.places[first + x] * locations + population.places[first + y]
                    )
                for j in range(
                    population.column_start[columns + y], population.column_start[columns + y + 1]
                ):
                    moves[to + population.row[entries + j], lane] = population.value[entries + j]


@bare_pjit(lambda bundles, *_: bundles.start.size - 1, least=8)
def retreat_slot(
    begin: int, end: int, bundles: Bundles, moves: Floats, after: Floats, before: Floats, divided: Floats
) -> None:
    """``beta_t(x) = sum_y P_t(x, y) alpha_t(x, y) beta_{t+1}(y)`` of one slot."""
    for bundle in range(begin, end):
        first, last, j = _range_of(bundles, bundle)
        for x in range(first, last):
            for lane in range(_LANES):
                before[x, lane] = 0.0
        for y in range(first, last):
            for x in range(first, last):
                for lane in range(_LANES):
                    before[x, lane] += moves[j, lane] * after[y, lane]
                j += _ONE
        _scale(before, first, last, divided[bundle])


@bare_pjit(lambda bundles, *_: bundles.start.size - 1, least=64)
def end_day(begin: int, end: int, bundles: Bundles, masses: Masses, largest: Floats) -> None:
    """``beta_C = exp(-nu)``, zero where a day may not end; with room for ``largest`` (Q, 8)."""
    for bundle in range(begin, end):
        first, last, _ = _range_of(bundles, bundle)
        for x in range(first, last):
            for lane in range(_LANES):
                masses.end[x, lane] = 1.0 / masses.tilt[x, lane] if masses.tilt[x, lane] > 0.0 else 0.0
        _scale(masses.end, first, last, largest[bundle])


@bare_pjit(lambda bundles, *_: bundles.edges.size - 1)
def slot_masses(
    begin: int,
    end: int,
    bundles: Bundles,
    moves: Floats,
    group: NDArray[np.uint32],
    slot: int,
    masses: Masses,
    forward: Floats,
    after: Floats,
    found: Floats,
) -> None:
    """Into ``found`` (B, G): what each block's moves weigh as the factors are now, by their ``group``.

    All moves of a persona together weigh ``sum_x forward(x) beta_t(x)``: the forward mass is scaled so that
    they weigh as much as the persona.
    """
    before = masses.beta[slot]
    for block in range(begin, end):
        own = found[block]
        for g in range(own.size):
            own[g] = 0.0
        for bundle in range(bundles.edges[block], bundles.edges[block + 1]):
            first, last, j = _range_of(bundles, bundle)
            for lane in range(_LANES):
                total = 0.0
                for x in range(first, last):
                    total += forward[x, lane] * before[x, lane]
                total *= masses.divided[slot, bundle, lane]
                scale = bundles.weight[bundle, lane] / total if total > 0.0 else 0.0
                for x in range(first, last):
                    forward[x, lane] *= scale
            for y in range(first, last):
                for x in range(first, last):
                    for lane in range(_LANES):
                        own[group[j, lane]] += forward[x, lane] * moves[j, lane] * after[y, lane]
                    j += _ONE


@bare_jit
def fit_factors(
    found: Floats, target: Floats, exponent: float, last_found: Floats, alpha: Floats, ratio: Floats
) -> float:
    """``alpha <- (alpha F / F^)^exponent``, scaled to a largest entry of one; ``ratio`` to what it was.

    ``found`` (B, G) is F^ by blocks, which ``last_found`` (G,) is then. The error, or with a penalty (an
    exponent below one) the change of the masses.
    """
    largest = off = 0.0
    for g in range(alpha.size):
        mass = 0.0
        for block in range(found.shape[0]):
            mass += found[block, g]
        off += abs(mass - (target[g] if exponent == 1.0 else last_found[g]))
        last_found[g], ratio[g] = mass, alpha[g]
        if target[g] > 0.0 and mass > 0.0:
            alpha[g] *= target[g] / mass
        if exponent != 1.0 and alpha[g] > 0.0:
            alpha[g] = math.exp(exponent * math.log(alpha[g]))
        largest = max(largest, alpha[g])
    for g in range(alpha.size):
        before = ratio[g]
        alpha[g] = max(alpha[g] / largest, _LEAST_FACTOR) if target[g] > 0.0 else 0.0
        ratio[g] = alpha[g] / before if before > 0.0 else 0.0
    return off


@bare_pjit(lambda moves, *_: moves.shape[0], least=1 << 13)
def weigh_moves(begin: int, end: int, moves: Floats, group: NDArray[np.uint32], ratio: Floats) -> None:
    """Multiply each group's moves with its ``ratio`` (G,)."""
    for j in range(begin, end):
        for lane in range(_LANES):
            moves[j, lane] *= ratio[group[j, lane]]


@pjit(lambda edges, *_: edges.size - 1)
def own_flows(
    begin: int,
    end: int,
    edges: Integers,
    weights: Floats,
    population: PopulationArrays,
    slot: int,
    block_flows: Floats,
) -> None:
    """The flows (B, M, M) of a slot by the personas' own moves, from their long-run distribution."""
    for block in range(begin, end):
        flows = block_flows[block]
        flows[:] = 0.0
        for person in range(edges[block], edges[block + 1]):
            view, weight = chain_view(population, person), weights[person]
            at = slot % view.start.shape[0]
            for y in range(view.places.size):
                for j in range(view.column_start[at, y], view.column_start[at, y + 1]):
                    x = view.row[j]
                    flows[view.places[x], view.places[y]] += weight * view.start[at, x] * view.value[j]


@bare_pjit(lambda bundles, *_: bundles.start.size - 1, least=8)
def advance(
    begin: int,
    end: int,
    bundles: Bundles,
    moves: Floats,
    group: NDArray[np.uint32],
    ratio: Floats,
    forward: Floats,
    later: Floats,
    largest: Floats,
) -> None:
    """Multiply each group's moves with its ``ratio`` (G,), if there are any, and take the forward mass one
    slot later: ``a'(y) = sum_x a(x) P(x, y) alpha(x, y)``.
    """
    for bundle in range(begin, end):
        first, last, j = _range_of(bundles, bundle)
        for y in range(first, last):
            for lane in range(_LANES):
                later[y, lane] = 0.0
            for x in range(first, last):
                if ratio.size:
                    for lane in range(_LANES):
                        moves[j, lane] *= ratio[group[j, lane]]
                for lane in range(_LANES):
                    later[y, lane] += forward[x, lane] * moves[j, lane]
                j += _ONE
        _scale(later, first, last, largest[bundle])


@bare_pjit(lambda bundles, *_: bundles.start.size - 1, least=64)
def close_day(begin: int, end: int, bundles: Bundles, masses: Masses, forward: Floats, gap: Floats) -> None:
    """``nu <- nu + ln(law at C / law at 0) / 2``; ``gap`` (Q, 8): how far the laws were apart, -1 for none.

    ``forward`` is the mass at slot C. A place where days begin or end only is neither from then on.
    """
    law, tilt = bundles.law, masses.tilt
    for bundle in range(begin, end):
        for lane in range(_LANES):
            all_first = all_last = largest = 0.0
            for x in range(bundles.start[bundle], bundles.start[bundle + 1]):
                all_first += law[x, lane] * tilt[x, lane] * masses.beta[0, x, lane]
                all_last += forward[x, lane] * masses.end[x, lane]
            gap[bundle, lane] = 0.0 if all_first > 0.0 and all_last > 0.0 else -1.0
            if gap[bundle, lane] < 0.0:
                continue
            for x in range(bundles.start[bundle], bundles.start[bundle + 1]):
                first = law[x, lane] * tilt[x, lane] * masses.beta[0, x, lane] / all_first
                last = forward[x, lane] * masses.end[x, lane] / all_last
                gap[bundle, lane] += abs(last - first)
                tilt[x, lane] *= math.sqrt(last / first) if first > 0.0 else 0.0
                largest = max(largest, tilt[x, lane])
            for x in range(bundles.start[bundle], bundles.start[bundle + 1]):
                tilt[x, lane] /= largest if largest > 0.0 else 1.0


@pjit(lambda chosen, *_: chosen.size, least=64)
def write_days(
    begin: int,
    end: int,
    chosen: Integers,
    population: PopulationArrays,
    factor: Floats,
    tilt: Floats,
    beta: Floats,
    end_of_day: Floats,
    days: Floats,
) -> None:
    """``P_t(x, y) alpha_t(x, y) beta_{t+1}(y) / beta_t(x)`` of some personas, dense (n, C, K, K).

    The row of a place where the persona never is in a slot is the law one slot later, so that no such place
    is a closed class of its own.
    """
    for number in range(begin, end):
        person = chosen[number]
        view, slots = chain_view(population, person), beta.shape[0]
        own = slice(population.places_start[person], population.places_start[person + 1])
        law, size = view.start[0] * tilt[own] * beta[0, own], view.places.size
        law /= law.sum()
        for slot in range(slots):
            after, matrix = beta[slot + 1, own] if slot + 1 < slots else end_of_day[own], days[number, slot]
            matrix[:] = 0.0
            for y in range(size):
                for j in range(view.column_start[slot, y], view.column_start[slot, y + 1]):
                    x = view.row[j]
                    matrix[x, y] = view.value[j] * factor[slot, view.places[x], view.places[y]] * after[y]
            law = _normalise_rows(matrix, law, size)


@jit
def _normalise_rows(matrix: Floats, law: Floats, size: int) -> Floats:
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

_BLOCKS, _PERSONAS_A_BLOCK, _BUNDLES_A_BLOCK = 16, 2048, 1024  # adding up the tables of few takes longest
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class Constraint:
    """Shares of all people that must make the moves of one slot.

    ``group`` (M, M) is the group of the move from one location to another, ``mass`` (G,) the share of each
    group; the groups are all moves, so the shares sum to one. ``names`` (G,) are those of the groups. With
    ``least`` (G,) the share of each may be anything from there to its ``mass``.
    """

    slot: int
    group: Integers
    mass: Floats
    names: tuple[str, ...]
    least: Floats | None = None

    def nearest(self, found: Floats) -> Floats:
        """The shares (G,) that this allows next to what was ``found``."""
        return self.mass if self.least is None else np.clip(found, self.least, self.mass)


Columns = tuple[Integers | Floats, ...]


@dataclass(frozen=True, eq=False)
class Flows:
    """``people`` who go from location ``origin`` to ``destination`` between a slot and the next, by slot.

    People who stay are listed too. All moves that a slot's table leaves out together are one more cell.
    """

    slot: Integers
    origin: Integers
    destination: Integers
    people: Floats

    def constraints(self, total: float, locations: Sequence[str], slots: int) -> list[Constraint]:
        """A constraint for each slot there is a table of."""
        columns = self.slot, self.origin, self.destination, self.people
        return _by_slot("flows", "move", columns, total, locations, slots)


@dataclass(frozen=True, eq=False)
class MeanCounts:
    """How many ``people`` are at a ``location`` in a slot on average, as its sensor counts them.

    Where a sensor may count somebody several times they are at most so many, and at the ``least`` so many.
    """

    slot: Integers
    location: Integers
    people: Floats
    least: Floats | None = None

    def constraints(self, total: float, locations: Sequence[str], slots: int) -> list[Constraint]:
        """A constraint for each slot with counts: on the moves from each place, wherever they lead."""
        least = self.people if self.least is None else self.least
        columns = self.slot, self.location, least
        found = _by_slot("mean counts", "location", columns, total, locations, slots)
        if self.least is None:
            return found
        own = (np.flatnonzero(self.slot == each.slot) for each in found)
        return [_ranged(each, least[k], self.people[k], total) for each, k in zip(found, own, strict=True)]


@dataclass(frozen=True, eq=False)
class MoveCounts:
    """How many ``people`` a ``counter`` counts on average who go between a slot and the next, by slot.

    ``moves`` has a counter's moves as columns (2, n) of origins and destinations, ``names`` its name. A move
    that two counters count is one that both must find. ``least`` is as that of :class:`MeanCounts`.
    """

    slot: Integers
    counter: Integers
    people: Floats
    moves: Sequence[Integers]
    names: Sequence[str]
    least: Floats | None = None

    def constraints(self, total: float, locations: Sequence[str], slots: int) -> list[Constraint]:
        """For each slot a constraint on the moves of counters that have none in common; else several."""
        least, places = self.people if self.least is None else self.least, len(locations)
        _check_columns("counts of moves", (self.slot, least), slots, places)
        each = zip(self.names, self.moves, strict=True)
        wrong = [name for name, ends in each if ((ends < 0) | (ends >= places)).any()]
        if wrong:
            must = f"moves that {wrong[0]!r} counts must go between locations in 0..{places - 1}"
            raise PersonaError(must, "others", "correct the table")
        found = []
        for slot in np.unique(self.slot):
            left = np.flatnonzero(self.slot == slot)
            while left.size:
                group, own = np.zeros((places, places), dtype=np.int64), []
                for line in left:
                    ends = tuple(self.moves[self.counter[line]])
                    if not group[ends].any():
                        own.append(int(line))
                        group[ends] = len(own)
                left = np.setdiff1d(left, own)
                names = ["all other moves", *(f"past {self.names[self.counter[line]]}" for line in own)]
                table = _constraint(int(slot), group, least[own] / total, names)
                ranged = _ranged(table, least[own], self.people[own], total)
                found.append(table if self.least is None else ranged)
        return found


def _ranged(table: Constraint, least: Floats, most: Floats, total: float) -> Constraint:
    """The constraint with anything from the least to the most people in each of its cells."""
    return replace(table, mass=np.append(1.0, most / total), least=np.append(0.0, least / total))


def _by_slot(
    what: str, cell: str, columns: Columns, total: float, locations: Sequence[str], slots: int
) -> list[Constraint]:
    """Of slot, origins, maybe destinations, and people: a constraint for each slot, on each line's moves.

    Without destinations these are the moves from a place, wherever they lead.
    """
    _check_columns(what, columns, slots, len(locations))
    slot, *where, people = columns
    found = []
    for number in np.unique(slot):
        of_slot = slot == number
        own = [column[of_slot].astype(np.int64) for column in where]
        group, lines = np.zeros((len(locations),) * 2, dtype=np.int64), np.arange(1, own[0].size + 1)
        group[tuple(own)] = lines if len(own) == 2 else lines[:, None]
        if np.unique(np.stack(own), axis=1).shape[1] < lines.size:
            remedy = "add them up" if len(own) == 2 else "add them"
            raise PersonaError(
                f"{what} must list each {cell} of a slot once", f"one twice in slot {number}", remedy
            )
        named = [" to ".join(locations[place] for place in each) for each in zip(*own, strict=True)]
        names = ["all other moves", *named] if len(own) == 2 else ["elsewhere", *(f"at {n}" for n in named)]
        found.append(_constraint(int(number), group, people[of_slot] / total, names))
    return found


def expected_flows(population: Population, slots: int) -> Floats:
    """People (C, M, M) who go from each location to each in every slot, in the long run."""
    count, places = len(population), population.location_count
    weight = np.ones(count) if population.weights is None else population.weights
    flows, edges = np.empty((slots, places, places)), blocks_of(count, _PERSONAS_A_BLOCK)
    block_flows = np.empty((edges.size - 1, places, places))
    for slot in range(slots):
        own_flows(edges, weight, population.arrays, slot, block_flows)
        flows[slot] = block_flows.sum(axis=0)
    return flows


def masses_of(group: Integers, flows: Floats, groups: int) -> Floats:
    """What each group of moves weighs."""
    masses = np.bincount(group.ravel(), weights=flows.ravel(), minlength=groups)
    return masses.astype(np.float64)


def blocks_of(count: int, a_block: int) -> Integers:
    """(B + 1,) where each block of ``count`` personas or bundles begins, and the end of the last."""
    blocks = min(_BLOCKS, 1 + count // a_block)
    return np.arange(blocks + 1, dtype=np.int64) * count // blocks


def bundles_of(population: Population, weight: Floats) -> tuple[Bundles, Integers]:
    """Personas by their number of places, in lanes, and the position of each of their places (P,) there."""
    arrays, people = population.arrays, len(population)
    places = np.diff(arrays.places_start)
    number = np.arange(arrays.places.size) - np.repeat(arrays.places_start[:-1], places)
    begins = arrays.distribution[np.repeat(arrays.distribution_start[:-1], places) + number]
    person = np.full((-(-people // _LANES), _LANES), -1)
    person.reshape(-1)[:people] = np.argsort(places, kind="stable")
    size = np.where(person >= 0, places[person], 0).max(axis=1)
    start, entry = (np.concatenate((np.zeros(1, np.int64), np.cumsum(each))) for each in (size, size**2))
    first = np.empty(people, np.int64)  # the position of each person's first place
    is_one = person >= 0
    first[person[is_one]] = (start[:-1, None] * _LANES + np.arange(_LANES))[is_one]
    spot = np.repeat(first, places) + number * _LANES
    law = np.zeros((int(start[-1]), _LANES))
    law.reshape(-1)[spot] = begins
    shares = np.where(is_one, weight[person], 0.0)
    return Bundles(person, start, entry, blocks_of(person.shape[0], _BUNDLES_A_BLOCK), shares, law), spot


def _constraint(slot: int, group: Integers, listed: Floats, names: Sequence[str]) -> Constraint:
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


def _check_columns(what: str, columns: Columns, slots: int, locations: int) -> None:
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


def days_as_population(layout: Layout, write: Callable[[Integers, Floats], None]) -> Population:
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


def _packed(layout: Layout, chosen: Integers, days: Floats) -> Population:
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
    tables: Sequence[Flows | MeanCounts | MoveCounts],
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
        slots = int(arrays.slots[0])
        self.population = population
        self.exponent = 1.0 if penalty is None else penalty / (1.0 + penalty)
        self.bundles, self.spot = bundles_of(population, population.weights / population.weights.sum())
        shape, lanes = self.bundles.law.shape, self.bundles.weight.shape
        self.masses = Masses(
            np.ones(shape), np.empty(shape), np.empty((slots, *shape)), np.empty((slots, *lanes))
        )
        self.gap = np.empty(lanes)
        self._largest, self._forward, self._later = np.empty(lanes), np.empty(shape), np.empty(shape)
        self.moves: list[Floats] = []
        self.constraints: list[list[_Fitted]] = []  # by slot
        entries = int(self.bundles.entry[-1])
        for slot in range(slots):
            moves, cell = np.zeros((entries, _LANES)), np.zeros((entries, _LANES), np.int32)
            lay_out(self.bundles, arrays, slot, locations, moves, cell)
            fitted = [_Fitted(each, cell) for each in constraints if each.slot == slot]
            for each in fitted:
                weigh_moves(moves, each.group, each.alpha)
            self.moves.append(moves)
            self.constraints.append(fitted)
        most = max((each.alpha.size for of_slot in self.constraints for each in of_slot), default=0)
        self._room = np.empty((self.bundles.edges.size - 1) * most)
        end_day(self.bundles, self.masses, self._largest)
        self._go_back()

    def sweep(self) -> float:
        """Project on each constraint in turn, then close the day; the error, as a share of all people."""
        bundles, masses, off = self.bundles, self.masses, 0.0
        np.multiply(bundles.law, masses.tilt, out=self._forward)
        afters = (*masses.beta[1:], masses.end)
        for slot, (moves, after) in enumerate(zip(self.moves, afters, strict=True)):
            group, ratio = _NO_GROUP, _NO_RATIO
            for each in self.constraints[slot]:
                if ratio.size:
                    weigh_moves(moves, group, ratio)
                    self._retreat(slot, after)
                off = max(off, self._meet(each, slot, after))
                group, ratio = each.group, each.ratio
            advance(bundles, moves, group, ratio, self._forward, self._later, self._largest)
            self._forward, self._later = self._later, self._forward
        # The law at 0 is still that of the factors before this sweep: the same once they no longer change,
        # and going back here too would only make sweeps longer.
        close_day(bundles, masses, self._forward, self.gap)
        stuck = bundles.person[(self.gap < 0.0) & (bundles.person >= 0)]
        if stuck.size:
            raise PersonaError(
                "each persona must have a way through the day that the tables allow",
                f"none for {stuck.size:,} personas, such as {self.population.people[stuck.min()]!r}",
                "list trips only, so that staying is free, or leave out cells of zero people",
            )
        end_day(bundles, masses, self._largest)
        self._go_back()
        return max(off, float((bundles.weight * self.gap).sum()))

    def _go_back(self) -> None:
        """The backward masses of the moves as they are weighted now, from the end of the day to its start."""
        after = self.masses.end
        for slot in range(len(self.moves))[::-1]:
            self._retreat(slot, after)
            after = self.masses.beta[slot]

    def _retreat(self, slot: int, after: Floats) -> None:
        """The backward masses of one slot."""
        masses = self.masses
        retreat_slot(self.bundles, self.moves[slot], after, masses.beta[slot], masses.divided[slot])

    def _meet(self, each: _Fitted, slot: int, after: Floats) -> float:
        """Update one constraint's factors to meet its masses; the error before that."""
        found = self._room[: (self.bundles.edges.size - 1) * each.alpha.size].reshape(-1, each.alpha.size)
        slot_masses(
            self.bundles, self.moves[slot], each.group, slot, self.masses, self._forward, after, found
        )
        return each.update(found, self.exponent)

    def impossible(self, total: float) -> list[MissedCell]:
        """Cells with people where no persona can go, known after the first sweep."""
        return [
            MissedCell(cell.slot, cell.names[group], float(wanted[group]) * total, 0.0)
            for of_slot in self.constraints
            for each in of_slot
            for cell in [each.constraint]
            for wanted in [cell.nearest(np.zeros_like(cell.mass))]
            for group in np.flatnonzero(each.is_impossible)
        ]

    def written(self) -> Population:
        """The personas with the present factors."""
        arrays, locations = self.population.arrays, self.population.location_count
        factor = np.ones((len(self.moves), locations, locations))
        for slot, constraints in enumerate(self.constraints):
            for each in constraints:
                factor[slot] *= each.alpha[each.constraint.group]
        tilt, end = (each.reshape(-1)[self.spot] for each in (self.masses.tilt, self.masses.end))
        beta = self.masses.beta.reshape(len(self.moves), -1)[:, self.spot]
        written = days_as_population(
            Layout.of(self.population),
            lambda chosen, days: write_days(chosen, arrays, factor, tilt, beta, end, days),
        )
        return replace(written, assumed=self.population.assumed, weights=self.population.weights)


class _Fitted:
    """A constraint during the calibration, with the factor ``alpha`` (G,) of each of its groups."""

    def __init__(self, constraint: Constraint, cell: Integers32) -> None:
        self.constraint = constraint
        self.group = constraint.group.astype(np.uint32).reshape(-1)[cell]  # (E, 8), of each entry of the slot
        self.target = constraint.mass.copy()  # (G,) without the cells that no persona can meet
        self.alpha = (constraint.mass > 0.0).astype(np.float64)
        self.ratio = np.empty_like(self.alpha)  # of the last update, to what they were
        self.is_impossible = np.zeros(constraint.mass.size, dtype=np.bool_)
        self.last_found = np.zeros(constraint.mass.size)
        self.is_begun = False

    def update(self, found: Floats, exponent: float) -> float:
        """:func:`fit_factors` to what blocks ``found`` (B, G)."""
        if not self.is_begun:
            self._drop_impossible(found.sum(axis=0))
        if self.constraint.least is not None:
            self.target = self._allowed(found.sum(axis=0))
        return fit_factors(found, self.target, exponent, self.last_found, self.alpha, self.ratio)

    def _allowed(self, found: Floats) -> Floats:
        """The allowed shares (G,) with the least relative entropy to the masses without these factors.

        Each of them is its mass times one number, where that is allowed, else the nearest that is.
        """
        ends = self.constraint.nearest(np.zeros_like(found)), self.constraint.mass
        least, most = (np.where(self.is_impossible, 0.0, each) for each in ends)
        free = np.divide(found, self.alpha, out=np.zeros_like(found), where=self.alpha > 0.0)

        def share(log_factor: float) -> Floats:
            return np.asarray(np.clip(math.exp(log_factor) * free, least, most))

        low, high = -_MOST_LOG, _MOST_LOG
        for _ in range(_HALVINGS):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if share(middle).sum() < 1.0 else (low, middle)
        return np.asarray(share(high) / share(high).sum())

    def _drop_impossible(self, found: Floats) -> None:
        """Move the mass of cells that no persona can meet to the rest of the table, or to all other cells."""
        self.is_begun = True
        wanted = self.constraint.nearest(np.zeros_like(found))
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
            for name, wanted, mass in zip(each.names, each.nearest(found / total), found, strict=True)
        ]
    return cells
