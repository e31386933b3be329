"""The certified bound of everybody under one schedule, in one call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.posterior_kernel import (
    LogHorizon,
    fill_prior_guess,
    judge_draw,
    new_draw_work,
    own_log,
)
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    NO_PATTERNS,
    RawQuestion,
    seen_raw,
    unobserved,
)
from accounting.bounds.patterns.registry import least_raw_success
from accounting.bounds.patterns.segments_kernel import own_hits
from accounting.bounds.protocol import Effort
from accounting.exceptions import EffortError
from accounting.exposure import check_mistakes
from accounting.exposure.drawing import Draws, ReleasedSteps, ValueTables, released_steps, value_tables
from accounting.exposure.prior_constants_kernel import (
    constants_from_gaps,
    gaps_affordable,
    prior_constants,
    shared_powers,
)
from accounting.exposure.step_information import observe
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.propagation import first_place_law, marginals
from accounting.numerics import divergence_root, mean_interval
from models.numerics.jit import jit, pjit
from models.priors import Population
from models.priors.chain import LocalChain, PopulationArrays, chain_view
from models.priors.unrolled import population_on_the_clock
from models.releases import Schedule

# The certified bound of a raw schedule for a whole population, fast bounds before refined ones.


class CertifiedPerson(NamedTuple):
    """One person's numbers over the horizon."""

    certified: float
    baseline: float
    information: float  # exact I(X; Y), nats
    by: int  # BY_BASELINE where the baseline is 1, else the bound that gave ``certified``


@jit
def certified_person(
    person: LocalChain, counted: NDArray[np.bool_], question: RawQuestion, threshold: float
) -> CertifiedPerson:
    """The refined bound only where the fast one leaves open on which side of ``threshold`` the person is.

    With a negative threshold the refined bound is always computed.
    """
    chain, start = person.chain, person.start
    steps, mistakes = counted.shape[0], question.mistakes
    powers = shared_powers(chain, steps if question.order > 1 else 0)
    if powers.shape[0] > 0 and gaps_affordable(start.size, 1, steps, mistakes):
        gaps = powers.reshape((1, powers.shape[0], start.size, start.size))
        prior = constants_from_gaps(person, steps, mistakes, False, gaps)
    else:
        prior = prior_constants(person, steps, mistakes, False)
    baseline = prior.baseline.success
    marginal = marginals(person, steps)
    hits = own_hits(chain, marginal, counted)
    information = renewal_information(person, hits, marginal).sum()
    if baseline >= 1.0:
        return CertifiedPerson(1.0, 1.0, information, BY_BASELINE)
    guess = min(1.0, prior.guess.subsets, prior.guess.markov, prior.guess.frontier)
    certified = divergence_root(information, guess)
    by = BY_DIVERGENCE
    if threshold < 0.0 or certified > threshold >= baseline:
        order = min(question.order, steps - mistakes) if mistakes > 0 else 0
        usable = RawQuestion(mistakes, order, question.least_pattern, question.vectors)
        seen = seen_raw(person, hits, marginal, unobserved(start), order, powers)
        refined = least_raw_success(seen, usable)
        if refined.value < certified:
            certified, by = refined.value, refined.by
    return CertifiedPerson(max(certified, baseline), baseline, information, by)


@pjit(lambda certified, *_: certified.size)
def _certify(
    begin: int,
    end: int,
    certified: NDArray[np.float64],
    baseline: NDArray[np.float64],
    information: NDArray[np.float64],
    by: NDArray[np.int64],
    population: PopulationArrays,
    first: int,
    first_slot: int,
    counted: NDArray[np.bool_],
    question: RawQuestion,
    threshold: float,
) -> None:
    """Fill the four columns, each (n,), for the people from ``first`` on.

    ``counted`` (T, M) is where the raw schedule counts. People are independent, so threads do not change a
    bit.
    """
    for i in range(begin, end):
        chain = chain_view(population, first + i)
        slot = first_slot % population.slots[first + i]
        person = LocalChain(chain, first_place_law(population, first + i, slot), slot)
        one = certified_person(person, counted, question, threshold)
        certified[i], baseline[i] = one.certified, one.baseline
        information[i], by[i] = one.information, one.by


