"""Raw quantities for many sets of kept sensors at once: what the erasure bound averages."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.genie_aided_kernel import feedback_by_pattern
from accounting.bounds.patterns.moment_kernel import bound_by_hits, bound_by_pattern, moments_by_hits
from accounting.bounds.patterns.segments_kernel import (
    find_nodes,
    no_hit_weight,
    segment_polynomials,
)
from accounting.exposure.prior_constants_kernel import shared_powers
from accounting.exposure.step_information.renewal_kernel import renewal_information, renewal_optimum
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView

_SHARE = 1e-5  # of what the likeliest pattern gives: lighter ones are charged, not walked

_ALL = 1 << 62

_ROUNDING = 1e-12  # the told adversary may be the optimal one, and sums are rounded


@jit
def kept_hits(
    always: NDArray[np.bool_],
    step: NDArray[np.int64],
    cover: NDArray[np.bool_],
    kept: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Where a hit is seen when only some sensor-steps are kept; ``always`` (T, K) is seen in any case."""
    hits = always.copy()
    for sensor in range(step.size):
        if kept[sensor]:
            hits[step[sensor]] |= cover[sensor]
    return hits


@jit
def raw_success(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    mistakes: int,
    order: int,
    least_pattern: float,
) -> float:
    """Success against a raw schedule: exact at ``s = 0``, else the moment bound; 1 for order 0."""
    powers = shared_powers(chain, hits.shape[0] - 1 if order > 1 and mistakes > 0 else 0)
    nothing = np.empty((0, 0))
    return raw_success_from_powers(
        chain, start, first_slot, hits, mistakes, order, least_pattern, powers, nothing
    )


@jit
def raw_success_from_powers(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    mistakes: int,
    order: int,
    least_pattern: float,
    powers: NDArray[np.float64],
    marginal: NDArray[np.float64],
) -> float:
    """The same with the powers of the matrix at hand; empty where they do not help.

    With ``marginal`` (T, K), empty where that would be too dear, the bound by feedback is taken too.
    """
    if mistakes == 0:
        return min(1.0, np.exp(renewal_optimum(chain, start, first_slot, hits)))
    if order == 0:
        return 1.0
    nodes = find_nodes(hits)
    polynomials = segment_polynomials(chain, start, first_slot, no_hit_weight(hits), nodes, order, powers)
    bound = bound_by_hits(moments_by_hits(polynomials, nodes, hits.shape[0]), mistakes)
    if order > 1 and least_pattern <= 1.0:
        bound = min(bound, bound_by_pattern(polynomials, nodes, hits.shape[0], mistakes, least_pattern).value)
    if marginal.size > 0:
        weight = no_hit_weight(hits)
        told = feedback_by_pattern(
            chain,
            start,
            first_slot,
            weight,
            nodes,
            marginal,
            polynomials,
            mistakes,
            _SHARE,
            least_pattern,
            _ALL,
        )
        bound = min(bound, told.value * (1.0 + _ROUNDING))
    return bound


def kept_sets(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    marginal: NDArray[np.float64],
    always: NDArray[np.bool_],
    step: NDArray[np.int64],
    cover: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    mistakes: int,
    order: int,
    least_pattern: float,
    guess: float,
    has_feedback: bool,
) -> NDArray[np.float64]:
    """Success bound and exact information (nats) of each kept set, shape (sets, 2).

    ``kept`` (sets, n) says which of the ``n`` noised sensor-steps survive; ``step`` (n,) and ``cover`` (n, K)
    say when and where they see the person. ``has_feedback`` takes the bound by feedback too.
    """
    values = np.empty((kept.shape[0], 2))
    powers = shared_powers(chain, always.shape[0] - 1 if order > 1 else 0)
    told = marginal if has_feedback else marginal[:0]
    person = (chain, start, first_slot, marginal, told, powers)
    _fill_kept_sets(values, person, (always, step, cover, kept), (mistakes, order, least_pattern, guess))
    return values


@pjit(lambda values, *_: values.shape[0])
def _fill_kept_sets(
    begin: int,
    end: int,
    values: NDArray[np.float64],
    person: tuple[
        ChainView, NDArray[np.float64], int, NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]
    ],
    releases: tuple[NDArray[np.bool_], NDArray[np.int64], NDArray[np.bool_], NDArray[np.bool_]],
    sought: tuple[int, int, float, float],
) -> None:
    """Fill ``values`` (sets, 2) of :func:`kept_sets`."""
    chain, start, first_slot, marginal, told, powers = person
    always, step, cover, kept = releases
    mistakes, order, least_pattern, guess = sought
    for i in range(begin, end):
        hits = kept_hits(always, step, cover, kept[i])
        information = renewal_information(chain, start, first_slot, hits, marginal).sum()
        success = raw_success_from_powers(
            chain, start, first_slot, hits, mistakes, order, least_pattern, powers, told
        )
        values[i, 0] = min(success, divergence_root(information, guess))
        values[i, 1] = information
