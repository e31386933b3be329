"""Decoding noised releases on the graph of possible hits: O(n^2) a trace, whatever the number of places.

Relative to "counted nowhere", a step's observation multiplies a path by ``e^evidence`` of the hit it makes
there and by 1 if it makes none. So the best path is a best walk over nodes with the segments' best paths as
edges, and the posterior a sum over walks. A step whose observation excludes "counted nowhere" (a raw hit) is
*forced*: no edge may jump over it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.hit_tables import HitTables
from models.jit import jit


class GraphWork(NamedTuple):
    """Scratch for one trace: ``n`` nodes, ``T`` steps, ``K`` places."""

    evidence: NDArray[np.float64]  # (n,) log-likelihood of the node's outcome against none
    reach: NDArray[np.int64]  # (n,) an edge into the node may not leave a node before this one
    score: NDArray[np.float64]  # (n,) best walk from the start, log
    origin: NDArray[np.int64]  # (n,) the node it comes from
    ahead: NDArray[np.float64]  # (n,) sum over walks from the start, log
    behind: NDArray[np.float64]  # (n,) sum over walks to the end, log
    left: NDArray[np.float64]  # (K,)
    right: NDArray[np.float64]  # (K,)


@jit
def new_graph_work(nodes: int, places: int) -> GraphWork:
    """Scratch for :func:`decode_graph` and :func:`likeliest_graph`."""
    return GraphWork(
        np.zeros(nodes),
        np.zeros(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes, np.int64),
        np.empty(nodes),
        np.empty(nodes),
        np.empty(places),
        np.empty(places),
    )


@jit
def weigh_nodes(
    tables: HitTables, labels: NDArray[np.int32], log_likelihood: NDArray[np.float64], work: GraphWork
) -> None:
    """Fill evidence and reach from ``log_likelihood`` (T, O); ``labels`` (T, K) of the own places."""
    time, place = tables.nodes.time, tables.nodes.place
    end = time.size - 1
    reach = 0
    node = 1
    for step in range(labels.shape[0]):
        nowhere = log_likelihood[step, 0]
        forced = nowhere == -np.inf
        first = node
        while node < end and time[node] == step:
            work.evidence[node] = log_likelihood[step, labels[step, place[node]]] - (
                0.0 if forced else nowhere
            )
            work.reach[node] = reach
            node += 1
        if forced:
            reach = first
    work.evidence[end] = 0.0
    work.reach[end] = reach


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
def trace_walk(tables: HitTables, work: GraphWork, path: NDArray[np.int32]) -> None:
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
def _log_sum_into(tables: HitTables, b: int, work: GraphWork) -> float:
    """Log of the sum over walks that enter ``b`` last."""
    top = -np.inf
    for a in range(work.reach[b], b):
        top = max(top, work.ahead[a] + tables.log_sum[b, a])
    if top == -np.inf:
        return top
    total = 0.0
    for a in range(work.reach[b], b):
        total += np.exp(work.ahead[a] + tables.log_sum[b, a] - top)
    return top + np.log(total)


@jit
def _log_sum_out_of(tables: HitTables, a: int, work: GraphWork) -> float:
    """Log of the sum over walks that leave ``a`` first."""
    top = -np.inf
    for b in range(a + 1, work.behind.size):
        if work.reach[b] <= a:
            top = max(top, tables.log_sum[b, a] + work.evidence[b] + work.behind[b])
    if top == -np.inf:
        return top
    total = 0.0
    for b in range(a + 1, work.behind.size):
        if work.reach[b] <= a:
            total += np.exp(tables.log_sum[b, a] + work.evidence[b] + work.behind[b] - top)
    return top + np.log(total)


@jit
def sum_walks(tables: HitTables, work: GraphWork) -> float:
    """Sums over walks to and from every node; the log-likelihood of the trace against "counted nowhere"."""
    last = work.ahead.size - 1
    work.ahead[0] = 0.0
    for b in range(1, last + 1):
        work.ahead[b] = _log_sum_into(tables, b, work) + work.evidence[b]
    work.behind[last] = 0.0
    for a in range(last - 1, -1, -1):
        work.behind[a] = _log_sum_out_of(tables, a, work)
    return work.ahead[last]


@jit
def _mix_left(tables: HitTables, step: int, node: int, reach: int, work: GraphWork) -> float:
    """``sum_a ahead(a) forward[a, step]`` over nodes before ``step``, into ``left``; its log scale."""
    top = -np.inf
    for a in range(reach, node):
        top = max(top, work.ahead[a] + tables.forward_scale[a, step])
    work.left[:] = 0.0
    if top == -np.inf:
        return top
    for a in range(reach, node):
        weight = np.exp(work.ahead[a] + tables.forward_scale[a, step] - top)
        if weight > 0.0:
            for x in range(work.left.size):
                work.left[x] += weight * tables.forward[a, step, x]
    return top


@jit
def _mix_right(tables: HitTables, step: int, node: int, work: GraphWork) -> float:
    """``sum_b backward[b, step] behind(b)`` over nodes from ``node`` on, into ``right``; its log scale."""
    top = -np.inf
    for b in range(node, work.behind.size):
        if work.reach[b] < node:
            top = max(top, tables.backward_scale[b, step] + work.evidence[b] + work.behind[b])
    work.right[:] = 0.0
    if top == -np.inf:
        return top
    for b in range(node, work.behind.size):
        if work.reach[b] < node:
            weight = np.exp(tables.backward_scale[b, step] + work.evidence[b] + work.behind[b] - top)
            if weight > 0.0:
                for x in range(work.right.size):
                    work.right[x] += weight * tables.backward[b, step, x]
    return top


@jit
def _largest_product(left: NDArray[np.float64], right: NDArray[np.float64]) -> tuple[int, float]:
    best = 0.0
    chosen = 0
    for x in range(left.size):
        if left[x] * right[x] > best:
            best = left[x] * right[x]
            chosen = x
    return chosen, best


@jit
def likeliest_graph(tables: HitTables, work: GraphWork, guess: NDArray[np.int32]) -> None:
    """The posterior's most likely place of every step, after :func:`sum_walks`; ties at the lowest index."""
    time, place = tables.nodes.time, tables.nodes.place
    end = time.size - 1
    node = 1  # the first node of this step or later
    reach = 0  # the first node an edge over this step may leave from
    for step in range(guess.size):
        next_node = node
        while next_node < end and time[next_node] == step:
            next_node += 1
        scale = _mix_left(tables, step, node, reach, work) + _mix_right(tables, step, next_node, work)
        chosen, product = _largest_product(work.left, work.right)
        best = scale + np.log(product) if product > 0.0 and work.reach[next_node] < node else -np.inf
        for b in range(node, next_node):
            weight = work.ahead[b] + work.behind[b]
            if weight > best or (weight == best and place[b] < chosen):
                best = weight
                chosen = place[b]
        guess[step] = chosen
        reach = work.reach[next_node]
        node = next_node
