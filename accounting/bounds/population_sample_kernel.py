"""Draws of a whole population: each of a person chosen at random, judged by the posterior it leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.drawn_posteriors_kernel import judge_draw, new_draw_work, own_log
from accounting.bounds.noised.posterior_kernel import LogHorizon, fill_prior_guess
from accounting.bounds.population_bounds_kernel import first_place_law
from accounting.exposure.drawing.noised_steps_kernel import ReleasedSteps
from accounting.exposure.drawing.own_releases_kernel import ValueTables
from accounting.exposure.drawing.random_draws_kernel import Draws
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import pjit
from models.priors.chain import PopulationArrays, chain_view


class Released(NamedTuple):
    """A log of ``L`` steps, as everybody sees it."""

    first_slot: int
    labels: NDArray[np.int32]  # (L, M) outcome of each location
    steps: ReleasedSteps
    values: ValueTables


class Sample(NamedTuple):
    """Whose draws are whose: person ``people[i]`` has the draws ``draw[first[i]:first[i + 1]]``."""

    people: NDArray[np.int64]  # (P,)
    first: NDArray[np.int64]  # (P + 1,)
    draw: NDArray[np.int64]  # (n,) the number of the draw, which names its stream
    seed: int


@pjit(lambda found, population, released, sample, horizon: sample.people.size, least=16)
def judge_people(
    begin: int,
    end: int,
    found: NDArray[np.float64],
    population: PopulationArrays,
    released: Released,
    sample: Sample,
    horizon: LogHorizon,
) -> None:
    """Fill ``found`` (n, 3) with bound, attained and unmoved success of each draw.

    The guess of ``horizon`` is not read: everybody has their own.
    """
    for i in range(begin, end):
        chain = chain_view(population, sample.people[i])
        slot = released.first_slot % population.slots[sample.people[i]]
        places = chain.places.size
        labels = np.empty((released.labels.shape[0], places), np.int32)
        for x in range(places):
            labels[:, x] = released.labels[:, chain.places[x]]
        start = first_place_law(population, sample.people[i], chain, slot)
        log = own_log(LocalChain(chain, start, slot), labels, released.steps, released.values)
        guess = np.empty(horizon.guess.size, np.int64)
        own_horizon = LogHorizon(
            horizon.first, horizon.last, horizon.mistakes, guess, horizon.vectors, horizon.order
        )
        work = new_draw_work(log, own_horizon)
        fill_prior_guess(log.person, own_horizon, work.posterior)
        for j in range(sample.first[i], sample.first[i + 1]):
            draw = sample.draw[j]
            success = judge_draw(log, own_horizon, Draws(sample.seed, draw, 1), work)
            found[draw, 0], found[draw, 1], found[draw, 2] = success.bound, success.attained, success.unmoved
