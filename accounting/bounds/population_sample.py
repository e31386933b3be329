"""What a log adds to a population's mean risk, between an attack and a bound: a few thousand draws say it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from accounting.bounds.noised.posterior_kernel import LogHorizon
from accounting.bounds.population_sample_kernel import Released, Sample, judge_people
from accounting.bounds.protocol import Effort
from accounting.exceptions import EffortError
from accounting.exposure import check_mistakes
from accounting.exposure.drawing import released_steps
from accounting.exposure.drawing.own_releases_kernel import value_tables
from accounting.exposure.step_information import observe
from accounting.numerics import mean_interval
from models.priors import Population
from models.releases import Schedule


@dataclass(frozen=True, slots=True)
class MeanAdded:
    """What releases add, on average over people, to the success of the best guess found without them.

    ``attack`` is what an adversary gains who searches each posterior for its best guess, ``bound`` what
    nobody exceeds, both estimated; the best adversary's gain is in ``low..high`` with probability
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
    observations = [observe(step, population.location_count) for step in schedule.steps]
    steps = released_steps(observations)
    labels = np.stack([observation.labels for observation in observations])
    released = Released(schedule.first_slot, labels, steps, value_tables(steps))
    guess = np.empty(last - first + 1, np.int64)
    found = np.empty((effort.draws, 3))
    horizon = LogHorizon(first, last, mistakes, guess, max(1, effort.vectors), 0)
    judge_people(found, population.arrays, released, _sample(len(population), effort), horizon)
    bound, unmoved = found[:, 0], found[:, 2]
    attack = np.maximum(0.0, found[:, 1] - unmoved)
    bound = np.clip(bound - unmoved, attack, 1.0)
    failure = 1.0 - effort.confidence
    low, high = mean_interval(attack, failure).low, mean_interval(bound, failure).high
    return MeanAdded(float(attack.mean()), float(bound.mean()), max(0.0, low), high, effort.confidence)


def _sample(people: int, effort: Effort) -> Sample:
    """Everybody equally likely at each draw; draws in the order of people, so that each is prepared once."""
    chosen = np.random.Generator(np.random.Philox(effort.seed)).integers(0, people, effort.draws)
    order = np.argsort(chosen, kind="stable")
    drawn, first = np.unique(chosen[order], return_index=True)
    return Sample(drawn, np.append(first, effort.draws), order, effort.seed)
