"""The moment bound: expectation over hit patterns of a union bound on what is left to be guessed.

Given hits in ``k`` steps these are certain, and ``R = T - s - k`` of the other steps still have to be guessed
right. For every ``j <= R``, ``Pr[success, pattern] <= S_j / C(R, j)``: a success is right in at least
``C(R, j)`` of the j-subsets. ``S_j`` multiplies the segment polynomials along the pattern's hits.

For example two steps without a sensor, three equally likely places in each: ``S_0 = 1``, ``S_1 = 2/3`` (two
subsets of 1/3), ``S_2 = 1/9``. Without a mistake ``R = 2``: the least of 1, 2/3 / 2 and 1/9 is 1/9, the
optimum. With one ``R = 1``: 2/3, where the optimum is 5/9.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.segments_kernel import Nodes, enter, next_node, walk_onwards
from models.numerics.jit import jit


class PatternBound(NamedTuple):
    """Expectation over patterns with the minimum over ``j`` taken per pattern."""

    value: float
    skipped: float  # probability of the patterns counted as success because they were not looked at


@jit
def multiply_into(target: NDArray[np.float64], left: NDArray[np.float64], right: NDArray[np.float64]) -> None:
    """``target += left * right`` as polynomials, cut at the order kept."""
    for i in range(left.size):
        if left[i] > 0.0:
            for j in range(left.size - i):
                target[i + j] += left[i] * right[j]


@jit
def success_bound(moments: NDArray[np.float64], left_to_guess: int) -> float:
    """``min(S_0, min_{1 <= j <= R} S_j / C(R, j))``; all of ``S_0`` when nothing is left to guess."""
    best = moments[0]
    ways = 1.0
    for j in range(1, min(left_to_guess, moments.size - 1) + 1):
        ways = ways * (left_to_guess - j + 1) / j
        best = min(best, moments[j] / ways)
    return best


@jit
def moments_by_hits(polynomials: NDArray[np.float64], nodes: Nodes, steps: int) -> NDArray[np.float64]:
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
def bound_by_hits(moments: NDArray[np.float64], mistakes: int) -> float:
    """The bound with the minimum over ``j`` taken per number of hits."""
    steps = moments.shape[0] - 1
    total = 0.0
    for k in range(steps + 1):
        total += success_bound(moments[k], steps - mistakes - k)
    return min(1.0, total)


@jit
def bound_by_pattern(
    polynomials: NDArray[np.float64], nodes: Nodes, steps: int, mistakes: int, least_probability: float
) -> PatternBound:
    """The bound with the minimum over ``j`` taken per pattern, patterns walked depth first.

    Hit sequences less likely than ``least_probability`` are counted as success and not continued.
    """
    end = nodes.time.size - 1
    prefix = np.zeros((steps + 1, polynomials.shape[2]))
    prefix[0, 0] = 1.0
    pattern = np.empty(polynomials.shape[2])
    walk = walk_onwards(nodes.time, steps + 1)
    total = 0.0
    skipped = 0.0
    depth, b = next_node(walk, 0)
    while b >= 0:
        target = pattern if b == end else prefix[depth + 1]
        target[:] = 0.0
        multiply_into(target, prefix[depth], polynomials[b, walk.at[depth]])
        if target[0] < least_probability:
            total += target[0]
            skipped += target[0]
        elif b == end:
            total += success_bound(pattern, steps - mistakes - depth)
        else:
            depth = enter(walk, depth, b)
        depth, b = next_node(walk, depth)
    return PatternBound(min(1.0, total), skipped)
