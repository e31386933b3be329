"""Priors for steps that are a part of those they were made for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorError
from models.priors.packing import Lists, Moves
from models.priors.population import Population

MOST_PARTS = 60


def in_finer_steps(population: Population, parts: int) -> Population:
    """The same people in steps a ``parts``-th as long, who move where a long step ends and not within it.

    That is what a prior by hours says of quarters of an hour: somebody is at one place for all four. A slot
    ``k`` of a cycle becomes the slots ``parts k`` to ``parts k + parts - 1``, and its moves leave the last of
    them. Which windows the priors were fitted to is not kept: they have another length.
    """
    if not 2 <= parts <= MOST_PARTS:
        raise PriorError(
            f"a step must be cut into 2 to {MOST_PARTS} parts",
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
    return replace(finer, assumed=population.assumed, weights=population.weights, drawn=drawn)


def _finer_moves(population: Population, moves: Moves, parts: int) -> Moves:
    """The moves at the ends of long steps, and staying within them."""
    arrays = population.arrays
    sizes, people = np.diff(arrays.places_start), np.arange(len(population))
    stays = sizes * arrays.slots * (parts - 1)
    person = np.concatenate((np.repeat(people, np.diff(moves.start)), np.repeat(people, stays)))
    place, slot = _stays(sizes, arrays.slots, parts)
    order = np.argsort(person, kind="stable")
    start = np.zeros(people.size + 1, dtype=np.int64)
    np.cumsum(np.diff(moves.start) + stays, out=start[1:])
    return Moves(
        start,
        np.concatenate((moves.slot * parts + parts - 1, slot)).astype(np.int32)[order],
        np.concatenate((moves.row, place)).astype(np.int32)[order],
        np.concatenate((moves.column, place)).astype(np.int32)[order],
        np.concatenate((moves.probability, np.ones(place.size)))[order],
    )


def _stays(
    sizes: NDArray[np.int64], slots: NDArray[np.int32], parts: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Place and slot of every stay, one person after the other."""
    within = np.arange(parts - 1)
    each = [
        np.meshgrid(np.arange(count) * parts, within, np.arange(size), indexing="ij")
        for size, count in zip(sizes.tolist(), slots.tolist(), strict=True)
    ]
    nothing = np.zeros(0, dtype=np.int64)
    place = np.concatenate([nothing, *(places.reshape(-1) for _, _, places in each)])
    slot = np.concatenate([nothing, *((first + part).reshape(-1) for first, part, _ in each)])
    return place, slot
