"""Decoding noised releases on the graph of possible hits: O(n^2) a trace, whatever the number of places.

Relative to "counted nowhere", a step's observation multiplies a path by ``e^evidence`` of the hit it makes
there and by 1 if it makes none. So the best path is a best walk over nodes with the segments' best paths as
edges (Viterbi on the graph), and the posterior a sum over walks (forward-backward on it). Beyond Koga et al.
A step whose observation excludes "counted nowhere" (a raw hit) is *forced*: no edge may jump over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.attacks.hit_tables_kernel import HitTables
from models.numerics.arrays import Floats, Integers, Integers32
from models.numerics.jit import jit

SAFE_SWING = 300.0
"""Sums over walks stay within e^-600..e^300, far from the ends of the number range, below this (nats)."""


class WalkTables(NamedTuple):
    """The tables of sums, no longer logarithms, where ``is_safe``: no sum is below e^-SAFE_SWING."""

    is_safe: bool
    into: Floats  # (n, n): [b, a] sum over paths from a to b
    out_of: Floats  # (n, n): [a, b] the same
    forward: Floats  # (n, T, K)
    backward: Floats  # (n, T, K)


class GraphWork(NamedTuple):
    """Scratch for one trace: ``n`` nodes, ``T`` steps, ``K`` places."""

    evidence: Floats  # (n,) log-likelihood of the node's outcome against none
    gain: Floats  # (n,) e^evidence
    reach: Integers  # (n,) an edge into the node may not leave a node before this one
    score: Floats  # (n,) best walk from the start, log
    origin: Integers  # (n,) the node it comes from
    ahead: Floats  # (n,) sum over walks from the start, the node's own gain included
    behind: Floats  # (n,) sum over walks to the end, without it
    left: Floats  # (K,)
    right: Floats  # (K,)


@jit
def new_graph_work(nodes: int, places: int) -> GraphWork:
    """Scratch for decoding on the graph."""
    return GraphWork(
        np.zeros(nodes),
        np.ones(nodes),
        np.zeros(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(places),
        np.empty(places),
    )


@jit
def _lowest(logarithms: Floats) -> float:
    """The smallest finite one."""
    lowest = 0.0
    for value in logarithms.ravel():
        if value > -np.inf:
            lowest = min(lowest, value)
    return lowest


@jit
def walk_tables(tables: HitTables) -> WalkTables:
    """Take the tables of sums out of logarithms."""
    forward = tables.forward.copy()
    backward = tables.backward.copy()
    for node in range(forward.shape[0]):
        for step in range(forward.shape[1]):
            forward[node, step] *= np.exp(tables.forward_scale[node, step])
            backward[node, step] *= np.exp(tables.backward_scale[node, step])
    lowest = min(_lowest(tables.log_sum), _lowest(tables.forward_scale), _lowest(tables.backward_scale))
    into = np.exp(tables.log_sum)
    return WalkTables(lowest > -SAFE_SWING, into, into.T.copy(), forward, backward)


@jit
def weigh_nodes(tables: HitTables, labels: Integers32, log_likelihood: Floats, work: GraphWork) -> float:
    """Fill evidence, gain and reach from ``log_likelihood`` (T, O); ``labels`` (T, K) of the own places.

    Returns by how many nats the evidence of a whole walk can swing.
    """
    time, place = tables.nodes.time, tables.nodes.place
    end = time.size - 1
    reach = 0
    node = 1
    swing = 0.0
    for step in range(labels.shape[0]):
        nowhere = log_likelihood[step, 0]
        forced = nowhere == -np.inf
        first = node
        largest = 0.0
        while node < end and time[node] == step:
            evidence = log_likelihood[step, labels[step, place[node]]] - (0.0 if forced else nowhere)
            work.evidence[node] = evidence
            work.gain[node] = np.exp(evidence)
            work.reach[node] = reach
            if evidence > -np.inf:
                largest = max(largest, abs(evidence))
            node += 1
        if forced:
            reach = first
        swing += largest
    work.reach[end] = reach
    return swing


@jit
def best_walk(tables: HitTables, work: GraphWork) -> float:
    """The log-score of the best walk, -inf if there is none; ties at the earliest node."""
    count = work.score.size
    work.score[0] = 0.0
    for b in range(1, count):
        best = -np.inf
        origin = 0
        for a in range(work.reach[b], b):
            candidate = work.score[a] + tables.log_best[b, a]
            if candidate > best:
                best = candidate
                origin = a
        work.score[b] = best + work.evidence[b]
        work.origin[b] = origin
    return work.score[count - 1]


@jit
def trace_walk(tables: HitTables, work: GraphWork, path: Integers32) -> None:
    """The path (T,) of the best walk."""
    b = work.origin.size - 1
    while b > 0:
        a = work.origin[b]
        for step in range(tables.nodes.time[a] + 1, tables.nodes.time[b]):
            path[step] = tables.best_path[a, b, step]
        if a > 0:
            path[tables.nodes.time[a]] = tables.nodes.place[a]
        b = a


@jit
def sum_walks(walks: WalkTables, work: GraphWork) -> float:
    """Sums over walks to and from every node; the likelihood of the trace against "counted nowhere"."""
    last = work.ahead.size - 1
    work.ahead[0] = 1.0
    for b in range(1, last + 1):
        total = 0.0
        for a in range(work.reach[b], b):
            total += work.ahead[a] * walks.into[b, a]
        work.ahead[b] = total * work.gain[b]
    work.behind[last] = 1.0
    for a in range(last - 1, -1, -1):
        total = 0.0
        for b in range(a + 1, last + 1):
            if work.reach[b] <= a:
                total += walks.out_of[a, b] * work.gain[b] * work.behind[b]
        work.behind[a] = total
    return work.ahead[last]


@jit
def _mix_left(walks: WalkTables, step: int, node: int, reach: int, work: GraphWork) -> None:
    """``left[x] = sum_a ahead(a) forward[a, step, x]`` over the nodes before ``step``."""
    work.left[:] = 0.0
    for a in range(reach, node):
        weight = work.ahead[a]
        if weight > 0.0:
            for x in range(work.left.size):
                work.left[x] += weight * walks.forward[a, step, x]


@jit
def _mix_right(walks: WalkTables, step: int, node: int, first: int, work: GraphWork) -> None:
    """``right[x] = sum_b backward[b, step, x] gain(b) behind(b)`` over nodes from ``first`` on.

    Only nodes that an edge from before ``node`` may enter.
    """
    work.right[:] = 0.0
    for b in range(first, work.behind.size):
        weight = work.gain[b] * work.behind[b]
        if weight > 0.0 and work.reach[b] < node:
            for x in range(work.right.size):
                work.right[x] += weight * walks.backward[b, step, x]


@jit
def likeliest_graph(tables: HitTables, walks: WalkTables, work: GraphWork, guess: Integers32) -> None:
    """The posterior's most likely place of every step, after :func:`sum_walks`; ties at the lowest index."""
    time, place = tables.nodes.time, tables.nodes.place
    end = time.size - 1
    node = 1  # the first node of this step or later
    reach = 0  # the first node an edge over this step may leave from
    for step in range(guess.size):
        later = node
        while later < end and time[later] == step:
            later += 1
        best = 0.0
        chosen = 0
        if work.reach[later] < node:  # else the person must have been counted in this step
            _mix_left(walks, step, node, reach, work)
            _mix_right(walks, step, node, later, work)
            for x in range(work.left.size):
                product = work.left[x] * work.right[x]
                if product > best:
                    best = product
                    chosen = x
        for b in range(node, later):
            weight = work.ahead[b] * work.behind[b]
            if weight > best or (weight == best and place[b] < chosen):
                best = weight
                chosen = place[b]
        guess[step] = chosen
        reach = work.reach[later]
        node = later
