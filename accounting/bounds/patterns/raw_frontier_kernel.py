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
from accounting.hmm.frontier.search_kernel import Asked, Room, new_room, search
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.propagation import predict
from models.numerics.jit import jit

TOLERANCE = 1e-5
"""Slack of a segment, as it matters to the whole, below which its search ends."""

_ROUNDING = 1e-12  # sums of thousands of products, each rounded


class FrontierEffort(NamedTuple):
    """How hard the guesses of each segment are searched."""

    vectors: int  # looks for each step of the segment, at least 1
    tolerance: float  # a search ends once its slack matters less than this


class Targets(NamedTuple):
    """Where segments can end: at each hit, then at each end of the horizon."""

    time: NDArray[np.int64]  # (N,), T for an end
    place: NDArray[np.int64]  # (N,), -1 for an end
    gains: NDArray[np.float64]  # (N, T, s + 1, K), of what is won by coming there
    won: NDArray[np.float64]  # (N, s + 1), S behind it


@jit
def _targets(
    person: LocalChain, weight: NDArray[np.float64], nodes: Nodes, ends: NDArray[np.float64], mistakes: int
) -> Targets:
    """All of them, with nothing known of what is won behind the hits."""
    steps, places = weight.shape
    hits = nodes.time.size - 2
    size = hits + ends.shape[0]
    time, place = np.full(size, steps), np.full(size, -1)
    gains = np.empty((size, steps, mistakes + 1, places))
    walk = new_recursion(mistakes, places)
    won = np.empty(places)
    for b in range(size):
        if b < hits:
            time[b], place[b] = nodes.time[b + 1], nodes.place[b + 1]
            if time[b] > 0:
                _arrivals(person, time[b] - 1, place[b], won)
        else:
            won[:] = ends[b - hits]
        if time[b] > 0:
            completion_gains(person, weight, time[b] - 1, won, walk, gains[b])
    return Targets(time, place, gains, np.ones((size, mistakes + 1)))


@jit
def _arrivals(person: LocalChain, last: int, place: int, won: NDArray[np.float64]) -> None:
    """``won[x] = P[x, place]`` of the move after step ``last``."""
    chain, slot = person.chain, slot_of(person, last)
    won[:] = 0.0
    for j in range(chain.column_start[slot, place], chain.column_start[slot, place + 1]):
        won[chain.row[j]] = chain.value[j]


@jit
def _departures(person: LocalChain, time: int, place: int, law: NDArray[np.float64]) -> None:
    """``law[y] = P[place, y]`` of the move after step ``time``."""
    here = np.zeros(law.size)
    here[place] = 1.0
    predict(person.chain, slot_of(person, time), here, law)


@jit
def _segment(
    person: LocalChain,
    weight: NDArray[np.float64],
    law: NDArray[np.float64],
    steps: tuple[int, int],
    gains: NDArray[np.float64],
    asked: Asked,
    room: Room,
) -> float:
    """Bound on what the mass ``law`` wins in these steps and by coming to the target behind them."""
    first, last = steps
    if asked.mistakes > last - first:  # every guess will do
        bound = 0.0
        for x in range(law.size):
            ahead = law[x] * weight[first, x]
            for left in range(asked.mistakes):
                bound += ahead * gains[first, left, x]
        return bound
    if asked.mistakes == 0 and first == last:
        bound = 0.0
        for x in range(law.size):
            bound = max(bound, law[x] * weight[first, x] * gains[first, 0, x])
        return bound
    return search(person, weight, law, steps, gains, asked, room).bound


@jit
def _depart(
    person: LocalChain,
    targets: Targets,
    marginal: NDArray[np.float64],
    outside: Outside,
    source: int,
    law: NDArray[np.float64],
) -> tuple[int, float]:
    """The first step behind a source, and how likely the horizon comes there; its ``law`` is filled in.

    Sources are the hits, from the last to the first; then the places shown; then the laws of the outside.
    """
    hits = targets.time.size - outside.ends.shape[0]
    if source < hits:
        time, place = targets.time[hits - 1 - source], targets.place[hits - 1 - source]
        _departures(person, time, place, law)
        return time + 1, marginal[time, place]
    if source < hits + law.size:
        _departures(person, 0, source - hits, law)
        return 1, outside.shown[source - hits]
    law[:] = outside.laws[source - hits - law.size]
    return 0, 1.0


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
    steps, places = hits.shape
    weight = no_hit_weight(hits)
    targets = _targets(person, weight, find_nodes(hits), outside.ends, mistakes)
    time, place, gains, won = targets.time, targets.place, targets.gains, targets.won
    room = new_room(steps * effort.vectors, mistakes, places)
    hit_count = time.size - outside.ends.shape[0]
    law, found, success = np.empty(places), np.empty(mistakes + 1), np.empty(mistakes + 1)
    total = 0.0
    for source in range(hit_count + places + outside.laws.shape[0]):
        first, share = _depart(person, targets, marginal, outside, source, law)
        success[:] = 1.0 if first == steps else 0.0
        for b in range(time.size):
            if first == steps or share == 0.0 or time[b] < first:
                continue
            for m in range(mistakes, -1, -1):
                if time[b] == first:
                    found[m] = law[place[b]]
                else:
                    matters = share * won[b, mistakes - m]
                    slack = effort.tolerance / matters if matters > effort.tolerance else 1.0
                    asked = Asked(m, (time[b] - first) * effort.vectors, slack)
                    between = (first, time[b] - 1)
                    bound = _segment(person, weight, law, between, gains[b], asked, room)
                    found[m] = bound if m == mistakes else min(bound, found[m + 1])
            for m in range(mistakes + 1):
                for j in range(m + 1):
                    success[m] += (found[j] - (found[j - 1] if j > 0 else 0.0)) * won[b, m - j]
        if source < hit_count:
            won[hit_count - 1 - source] = success
        else:
            total += share * success[mistakes]
    return min(1.0, total * (1.0 + _ROUNDING))
