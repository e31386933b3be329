"""The hit-pattern moment bound of a raw schedule, of any order and any number of sensors a step."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment_kernel import bound_by_hits, bound_by_pattern, moments_by_hits
from accounting.bounds.patterns.raw_success_kernel import RawQuestion, SeenRaw
from accounting.bounds.patterns.segments_kernel import (
    Nodes,
    find_nodes,
    no_hit_weight,
    segment_polynomials,
)
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from models.numerics.jit import inline

MOST_OPERATIONS = 4e9  # a few seconds of one core
MOST_ENTRIES = 1 << 25  # 256 MiB
LEAST_PATTERN = 1e-9  # patterns less likely than this are counted as success


@dataclass(frozen=True, slots=True)
class Size:
    """What the work depends on: steps, own places, entries of one matrix, possible hits."""

    steps: int
    places: int
    moves: int
    hits: int
    has_cycle: bool

    @classmethod
    def of(cls, exposure: Exposure) -> Size:
        """The size of an exposure."""
        slots = exposure.chain.start.shape[0]
        moves = exposure.chain.value.size // slots
        hits = int(exposure.hits.sum())
        return cls(exposure.steps, exposure.place_count, moves, hits, slots > 1)

    def operations(self, order: int) -> float:
        """Estimated multiplications of the segment polynomials and of their products."""
        steps, places, nodes = self.steps, self.places, self.hits + 2
        subsets = sum(comb(steps + 1, size + 1) for size in range(2, order + 1))
        readings = 0.5 * nodes * nodes / steps * (subsets + comb(steps + 1, 2))
        products = self._products() if order > 1 else 0.0
        recursion = 0.5 * nodes * nodes * steps * order**2
        vectors = 2.0 * nodes * steps * self.moves
        return vectors + products + nodes / steps * subsets * places**2 + readings * places + recursion

    def _products(self) -> float:
        """Forming the moves between all pairs of times."""
        if self.has_cycle or self.hits >= 3 * self.steps or 2 * self.moves <= self.places**2:
            return 0.5 * self.steps**2 * self.moves * self.places
        return self.steps * self.moves * self.places + self.steps**3 / 6 * self.places**2

    def affordable_order(self, wanted: int, most: float) -> int:
        """The largest order up to ``wanted`` within ``most`` operations and the memory, else 0."""
        if 2 * (self.hits + 2) * self.steps * self.places > MOST_ENTRIES:
            return 0
        for order in range(wanted, 0, -1):
            fits = order == 1 or (self.steps * self.places) ** 2 <= MOST_ENTRIES
            if fits and self.operations(order) <= most:
                return order
        return 0


def usable_order(exposure: Exposure, mistakes: int, effort: Effort, most: float = MOST_OPERATIONS) -> int:
    """The order for this exposure: at most ``T - s``, lowered where the work would be too much."""
    wanted = min(effort.order, exposure.steps - mistakes)
    return Size.of(exposure).affordable_order(wanted, most)


@dataclass(frozen=True, eq=False)
class HitMoments:
    """Segment polynomials (N, N, order + 1) between the nodes of one horizon."""

    nodes: Nodes
    polynomials: NDArray[np.float64]

    @classmethod
    def of(cls, exposure: Exposure, mistakes: int, effort: Effort) -> HitMoments | None:
        """Of the order that is usable; None where even the first is too expensive."""
        order = usable_order(exposure, mistakes, effort)
        if order == 0:
            return None
        nodes = find_nodes(exposure.hits)
        polynomials = segment_polynomials(
            exposure.person,
            no_hit_weight(exposure.hits),
            nodes,
            order,
            exposure.powers if order > 1 else exposure.no_powers,
        )
        return cls(nodes, polynomials)

    @classmethod
    def none(cls, exposure: Exposure) -> HitMoments:
        """Polynomials that bound nothing."""
        nodes = find_nodes(exposure.hits)
        return cls(nodes, np.full((nodes.time.size, nodes.time.size, 1), np.inf))


def hit_moments(question: Question) -> HitMoments | None:
    """Of the raw version of the schedule."""
    return HitMoments.of(question.exposure, question.mistakes, question.effort)


def moment_bound(question: Question) -> float | None:
    """Success of any adversary of the raw schedule, hence of the noised one; None where too expensive.

    With order 1 the minimum with the pattern's probability is taken per number of hits. With a higher one it
    is taken per pattern if ``effort.patterns`` suffices for all of them, otherwise the better of the two
    forms counts.
    """
    moments = question.once(hit_moments)
    if moments is None:
        return None
    exposure, mistakes, effort = question.exposure, question.mistakes, question.effort
    nodes, polynomials = moments.nodes, moments.polynomials
    by_hits = float(bound_by_hits(moments_by_hits(polynomials, nodes, exposure.steps), mistakes))
    if polynomials.shape[2] == 2 or effort.patterns == 0:
        return by_hits
    enumerable = exposure.pattern_count <= effort.patterns
    least = LEAST_PATTERN if enumerable else max(LEAST_PATTERN, 1.0 / effort.patterns)
    by_pattern = float(bound_by_pattern(polynomials, nodes, exposure.steps, mistakes, least).value)
    return by_pattern if enumerable else min(by_pattern, by_hits)


@inline
def moment_of_everybody(seen: SeenRaw, question: RawQuestion) -> float:
    """The least over orders per number of hits and, where patterns are looked at, per pattern."""
    if question.order == 0 or question.mistakes == 0:
        return 1.0
    steps, polynomials, nodes = seen.hits.shape[0], seen.polynomials, seen.nodes
    bound = min(1.0, bound_by_hits(moments_by_hits(polynomials, nodes, steps), question.mistakes))
    if question.order > 1 and question.least_pattern <= 1.0:
        by_pattern = bound_by_pattern(polynomials, nodes, steps, question.mistakes, question.least_pattern)
        bound = min(bound, by_pattern.value)
    return bound


MOMENT = Bound(
    "moment",
    idea="below",
    scope=Scope.RAW,
    cost="polynomial at fixed order",
    compute=moment_bound,
    kernel=moment_of_everybody,
)
