"""Segment polynomials: what lies between two consecutive hits, as the moment bound needs it.

A *node* is the start (node 0), a possible hit (time and place), or the end (last node). For consecutive
nodes ``a`` and ``b``

    e_ab[j] = sum over j-subsets J of the times between of
              max_{x_J} Pr[X_J = x_J, no hit between, hit b | a].

What was seen enters as ``weight[t, x]``: 0 where a hit would have been seen, 1 elsewhere. Any other evidence
that depends on the place alone fits too: with likelihoods as weights and no possible hit, the one segment
from start to end belongs to the posterior. Beyond Koga et al.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.exposure.prior_constants_kernel import raise_to
from accounting.hmm.propagation import add_rows, dot, largest_product, predict, retreat, transposed
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import jit
from models.priors.chain import ChainView, LocalChain, slot_of

# One way through all sequences of nodes, depth first: what every bound and attack that tries them walks.
#
# Nodes are in order of time, several may have the same one. A path leaves its first node in one direction
# and has at most one node of each time. The caller asks for the next candidate and enters those it wants to
# continue from:
#
#     depth, node = next_node(walk, 0)
#     while node >= 0:
#         ...                                   # the path walk.at[: depth + 1], with node behind it
#         if it is worth going on from node:
#             depth = enter(walk, depth, node)
#         depth, node = next_node(walk, depth)
#
# For example times (-1, 0, 0, 1, 2): the start, two places in step 0, one in step 1, the end. Walking
# onwards from node 0, entering all but the end, the candidates are, as path and node:
#
#     0 + 1,  0 1 + 3,  0 1 3 + 4,  0 1 + 4,    # node 2 has the time of node 1, so it does not follow it
#     0 + 2,  0 2 + 3,  0 2 3 + 4,  0 2 + 4,
#     0 + 3,  0 3 + 4,  0 + 4                   # six of them end in node 4: the six patterns of hits


class PatternWalk(NamedTuple):
    """State of a walk: the path so far, and the next candidate after each of its nodes."""

    time: Integers  # (N,) of all nodes, increasing
    direction: int  # 1 onwards, -1 backwards
    stop: int  # the node that is no candidate any more
    at: Integers  # (longest path,)
    candidate: Integers  # (longest path,)


@jit
def walk_onwards(time: Integers, longest: int) -> PatternWalk:
    """From the first node; paths of up to ``longest`` nodes can be entered."""
    walk = PatternWalk(time, 1, time.size, np.empty(longest, np.int64), np.empty(longest, np.int64))
    restart(walk, 0)
    return walk


@jit
def walk_backwards(time: Integers, longest: int) -> PatternWalk:
    """From the last node; the first one is no candidate."""
    walk = PatternWalk(time, -1, 0, np.empty(longest, np.int64), np.empty(longest, np.int64))
    restart(walk, time.size - 1)
    return walk


@jit
def restart(walk: PatternWalk, node: int) -> None:
    """Leave from this node; its candidates are at depth 0."""
    walk.at[0] = node
    walk.candidate[0] = node + walk.direction


@jit
def next_node(walk: PatternWalk, depth: int) -> tuple[int, int]:
    """The next candidate and the depth of the node it follows; node -1 when all have been tried."""
    while depth >= 0:
        node = walk.candidate[depth]
        if node == walk.stop:
            depth -= 1
        else:
            walk.candidate[depth] = node + walk.direction
            if walk.time[node] != walk.time[walk.at[depth]]:
                return depth, node
    return -1, -1


@jit
def enter(walk: PatternWalk, depth: int, node: int) -> int:
    """Continue from a candidate that follows the node at ``depth``; its own depth."""
    depth += 1
    walk.at[depth] = node
    walk.candidate[depth] = node + walk.direction
    return depth


EPSILON = 2.3e-16  # a little more than the spacing of floats at 1


class Nodes(NamedTuple):
    """Start, possible hits in order of time, end."""

    time: Integers  # (N,) -1 for the start, T for the end
    place: Integers  # (N,) -1 for start and end


@jit
def own_hits(chain: ChainView, marginal: Floats, labels: Integers32 | Flags) -> Flags:
    """Where the person can be and is counted, (T, K); ``labels`` (T, M, or more steps) is by location."""
    hits = np.empty(marginal.shape, np.bool_)
    for t in range(marginal.shape[0]):
        for x in range(marginal.shape[1]):
            hits[t, x] = labels[t, chain.places[x]] > 0 and marginal[t, x] > 0.0
    return hits


@jit
def find_nodes(hits: Flags) -> Nodes:
    """All nodes of a horizon; ``hits`` (T, K)."""
    steps, place_count = hits.shape
    count = hits.sum() + 2
    time = np.full(count, -1)
    place = np.full(count, -1)
    i = 1
    for t in range(steps):
        for x in range(place_count):
            if hits[t, x]:
                time[i], place[i] = t, x
                i += 1
    time[count - 1] = steps
    return Nodes(time, place)


@jit
def forward_vectors(person: LocalChain, weight: Floats, nodes: Nodes) -> Floats:
    """``[a, t, x] = Pr[X_t = x, no hit strictly between a and t | a]``; zero up to the node's own time."""
    steps, place_count = weight.shape
    vectors = np.zeros((nodes.time.size, steps, place_count))
    source = np.empty(place_count)
    for a in range(nodes.time.size - 1):
        begin = nodes.time[a]
        if begin < 0:
            vectors[a, 0] = person.start
            begin = 0
        elif begin + 1 < steps:
            source[:] = 0.0
            source[nodes.place[a]] = 1.0
            predict(person.chain, slot_of(person, begin), source, vectors[a, begin + 1])
            begin += 1
        for t in range(begin, steps - 1):
            multiply(vectors[a, t], weight[t], source)
            predict(person.chain, slot_of(person, t), source, vectors[a, t + 1])
    return vectors


