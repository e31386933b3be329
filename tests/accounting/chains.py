"""Random small chains of every kind, and the form kernels want them in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from models.priors import ChainView
from models.priors.chain import LocalChain

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A chain, a start and the raw labels of each step; ``labels`` (T, K), ``matrices`` (C, K, K)."""

    start: Floats
    matrices: Floats
    labels: NDArray[np.int32]
    first_slot: int = 0

    @cached_property
    def view(self) -> ChainView:
        """The chain as kernels see it."""
        return chain_of(self.matrices, self.start)

    @property
    def person(self) -> LocalChain:
        """The chain and its start, as kernels take them."""
        return LocalChain(self.view, self.start, self.first_slot)


def chain_of(matrices: Floats, start: Floats | None = None) -> ChainView:
    """Dense matrices (C, K, K) or (K, K) in column form; zeros are left out unless a matrix has none."""
    matrices = matrices.reshape(-1, *matrices.shape[-2:])
    cycle, places, _ = matrices.shape
    columns = [np.flatnonzero(matrices[k, :, y]) for k in range(cycle) for y in range(places)]
    sizes = np.array([len(column) for column in columns]).reshape(cycle, places)
    ends = sizes.cumsum().reshape(cycle, places)
    column_start = np.concatenate([ends[:, :1] - sizes[:, :1], ends], axis=1).astype(np.int32)
    values = [matrices[k // places][column, k % places] for k, column in enumerate(columns)]
    slot_start = np.tile(np.full(places, 1 / places) if start is None else start, (cycle, 1))
    return ChainView(
        np.arange(places, dtype=np.int32),
        slot_start,
        column_start,
        np.concatenate(columns).astype(np.int32),
        np.concatenate(values),
        np.empty((0, places + 1), dtype=np.int32),
    )


def random_matrix(rng: np.random.Generator, places: int, kind: str) -> Floats:
    """One stochastic matrix: full, with zeros, absorbing, periodic, reducible or sticky."""
    matrix = rng.dirichlet(np.full(places, 1.5), size=places)
    if kind == "zeros":
        matrix = (
            matrix * (rng.random((places, places)) < 0.5) + 1e-3 * np.eye(places)[rng.permutation(places)]
        )
    elif kind == "absorbing":
        matrix[rng.integers(places)] = 0.0
        dead = matrix.sum(1) == 0
        matrix[dead] = np.eye(places)[dead]
    elif kind == "periodic":
        matrix = np.roll(np.eye(places), 1, axis=1)
    elif kind == "reducible" and places > 1:
        cut = rng.integers(1, places)
        matrix[:cut, cut:] = 0.0
        matrix[cut:, :cut] = 0.0
        matrix += 1e-6 * np.eye(places)
    elif kind == "sticky":
        matrix = 0.1 * matrix + 0.9 * np.eye(places)
    return np.asarray(matrix / matrix.sum(1, keepdims=True))


KINDS = ("full", "zeros", "absorbing", "periodic", "reducible", "sticky")
KIND_SHARES = (0.3, 0.2, 0.1, 0.1, 0.15, 0.15)


def random_case(rng: np.random.Generator, largest: int = 4, longest: int = 4, cycles: int = 3) -> Case:
    """A random chain with 0 to 3 raw sensors a step, each at one place; C of 1 to ``cycles`` slots."""
    # The largest and longest are as likely as all others together: the small ones are soon known by heart.
    places = max(int(rng.integers(1, largest + 1)), int(rng.integers(1, largest + 1)))
    steps = max(int(rng.integers(1, longest + 1)), int(rng.integers(1, longest + 1)))
    cycle = int(rng.integers(1, cycles + 1))
    kinds = rng.choice(KINDS, size=cycle, p=KIND_SHARES)
    matrices = np.stack([random_matrix(rng, places, kind) for kind in kinds])
    start = rng.dirichlet(np.full(places, 1.5))
    if rng.random() < 0.15:
        start = np.eye(places)[rng.integers(places)]
    labels = np.zeros((steps, places), dtype=np.int32)
    for t in range(steps):
        sensors = int(rng.choice(4, p=[0.35, 0.4, 0.15, 0.1]))
        seen = rng.permutation(places)[:sensors]
        labels[t, seen] = np.arange(1, len(seen) + 1)
    return Case(start, matrices, labels, int(rng.integers(cycle)))
