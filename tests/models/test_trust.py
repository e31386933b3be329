"""Trust distances come from the graph alone, and whoever is farther away is never told more."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from models.exceptions import MechanismError
from models.mechanisms import Tiered
from models.releases import TrustGraph, assign_tiers, exponential_level, reciprocal_level, stepwise_level

SQUARE = TrustGraph(
    ("city", "transit", "university", "press", "stranger"),
    {
        ("city", "transit"): 1.0,
        ("transit", "press"): 1.0,
        ("city", "university"): 1.0,
        ("university", "press"): 1.0,
    },
)


def test_shortest_path_counts_handshakes() -> None:
    assert SQUARE.distances("city") == {
        "city": 0.0,
        "transit": 1.0,
        "university": 1.0,
        "press": 2.0,
        "stranger": math.inf,
    }


def test_resistance_counts_the_ways_as_well() -> None:
    """A ring of four unit resistors: 3/4 to a neighbour, 1 across; nothing to who is not connected."""
    found = SQUARE.distances("city", "resistance")
    assert [found[name] for name in SQUARE.members] == pytest.approx([0.0, 0.75, 0.75, 1.0, math.inf])


@given(st.integers(2, 7), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_resistance_agrees_with_the_pseudo_inverse_and_never_exceeds_the_shortest_path(
    size: int, random: st.DataObject
) -> None:
    members = tuple(f"m{i}" for i in range(size))
    edges = {(f"m{random.randrange(i)}", f"m{i}"): random.uniform(0.2, 3) for i in range(1, size)}  # type: ignore[attr-defined]
    edges |= {(f"m{i}", f"m{(i + 2) % size}"): 1.0 for i in range(size) if size > 4 and i % 2}
    edges = {pair: length for pair, length in edges.items() if pair[::-1] not in edges or pair < pair[::-1]}
    laplacian = np.zeros((size, size))
    for (first, second), length in edges.items():
        i, j = members.index(first), members.index(second)
        laplacian[[i, j], [i, j]] += 1 / length
        laplacian[[i, j], [j, i]] -= 1 / length
    inverse = np.linalg.pinv(laplacian)
    graph = TrustGraph(members, edges)
    found, shortest = graph.distances("m0", "resistance"), graph.distances("m0")
    for j, name in enumerate(members):
        assert found[name] == pytest.approx(inverse[0, 0] + inverse[j, j] - 2 * inverse[0, j], abs=1e-9)
        assert found[name] <= shortest[name] * (1 + 1e-9)


@pytest.mark.parametrize(
    "level",
    [reciprocal_level(1.0), exponential_level(2.0, 1.5), stepwise_level([(0, 2.0), (1, 1.0), (2, 0.3)])],
)
def test_nobody_is_told_more_than_the_distance_permits(level) -> None:  # type: ignore[no-untyped-def]
    """Each recipient's tier is at or below its level, the nearer ones' at least as high."""
    distances = SQUARE.distances("city")
    assigned = assign_tiers(distances, level, [0.2, 0.4, 1.0])
    epsilon = {None: 0.0, **dict(assigned.tiers)}
    received = {name: epsilon[tier] for name, tier in assigned.tier_of.items()}
    assert all(received[name] <= level(distances[name]) for name in distances)
    ordered = sorted(distances, key=lambda name: distances[name])
    assert [received[name] for name in ordered] == sorted(received.values(), reverse=True)
    assert assigned.tier_of["stranger"] is None
    assert Tiered(assigned.tiers).epsilon == 1.0


def test_tiers_can_have_names() -> None:
    assigned = assign_tiers({"press": 2.0}, reciprocal_level(1.0), [0.5, 2.0], ["public", "partner"])
    assert assigned.tiers == (("public", 0.5), ("partner", 2.0))
    assert assigned.tier_of == {"press": "public"}


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(MechanismError, match="must not rise with distance"):
        assign_tiers({"a": 1.0, "b": 2.0}, lambda distance: distance, [1.0])
    with pytest.raises(MechanismError, match="must join two members"):
        TrustGraph(("a",), {("a", "b"): 1.0})
    with pytest.raises(MechanismError, match="must be positive"):
        TrustGraph(("a", "b"), {("a", "b"): 0.0})
    with pytest.raises(MechanismError, match="owner must be a member"):
        SQUARE.distances("nobody")
    with pytest.raises(MechanismError, match="one name"):
        assign_tiers({"a": 1.0}, reciprocal_level(1.0), [0.5], ["x", "y"])
