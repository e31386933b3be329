"""Random chains of every kind for property tests: zeros, absorbing, periodic, reducible, with a cycle."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from models.priors import MovementPrior, Population


@st.composite
def matrices(draw, size: int) -> np.ndarray:
    """A stochastic matrix (size, size) with many exact zeros."""
    weights = draw(
        st.lists(
            st.lists(st.sampled_from([0, 0, 0, 1, 2, 5]), min_size=size, max_size=size),
            min_size=size,
            max_size=size,
        )
    )
    dense = np.array(weights, dtype=float)
    for x in range(size):
        if not dense[x].any():
            dense[x, draw(st.integers(0, size - 1))] = 1.0
    return dense / dense.sum(axis=1, keepdims=True)


@st.composite
def cycles(draw, max_size: int = 6, max_slots: int = 3) -> np.ndarray:
    """Matrices (C, K, K) of one chain."""
    size = draw(st.integers(1, max_size))
    return np.stack([draw(matrices(size)) for _ in range(draw(st.integers(1, max_slots)))])


@st.composite
def priors(draw, person: str = "p", locations: int = 12) -> MovementPrior:
    """A prior on some of ``locations`` locations, sometimes with a start of its own."""
    transitions = draw(cycles())
    size = transitions.shape[1]
    places = sorted(draw(st.sets(st.integers(0, locations - 1), min_size=size, max_size=size)))
    initial = None
    if draw(st.booleans()):
        weights = np.array(draw(st.lists(st.integers(0, 3), min_size=size, max_size=size)), dtype=float)
        initial = (weights + (not weights.any())) / (weights + (not weights.any())).sum()
    return MovementPrior.from_dense(person, transitions, places, initial)


@st.composite
def populations(draw, locations: int = 12) -> Population:
    """Up to four people, each with a chain of its own form."""
    count = draw(st.integers(0, 4))
    names = [f"L{index}" for index in range(locations)]
    return Population.pack([draw(priors(f"p{i}", locations)) for i in range(count)], names)


def cycle_matrix(transitions: np.ndarray) -> np.ndarray:
    """The matrix of one whole cycle, by plain multiplication."""
    product = np.eye(transitions.shape[1])
    for matrix in transitions:
        product = product @ matrix
    return product


def equal(one: Population, other: Population) -> bool:
    """Whether two populations are the same bit for bit."""
    same_arrays = all(
        a.dtype == b.dtype and a.tobytes() == b.tobytes()
        for a, b in zip(one.arrays, other.arrays, strict=True)
    )
    return one.people == other.people and one.location_names == other.location_names and same_arrays
