"""Exact law of an attack on raw counts: how often it is within ``s`` mistakes, without sampling.

Between two hits the attack's guess depends on those two hits alone, so the number of its mistakes there is
independent of the rest given them. A recursion over hits convolves the segments' laws. Beyond Koga et al.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.attacks.hit_tables_kernel import HitTables
from accounting.bounds.patterns.moment import multiply_into
from accounting.bounds.patterns.segments_kernel import Nodes, enter, next_node, walk_onwards
from accounting.hmm.propagation import count_mistakes, predict
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import jit
from models.priors.chain import LocalChain, slot_of


@jit
def law_work(tables: HitTables, entries: int, mistakes: int) -> float:
    """Multiplications :func:`segment_laws` needs, for a matrix of ``entries`` stored entries per slot."""
    total = 0.0
    count = tables.nodes.time.size
    for a in range(count - 1):
        for b in range(a + 1, count):
            if tables.log_sum[b, a] > -np.inf:
                for gap in range(1, tables.nodes.time[b] - tables.nodes.time[a]):
                    total += min(gap, mistakes + 1)
    return total * entries


@jit
def _segment_law(
    person: LocalChain,
    tables: HitTables,
    a: int,
    b: int,
    guess: Integers32,
    now: Floats,
    after: Floats,
    law: Floats,
) -> None:
    """The ``law`` (s + 1,) of :func:`segment_laws` from ``a`` to ``b``; ``guess`` (T,) is the attack's there.

    ``now`` and ``after`` (s + 1, K) are scratch: the probability of being at ``x`` with ``j`` mistakes.
    """
    begin, finish, place = tables.nodes.time[a], tables.nodes.time[b], tables.nodes.place[b]
    steps, places = tables.node_of.shape
    now[:] = 0.0
    if begin >= 0:
        now[0, tables.nodes.place[a]] = 1.0
    rows = 0  # no row above has anything in it yet
    for step in range(begin + 1, finish + 1):
        if step == 0:
            now[0] = person.start
        elif step < steps:
            for j in range(rows + 1):
                predict(person.chain, slot_of(person, step - 1), now[j], after[j])
                now[j] = after[j]
        if step < finish:
            for j in range(rows + 1):
                for x in range(places):
                    if tables.node_of[step, x] >= 0:
                        now[j, x] = 0.0
            rows = min(rows + 1, now.shape[0] - 1)
            count_mistakes(now, guess[step], rows)
    for j in range(now.shape[0]):
        law[j] = now[j].sum() if place < 0 else now[j, place]


@jit
def segment_laws(person: LocalChain, tables: HitTables, guess: Integers32, mistakes: int) -> Floats:
    """``[b, a, j] = Pr[b is the next hit after a, with j mistakes between | a]``, (n, n, s + 1).

    ``guess[a, b, t]`` is the attack's guess between the two hits. For example a person who moves between two
    places as a coin falls, a sensor at place 1 in steps 0 and 2, and ``s = 1``: nodes are the start, (0, 1),
    (2, 1) and the end. From (0, 1) the next hit is (2, 1) or none, each with probability 1/2, and step 1
    between is guessed wrong by half of them: ``laws[2, 1] = laws[3, 1] = [1/4, 1/4]`` where step 2, if it is
    guessed to be place 0, adds no mistake.
    """
    count = tables.nodes.time.size
    laws = np.zeros((count, count, mistakes + 1))
    places = tables.node_of.shape[1]
    now, after = np.empty((mistakes + 1, places)), np.empty((mistakes + 1, places))
    for a in range(count - 1):
        for b in range(a + 1, count):
            if tables.log_sum[b, a] > -np.inf:
                _segment_law(person, tables, a, b, guess[a, b], now, after, laws[b, a])
    return laws


@jit
def attack_law(laws: Floats) -> Floats:
    """``Pr[exactly j mistakes]``, ``j = 0..s``, of the attack with these laws between hits."""
    count, _, width = laws.shape
    reached = np.zeros((count, width))
    reached[0, 0] = 1.0
    for b in range(1, count):
        for a in range(b):
            multiply_into(reached[b], reached[a], laws[b, a])
    return reached[count - 1]


class WonByPattern(NamedTuple):
    """The hit patterns of a horizon, and what is won in each."""

    success: Floats  # (P,), together with the pattern's probability
    pattern: Integers  # (P, T + 2), nodes from the start to the end; -1 behind it


@jit
def won_by_better(first: Floats, second: Floats, nodes: Nodes, steps: int, patterns: int) -> WonByPattern:
    """What is won by the likelier to succeed of two guesses, pattern by pattern; up to ``patterns`` of them.

    ``first`` and ``second`` (n, n, s + 1) are the laws of the two between hits. All patterns are walked.
    """
    end = nodes.time.size - 1
    laws = np.zeros((2, steps + 2, first.shape[2]))
    laws[:, 0, 0] = 1.0
    walk = walk_onwards(nodes.time, steps + 2)
    won = WonByPattern(np.zeros(patterns), np.full((patterns, steps + 2), -1))
    count = 0
    depth, b = next_node(walk, 0)
    while b >= 0:
        a = walk.at[depth]
        laws[:, depth + 1] = 0.0
        multiply_into(laws[0, depth + 1], laws[0, depth], first[b, a])
        multiply_into(laws[1, depth + 1], laws[1, depth], second[b, a])
        best = max(laws[0, depth + 1].sum(), laws[1, depth + 1].sum())
        if b == end:
            won.success[count] = best
            won.pattern[count, : depth + 1] = walk.at[: depth + 1]
            won.pattern[count, depth + 1] = b
            count += 1
        elif best > 0.0:
            depth = enter(walk, depth, b)
        depth, b = next_node(walk, depth)
    return WonByPattern(won.success[:count], won.pattern[:count])
