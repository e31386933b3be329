"""The walk through sequences of nodes against all of their combinations."""

from __future__ import annotations

from itertools import combinations, pairwise

import numpy as np
import pytest

from accounting.bounds.patterns.segments_kernel import (
    PatternWalk,
    enter,
    next_node,
    walk_backwards,
    walk_onwards,
)

TIMES = np.array([-1, 0, 0, 1, 1, 1, 3])


def candidates(walk: PatternWalk, longest: int) -> list[tuple[int, ...]]:
    """Every path with its candidate; those below ``longest`` nodes are continued."""
    found = []
    depth, node = next_node(walk, 0)
    while node >= 0:
        path = tuple(walk.at[: depth + 1].tolist())
        found.append((*path, node))
        if len(path) + 1 < longest:
            depth = enter(walk, depth, node)
        depth, node = next_node(walk, depth)
    return found


def increasing(first: int, others: range, longest: int) -> set[tuple[int, ...]]:
    """All sequences from ``first`` with at most one node of each time."""
    sequences = ((first, *rest) for size in range(1, longest) for rest in combinations(others, size))
    return {path for path in sequences if all(TIMES[a] != TIMES[b] for a, b in pairwise(path))}


@pytest.mark.parametrize("longest", [2, 3, 5])
def test_every_sequence_is_met_once_in_either_direction(longest: int) -> None:
    onwards = candidates(walk_onwards(TIMES, longest), longest)
    backwards = candidates(walk_backwards(TIMES, longest), longest)
    assert len(set(onwards)) == len(onwards)
    assert set(onwards) == increasing(0, range(1, 7), longest)
    assert len(set(backwards)) == len(backwards)
    assert set(backwards) == increasing(6, range(5, 0, -1), longest)


def test_the_worked_example_is_walked_as_written() -> None:
    walk = walk_onwards(np.array([-1, 0, 0, 1, 2]), 5)
    found = []
    depth, node = next_node(walk, 0)
    while node >= 0:
        found.append((*walk.at[: depth + 1].tolist(), node))
        if node != 4:
            depth = enter(walk, depth, node)
        depth, node = next_node(walk, depth)
    written = "01 013 0134 014 02 023 0234 024 03 034 04"
    assert ["".join(map(str, path)) for path in found] == written.split()


def test_a_walk_without_candidates_ends_at_once() -> None:
    assert next_node(walk_onwards(np.array([-1]), 1), 0) == (-1, -1)
    assert next_node(walk_backwards(np.array([-1, 0]), 2), 0) == (-1, -1)
