"""The certified bound of a raw schedule for a whole population, fast bounds before refined ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.outside_kernel import unobserved
from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    RawQuestion,
    seen_raw,
)
from accounting.bounds.patterns.registry import least_raw_success
from accounting.bounds.patterns.segments_kernel import own_hits
from accounting.exposure.prior_constants_kernel import (
    constants_from_gaps,
    gaps_affordable,
    prior_constants,
    shared_powers,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.hmm.propagation import marginals
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view


class Counted(NamedTuple):
    """A raw schedule."""

    first_slot: int
    counted: NDArray[np.bool_]  # (T, M), where it counts


class CertifiedPerson(NamedTuple):
    """One person's numbers over the horizon."""

    certified: float
    baseline: float
    information: float  # exact I(X; Y), nats
    by: int  # BY_BASELINE where the baseline is 1, else the bound that gave ``certified``


class CertifiedArrays(NamedTuple):
    """The same for everybody, each (N,)."""

    certified: NDArray[np.float64]
    baseline: NDArray[np.float64]
    information: NDArray[np.float64]
    by: NDArray[np.int64]


@jit
def certified_person(
    person: LocalChain, counted: NDArray[np.bool_], question: RawQuestion, threshold: float
) -> CertifiedPerson:
    """The refined bound only where the fast one leaves open on which side of ``threshold`` the person is.

    A negative threshold asks for the refined bound in any case.
    """
    chain, start, first_slot = person
    steps, mistakes = counted.shape[0], question.mistakes
    powers = shared_powers(chain, steps if question.order > 1 else 0)
    if powers.shape[0] > 0 and gaps_affordable(start.size, 1, steps, mistakes):
        gaps = powers.reshape((1, powers.shape[0], start.size, start.size))
        prior = constants_from_gaps(person, steps, mistakes, False, gaps)
    else:
        prior = prior_constants(person, steps, mistakes, False)
    baseline = prior.baseline.success
    marginal = marginals(chain, start, first_slot, steps)
    hits = own_hits(chain, marginal, counted)
    information = renewal_information(chain, start, first_slot, hits, marginal).sum()
    if baseline >= 1.0:
        return CertifiedPerson(1.0, 1.0, information, BY_BASELINE)
    guess = min(1.0, prior.guess.subsets, prior.guess.markov, prior.guess.frontier)
    certified = divergence_root(information, guess)
    by = BY_DIVERGENCE
    if threshold < 0.0 or certified > threshold >= baseline:
        order = min(question.order, steps - mistakes) if mistakes > 0 else 0
        usable = RawQuestion(mistakes, order, question.least_pattern, question.vectors, question.has_genie)
        seen = seen_raw(person, hits, marginal, unobserved(start), order, powers)
        refined = least_raw_success(seen, usable)
        if refined.value < certified:
            certified, by = refined.value, refined.by
    return CertifiedPerson(max(certified, baseline), baseline, information, by)


@jit
def first_place_law(
    population: PopulationArrays, person: int, chain: ChainView, slot: int
) -> NDArray[np.float64]:
    """The person's own start, else the (cyclo-)stationary law of the slot."""
    begin, end = population.initial_start[person], population.initial_start[person + 1]
    return population.initial[begin:end] if end > begin else chain.start[slot]


def certify_everybody(
    population: PopulationArrays,
    people: tuple[int, int],
    releases: Counted,
    question: RawQuestion,
    threshold: float,
) -> CertifiedArrays:
    """The people ``first..last - 1``; they are independent, so threads do not change a bit."""
    first, last = people
    size = last - first
    found = CertifiedArrays(np.empty(size), np.empty(size), np.empty(size), np.empty(size, np.int64))
    _certify(found, population, first, releases, question, threshold)
    return found


@pjit(lambda found, *_: found.certified.size)
def _certify(
    begin: int,
    end: int,
    found: CertifiedArrays,
    population: PopulationArrays,
    first: int,
    releases: Counted,
    question: RawQuestion,
    threshold: float,
) -> None:
    for i in range(begin, end):
        chain = chain_view(population, first + i)
        slot = releases.first_slot % population.slots[first + i]
        person = LocalChain(chain, first_place_law(population, first + i, chain, slot), slot)
        one = certified_person(person, releases.counted, question, threshold)
        found.certified[i], found.baseline[i] = one.certified, one.baseline
        found.information[i], found.by[i] = one.information, one.by
