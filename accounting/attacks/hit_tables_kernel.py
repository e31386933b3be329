"""What lies between two hits: best path, total probability, and what an attack guesses there.

Only "was at an active sensor" is observed, so a trace is decided hit by hit. A *node* is the start, a
possible hit (time and place), or the end (:class:`accounting.bounds.patterns.segments_kernel.Nodes`). Between
consecutive nodes the chain avoids every possible hit, whatever the releases turn out to be: the tables depend
on prior and schedule alone, and both attacks' guesses between two certain hits depend on these two alone.

For example three steps with a sensor at place 1 in step 0 and at places 0 and 1 in step 2::

    node        0 (start)   1          2          3          4 (end)
    time, place -1, -       0, 1       2, 0       2, 1       3, -
    1 -> 3      at 1 in step 0, anywhere in step 1, at 1 in step 2
    0 -> 2      not at 1 in step 0, anywhere in step 1, at 0 in step 2
    0 -> 4      impossible: in step 2 every place is counted
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.segments_kernel import Nodes, find_nodes
from accounting.hmm.forward_viterbi import (
    Recursion,
    best_predecessor,
    is_full,
    new_recursion,
    predict_full,
    predict_sparse,
)
from accounting.hmm.log_space import log_of
from accounting.hmm.propagation import retreat
from models.numerics.arrays import Flags, Floats, Integers32
from models.numerics.jit import jit
from models.priors.chain import LocalChain, slot_of


class HitTables(NamedTuple):
    """Tables over ``n`` nodes, ``T`` steps and ``K`` places; natural logarithms, -inf for never.

    ``log_best[b, a]`` is the best path from node ``a`` to node ``b`` without a hit between, ``log_sum[b,
    a]`` the sum over such paths. ``forward[a, t, x]`` is ``Pr[X_t = x, no hit from after a up to t | a]``
    and ``backward[b, t, x]`` is ``Pr[b is the next hit after t | X_t = x]``, both relative to ``e^`` their
    scale (n, T).
    """

    nodes: Nodes
    node_of: Integers32  # (T, K), -1 where no hit is possible
    log_best: Floats  # (n, n)
    log_sum: Floats  # (n, n)
    best_path: Integers32  # (n, n, T): [a, b, t], defined between the two times
    forward: Floats  # (n, T, K)
    forward_scale: Floats  # (n, T)
    backward: Floats  # (n, T, K)
    backward_scale: Floats  # (n, T)


@jit
def _mask(node_of: Integers32, step: int, work: Recursion) -> tuple[float, float]:
    """Drop the possible hits of ``step`` from what was predicted; the rest's sum and maximum."""
    total = 0.0
    best = 0.0
    for x in range(node_of.shape[1]):
        if node_of[step, x] >= 0:
            work.next_belief[x] = 0.0
            work.next_score[x] = 0.0
        total += work.next_belief[x]
        best = max(best, work.next_score[x])
    return total, best


@jit
def _keep(tables: HitTables, a: int, step: int, total: float, best: float, work: Recursion) -> None:
    """Rescale what was predicted into belief, score and the forward table."""
    for x in range(tables.forward.shape[2]):
        work.belief[x] = work.next_belief[x] / total
        work.scores[step, x] = work.next_score[x] / best
        tables.forward[a, step, x] = work.belief[x]


@jit
def _reach(tables: HitTables, a: int, step: int, log_sum: float, log_best: float, work: Recursion) -> None:
    """Note with what probability and by what best path node ``a`` leads to the nodes of ``step``."""
    for x in range(tables.node_of.shape[1]):
        b = tables.node_of[step, x]
        if b >= 0:
            tables.log_sum[b, a] = log_sum + log_of(work.next_belief[x])
            tables.log_best[b, a] = log_best + log_of(work.next_score[x])


