"""Personas that agree with what is known of all people together, and are else as close as can be to before.

Among all laws of a day, the one of least relative entropy to the personas as they were such that (i) together
they make the given flows and mean counts, (ii) as many people behave as each persona as before, and (iii) a
day ends as it began, so that the day can be repeated. The solution changes moves by factors: with
``beta_C = exp(-nu)`` and ``beta_t(x) = sum_y P_t(x, y) alpha_t beta_{t+1}(y)``, the calibrated moves are
``P_t(x, y) alpha_t(x, y) beta_{t+1}(y) / beta_t(x)`` and the day starts from ``pi_0 exp(nu) beta_0``.

The factors are found by projecting on one constraint after the other (iterative proportional fitting; an
I-projection each, Csiszar 1975): ``alpha <- alpha F / F^`` slot by slot, and then
``nu <- nu + ln(law at C / law at 0) / 2``.
Two slots, one persona at home or at work: if it goes to work with 0.5 and the table says 0.8 of everybody,
its factor on home-to-work becomes 4 times that on staying, and its next row is (0.2, 0.8).

Where no law meets everything (noisy or contradicting tables) the factors would grow for ever, and damping
only hides it. A ``penalty`` lambda minimises the relative entropy plus ``lambda sum_t KL(F^_t || F_t)``
instead: ``alpha <- (alpha F / F^)^(lambda / (1 + lambda))``, and factors stay bounded.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.fitting.personas.calibration_kernel import (
    Masses,
    advance,
    backward,
    begin_day,
    close_day,
    slot_flows,
    write_days,
)
from models.fitting.personas.flows import (
    Constraint,
    Flows,
    MeanCounts,
    blocks_of,
    expected_flows,
    masses_of,
)
from models.numerics.elementwise import exp, log
from models.priors import Lists, Moves, Population

# Days written as full matrices, part by part, become a population without ever being in memory at once.

_ENTRIES = 20_000_000  # of full matrices at a time: 160 MB, and as much again for their moves


@dataclass(frozen=True, eq=False)
class Layout:
    """Who has which places and how many slots, before anybody moves."""

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
    """People whose days ``write(chosen, days)`` fills in.

    ``chosen`` (n,) are positions in the layout, ``days`` (n, C, K, K) is for their matrices, K the most
    places of anybody; who has fewer uses the first rows and columns.
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


_LEAST_FACTOR = 1e-200  # of a move that must happen: an infeasible table would take it out of the range
SHOWN = 20


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

    ``missed_people`` sums the differences of all cells of the worst slot, of ``worst_slot``. ``missed`` are
    the cells furthest off, ``impossible`` those where no persona can go. All three are of the personas as
    they are written, day after day. ``is_met`` says whether the sweeps came to an end.
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
    """Calibrate personas with ``weights`` to tables; ``progress`` gets what is off after each sweep.

    ``tolerance`` is a share of all people. :class:`~models.exceptions.PersonaError` where tables do not fit
    the personas, or leave one of them no way through the day.
    """
    slots = _slots(population)
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
    missed, worst_slot = _missed(calibrated, constraints, slots)
    return Calibration(
        calibrated,
        off <= tolerance,
        sweeps,
        max(missed_in(missed, worst_slot), 0.0),
        worst_slot,
        tuple(sorted(missed, key=lambda cell: -abs(cell.wanted - cell.found))[:SHOWN]),
        tuple(impossible),
    )


def missed_in(cells: Sequence[MissedCell], slot: int) -> float:
    """People by whom the cells of a slot are off, all together."""
    return sum(abs(cell.wanted - cell.found) for cell in cells if cell.slot == slot)