@jit
def backward_vectors(person: LocalChain, weight: Floats, nodes: Nodes) -> Floats:
    """``[b, t, x] = weight[t, x] Pr[hit b, no hit strictly between t and b | X_t = x]``.

    With the end as ``b`` the event is that no hit follows.
    """
    steps, place_count = weight.shape
    vectors = np.zeros((nodes.time.size, steps, place_count))
    target = np.empty(place_count)
    for b in range(1, nodes.time.size):
        last = nodes.time[b]
        if last == steps:
            last = steps - 1
            vectors[b, last] = weight[last]
        elif last > 0:
            target[:] = 0.0
            target[nodes.place[b]] = 1.0
            last -= 1
            retreat(person.chain, slot_of(person, last), target, vectors[b, last])
            vectors[b, last] *= weight[last]
        for t in range(last - 1, -1, -1):
            retreat(person.chain, slot_of(person, t), vectors[b, t + 1], vectors[b, t])
            vectors[b, t] *= weight[t]
    return vectors


@jit
def multiply(left: Floats, right: Floats, result: Floats) -> None:
    """``result[x] = left[x] right[x]``."""
    for x in range(left.size):
        result[x] = left[x] * right[x]


@jit
def avoiding_moves(person: LocalChain, weight: Floats, nodes: Nodes, powers: Floats) -> Floats:
    """``[t, g - 1, y, x] = Pr[X_{t+g} = y, no hit strictly between | X_t = x]``, for all ``t + g < T``.

    With ``powers`` (see ``prior_constants_kernel.shared_powers``) weights must be 0 at nodes and 1 elsewhere.
    """
    steps, place_count = weight.shape
    longest = max(steps - 1, 0)
    moves = np.empty((longest, longest, place_count, place_count))
    if powers.shape[0] >= longest and nodes.time.size < 3 * steps:
        subtract_hits(powers, nodes, moves)
        return moves
    for t in range(longest):
        transposed(person.chain, slot_of(person, t), moves[t, 0])
        for g in range(1, longest - t):
            add_rows(person.chain, slot_of(person, t + g), moves[t, g - 1], weight[t + g], moves[t, g])
    return moves