@jit
def _from_node(person: LocalChain, a: int, work: Recursion, tables: HitTables) -> None:
    """Both recursions from node ``a`` on; ``work.scores`` then holds its scores for tracing back."""
    chain = person.chain
    steps, places = tables.node_of.shape
    end = tables.nodes.time.size - 1
    begin = tables.nodes.time[a]
    log_sum = log_best = 0.0
    if begin >= 0:
        work.belief[:places] = 0.0
        work.belief[tables.nodes.place[a]] = 1.0
        work.scores[begin, :places] = work.belief[:places]
    full = is_full(chain)
    for step in range(begin + 1, steps):
        slot = slot_of(person, step - 1)
        if step == 0:
            work.next_belief[:places] = person.start
            work.next_score[:places] = person.start
        elif full:
            predict_full(chain, slot, work, step - 1)
        else:
            predict_sparse(chain, slot, work, step - 1)
        _reach(tables, a, step, log_sum, log_best, work)
        total, best = _mask(tables.node_of, step, work)
        if total == 0.0 or best == 0.0:
            return
        log_sum += np.log(total)
        log_best += np.log(best)
        _keep(tables, a, step, total, best, work)
        tables.forward_scale[a, step] = log_sum
    tables.log_sum[end, a] = log_sum
    tables.log_best[end, a] = log_best


@jit
def _paths_from(person: LocalChain, a: int, work: Recursion, tables: HitTables) -> None:
    """The best path from node ``a`` to every later node, traced back through ``a``'s scores."""
    last_node = tables.nodes.time.size - 1
    places = tables.node_of.shape[1]
    for b in range(a + 1, last_node + 1):
        if tables.log_best[b, a] == -np.inf:
            continue
        step = tables.nodes.time[b] - 1
        path = tables.best_path[a, b]
        if step <= tables.nodes.time[a]:
            continue
        if b == last_node:
            path[step] = np.argmax(work.scores[step, :places])
        else:
            slot = slot_of(person, step)
            path[step] = best_predecessor(person.chain, slot, work.scores, step, tables.nodes.place[b])
        while step - 1 > tables.nodes.time[a]:
            step -= 1
            slot = slot_of(person, step)
            path[step] = best_predecessor(person.chain, slot, work.scores, step, path[step + 1])


@jit
def _back_from(person: LocalChain, b: int, tables: HitTables) -> None:
    """``backward[b]``: pull node ``b`` back through every earlier step."""
    places = tables.node_of.shape[1]
    step = tables.nodes.time[b] - 1
    scale = 0.0
    after = np.ones(places)
    before = np.ones(places)
    if tables.nodes.place[b] >= 0:
        after[:] = 0.0
        after[tables.nodes.place[b]] = 1.0
    at_end = tables.nodes.place[b] < 0
    while step >= 0:
        if not at_end:
            retreat(person.chain, slot_of(person, step), after, before)
        at_end = False
        top = before.max()
        if top == 0.0:
            return
        scale += np.log(top)
        for x in range(places):
            before[x] /= top
            tables.backward[b, step, x] = before[x]
            after[x] = 0.0 if tables.node_of[step, x] >= 0 else before[x]
        tables.backward_scale[b, step] = scale
        step -= 1


@jit
def hit_tables(person: LocalChain, hits: Flags) -> HitTables:
    """All tables of one person and schedule; ``hits`` (T, K) says where a hit is possible."""
    steps, places = hits.shape
    nodes = find_nodes(hits)
    count = nodes.time.size
    node_of = np.full((steps, places), -1, np.int32)
    for node in range(1, count - 1):
        node_of[nodes.time[node], nodes.place[node]] = node
    tables = HitTables(
        nodes,
        node_of,
        np.full((count, count), -np.inf),
        np.full((count, count), -np.inf),
        np.zeros((count, count, steps), np.int32),
        np.zeros((count, steps, places)),
        np.full((count, steps), -np.inf),
        np.zeros((count, steps, places)),
        np.full((count, steps), -np.inf),
    )
    work = new_recursion(steps, places)
    for a in range(count - 1):
        _from_node(person, a, work, tables)
        _paths_from(person, a, work, tables)
    for b in range(1, count):
        _back_from(person, b, tables)
    return tables


@jit
def likeliest_between(tables: HitTables) -> Integers32:
    """What posterior marginals guess between two certain hits, ``[a, b, t]``; ties at the lowest index."""
    count, steps, places = tables.forward.shape
    guess = np.zeros((count, count, steps), np.int32)
    for a in range(count - 1):
        for b in range(a + 1, count):
            if tables.log_sum[b, a] == -np.inf:
                continue
            for step in range(tables.nodes.time[a] + 1, tables.nodes.time[b]):
                best = -1.0
                for x in range(places):
                    weight = tables.forward[a, step, x] * tables.backward[b, step, x]
                    if weight > best:
                        best = weight
                        guess[a, b, step] = x
    return guess
