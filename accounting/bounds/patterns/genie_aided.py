"""The genie-aided bound: the success of an adversary who is shown the true place after each guess."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment import (
    MOST_ENTRIES,
    MOST_OPERATIONS,
    hit_moments,
    multiply_into,
    success_bound,
)
from accounting.bounds.patterns.raw_success_kernel import RawQuestion, SeenRaw
from accounting.bounds.patterns.segments_kernel import (
    Nodes,
    enter,
    find_nodes,
    next_node,
    no_hit_weight,
    walk_backwards,
)
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from accounting.hmm.frontier.search_kernel import (
    Completions,
    guess_and_be_shown,
    new_completions,
)
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, slot_of

# The best success of an adversary who is shown the place after each guess: the recursion of
# :func:`accounting.hmm.frontier.search_kernel.guess_and_be_shown` with the evidence of a hit pattern.
#
# That adversary knows more than one without a genie, so the bound holds for everybody. A hit reveals the
# place, so what follows a hit depends on the hit alone: patterns are walked from their last hit backwards,
# and one pass serves all patterns that end alike. At ``s = 0`` this is the optimum itself, and it stays
# close while mistakes are few; the moment bound is the better one where they are many. Beyond Koga et al.
#
# For example a person who is at one of two places with probability 1/2 each, two steps, nothing seen, one
# mistake allowed: after the last guess all is won, W(0) = W(1) = 1; before step 2 W(0) = 1/2 (one of two
# places is right) and W(1) = 1; before step 1 a right guess leaves one mistake and a wrong one none, so that
# 1/2 * 1 + 1/2 * 1/2 = 3/4 is won. It is the optimum here: only two wrong guesses lose.


class GenieAided(NamedTuple):
    """The bound, and how many endings of hit patterns were looked at for it."""

    value: float
    walked: int


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
    weight: NDArray[np.float64],
    nodes: Nodes,
    b: int,
    suffix: NDArray[np.float64],
    work: Completions,
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
def genie_aided_by_pattern(
    person: LocalChain,
    weight: NDArray[np.float64],
    nodes: Nodes,
    polynomials: NDArray[np.float64],
    marginal: NDArray[np.float64],
    mistakes: int,
    share: float,
    least: float,
    most: int,
) -> GenieAided:
    """Sum over hit patterns of the smaller of the genie-aided success and the moment bound.

    ``weight`` (T, K) is 0 where a hit would be seen, ``polynomials`` (N, N, order + 1) are those of the
    segments between ``nodes``. Endings of patterns with which at most ``least``, or ``share`` of what the
    pattern without hits gives, can be won are charged with all of it and not walked; so is everything once
    ``most`` have been walked.
    """
    steps, places = weight.shape
    end = nodes.time.size - 1
    work = new_completions(mistakes, places)
    reached = np.zeros((steps + 2, end + 1, mistakes + 1))  # what follows each node, as it is worth to it
    moments = np.zeros((steps + 2, polynomials.shape[2]))  # of the segments behind the node
    moments[0, 0] = 1.0
    aided = _back_from(person, weight, nodes, end, np.ones(mistakes + 1), work, reached[0])
    total = _smaller_bound(aided, moments[0], polynomials[end, 0], steps - mistakes)
    least = max(least, share * total)
    walked = 1
    walk = walk_backwards(nodes.time, steps + 2)
    depth, a = next_node(walk, 0)
    while a >= 0:
        suffix = reached[depth, a]
        won = marginal[nodes.time[a], nodes.place[a]] * suffix[mistakes]
        if won <= least or walked >= most:
            total += won
        else:
            b = walk.at[depth]
            depth = enter(walk, depth, a)
            moments[depth] = 0.0
            multiply_into(moments[depth], moments[depth - 1], polynomials[b, a])
            walked += 1
            aided = _back_from(person, weight, nodes, a, suffix, work, reached[depth])
            total += _smaller_bound(aided, moments[depth], polynomials[a, 0], steps - mistakes - depth)
        depth, a = next_node(walk, depth)
    return GenieAided(min(1.0, total), walked)


_SHARE = 0.01  # patterns charged without being looked at may make the bound this much larger

_SHARES = tuple(10.0**-k for k in range(1, 9))  # of what no hit gives: where patterns are too many for all

_SHARE_IN_KERNEL = 1e-5  # of what the likeliest pattern gives: lighter ones are charged, not walked

_ALL = 1 << 62

_ROUNDING = 1e-12  # the genie-aided success is the optimum itself where no mistake is allowed


def genie_aided_bound(question: Question) -> float | None:
    """Success of any adversary of the raw schedule, hence of the noised one; None where too expensive.

    Per hit pattern the smaller of the genie-aided success and the moment bound, where there is one. At
    ``s = 0`` the optimum. Where there are more patterns than ``effort.patterns``, or than are affordable,
    those that are likeliest to be won are walked and the others counted as won.
    """
    exposure, mistakes = question.exposure, question.mistakes
    affordable = _affordable_patterns(exposure, mistakes, question.effort)
    if affordable == 0:
        return None
    weight, nodes = no_hit_weight(exposure.hits), find_nodes(exposure.hits)
    moments = question.once(hit_moments)
    size = nodes.time.size
    polynomials = np.full((size, size, 1), np.inf) if moments is None else moments.polynomials  # no bound
    shares = (_SHARE / exposure.pattern_count,) if exposure.pattern_count <= affordable else _SHARES
    best = 1.0
    for share in shares:
        aided = genie_aided_by_pattern(
            exposure.person, weight, nodes, polynomials, exposure.marginal, mistakes, share, 0.0, affordable
        )
        best = min(best, float(aided.value))
        if aided.walked >= affordable:
            break
    return min(1.0, best * (1.0 + _ROUNDING))


def _affordable_patterns(exposure: Exposure, mistakes: int, effort: Effort) -> int:
    """How many patterns memory and multiplications suffice for, up to the effort; 0 for none.

    Where all patterns are walked one more costs about a step, otherwise up to the whole horizon.
    """
    stack = (exposure.steps + 2) * (exposure.hits.sum() + 2) * (mistakes + 1)
    if stack > MOST_ENTRIES:
        return 0
    entries = exposure.chain.value.size / exposure.chain.start.shape[0]
    moves = MOST_OPERATIONS / (2.0 * (mistakes + 1) * entries)
    if exposure.pattern_count + exposure.steps <= moves and exposure.pattern_count <= effort.patterns:
        return int(exposure.pattern_count)
    return min(effort.patterns, int(moves / exposure.steps))


@inline
def genie_aided_kernel(seen: SeenRaw, question: RawQuestion) -> float:
    """Only together with the moment bound, whose polynomials it reads."""
    if not question.has_genie or question.order == 0 or question.mistakes == 0:
        return 1.0
    aided = genie_aided_by_pattern(
        seen.person,
        seen.weight,
        seen.nodes,
        seen.polynomials,
        seen.marginal,
        question.mistakes,
        _SHARE_IN_KERNEL,
        question.least_pattern,
        _ALL,
    )
    return float(aided.value * (1.0 + _ROUNDING))


GENIE_AIDED = Bound(
    "genie_aided",
    idea="below",
    scope=Scope.RAW,
    cost="hit patterns times mistakes times nnz",
    compute=genie_aided_bound,
    kernel=genie_aided_kernel,
)
