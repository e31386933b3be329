"""One way through all sequences of nodes, depth first: what every bound and attack that tries them walks.

Nodes are in order of time, several may have the same one. A path leaves its first node in one direction and
has at most one node of each time. The caller asks for the next candidate and enters those it wants to
continue from:

    depth, node = next_node(walk, 0)
    while node >= 0:
        ...                                   # the path walk.at[: depth + 1], with node behind it
        if it is worth going on from node:
            depth = enter(walk, depth, node)
        depth, node = next_node(walk, depth)

For example times (-1, 0, 0, 1, 2): the start, two places in step 0, one in step 1, the end. Walking onwards
from node 0, entering all but the end, the candidates are, as path and node:

    0 + 1,  0 1 + 3,  0 1 3 + 4,  0 1 + 4,    # node 2 has the time of node 1, so it does not follow it
    0 + 2,  0 2 + 3,  0 2 3 + 4,  0 2 + 4,
    0 + 3,  0 3 + 4,  0 + 4                   # six of them end in node 4: the six patterns of hits
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit


class PatternWalk(NamedTuple):
    """Where a walk stands: the path so far, and the next candidate behind each of its nodes."""

    time: NDArray[np.int64]  # (N,) of all nodes, increasing
    direction: int  # 1 onwards, -1 backwards
    stop: int  # the node that is no candidate any more
    at: NDArray[np.int64]  # (longest path,)
    candidate: NDArray[np.int64]  # (longest path,)


@jit
def walk_onwards(time: NDArray[np.int64], longest: int) -> PatternWalk:
    """From the first node; paths of up to ``longest`` nodes can be entered."""
    walk = PatternWalk(time, 1, time.size, np.empty(longest, np.int64), np.empty(longest, np.int64))
    restart(walk, 0)
    return walk


@jit
def walk_backwards(time: NDArray[np.int64], longest: int) -> PatternWalk:
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
