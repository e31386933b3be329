"""The best an adversary can do to whom a genie shows, after each guess, where the person was.

That adversary knows more than one without a genie, so their success bounds everybody's; and their best
guesses need no search: after step ``t`` only the place and the number of mistakes left matter. With evidence
``w`` of the hit pattern and ``V(m, y) = w(t + 1, y) W(t + 1, m, y)``, ``m`` mistakes left,

    W(t, m, x) = sum_y P(x, y) V(m - 1, y) + max_y P(x, y) (V(m, y) - V(m - 1, y)).

A hit reveals the place, so what follows a hit depends on the hit alone: patterns are walked from their last
hit backwards, and one pass serves all patterns that end alike. At ``s = 0`` this is the optimum itself, and
it stays close while mistakes are few; the moment bound is the better one where they are many. Beyond Koga
et al.

For example a person who moves between two places as a coin falls, two steps, nothing seen, one mistake
allowed: after the last guess all is won, V(0, .) = V(1, .) = 1; for step 2 W(0, .) = 1/2 (one of two places
is right) and W(1, .) = 1; for step 1 a right guess leaves one mistake and a wrong one none, so that
1/2 * 1 + 1/2 * 1/2 = 3/4 is won. It is the optimum here: only two wrong guesses lose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment_kernel import multiply_into, success_bound
from accounting.bounds.patterns.pattern_walk_kernel import enter, next_node, walk_backwards
from accounting.bounds.patterns.segments_kernel import Nodes
from accounting.hmm.frontier.completion_kernel import (
    Completions,
    guess_and_be_shown,
    new_completions,
)
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from models.numerics.jit import bare_jit, jit


class GenieAided(NamedTuple):
    """The bound, and how many endings of hit patterns were looked at for it."""

    value: float
    walked: int


class Unseen(NamedTuple):
    """What is known of a raw horizon before anything is seen, see ``segments_kernel``."""

    weight: NDArray[np.float64]  # (T, K), 0 where a hit would be seen
    nodes: Nodes
    polynomials: NDArray[np.float64]  # (N, N, order + 1), of the segments
    marginal: NDArray[np.float64]  # (T, K), Pr[X_t = x]


class Charged(NamedTuple):
    """Endings of patterns that are charged with all that can be won with them, not walked.

    Those with which at most ``least``, or ``share`` of what the pattern without hits gives, can be won, and
    everything once ``most`` have been walked.
    """

    share: float
    least: float
    most: int


@bare_jit
def _first_guess(start: NDArray[np.float64], value: NDArray[np.float64]) -> float:
    """The guess of the first step, before which nothing was shown."""
    last = value.shape[0] - 1
    total = 0.0
    top = 0.0
    for x in range(start.size):
        low = value[last - 1, x] if last > 0 else 0.0
        total += start[x] * low
        top = max(top, start[x] * (value[last, x] - low))
    return total + top


@bare_jit
def _back_from(
    person: LocalChain,
    unseen: Unseen,
    b: int,
    suffix: NDArray[np.float64],
    work: Completions,
    reached: NDArray[np.float64],
) -> float:
    """Guess backwards from node ``b``, after which ``suffix[m]`` is won with ``m`` mistakes left.

    ``reached[a]`` becomes the same for every earlier node ``a`` with no hit between; the result is for
    no hit before ``b`` at all.
    """
    nodes, weight = unseen.nodes, unseen.weight
    steps = weight.shape[0]
    a = b - 1
    t = min(nodes.time[b], steps - 1)
    if nodes.time[b] == steps:
        work.before[:] = 1.0
    else:
        work.value[:] = 0.0
        for m in range(suffix.size):
            work.value[m, nodes.place[b]] = suffix[m]
    while True:
        if nodes.time[b] == steps or t < nodes.time[b]:
            while a > 0 and nodes.time[a] > t:
                a -= 1
            while a > 0 and nodes.time[a] == t:
                for m in range(suffix.size):
                    reached[a, m] = work.before[m, nodes.place[a]]
                a -= 1
            for m in range(work.value.shape[0]):
                for x in range(person.start.size):
                    work.value[m, x] = work.before[m, x] * weight[t, x]
        if t == 0:
            return _first_guess(person.start, work.value)
        t -= 1
        guess_and_be_shown(person.chain, slot_of(person, t), work)


@jit
def _smaller_bound(
    aided: float, moments: NDArray[np.float64], segment: NDArray[np.float64], left_to_guess: int
) -> float:
    """The smaller of what is won with the genie and the moment bound of the same complete pattern."""
    whole = np.zeros(moments.size)
    multiply_into(whole, moments, segment)
    return min(aided, success_bound(whole, left_to_guess))


@jit
def genie_aided_by_pattern(person: LocalChain, unseen: Unseen, mistakes: int, charged: Charged) -> GenieAided:
    """Sum over hit patterns of the smaller of the genie-aided success and the moment bound."""
    nodes, polynomials = unseen.nodes, unseen.polynomials
    steps, places = unseen.weight.shape
    end = nodes.time.size - 1
    work = new_completions(mistakes, places)
    reached = np.zeros((steps + 2, end + 1, mistakes + 1))  # what follows each node, as it is worth to it
    moments = np.zeros((steps + 2, polynomials.shape[2]))  # of the segments behind the node
    moments[0, 0] = 1.0
    aided = _back_from(person, unseen, end, np.ones(mistakes + 1), work, reached[0])
    total = _smaller_bound(aided, moments[0], polynomials[end, 0], steps - mistakes)
    least = max(charged.least, charged.share * total)
    walked = 1
    walk = walk_backwards(nodes.time, steps + 2)
    depth, a = next_node(walk, 0)
    while a >= 0:
        suffix = reached[depth, a]
        won = unseen.marginal[nodes.time[a], nodes.place[a]] * suffix[mistakes]
        if won <= least or walked >= charged.most:
            total += won
        else:
            b = walk.at[depth]
            depth = enter(walk, depth, a)
            moments[depth] = 0.0
            multiply_into(moments[depth], moments[depth - 1], polynomials[b, a])
            walked += 1
            aided = _back_from(person, unseen, a, suffix, work, reached[depth])
            total += _smaller_bound(aided, moments[depth], polynomials[a, 0], steps - mistakes - depth)
        depth, a = next_node(walk, depth)
    return GenieAided(min(1.0, total), walked)