@jit
def subtract_hits(powers: Floats, nodes: Nodes, moves: Floats) -> None:
    """:func:`avoiding_moves` of one full matrix with few sensors: powers less the paths through a first hit.

    ``K^2`` instead of ``K^3`` operations for each pair of times. Differences round both ways: what that can
    amount to, relative to the power, is added, so the result is never too small.
    """
    longest, _, place_count, _ = moves.shape
    for t in range(longest):
        for g in range(longest - t):
            result = moves[t, g]
            result[:] = powers[g] * (1.0 + EPSILON * place_count * (g + 2))
            for hit in range(1, nodes.time.size - 1):
                between = nodes.time[hit] - t - 1
                if 0 <= between < g:
                    subtract_outer(
                        result,
                        powers[g - between - 1, :, nodes.place[hit]],
                        moves[t, between, nodes.place[hit]],
                    )
            for y in range(place_count):
                for x in range(place_count):
                    result[y, x] = max(result[y, x], 0.0)


@jit
def subtract_outer(result: Floats, after: Floats, until: Floats) -> None:
    """``result[y, x] -= after[y] until[x]``."""
    for y in range(after.size):
        weight = after[y]
        row = result[y]
        for x in range(until.size):
            row[x] -= weight * until[x]


@jit
def add_subsets_before(
    coefficients: Floats,
    b: int,
    weight: Floats,
    forward: Floats,
    backward: Floats,
    moves: Floats,
    nodes: Nodes,
    suffix: Floats,
    walk: PatternWalk,
) -> None:
    """Add all subsets of the times before node ``b`` to ``e_ab``, latest time first, for every ``a`` at once.

    ``forward``, ``backward`` and ``moves`` are of the functions above, ``walk`` is backwards over times.
    ``suffix[j]`` is the best probability of the ``j`` chosen times and of ``b``, given the earliest's place.
    For example before time 3, of at most two times: {2}, {2, 1}, {2, 0}, {1}, {1, 0}, {0}.
    """
    order = suffix.shape[0] - 1
    restart(walk, nodes.time[b] + 1)
    depth, node = next_node(walk, 0)
    while node >= 0:
        t, size = walk.time[node], depth + 1
        if size == 1:
            suffix[1] = backward[b, t]
        else:
            later = walk.time[walk.at[depth]]
            suffix[size] = 0.0
            raise_to(suffix[size], moves[t, later - t - 1], suffix[size - 1], 1.0)
            suffix[size] *= weight[t]
        a = 0
        while nodes.time[a] < t:
            coefficients[a, size] += largest_product(forward[a, t], suffix[size])
            a += 1
        if size < order:
            depth = enter(walk, depth, node)
        depth, node = next_node(walk, depth)


@jit
def segment_polynomials(
    person: LocalChain, weight: Floats, nodes: Nodes, order: int, powers: Floats
) -> Floats:
    """``e[b, a, j]`` for ``j = 0..order``, shape (N, N, order + 1); zero unless ``a`` is before ``b``.

    ``powers`` as for :func:`avoiding_moves`, empty where weights are other evidence than hits.
    """
    steps, place_count = weight.shape
    count = nodes.time.size
    forward = forward_vectors(person, weight, nodes)
    backward = backward_vectors(person, weight, nodes)
    together = steps if order > 1 else 1  # order 1 looks at one time alone
    moves = avoiding_moves(person, weight[:together], nodes, powers)
    suffix = np.empty((order + 1, place_count))
    walk = walk_backwards(np.arange(-1, steps + 1), order + 1)  # node t + 1 is time t; -1 is no candidate
    polynomials = np.zeros((count, count, order + 1))
    for b in range(1, count):
        for a in range(b):
            if nodes.time[b] == steps:
                last = 1.0 if nodes.time[a] == steps - 1 else dot(forward[a, steps - 1], weight[steps - 1])
                polynomials[b, a, 0] = last
            elif nodes.time[a] < nodes.time[b]:
                polynomials[b, a, 0] = forward[a, nodes.time[b], nodes.place[b]]
        add_subsets_before(polynomials[b], b, weight, forward, backward, moves, nodes, suffix, walk)
    return polynomials


@jit
def no_hit_weight(hits: Flags) -> Floats:
    """0 where a hit would have been seen, 1 elsewhere."""
    return 1.0 - hits.astype(np.float64)