# Draws of a whole population: each of a person chosen at random, judged by the posterior it leads to.


@pjit(lambda found, population, first_slot, labels, steps, values, people, *_: people.size, least=16)
def judge_people(
    begin: int,
    end: int,
    found: NDArray[np.float64],
    population: PopulationArrays,
    first_slot: int,
    labels: NDArray[np.int32],
    steps: ReleasedSteps,
    values: ValueTables,
    people: NDArray[np.int64],
    first: NDArray[np.int64],
    draws: NDArray[np.int64],
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
            horizon.first, horizon.last, horizon.mistakes, guess, horizon.vectors, horizon.order
        )
        work = new_draw_work(log, own_horizon)
        fill_prior_guess(log.person, own_horizon, work.posterior)
        for j in range(first[i], first[i + 1]):
            success = judge_draw(log, own_horizon, Draws(seed, draws[j], 1), work)
            own = found[draws[j]]
            own[0], own[1], own[2] = success.bound, success.attained, success.unmoved


_PEOPLE_PER_CALL = 1024


@dataclass(frozen=True, slots=True, eq=False)
class PopulationBounds:
    """Each (N,), in the population's order.

    ``certified`` bounds any adversary's success, ``baseline`` is the best guess from the prior alone, exact;
    ``information_nats`` what the raw version of the schedule reveals. ``by`` are codes of
    :func:`~accounting.bounds.deciding_bound`.
    """

    certified: NDArray[np.float64]
    baseline: NDArray[np.float64]
    information_nats: NDArray[np.float64]
    by: NDArray[np.int64]

    @property
    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added to the baseline."""
        return self.certified - self.baseline


def certify_population(
    population: Population,
    schedule: Schedule,
    mistakes: int,
    *,
    order: int = 2,
    vectors: int = 4,
    threshold: float | None = None,
    progress: Callable[[int], None] | None = None,
) -> PopulationBounds:
    """The least of divergence, frontier (``vectors``), moment (``order``, if any) and exact bounds.

    Each bound is that of the raw version of the schedule.

    With a ``threshold`` the refined bounds are computed only where the fast one is above it and the baseline
    is not: on which side of it ``certified`` lies is the same for everybody, and most people cost little.

    Noised schedules reveal less, so the bounds hold for them too; :func:`audit_person` has sharper ones.
    :class:`~accounting.exceptions.HorizonError` unless ``0 <= mistakes < T``.
    """
    check_mistakes(mistakes, len(schedule.steps))
    priors, first_slot = population_on_the_clock(
        population, schedule.calendar, schedule.first_slot, len(schedule.steps)
    )
    counted = np.stack([observe(step, population.location_count).labels > 0 for step in schedule.steps])
    question = RawQuestion(mistakes, order, NO_PATTERNS, vectors)
    limit = -1.0 if threshold is None else threshold
    size = len(population)
    certified, baseline, information = np.empty(size), np.empty(size), np.empty(size)
    by = np.empty(size, np.int64)
    for first in range(0, size, _PEOPLE_PER_CALL):
        last = min(first + _PEOPLE_PER_CALL, size)
        _certify(
            certified[first:last],
            baseline[first:last],
            information[first:last],
            by[first:last],
            priors.arrays,
            first,
            first_slot,
            counted,
            question,
            limit,
        )
        if progress is not None:
            progress(last)
    return PopulationBounds(certified, baseline, information, by)


# What a log adds to a population's mean risk, between an attack and a bound: a few thousand draws say it.


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
    horizon = LogHorizon(first, last, mistakes, guess, max(1, effort.vectors), 0)
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
