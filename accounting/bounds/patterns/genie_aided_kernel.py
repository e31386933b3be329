"""The best an adversary can do who is told, after each guess, where the person was.

That adversary knows more than one who is told nothing, so their success bounds everybody's; and their best
guesses need no search: after step ``t`` only the place and the number of mistakes left matter. With evidence
``w`` of the hit pattern and ``V(m, y) = w(t + 1, y) W(t + 1, m, y)``, ``m`` mistakes left,

    W(t, m, x) = sum_y P(x, y) V(m - 1, y) + max_y P(x, y) (V(m, y) - V(m - 1, y)).

A hit tells the place, so what follows a hit depends on the hit alone: patterns are walked from their last hit
backwards, and one pass serves all patterns that end alike. At ``s = 0`` this is the optimum itself, and it
stays close while mistakes are few; the moment bound is the better one where they are many. Beyond Koga et al.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment_kernel import multiply_into, success_bound
from accounting.bounds.patterns.segments_kernel import Nodes
from models.numerics.jit import jit
from models.priors.chain import ChainView


class Told(NamedTuple):
    """The bound, and how many endings of hit patterns were looked at for it."""

    value: float
    walked: int


class Walked(NamedTuple):
    """Scratch and stack of the walk over hit patterns, a row for each number of hits."""

    value: NDArray[np.float64]  # (s + 1, K)
    before: NDArray[np.float64]  # (s + 1, K)
    top: NDArray[np.float64]  # (K,)
    reached: NDArray[np.float64]  # (T + 2, N, s + 1), what follows each node, as it is worth to it
    moments: NDArray[np.float64]  # (T + 2, order + 1), of the segments behind the node
    at: NDArray[np.int64]  # (T + 2,)
    following: NDArray[np.int64]  # (T + 2,)


@jit
def _new_walk(steps: int, places: int, nodes: int, mistakes: int, order: int) -> Walked:
    return Walked(
        np.empty((mistakes + 1, places)),
        np.empty((mistakes + 1, places)),
        np.empty(places),
        np.zeros((steps + 2, nodes, mistakes + 1)),
        np.zeros((steps + 2, order + 1)),
        np.zeros(steps + 2, np.int64),
        np.zeros(steps + 2, np.int64),
    )


@jit
def _add_column(
    rows: NDArray[np.int32],
    column: NDArray[np.float64],
    low: float,
    gain: float,
    total: NDArray[np.float64],
    top: NDArray[np.float64],
) -> None:
    """What a wrong guess leaves, added up; what the right one gains, at its largest."""
    if column.size == total.size:
        for x in range(column.size):
            total[x] += column[x] * low
            top[x] = max(top[x], column[x] * gain)
    else:
        for j in range(column.size):
            total[rows[j]] += column[j] * low
            top[rows[j]] = max(top[rows[j]], column[j] * gain)


@jit
def _guess_and_be_told(chain: ChainView, slot: int, walk: Walked) -> None:
    """``walk.before`` from ``walk.value``: one guess, one answer."""
    for m in range(walk.value.shape[0]):
        before = walk.before[m]
        before[:] = 0.0
        walk.top[:] = 0.0
        for y in range(before.size):
            low = walk.value[m - 1, y] if m > 0 else 0.0
            if walk.value[m, y] > 0.0:
                entries = slice(chain.column_start[slot, y], chain.column_start[slot, y + 1])
                gain = max(0.0, walk.value[m, y] - low)
                _add_column(chain.row[entries], chain.value[entries], low, gain, before, walk.top)
        for x in range(before.size):
            before[x] += walk.top[x]


@jit
def _first_guess(start: NDArray[np.float64], value: NDArray[np.float64]) -> float:
    """The guess of the first step, before which nothing was told."""
    last = value.shape[0] - 1
    total = 0.0
    top = 0.0
    for x in range(start.size):
        low = value[last - 1, x] if last > 0 else 0.0
        total += start[x] * low
        top = max(top, start[x] * (value[last, x] - low))
    return total + top


@jit
def _back_from(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    weight: NDArray[np.float64],
    nodes: Nodes,
    b: int,
    suffix: NDArray[np.float64],
    walk: Walked,
    reached: NDArray[np.float64],
) -> float:
    """Guess backwards from node ``b``, after which ``suffix[m]`` is won with ``m`` mistakes left.

    ``reached[a]`` becomes the same for every earlier node ``a`` with no hit between; the result is for
    no hit before ``b`` at all.
    """
    steps = weight.shape[0]
    a = b - 1
    t = min(nodes.time[b], steps - 1)
    if nodes.time[b] == steps:
        walk.before[:] = 1.0
    else:
        walk.value[:] = 0.0
        walk.value[:, nodes.place[b]] = suffix
    while True:
        if nodes.time[b] == steps or t < nodes.time[b]:
            while a > 0 and nodes.time[a] > t:
                a -= 1
            while a > 0 and nodes.time[a] == t:
                reached[a] = walk.before[:, nodes.place[a]]
                a -= 1
            for m in range(walk.value.shape[0]):
                for x in range(start.size):
                    walk.value[m, x] = walk.before[m, x] * weight[t, x]
        if t == 0:
            return _first_guess(start, walk.value)
        t -= 1
        _guess_and_be_told(chain, (first_slot + t) % chain.start.shape[0], walk)


@jit
def _smaller_bound(
    told: float, moments: NDArray[np.float64], segment: NDArray[np.float64], left_to_guess: int
) -> float:
    """The smaller of what the told adversary wins and the moment bound of the same complete pattern."""
    whole = np.zeros(moments.size)
    multiply_into(whole, moments, segment)
    return min(told, success_bound(whole, left_to_guess))


@jit
def feedback_by_pattern(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    weight: NDArray[np.float64],
    nodes: Nodes,
    marginal: NDArray[np.float64],
    polynomials: NDArray[np.float64],
    mistakes: int,
    share: float,
    least: float,
    most: int,
) -> Told:
    """Sum over hit patterns of the smaller of the told adversary's success and the moment bound.

    ``weight`` (T, K) and ``polynomials`` (N, N, order + 1) as in
    :mod:`accounting.bounds.patterns.segments_kernel`, ``marginal`` (T, K) is ``Pr[X_t = x]``. Patterns that
    end in hits with which at most ``least``, or ``share`` of what the pattern without hits gives, can be won
    are charged with all of that, and so is everything left once ``most`` endings have been walked.
    """
    steps, places = weight.shape
    count = nodes.time.size
    walk = _new_walk(steps, places, count, mistakes, polynomials.shape[2] - 1)
    suffix = np.ones(mistakes + 1)
    walk.at[0], walk.following[0], walk.moments[0, 0] = count - 1, count - 2, 1.0
    told = _back_from(chain, start, first_slot, weight, nodes, count - 1, suffix, walk, walk.reached[0])
    total = _smaller_bound(told, walk.moments[0], polynomials[count - 1, 0], steps - mistakes)
    least = max(least, share * total)
    depth = 0
    walked = 1
    while depth >= 0:
        b, a = walk.at[depth], walk.following[depth]
        walk.following[depth] -= 1
        if a <= 0:
            depth -= 1
            continue
        if nodes.time[a] >= nodes.time[b]:
            continue
        suffix = walk.reached[depth, a]
        won = marginal[nodes.time[a], nodes.place[a]] * suffix[mistakes]
        if won <= least or walked >= most:
            total += won
            continue
        moments = walk.moments[depth + 1]
        moments[:] = 0.0
        multiply_into(moments, walk.moments[depth], polynomials[b, a])
        walked += 1
        depth += 1
        walk.at[depth], walk.following[depth] = a, a - 1
        told = _back_from(chain, start, first_slot, weight, nodes, a, suffix, walk, walk.reached[depth])
        total += _smaller_bound(told, moments, polynomials[a, 0], steps - mistakes - depth)
    return Told(min(1.0, total), walked)