class _Sweeping:
    """The factors and masses of a calibration between two sweeps."""

    def __init__(
        self, population: Population, constraints: Sequence[Constraint], penalty: float | None
    ) -> None:
        arrays, places = population.arrays, population.location_count
        assert population.weights is not None
        self.population = population
        self.constraints = [_Meeting.of(each) for each in constraints]
        self.exponent = 1.0 if penalty is None else penalty / (1.0 + penalty)
        self.factor = np.ones((int(arrays.slots[0]), places, places))
        for each in self.constraints:
            self.factor[each.slot] *= each.factors
        self.masses = Masses(
            np.ones(arrays.places.size), np.empty(arrays.places.size), np.empty(arrays.distribution.size)
        )
        self.blocks = blocks_of(population, population.weights / population.weights.sum())
        self.gap = np.empty(len(population))
        backward(arrays, self.factor, self.masses)

    def sweep(self) -> float:
        """Meet one constraint after the other, then close the day; how far from done, a share of people."""
        arrays, off = self.population.arrays, 0.0
        begin_day(arrays, self.masses)
        for slot in range(self.factor.shape[0]):
            for each in self.constraints:
                if each.slot == slot:
                    off = max(off, self._meet(each))
            advance(arrays, slot, self.factor[slot], self.masses)
        backward(arrays, self.factor, self.masses)
        close_day(arrays, self.masses, self.gap)
        stuck = np.flatnonzero(self.gap < 0.0)
        if stuck.size:
            raise PersonaError(
                "each persona must have a way through the day that the tables allow",
                f"none for {stuck.size:,} personas, such as {self.population.people[stuck[0]]!r}",
                "list trips only, so that staying is free, or leave out cells of zero people",
            )
        backward(arrays, self.factor, self.masses)
        return max(off, float((self.blocks.weight * self.gap).sum()))

    def _meet(self, each: _Meeting) -> float:
        """One constraint's factors moved to its masses; what was off before."""
        slot = each.slot
        slot_flows(self.blocks, self.population.arrays, slot, self.factor[slot], self.masses)
        found = each.masses_of(self.blocks.flows.sum(axis=0))
        before = each.factors
        off = each.update(found, self.exponent)
        ratio = np.divide(each.factors, before, out=np.zeros_like(before), where=before > 0.0)
        self.factor[slot] *= ratio
        return off

    def impossible(self, total: float) -> list[MissedCell]:
        """Cells with people where no persona can go, known after the first sweep."""
        return [
            MissedCell(each.slot, each.names[group], each.wanted[group] * total, 0.0)
            for each in self.constraints
            for group in np.flatnonzero(each.is_impossible)
        ]

    def written(self) -> Population:
        """The personas as they are now."""
        arrays = self.population.arrays
        written = days_as_population(
            Layout.of(self.population),
            lambda chosen, days: write_days(chosen, arrays, self.factor, self.masses, days),
        )
        return replace(
            written,
            assumed=self.population.assumed,
            weights=self.population.weights,
        )


@dataclass
class _Meeting:
    """A constraint while it is being met: the factor of each group, and of each move."""

    slot: int
    group: NDArray[np.int64]
    wanted: NDArray[np.float64]  # (G,) as given
    target: NDArray[np.float64]  # (G,) without what is impossible
    names: tuple[str, ...]
    alpha: NDArray[np.float64]  # (G,)
    is_impossible: NDArray[np.bool_]
    last_found: NDArray[np.float64]
    is_begun: bool = False

    @classmethod
    def of(cls, constraint: Constraint) -> _Meeting:
        mass = constraint.mass
        return cls(
            constraint.slot,
            constraint.group,
            mass,
            mass.copy(),
            constraint.names,
            (mass > 0.0).astype(np.float64),
            np.zeros(mass.size, dtype=np.bool_),
            np.zeros(mass.size),
        )

    @property
    def factors(self) -> NDArray[np.float64]:
        """The factor of every move (M, M)."""
        return self.alpha[self.group]

    def masses_of(self, flows: NDArray[np.float64]) -> NDArray[np.float64]:
        """What each group weighs."""
        return masses_of(self.group, flows, self.wanted.size)

    def update(self, found: NDArray[np.float64], exponent: float) -> float:
        """``alpha <- (alpha F / F^)^exponent``; how far off, or with a penalty how far it still moved."""
        if not self.is_begun:
            self._set_aside(found)
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

    def _set_aside(self, found: NDArray[np.float64]) -> None:
        """Cells that no persona can meet: what they want goes to the rest, or to all the others."""
        self.is_begun = True
        self.is_impossible = (self.wanted > 0.0) & (found <= 0.0)
        lost = float(self.wanted[self.is_impossible].sum())
        self.target = np.where(self.is_impossible, 0.0, self.wanted)
        if lost > 0.0 and self.target[0] > 0.0:
            self.target[0] += lost
        elif lost > 0.0 and self.target.any():
            self.target /= self.target.sum()


def _slots(population: Population) -> int:
    """The slots of everybody's day."""
    found = np.unique(population.arrays.slots)
    if found.size != 1:
        raise PersonaError(
            "personas must have days of one length", f"{found.size} lengths", "give each the same slots"
        )
    return int(found[0])


def _missed(
    population: Population, constraints: Sequence[Constraint], slots: int
) -> tuple[list[MissedCell], int]:
    """What each cell is off by, of personas as they are written, and the slot where that is most."""
    assert population.weights is not None
    flows, total = expected_flows(population, slots), float(population.weights.sum())
    cells = []
    for each in constraints:
        found = masses_of(each.group, flows[each.slot], each.mass.size)
        cells += [
            MissedCell(each.slot, name, float(wanted * total), float(mass))
            for name, wanted, mass in zip(each.names, each.mass, found, strict=True)
        ]
    off = np.bincount(
        [cell.slot for cell in cells] or [0],
        weights=[abs(cell.wanted - cell.found) for cell in cells] or [0.0],
        minlength=slots,
    )
    return cells, int(off.argmax())
