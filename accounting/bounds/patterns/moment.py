"""The hit-pattern moment bound of a raw schedule, of any order and any number of sensors a step."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

import numpy as np

from accounting.bounds.patterns.frontier_kernel import EXPANSIONS
from accounting.bounds.patterns.segments_kernel import (
    Nodes,
    enter,
    find_nodes,
    next_node,
    no_hit_weight,
    segment_polynomials,
    walk_onwards,
)
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import inline, jit
from models.priors.chain import LocalChain, is_labelled

# The moment bound: expectation over hit patterns of a union bound on what is left to be guessed.
#
# Given hits in ``k`` steps these are certain, and ``R = T - s - k`` of the other steps still have to be
# guessed right. For every ``j <= R``, ``Pr[success, pattern] <= S_j / C(R, j)``: a success is right in at
# least ``C(R, j)`` of the j-subsets. ``S_j`` multiplies the segment polynomials along the pattern's hits.
#
# For example two steps without a sensor, three equally likely places in each: ``S_0 = 1``, ``S_1 = 2/3``
# (two subsets of 1/3), ``S_2 = 1/9``. Without a mistake ``R = 2``: the least of 1, 2/3 / 2 and 1/9 is 1/9,
# the optimum. With one ``R = 1``: 2/3, where the optimum is 5/9.


@jit
def multiply_into(target: Floats, left: Floats, right: Floats) -> None:
    """``target += left * right`` as polynomials, cut at the order kept."""
    for i in range(left.size):
        if left[i] > 0.0:
            for j in range(left.size - i):
                target[i + j] += left[i] * right[j]


@jit
def success_bound(moments: Floats, left_to_guess: int) -> float:
    """``min(S_0, min_{1 <= j <= R} S_j / C(R, j))``; all of ``S_0`` when nothing is left to guess."""
    best = moments[0]
    ways = 1.0
    for j in range(1, min(left_to_guess, moments.size - 1) + 1):
        ways = ways * (left_to_guess - j + 1) / j
        best = min(best, moments[j] / ways)
    return best


@jit
def moments_by_hits(polynomials: Floats, nodes: Nodes, steps: int) -> Floats:
    """``S[k, j]``, the sum over all patterns with ``k`` hits, exact; shape (T + 1, order + 1)."""
    count, _, width = polynomials.shape
    sums = np.zeros((count, steps + 1, width))
    sums[0, 0, 0] = 1.0
    for b in range(1, count):
        hit = 0 if nodes.time[b] == steps else 1
        for a in range(b):
            if nodes.time[a] < nodes.time[b] and polynomials[b, a, 0] > 0.0:
                for k in range(nodes.time[a] + 2):
                    if sums[a, k, 0] > 0.0:
                        multiply_into(sums[b, k + hit], sums[a, k], polynomials[b, a])
    return sums[count - 1]


@jit
def bound_by_hits(moments: Floats, mistakes: int) -> float:
    """The bound with the minimum over ``j`` taken per number of hits."""
    steps = moments.shape[0] - 1
    total = 0.0
    for k in range(steps + 1):
        total += success_bound(moments[k], steps - mistakes - k)
    return min(1.0, total)


@jit
def bound_by_pattern(
    polynomials: Floats, nodes: Nodes, steps: int, mistakes: int, least_probability: float
) -> float:
    """The bound with the minimum over ``j`` taken per pattern, patterns walked depth first.

    Hit sequences less likely than ``least_probability`` are counted as success and not continued.
    """
    end = nodes.time.size - 1
    prefix = np.zeros((steps + 1, polynomials.shape[2]))
    prefix[0, 0] = 1.0
    pattern = np.empty(polynomials.shape[2])
    walk = walk_onwards(nodes.time, steps + 1)
    total = 0.0
    depth, b = next_node(walk, 0)
    while b >= 0:
        target = pattern if b == end else prefix[depth + 1]
        target[:] = 0.0
        multiply_into(target, prefix[depth], polynomials[b, walk.at[depth]])
        if target[0] < least_probability:
            total += target[0]
        elif b == end:
            total += success_bound(pattern, steps - mistakes - depth)
        else:
            depth = enter(walk, depth, b)
        depth, b = next_node(walk, depth)
    return min(1.0, total)


MOST_OPERATIONS = 4e9  # a few seconds of one core
MOST_FRONTIER_OPERATIONS = 1e9  # at most; a second or so of one core
_MOST_COMPLETED = 2.0  # times as many for completions
_MOST_BESIDE_FRONTIER = 5e6  # operations where the frontier bound, which is the lower one, is computed too
_ENOUGH_VECTORS = 16
_FAR_BELOW = 0.1  # of a moment bound of a low order: there the frontier bound is the lower one, too
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


def affordable_vectors(size: Size, mistakes: int, wanted: int, most: float = MOST_FRONTIER_OPERATIONS) -> int:
    """Vectors of the frontier bound, up to ``wanted``, that memory and ``most`` operations allow; maybe 0.

    All searches together end after so many expansions a vector, however many segments a long horizon has; the
    completions of all of them are computed first, in operations that take a fraction of an expansion's.
    """
    rows = mistakes + 1
    entries = size.steps * rows * size.places
    completions = 0.5 * (size.hits + 1) * size.steps * rows * size.moves
    if size.hits * size.places + entries > MOST_ENTRIES or completions > _MOST_COMPLETED * most:
        return 0
    segments = 0.5 * (size.hits + 1) * (size.hits + 2)
    expansions = min(segments * max(1.0, size.steps / 3) * rows, float(EXPANSIONS))
    a_vector = expansions * rows * (size.moves + 2 * size.places)
    return int(min(wanted, most / a_vector, MOST_ENTRIES // entries))


def usable_order(exposure: Exposure, mistakes: int, effort: Effort, most: float = MOST_OPERATIONS) -> int:
    """The order for this exposure: at most ``T - s``, lowered where the work would be too much.

    0 where labels are guessed: beyond order 1 their moments have no product form.
    """
    if exposure.is_labelled:
        return 0
    wanted = min(effort.order, exposure.steps - mistakes)
    return Size.of(exposure).affordable_order(wanted, most)


def moment_bound(question: Question) -> float | None:
    """Success of any adversary of the raw schedule, hence of the noised one; None where too expensive.

    Where the frontier bound has vectors enough, or is far below, it is the lower one: then only so much work
    is done as leaves small horizons their whole order.
    """
    size = Size.of(question.exposure)
    vectors = affordable_vectors(size, question.mistakes, question.effort.vectors)
    if vectors == 0:
        return _moment_bound(question, MOST_OPERATIONS)
    if vectors >= _ENOUGH_VECTORS:
        return _moment_bound(question, _MOST_BESIDE_FRONTIER)
    first_order = min(MOST_OPERATIONS, size.operations(1))
    found = _moment_bound(question, max(_MOST_BESIDE_FRONTIER, first_order))
    frontier = question.value("frontier")
    if found is not None and frontier is not None and frontier < _FAR_BELOW * found:
        return found
    return _moment_bound(question, MOST_OPERATIONS)


def _moment_bound(question: Question, most: float) -> float | None:
    """With the order that so many operations allow; None where order 1 is too expensive.

    With order 1 the minimum with the pattern's probability is taken per number of hits. With a higher one it
    is taken per pattern if ``effort.patterns`` suffices for all of them, otherwise the better of the two
    forms counts.
    """
    exposure, mistakes, effort = question.exposure, question.mistakes, question.effort
    order = usable_order(exposure, mistakes, effort, most)
    if order == 0:
        return None
    nodes, weight = find_nodes(exposure.hits), no_hit_weight(exposure.hits)
    powers = exposure.powers if order > 1 else exposure.no_powers
    polynomials = segment_polynomials(exposure.person, weight, nodes, order, powers)
    by_hits = float(bound_by_hits(moments_by_hits(polynomials, nodes, exposure.steps), mistakes))
    if polynomials.shape[2] == 2 or effort.patterns == 0:
        return by_hits
    enumerable = exposure.pattern_count <= effort.patterns
    least = LEAST_PATTERN if enumerable else max(LEAST_PATTERN, 1.0 / effort.patterns)
    by_pattern = float(bound_by_pattern(polynomials, nodes, exposure.steps, mistakes, least))
    return by_pattern if enumerable else min(by_pattern, by_hits)


@inline
def moment_kernel(
    person: LocalChain, hits: Flags, mistakes: int, order: int, least_pattern: float, powers: Floats
) -> float:
    """The least over orders per number of hits and, of more than one, per pattern."""
    if order == 0 or mistakes == 0 or is_labelled(person.chain):
        return 1.0
    steps, nodes = hits.shape[0], find_nodes(hits)
    polynomials = segment_polynomials(person, no_hit_weight(hits), nodes, order, powers)
    bound = min(1.0, bound_by_hits(moments_by_hits(polynomials, nodes, steps), mistakes))
    if order > 1:
        bound = min(bound, bound_by_pattern(polynomials, nodes, steps, mistakes, least_pattern))
    return bound


MOMENT = Bound(
    "moment",
    idea="below",
    scope=Scope.RAW,
    cost="polynomial at fixed order",
    compute=moment_bound,
)
