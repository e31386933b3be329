"""Priors that the same data could have given: draws of a person's rows around the fitted ones.

A fitted row that rests on ``c`` moves, smoothing included, and gives place ``y`` the probability ``p(y)`` is
the mean of the Dirichlet law with parameters ``c p(y)``: the posterior of the row after the count, with the
smoothing as the prior. The less evidence, the wider the draws.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PriorError
from models.numerics.arrays import Floats, Integers
from models.numerics.elementwise import exp, log
from models.priors.packing import Lists, Moves
from models.priors.population import Population, draw_name

MOST_DRAWS = 100
"""The most chains of one person: each costs as much as a person to account."""

_LEAST_SHARE = 1e-12  # of a row's largest entry: far below any figure shown, far above rounding
_LEAST = 1e-300  # with less evidence all gamma variables of a row might underflow


@dataclass(frozen=True, eq=False)
class Evidence:
    """How many moves each row of each prior rests on, smoothing included.

    Person ``i`` owns ``rows.values[rows.start[i] : rows.start[i + 1]]``: one number for each slot and place,
    slot by slot, places increasing. Infinite for a row that is not uncertain.
    """

    people: tuple[str, ...]
    rows: Lists

    @cached_property
    def _positions(self) -> Mapping[str, int]:
        return {person: position for position, person in enumerate(self.people)}

    def of(self, population: Population, person: int) -> Floats:
        """The evidence of the person at this position; :class:`PriorError` where it is for other priors."""
        name, chain = population.people[person], population.chain(person)
        found = self._positions.get(name)
        start = self.rows.start
        own = np.empty(0) if found is None else self.rows.values[start[found] : start[found + 1]]
        if own.size != chain.start.size or not (own >= _LEAST).all():
            raise PriorError(
                f"evidence must have a number above 0 for each of {chain.start.size} rows of a person",
                f"{own.size} rows" if found is not None else "a person who is not in it",
                "write it with the priors it belongs to: tallyguard priors fit --evidence",
            )
        return np.asarray(own, dtype=np.float64)


def with_draws(population: Population, evidence: Evidence, draws: int) -> Population:
    """The same people, each with ``draws`` chains that the person's data could have given.

    A person's chains do not depend on the other people. :class:`~models.exceptions.PriorError` for evidence
    of other priors.
    """
    if not 2 <= draws <= MOST_DRAWS:
        raise PriorError(f"draws from the posterior must be 2 to {MOST_DRAWS}", draws, "take 20")
    people = range(len(population))
    parts = [posterior_draws(population, person, evidence, draws) for person in people]
    return replace(population, drawn=Population.concatenate(parts) if parts else None)


def posterior_draws(
    population: Population, person: int, evidence: Evidence, draws: int, seed: int = 0
) -> Population:
    """``draws`` chains that the person's data could have given, as a population of their own.

    Each starts in its own stationary distribution, unless the person's prior has an initial one. The chains
    are a function of the person's name and the seed.
    """
    name = population.people[person]
    stream = int.from_bytes(hashlib.sha256(name.encode()).digest()[:16], "big")
    random = np.random.default_rng((stream, seed))
    own = population.subset([person])
    moves, size = own.moves(), own.arrays.places.size
    row = moves.slot * size + moves.row
    weight = evidence.of(population, person)[row]
    drawn = np.tile(moves.probability, (draws, 1))
    counted = np.isfinite(weight)
    if counted.any():
        group = np.unique(row[counted], return_inverse=True)[1].reshape(-1)
        shape = weight[counted] * moves.probability[counted]
        for chain in drawn:
            chain[counted] = _dirichlet(shape, group, random)
    return chains_like(population, person, drawn)


def chains_like(population: Population, person: int, probability: Floats) -> Population:
    """Chains of the person at this position with other probabilities, as a population of their own.

    ``probability`` (D, E) has a row for each chain, in the order of the prior's moves. Places, cycle and an
    initial distribution are the prior's. :class:`~models.exceptions.PriorError` for another number of moves.
    """
    name, own, initial = population.people[person], population.subset([person]), population.initial(person)
    moves = own.moves()
    if probability.ndim != 2 or probability.shape[1] != moves.row.size:
        raise PriorError(
            f"each chain of a person must have the {moves.row.size} moves of the prior",
            probability.shape[1:],
            "draw the chains from the prior they stand beside",
        )
    draws = len(probability)
    return Population.from_moves(
        [draw_name(name, number) for number in range(draws)],
        _repeated(own.arrays.places, draws),
        Moves(
            np.arange(draws + 1) * moves.row.size,
            np.tile(moves.slot, draws),
            np.tile(moves.row, draws),
            np.tile(moves.column, draws),
            probability.reshape(-1),
        ),
        slots=np.repeat(own.arrays.slots, draws),
        initial=None if initial is None else _repeated(initial, draws),
        location_names=population.location_names,
    )


def _dirichlet(shape: Floats, group: Integers, random: np.random.Generator) -> Floats:
    """One draw a group, from gamma variables.

    By logarithms, as gamma variables of small shapes underflow: ``Gamma(a) = Gamma(a + 1) U^(1 / a)``.
    """
    with np.errstate(over="ignore", divide="ignore"):  # entries with next to no evidence
        gamma = log(random.standard_gamma(shape + 1.0)) + log(1.0 - random.random(shape.size)) / shape
    largest = np.full(group.max() + 1, -np.inf)
    np.maximum.at(largest, group, gamma)
    found = np.maximum(exp(gamma - largest[group]), _LEAST_SHARE)
    return np.asarray(found / np.bincount(group, found)[group])


def _repeated(values: NDArray[np.generic], times: int) -> Lists:
    """The same list for each person."""
    return Lists(np.arange(times + 1) * values.size, np.tile(values, times))
