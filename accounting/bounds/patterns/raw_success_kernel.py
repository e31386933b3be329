"""What bounds on raw counts are asked where they are computed for everybody, and what they need to answer."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.outside_kernel import Outside
from accounting.bounds.patterns.segments_kernel import Nodes, find_nodes, no_hit_weight, segment_polynomials
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import inline, jit

BY_BASELINE, BY_DIVERGENCE, BY_RAW_SUCCESS, BY_LEVELS = range(4)
"""Which bound gave a person's certified value; kept in snapshots, named by ``registry.deciding_bound``.

``BY_RAW_SUCCESS`` stands for the optimum or the frontier bound; other bounds on raw counts follow
``BY_LEVELS``.
"""

NO_PATTERNS = 2.0
"""A ``least_pattern`` above every pattern's: the minimum over orders is then taken per number of hits."""


class RawQuestion(NamedTuple):
    """What is asked of a raw schedule, and how closely its hit patterns are looked at."""

    mistakes: int
    order: int  # of the moment bound, 0 for none
    least_pattern: float  # patterns less likely count as success; above 1 none is looked at
    vectors: int  # of the frontier bound, 0 for none
    has_genie: bool  # whether the genie-aided bound is taken too; only beside the moment bound


class SeenRaw(NamedTuple):
    """One person's horizon under raw counts, with what several bounds need of it.

    Without an order ``nodes``, ``weight`` and ``polynomials`` are empty.
    """

    person: LocalChain
    hits: NDArray[np.bool_]  # (T, K) where a sensor sees the person
    marginal: NDArray[np.float64]  # (T, K)
    outside: Outside  # what else was released
    nodes: Nodes
    weight: NDArray[np.float64]  # (T, K)
    polynomials: NDArray[np.float64]  # (N, N, order + 1) of the segments between nodes


class RawSuccess(NamedTuple):
    """The least bound on raw counts, and which one it is."""

    value: float
    by: int


@inline
def seen_without_patterns(
    person: LocalChain, hits: NDArray[np.bool_], marginal: NDArray[np.float64], outside: Outside
) -> SeenRaw:
    """Without an order."""
    none = np.empty(0, np.int64)
    weight, polynomials = np.empty((0, 0)), np.empty((0, 0, 0))
    return SeenRaw(person, hits, marginal, outside, Nodes(none, none), weight, polynomials)


@jit
def seen_raw(
    person: LocalChain,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    outside: Outside,
    order: int,
    powers: NDArray[np.float64],
) -> SeenRaw:
    """``powers`` of the matrix are empty where they do not help."""
    if order == 0:
        return seen_without_patterns(person, hits, marginal, outside)
    nodes, weight = find_nodes(hits), no_hit_weight(hits)
    polynomials = segment_polynomials(person, weight, nodes, order, powers)
    return SeenRaw(person, hits, marginal, outside, nodes, weight, polynomials)
