"""Check-ins to priors: count each person's moves, smooth them, and pack the matrices as a population."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.fitting.checkins import Checkins
from models.fitting.fit_options import FitOptions
from models.fitting.windows import NOWHERE, Traces, traces
from models.priors import Evidence, Lists, Moves, Population

__all__ = ["NOWHERE", "FitOptions", "FitResult", "fit_priors"]


@dataclass(frozen=True, eq=False)
class FitResult:
    """Fitted priors and the real traces they came from.

    ``training[person, window]`` and ``held_out[person, window]`` are location indices (``NOWHERE`` for a
    window that is no step); person ``i`` is ``population.people[i]``. A held-out place may be one that the
    person's prior does not know. ``first_slot`` is the slot of the first training window,
    ``held_out_first_slot`` of the first held-out one. ``evidence`` says how many moves each row rests on.
    """

    population: Population
    evidence: Evidence
    training: NDArray[np.int32]
    held_out: NDArray[np.int32]
    origin_seconds: int
    first_slot: int
    held_out_first_slot: int
    dropped: dict[str, int]
    options: FitOptions

    def summary(self) -> dict[str, Any]:
        """What was kept, what was dropped and why, and what looked ahead; for people to read."""
        sizes = np.diff(self.population.arrays.places_start)
        return {
            "people": len(self.population),
            "locations": self.population.location_count,
            "windows": self.training.shape[1] + self.held_out.shape[1],
            "training windows": self.training.shape[1],
            "held-out windows": self.held_out.shape[1],
            "places a person, median": float(np.median(sizes)) if sizes.size else 0.0,
            "people with a held-out place unknown to their prior": int(self.has_unknown_place().sum()),
            "dropped": dict(self.dropped),
            "looks ahead": list(self.options.looks_ahead),
        }

    def has_unknown_place(self) -> NDArray[np.bool_]:
        """For each person, whether a held-out place is impossible under the prior's places."""
        arrays = self.population.arrays
        people, locations = len(self.population), self.population.location_count
        known = np.zeros((people, locations), dtype=np.bool_)
        known[np.repeat(np.arange(people), np.diff(arrays.places_start)), arrays.places] = True
        rows = np.arange(people)[:, np.newaxis]
        unknown: NDArray[np.bool_] = ~known[rows, self.held_out] & (self.held_out != NOWHERE)
        return np.asarray(unknown.any(axis=1))


def fit_priors(checkins: Checkins, options: FitOptions | None = None) -> FitResult:
    """Fit everybody's prior; every choice is an option (:class:`~models.fitting.fit_options.FitOptions`).

    :class:`~models.exceptions.CheckinError` if nothing can be fitted with them.
    """
    options = options or FitOptions()
    found = traces(checkins, options)
    training_windows = found.places.shape[1] - options.held_out_windows
    fitted = (found.places[:, :training_windows] != NOWHERE).any(axis=1)
    dropped = {**found.dropped, "people without a training window": int((~fitted).sum())}
    training, held_out = np.split(found.places[fitted], [training_windows], axis=1)
    people = [person for person, kept in zip(found.people, fitted, strict=True) if kept]
    population, evidence = _fit(people, training, found, options)
    return FitResult(
        population,
        evidence,
        training,
        held_out,
        found.origin_seconds,
        found.first_slot,
        (found.first_slot + training_windows) % options.slots,
        dropped,
        options,
    )


class _Places(NamedTuple):
    """Everybody's own places: ``local[person, location]`` is the local index of a location, or -1."""

    start: NDArray[np.int64]  # (N + 1,)
    locations: NDArray[np.int32]
    local: NDArray[np.int32]  # (N, M)

    @property
    def size(self) -> NDArray[np.int64]:
        """Number of places of each person."""
        return np.diff(self.start)


