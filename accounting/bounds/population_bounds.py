"""What a log adds to a population's mean risk, between an attack and a bound: a few thousand draws say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.bounds.noised.posterior_kernel import (
    LogHorizon,
    fill_prior_guess,
    judge_draw,
    new_draw_work,
    own_log,
)
from accounting.bounds.protocol import Effort
from accounting.exceptions import EffortError
from accounting.exposure import check_mistakes
from accounting.exposure.drawing import Draws, ReleasedSteps, ValueTables, released_steps, value_tables
from accounting.exposure.step_information import observe
from accounting.hmm.propagation import first_place_law
from accounting.numerics import mean_interval
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import pjit
from models.priors import Population
from models.priors.chain import LocalChain, PopulationArrays, chain_view
from models.priors.unrolled import population_on_the_clock
from models.releases import Schedule


@pjit(lambda found, population, first_slot, labels, steps, values, people, *_: people.size, least=16)
def judge_people(
    begin: int,
    end: int,
    found: Floats,
    population: PopulationArrays,
    first_slot: int,
    labels: Integers32,
    steps: ReleasedSteps,
    values: ValueTables,
    people: Integers,
    first: Integers,
    draws: Integers,
    seed: int,
    horizon: LogHorizon,
) -> None:
    """Fill ``found`` (n, 3) with bound, attained and unmoved success of each draw.

    The log has ``L`` steps, in which each location has the outcome ``labels`` (L, M). Person ``people[i]``
    has the draws ``draws[first[i]:first[i + 1]]``, whose numbers name their streams. The guess of ``horizon``
    is not read: everybody has their own.
    """
    for i in range(begin, end):
        chain = chain_view(population, people[i])
        slot = first_slot % population.slots[people[i]]
        places = chain.places.size
        own_labels = np.empty((labels.shape[0], places), np.int32)
        for x in range(places):
            own_labels[:, x] = labels[:, chain.places[x]]
        start = first_place_law(population, people[i], slot)
        log = own_log(LocalChain(chain, start, slot), own_labels, steps, values)
        guess = np.empty(horizon.guess.size, np.int64)
        own_horizon = LogHorizon(
            horizon.first, horizon.last, horizon.mistakes, guess, horizon.vectors, horizon.order, False
        )
        work = new_draw_work(log, own_horizon)
        fill_prior_guess(log.person, own_horizon, work.posterior)
        for j in range(first[i], first[i + 1]):
            success = judge_draw(log, own_horizon, Draws(seed, draws[j], 1), work)
            own = found[draws[j]]
            own[0], own[1], own[2] = success.bound, success.attained, success.unmoved


@dataclass(frozen=True, slots=True)
class MeanAdded:
    """What releases add, on average over people, to the success of the best guess found without them.

    ``attack`` is what an adversary gains who searches each posterior for its best guess, ``bound`` what
    no adversary exceeds, both estimated; the best adversary's gain is in ``low..high`` with probability
    ``confidence``.
    """

    attack: float
    bound: float
    low: float
    high: float
    confidence: float


def mean_added(
    population: Population, schedule: Schedule, window: tuple[int, int], mistakes: int, effort: Effort
) -> MeanAdded:
    """The mean over people for the steps ``window`` (inclusive) of a log, all of whose steps are seen.

    Each of ``effort.draws`` draws is of a person chosen at random, so errors average out and the work does
    not grow with the population. :class:`EffortError` without draws; also
    :class:`~accounting.exceptions.HorizonError` for ``mistakes`` beyond the window, and
    :class:`~accounting.exceptions.UnknownReleaseError` where steps share noise.
    """
    first, last = window
    check_mistakes(mistakes, last - first + 1)
    if effort.draws == 0:
        raise EffortError("a mean by sampling must have draws", 0, "use 20000, say")
    priors, first_slot = population_on_the_clock(
        population, schedule.calendar, schedule.first_slot, len(schedule.steps)
    )
    observations = [observe(step, population.location_count) for step in schedule.steps]
    steps = released_steps(observations)
    labels = np.stack([observation.labels for observation in observations])
    guess = np.empty(last - first + 1, np.int64)
    found = np.empty((effort.draws, 3))
    horizon = LogHorizon(first, last, mistakes, guess, max(1, effort.vectors), 0, False)
    # Everybody is equally likely at each draw; draws in the order of people, so that each is prepared once.
    random = np.random.Generator(np.random.Philox(effort.seed))
    chosen = random.integers(0, len(population), effort.draws)
    order = np.argsort(chosen, kind="stable")
    people, begin = np.unique(chosen[order], return_index=True)
    judge_people(
        found,
        priors.arrays,
        first_slot,
        labels,
        steps,
        value_tables(steps.noise),
        people,
        np.append(begin, effort.draws),
        order,
        effort.seed,
        horizon,
    )
    bound, unmoved = found[:, 0], found[:, 2]
    attack = np.maximum(0.0, found[:, 1] - unmoved)
    bound = np.clip(bound - unmoved, attack, 1.0)
    failure = 1.0 - effort.confidence
    low, high = mean_interval(attack, failure).low, mean_interval(bound, failure).high
    return MeanAdded(float(attack.mean()), float(bound.mean()), max(0.0, low), high, effort.confidence)
