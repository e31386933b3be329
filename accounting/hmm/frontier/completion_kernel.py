"""What is left to win with a genie's help: the completion that a guess given up is charged.

A genie shows, after each guess, where the person was. Whoever has one knows more than whoever has none, so
their success bounds everybody's; and their best guesses need no search: after step ``t`` only the place and
the number of mistakes left matter. With evidence ``w`` and ``V(m, y) = w(t + 1, y) W(t + 1, m, y)``,

    W(t, m, x) = sum_y P(x, y) V(m - 1, y) + max_y P(x, y) (V(m, y) - V(m - 1, y)).

For example two steps left, each spent at place 0 with probability 2/3 and else at 1, no evidence. Behind the
last one ``W = 1``. With one left to guess, ``W(0) = 2/3`` without a mistake and ``W(1) = 1`` with one. With
both left, ``W(0) = 2/3 * 2/3`` and ``W(1) = 2/3 + 2/3 * (1 - 2/3)``: a wrong guess leaves 2/3, a right 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.eight import padded
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import ChainView

_1 = np.uint64(1)


class Completions(NamedTuple):
    """``W(t, m, x)``, a row for each number of mistakes left."""

    value: NDArray[np.float64]  # (s + 1, K)
    before: NDArray[np.float64]  # (s + 1, K), a step earlier
    top: NDArray[np.float64]  # (K,)


@jit
def new_completions(mistakes: int, places: int) -> Completions:
    """Empty arrays for one recursion."""
    return Completions(np.empty((mistakes + 1, places)), np.empty((mistakes + 1, places)), np.empty(places))


@bare_jit
def guess_and_be_shown(chain: ChainView, slot: int, walk: Completions) -> None:
    """``walk.before`` from ``walk.value``: one guess, one answer of the genie.

    Of each place what a wrong guess leaves is added up, and what the right one gains is taken at its largest.
    """
    size, column = np.uint64(walk.top.size), chain.column_start[slot]
    for m in range(walk.value.shape[0]):
        walk.before[m] = 0.0
        walk.top[:] = 0.0
        for y in range(size):
            low = walk.value[m - 1, y] if m > 0 else 0.0
            if walk.value[m, y] > 0.0:
                gain = max(0.0, walk.value[m, y] - low)
                first, last = np.uint64(column[y]), np.uint64(column[y + _1])
                if last - first == size:
                    for x in range(size):
                        walk.before[m, x] += chain.value[first + x] * low
                        walk.top[x] = max(walk.top[x], chain.value[first + x] * gain)
                else:
                    for j in range(first, last):
                        z = np.uint64(chain.row[j])
                        walk.before[m, z] += chain.value[j] * low
                        walk.top[z] = max(walk.top[z], chain.value[j] * gain)
        for x in range(size):
            walk.before[m, x] += walk.top[x]


@inline
def gains_of(won: NDArray[np.float64], gains: NDArray[np.float64]) -> None:
    """What each mistake adds to ``won`` (s + 1, K), the ``W`` of one step; ``gains`` is :func:`padded`."""
    for m in range(won.shape[0]):
        for x in range(won.shape[1]):
            less = won[m - 1, x] if m > 0 else 0.0
            gains[m, x] = max(0.0, won[m, x] - less)
        for x in range(won.shape[1], gains.shape[1]):
            gains[m, x] = 0.0


@jit
def new_gains(steps: int, mistakes: int, places: int) -> NDArray[np.float64]:
    """Empty gains of so many steps, (T, s + 1, W): K in whole eights."""
    return np.empty((steps, mistakes + 1, padded(places)))


@bare_jit
def completion_gains(
    person: LocalChain,
    weight: NDArray[np.float64],
    last: int,
    won: NDArray[np.float64],
    walk: Completions,
    gains: NDArray[np.float64],
) -> None:
    """Fill ``gains[t, m, x]`` for ``t <= last``: what one more mistake allowed adds to ``W(t, m, x)``.

    ``gains`` is made by :func:`new_gains`; ``won[x]`` is won after step ``last`` at place ``x``; ``weight``
    (T, K) is the evidence of each step.
    """
    value, before = walk.value, walk.before
    chain, first_slot, slots = person.chain, person.first_slot, person.chain.start.shape[0]
    for m in range(before.shape[0]):
        for x in range(won.size):
            before[m, x] = won[x]
    for t in range(last, -1, -1):
        gains_of(before, gains[t])
        for m in range(before.shape[0]):
            for x in range(won.size):
                value[m, x] = before[m, x] * weight[t, x]
        if t > 0:
            guess_and_be_shown(chain, (first_slot + t - 1) % slots, walk)