class _Blocks(NamedTuple):
    """Square blocks of ragged size in one flat array: one a person, or one a person and slot."""

    size: NDArray[np.int64]  # rows of each block

    @property
    def start(self) -> NDArray[np.int64]:
        """Where each block's entries begin."""
        return np.concatenate(([0], np.cumsum(self.size**2)))

    def row_of_entry(self) -> NDArray[np.int64]:
        """Number of the row, over all blocks, that each entry belongs to."""
        width = np.repeat(self.size, self.size)
        return np.repeat(np.arange(width.size), width)

    def position(self) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Row and column of each entry within its block."""
        size = np.repeat(self.size, self.size**2)
        inner = np.arange(size.size) - np.repeat(self.start[:-1], self.size**2)
        return (inner // size).astype(np.int32), (inner % size).astype(np.int32)


class _Rows(NamedTuple):
    """Rows of blocks: the probability of each entry, and how many moves each row rests on."""

    probability: NDArray[np.float64]
    evidence: NDArray[np.float64]


def _fit(
    people: list[str], training: NDArray[np.int32], found: Traces, options: FitOptions
) -> tuple[Population, Evidence]:
    """Everybody's chain, and what it rests on."""
    places = _own_places(training, len(found.location_names), options)
    moves = _moves(training, found.first_slot, options)
    origin = places.local[moves.person, moves.origin]
    target = places.local[moves.person, moves.target]
    free = _Blocks(places.size)
    counts = _count(free, moves.person, origin, target)
    rows = _normalised(free, counts, options)
    blocks = free
    if options.slots > 1:
        blocks = _Blocks(np.repeat(places.size, options.slots))
        block = moves.person * options.slots + moves.slot
        in_slot = _count(blocks, block, origin, target)
        rows = _shrunk(free, blocks, in_slot, rows.probability, options)
    population = Population.from_moves(
        people,
        Lists(places.start, places.locations),
        _written(blocks, rows.probability, options.slots),
        slots=np.full(len(people), options.slots, dtype=np.int32),
        location_names=found.location_names,
    )
    return population, Evidence(tuple(people), Lists(places.start * options.slots, rows.evidence))


def _own_places(training: NDArray[np.int32], locations: int, options: FitOptions) -> _Places:
    """The locations of each person's chain: those of its training windows, or all of them."""
    people = training.shape[0]
    owned = np.full((people, locations), options.smoothing == "all")
    person, window = np.nonzero(training != NOWHERE)
    owned[person, training[person, window]] = True
    local = np.where(owned, np.cumsum(owned, axis=1) - 1, -1).astype(np.int32)
    start = np.concatenate(([0], np.cumsum(owned.sum(axis=1)))).astype(np.int64)
    return _Places(start, np.nonzero(owned)[1].astype(np.int32), local)


class _Moves(NamedTuple):
    """Every move made in the training windows: who, in which slot, from and to which location."""

    person: NDArray[np.int64]
    slot: NDArray[np.int64]
    origin: NDArray[np.int32]
    target: NDArray[np.int32]


def _moves(training: NDArray[np.int32], first_slot: int, options: FitOptions) -> _Moves:
    """Moves between successive windows that are steps."""
    person, window = np.nonzero(training != NOWHERE)
    place = training[person, window]
    succeeds = person[1:] == person[:-1]
    if options.elsewhere == "skip":
        succeeds &= window[1:] == window[:-1] + 1
    at = np.flatnonzero(succeeds)
    slot = (first_slot + window[at]) % options.slots
    return _Moves(person[at], slot, place[at], place[at + 1])


def _count(
    blocks: _Blocks, block: NDArray[np.int64], origin: NDArray[np.int32], target: NDArray[np.int32]
) -> NDArray[np.float64]:
    """How often each entry of the blocks was moved along."""
    entry = blocks.start[block] + origin * blocks.size[block] + target
    return np.bincount(entry, minlength=int(blocks.start[-1])).astype(np.float64)


def _normalised(blocks: _Blocks, counts: NDArray[np.float64], options: FitOptions) -> _Rows:
    """Smoothed rows; those of places never left by option, then taken as they are."""
    row = blocks.row_of_entry()
    left = np.bincount(row, counts) > 0
    weights = counts + options.pseudo_count
    if options.never_left != "smoothed":
        origin, target = blocks.position()
        alone = (origin == target) if options.never_left == "stay" else np.ones(row.size)
        weights = np.where(left[row], weights, alone)
    total = np.bincount(row, weights)
    evidence = total if options.never_left == "smoothed" else np.where(left, total, np.inf)
    return _Rows(weights / total[row], np.asarray(evidence, dtype=np.float64))


def _shrunk(
    free: _Blocks,
    blocks: _Blocks,
    counts: NDArray[np.float64],
    prior: NDArray[np.float64],
    options: FitOptions,
) -> _Rows:
    """Rows of each slot drawn towards the person's cycle-free row: ``(n_k + w p) / (sum n_k + w)``."""
    people = np.repeat(np.arange(free.size.size), options.slots)
    length = blocks.size**2
    source = np.repeat(free.start[people] - blocks.start[:-1], length) + np.arange(length.sum())
    row = blocks.row_of_entry()
    left = np.bincount(row, counts)
    weight = np.where((left == 0) & (options.shrinkage_weight == 0), 1.0, options.shrinkage_weight)
    shrunk = (counts + weight[row] * prior[source]) / (left + weight)[row]
    return _Rows(shrunk, np.asarray(left + weight, dtype=np.float64))


def _written(blocks: _Blocks, probability: NDArray[np.float64], slots: int) -> Moves:
    """The blocks as moves, so many slots a person."""
    row, column = blocks.position()
    slot = np.resize(np.arange(slots, dtype=np.int32), blocks.size.size)
    return Moves(blocks.start[::slots], np.repeat(slot, blocks.size**2), row, column, probability)
