"""The certified bound of a raw schedule for a whole population, cheap bounds before dear ones."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.erasure_kernel import raw_success_from_powers
from accounting.exposure.prior_constants_kernel import (
    constants_from_gaps,
    gaps_affordable,
    prior_constants,
    shared_powers,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.propagation import marginals
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view

NOTHING_LEFT = 0
DIVERGENCE = 1
MOMENT = 2
EXACT = 3

NO_PATTERNS = 2.0  # no pattern is that likely: the minimum over orders is taken per number of hits


class CertifiedPerson(NamedTuple):
    """One person's numbers over the horizon."""

    certified: float
    baseline: float
    information: float  # exact I(X; Y), nats
    by: int  # NOTHING_LEFT where the baseline is 1, else the bound that gave ``certified``


class CertifiedArrays(NamedTuple):
    """The same for everybody, each (N,)."""

    certified: NDArray[np.float64]
    baseline: NDArray[np.float64]
    information: NDArray[np.float64]
    by: NDArray[np.int64]


@jit
def own_hits(
    chain: ChainView, marginal: NDArray[np.float64], counted: NDArray[np.bool_]
) -> NDArray[np.bool_]:
    """Where the person can be and is counted, (T, K); ``counted`` (T, M) is by location."""
    hits = np.empty(marginal.shape, np.bool_)
    for t in range(marginal.shape[0]):
        for x in range(marginal.shape[1]):
            hits[t, x] = counted[t, chain.places[x]] and marginal[t, x] > 0.0
    return hits


@jit
def certified_person(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    counted: NDArray[np.bool_],
    mistakes: int,
    order: int,
    threshold: float,
) -> CertifiedPerson:
    """The dear bound only where the cheap one leaves open on which side of ``threshold`` the person is.

    A negative threshold asks for the dear bound in any case.
    """
    steps = counted.shape[0]
    powers = shared_powers(chain, steps if order > 1 else 0)
    if powers.shape[0] > 0 and gaps_affordable(start.size, 1, steps, mistakes):
        gaps = powers.reshape((1, powers.shape[0], start.size, start.size))
        prior = constants_from_gaps(chain, start, first_slot, steps, mistakes, False, gaps)
    else:
        prior = prior_constants(chain, start, first_slot, steps, mistakes, False)
    baseline = prior.baseline.success
    marginal = marginals(chain, start, first_slot, steps)
    hits = own_hits(chain, marginal, counted)
    information = renewal_information(chain, start, first_slot, hits, marginal).sum()
    if baseline >= 1.0:
        return CertifiedPerson(1.0, 1.0, information, NOTHING_LEFT)
    guess = min(1.0, prior.guess.subsets, prior.guess.markov)
    certified = divergence_root(information, guess)
    by = DIVERGENCE
    if threshold < 0.0 or certified > threshold >= baseline:
        order = min(order, steps - mistakes)
        dear = raw_success_from_powers(
            chain, start, first_slot, hits, mistakes, order, NO_PATTERNS, powers, np.empty((0, 0))
        )
        if dear < certified:
            certified, by = dear, EXACT if mistakes == 0 else MOMENT
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
    first: int,
    last: int,
    first_slot: int,
    counted: NDArray[np.bool_],
    mistakes: int,
    order: int,
    threshold: float,
) -> CertifiedArrays:
    """The people ``first..last - 1``; they are independent, so threads do not change a bit."""
    people = last - first
    found = CertifiedArrays(np.empty(people), np.empty(people), np.empty(people), np.empty(people, np.int64))
    _certify(found, population, first, first_slot, counted, mistakes, order, threshold)
    return found


@pjit(lambda found, *_: found.certified.size)
def _certify(
    begin: int,
    end: int,
    found: CertifiedArrays,
    population: PopulationArrays,
    first: int,
    first_slot: int,
    counted: NDArray[np.bool_],
    mistakes: int,
    order: int,
    threshold: float,
) -> None:
    for i in range(begin, end):
        person = first + i
        chain = chain_view(population, person)
        slot = first_slot % population.slots[person]
        start = first_place_law(population, person, chain, slot)
        one = certified_person(chain, start, slot, counted, mistakes, order, threshold)
        found.certified[i], found.baseline[i] = one.certified, one.baseline
        found.information[i], found.by[i] = one.information, one.by
