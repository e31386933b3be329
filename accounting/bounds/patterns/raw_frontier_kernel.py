"""The frontier bound of a raw horizon: every segment between two hits by its frontier search.

Between two consecutive hits ``a`` and ``b`` the posterior depends on these two alone. Let ``g_ab[m]`` bound
the mass, given ``a``, of no hit between, hit ``b`` next, and at most ``m`` wrong guesses between. Given the
pattern of hits the segments are independent, and no strategy has a total of mistakes that is stochastically
smaller than the sum of independent ones with distributions ``g_ab``; so with ``S_end[m] = 1``

    S_a[m] = sum_b sum_j (g_ab[j] - g_ab[j - 1]) S_b[m - j]

bounds the success after hit ``a`` when ``m`` mistakes are left. Polynomial, with nothing walked. Beyond Koga
et al.

What was released before and after the horizon enters exactly: a raw history leaves, for each last hit before
the horizon, a law of its first place (a source more), and a raw future, for each first hit after it, a
likelihood of its last place (an end more).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.outside_kernel import Outside
from accounting.bounds.patterns.segments_kernel import Nodes, find_nodes, no_hit_weight
from accounting.hmm.frontier.completion_kernel import completion_gains, new_recursion
from accounting.hmm.frontier.search_kernel import Asked, Room, new_room, room_for, search
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.propagation import predict
from models.numerics.jit import jit

_ROUNDING = 1e-12  # sums of thousands of products, each rounded


class FrontierEffort(NamedTuple):
    """How hard the guesses of each segment are searched."""

    vectors: int  # looks for each step of the segment, at least 1
    tolerance: float  # a search ends once its slack matters less than this


class Segments(NamedTuple):
    """All that one horizon's segments share."""

    person: LocalChain
    weight: NDArray[np.float64]  # (T, K), 0 where a hit would be seen
    nodes: Nodes
    gains: NDArray[np.float64]  # (targets, T, s + 1, K), of the hits, then of the ends
    won: NDArray[np.float64]  # (targets, s + 1), S behind each target
    outside: Outside
    room: Room


@jit
def _segments(
    person: LocalChain, hits: NDArray[np.bool_], mistakes: int, outside: Outside, vectors: int
) -> Segments:
    """Completions to every target; nothing searched yet."""
    steps, places = hits.shape
    nodes, weight = find_nodes(hits), no_hit_weight(hits)
    hit_count, ends = nodes.time.size - 2, outside.ends.shape[0]
    gains = np.empty((hit_count + ends, steps, mistakes + 1, places))
    walk = new_recursion(mistakes, places)
    won = np.empty(places)
    for b in range(hit_count):
        last = nodes.time[b + 1] - 1
        if last >= 0:
            _arrivals(person, last, nodes.place[b + 1], won)
            completion_gains(person, weight, last, won, walk, gains[b])
    for e in range(ends):
        completion_gains(person, weight, steps - 1, outside.ends[e], walk, gains[hit_count + e])
    behind = np.ones((hit_count + ends, mistakes + 1))
    return Segments(
        person, weight, nodes, gains, behind, outside, new_room(steps * vectors, mistakes, places)
    )


@jit
def _arrivals(person: LocalChain, last: int, place: int, won: NDArray[np.float64]) -> None:
    """``won[x] = P[x, place]`` of the move after step ``last``."""
    chain, slot = person.chain, slot_of(person, last)
    won[:] = 0.0
    for j in range(chain.column_start[slot, place], chain.column_start[slot, place + 1]):
        won[chain.row[j]] = chain.value[j]


@jit
def _segment(
    segments: Segments,
    law: NDArray[np.float64],
    steps: tuple[int, int],
    target: int,
    share: float,
    effort: FrontierEffort,
    found: NDArray[np.float64],
) -> None:
    """Fill ``found[m]`` with a bound on the mass that reaches ``target`` with at most ``m`` misses."""
    first, last = steps
    mistakes = found.size - 1
    gains = segments.gains[target]
    for m in range(mistakes, -1, -1):
        if m > last - first:  # every guess will do
            bound = 0.0
            for x in range(law.size):
                ahead = law[x] * segments.weight[first, x]
                for left in range(m):
                    bound += ahead * gains[first, left, x]
        else:
            matters = share * segments.won[target, mistakes - m]
            slack = effort.tolerance / matters if matters > effort.tolerance else 1.0
            asked = Asked(m, (last - first + 1) * effort.vectors, slack)
            room = room_for(segments.room, m)
            bound = search(segments.person, segments.weight, law, steps, gains, asked, room).bound
        found[m] = bound if m == mistakes else min(bound, found[m + 1])


@jit
def _success_from(
    segments: Segments,
    law: NDArray[np.float64],
    first: int,
    share: float,
    effort: FrontierEffort,
    success: NDArray[np.float64],
) -> None:
    """Add to ``success[m]`` what the mass ``law`` (K,) at step ``first`` wins with ``m`` mistakes.

    ``share`` is the probability with which the horizon comes to this law.
    """
    steps = segments.weight.shape[0]
    hit_count = segments.nodes.time.size - 2
    found = np.empty(success.size)
    for target in range(segments.gains.shape[0]):
        time = segments.nodes.time[target + 1] if target < hit_count else steps
        if time == first:
            found[:] = law[segments.nodes.place[target + 1]]
        elif time > first:
            _segment(segments, law, (first, time - 1), target, share, effort, found)
        else:
            continue
        for m in range(success.size):
            before = 0.0
            for j in range(m + 1):
                success[m] += (found[j] - before) * segments.won[target, m - j]
                before = found[j]


@jit
def _success_behind(
    segments: Segments,
    time: int,
    place: int,
    share: float,
    effort: FrontierEffort,
    success: NDArray[np.float64],
) -> None:
    """``success[m]``: what is won behind a known place at a known time with ``m`` mistakes left."""
    if time + 1 == segments.weight.shape[0]:
        success[:] = 1.0
        return
    here = np.zeros(segments.weight.shape[1])
    here[place] = 1.0
    law = np.empty(here.size)
    predict(segments.person.chain, slot_of(segments.person, time), here, law)
    success[:] = 0.0
    _success_from(segments, law, time + 1, share, effort, success)


@jit
def raw_frontier(
    person: LocalChain,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    mistakes: int,
    outside: Outside,
    effort: FrontierEffort,
) -> float:
    """Bound on the success of any adversary who sees the ``hits`` (T, K) of a raw schedule, and the outside.

    ``marginal`` (T, K) is ``Pr[X_t = x]``; of the person the chain and the first slot are read.
    """
    segments = _segments(person, hits, mistakes, outside, effort.vectors)
    nodes = segments.nodes
    for a in range(nodes.time.size - 2, 0, -1):
        time, place = nodes.time[a], nodes.place[a]
        _success_behind(segments, time, place, marginal[time, place], effort, segments.won[a - 1])
    total = np.zeros(mistakes + 1)
    shown = np.empty(mistakes + 1)
    for x in range(outside.shown.size):
        if outside.shown[x] > 0.0:
            _success_behind(segments, 0, x, outside.shown[x], effort, shown)
            total += outside.shown[x] * shown
    for r in range(outside.laws.shape[0]):
        _success_from(segments, outside.laws[r], 0, 1.0, effort, total)
    return min(1.0, total[mistakes] * (1.0 + _ROUNDING))
