"""Check-ins to priors: count each person's moves, smooth them, and pack the matrices as a population."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.arguments import checked
from models.exceptions import CheckinError
from models.fitting.checkins import Checkins
from models.fitting.counting import Blocks, fading, moves_made, own_places
from models.fitting.fit_options import FitOptions
from models.fitting.windows import NOWHERE, Traces, traces
from models.priors import Evidence, FittedWindows, Lists, Moves, Population

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


@checked(CheckinError)
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


class _Rows(NamedTuple):
    """Rows of blocks: the probability of each entry, and how many moves each row rests on."""

    probability: NDArray[np.float64]
    evidence: NDArray[np.float64]


def _fit(
    people: list[str], training: NDArray[np.int32], found: Traces, options: FitOptions
) -> tuple[Population, Evidence]:
    """Everybody's chain, and what it rests on."""
    places = own_places(training, len(found.location_names), options)
    moves = moves_made(training, places, found.first_slot, options)
    weight = fading(training.shape[1], options.recency)[training.shape[1] - 1 - moves.window]
    blocks = free = Blocks(places.size)
    rows = _normalised(free, _count(free, moves.entry(free, moves.person), weight), options)
    if options.slots > 1:
        blocks = Blocks(np.repeat(places.size, options.slots))
        in_slot = _count(blocks, moves.entry(blocks, moves.block(options.slots)), weight)
        rows = _shrunk(free, blocks, in_slot, rows.probability, options)
    packed = Population.from_moves(
        people,
        Lists(places.start, places.locations),
        _written(blocks, rows.probability, options.slots),
        slots=np.full(len(people), options.slots, dtype=np.int32),
        location_names=found.location_names,
    )
    population = replace(packed, fitted=_windows(found, training.shape[1], options))
    return population, Evidence(tuple(people), Lists(places.start * options.slots, rows.evidence))


def _windows(found: Traces, training: int, options: FitOptions) -> FittedWindows:
    """What the fit looked at, for whoever checks it later."""
    return FittedWindows(
        window_seconds=options.window_seconds,
        origin="epoch" if options.origin == "epoch" else found.origin_seconds,
        window_place=options.window_place,
        elsewhere=options.elsewhere,
        elsewhere_name=options.elsewhere_name,
        until_seconds=found.origin_seconds + training * options.window_seconds,
    )


def _count(blocks: Blocks, entry: NDArray[np.int64], weight: NDArray[np.float64]) -> NDArray[np.float64]:
    """How often each entry of the blocks was moved along; moves of earlier windows may count for less."""
    return np.asarray(np.bincount(entry, weight, minlength=int(blocks.start[-1])), dtype=np.float64)


def _normalised(blocks: Blocks, counts: NDArray[np.float64], options: FitOptions) -> _Rows:
    """Smoothed rows; those of places never left by option, then taken as they are."""
    row = blocks.row_of_entry()
    left = np.bincount(row, counts) > 0
    weights = counts + options.pseudo_count
    if options.never_left != "smoothed":
        origin, target = blocks.position()
        untouched_weights = (origin == target) if options.never_left == "stay" else np.ones(row.size)
        weights = np.where(left[row], weights, untouched_weights)
    total = np.bincount(row, weights)
    evidence = total if options.never_left == "smoothed" else np.where(left, total, np.inf)
    return _Rows(weights / total[row], np.asarray(evidence, dtype=np.float64))


def _shrunk(
    free: Blocks,
    blocks: Blocks,
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


def _written(blocks: Blocks, probability: NDArray[np.float64], slots: int) -> Moves:
    """The blocks as moves, so many slots a person."""
    row, column = blocks.position()
    slot = np.resize(np.arange(slots, dtype=np.int32), blocks.size.size)
    return Moves(blocks.start[::slots], np.repeat(slot, blocks.size**2), row, column, probability)
