"""The smallest bound on the success against a raw schedule, as other kernels ask for it.

A bound that is cheap enough for everybody gets a line in :func:`raw_success_from_powers`; population bounds,
continuous accounts, kept sets and horizons of a log then have it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.genie_aided_kernel import Charged, Unseen, genie_aided_by_pattern
from accounting.bounds.patterns.moment_kernel import bound_by_hits, bound_by_pattern, moments_by_hits
from accounting.bounds.patterns.outside_kernel import unobserved
from accounting.bounds.patterns.raw_frontier_kernel import frontier_effort, raw_frontier
from accounting.bounds.patterns.segments_kernel import find_nodes, no_hit_weight, segment_polynomials
from accounting.exposure.prior_constants_kernel import shared_powers
from accounting.exposure.step_information.renewal_kernel import renewal_optimum
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.hmm.propagation import marginals
from models.numerics.jit import jit

_SHARE = 1e-5  # of what the likeliest pattern gives: lighter ones are charged, not walked

_ALL = 1 << 62

_ROUNDING = 1e-12  # the genie-aided adversary may be the optimal one, and sums are rounded


BY_BASELINE, BY_DIVERGENCE, BY_RAW_SUCCESS, BY_LEVELS = range(4)
"""Which bound gave a person's certified value; kept in snapshots, named by ``registry.deciding_bound``."""


class RawQuestion(NamedTuple):
    """What is asked of a raw schedule, and how closely its hit patterns are looked at."""

    mistakes: int
    order: int  # of the moment bound, 0 for none
    least_pattern: float  # patterns less likely count as success; above 1 none is looked at
    vectors: int  # of the frontier bound, 0 for none
    has_genie: bool  # whether the genie-aided bound is taken too; only beside the moment bound


@jit
def raw_success(person: LocalChain, hits: NDArray[np.bool_], asked: RawQuestion) -> float:
    """Success against a raw schedule: exact at ``s = 0``, else the least bound asked for; 1 for none."""
    steps = hits.shape[0]
    powers = shared_powers(person.chain, steps - 1 if asked.order > 1 and asked.mistakes > 0 else 0)
    marginal = marginals(person.chain, person.start, person.first_slot, steps)
    return raw_success_from_powers(person, hits, asked, powers, marginal)


@jit
def raw_success_from_powers(
    person: LocalChain,
    hits: NDArray[np.bool_],
    asked: RawQuestion,
    powers: NDArray[np.float64],
    marginal: NDArray[np.float64],
) -> float:
    """The same with the powers of the matrix (empty where they do not help) and the marginals (T, K)."""
    if asked.mistakes == 0:
        laws = person.start.reshape((1, person.start.size))
        return min(1.0, np.exp(renewal_optimum(person.chain, laws, person.first_slot, hits)))
    bound = 1.0
    if asked.order > 0:
        steps, nodes, weight = hits.shape[0], find_nodes(hits), no_hit_weight(hits)
        polynomials = segment_polynomials(person, weight, nodes, asked.order, powers)
        bound = min(bound, bound_by_hits(moments_by_hits(polynomials, nodes, steps), asked.mistakes))
        if asked.order > 1 and asked.least_pattern <= 1.0:
            by_pattern = bound_by_pattern(polynomials, nodes, steps, asked.mistakes, asked.least_pattern)
            bound = min(bound, by_pattern.value)
        if asked.has_genie:
            unseen = Unseen(weight, nodes, polynomials, marginal)
            charged = Charged(_SHARE, asked.least_pattern, _ALL)
            aided = genie_aided_by_pattern(person, unseen, asked.mistakes, charged)
            bound = min(bound, aided.value * (1.0 + _ROUNDING))
    if asked.vectors > 0:
        effort = frontier_effort(asked.vectors)
        outside = unobserved(person.start)
        bound = min(bound, raw_frontier(person, hits, marginal, asked.mistakes, outside, effort))
    return bound
