"""Where a chain settles: stationary and cyclo-stationary distributions, closed classes, spectral gap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from models.numerics.arrays import Floats, Integers
from models.priors.chain import ChainView
from models.priors.prior import MovementPrior, transition_matrices
from models.priors.stationary_kernel import TRANSIENT, absorption, closed_classes, cycle_product

_DENSE_LIMIT = 400  # up to this many places all eigenvalues together are faster than a few by iteration


@dataclass(frozen=True, eq=False)
class ClosedClass:
    """Places that are never left once entered (in slot 0 of the cycle), and how likely one ends there.

    ``members`` are local places; ``weight`` is the probability of ending in them, started uniformly over all
    places.
    """

    members: Integers
    weight: float


@dataclass(frozen=True, eq=False)
class StationaryDistribution:
    """The long-run distribution ``probabilities`` (C, K) of the place in each slot, and its closed classes.

    With several classes it is the Cesàro limit from the uniform start over the person's places: each class in
    its own equilibrium with its ``weight``. ``transient`` places (in slot 0) have probability exactly zero.
    """

    probabilities: Floats
    classes: tuple[ClosedClass, ...]
    transient: Integers

    @property
    def is_irreducible(self) -> bool:
        """Whether there is one class and it holds every place."""
        return len(self.classes) == 1 and not self.transient.size


def stationary_distribution(chain: ChainView | MovementPrior) -> StationaryDistribution:
    """The long-run distribution of a chain in each of its C slots (``pi_{k+1} = pi_k P_k``), and its classes.

    State reduction without subtractions (Grassmann, Taksar, Heyman 1985) on the matrix of one cycle: entries
    are accurate to rounding for near-deterministic, periodic and reducible chains too. Memory 8 K^2 bytes.
    """
    view = chain.chain() if isinstance(chain, MovementPrior) else chain
    product = cycle_product(view.column_start, view.row, view.value)
    labels, count = closed_classes(product)
    weights = absorption(product, labels, count) if count > 1 else np.ones(1)
    classes = tuple(
        ClosedClass(np.flatnonzero(labels == label), float(weights[label])) for label in range(count)
    )
    return StationaryDistribution(view.start, classes, np.flatnonzero(labels == TRANSIENT))


def spectral_gap(chain: ChainView | MovementPrior) -> float:
    """``1 - |lambda_2|`` of the matrix of one cycle: how fast the start is forgotten; 1 with a single place.

    Zero for periodic chains and for those with several closed classes, which never forget.
    """
    view = chain.chain() if isinstance(chain, MovementPrior) else chain
    size = view.places.size
    if size == 1:
        return 1.0
    if size <= _DENSE_LIMIT:
        found = np.linalg.eigvals(cycle_product(view.column_start, view.row, view.value))
    else:
        found = _largest_eigenvalues(transition_matrices(view))
    return float(min(1.0, max(0.0, 1.0 - np.sort(np.abs(found))[-2])))


def _largest_eigenvalues(transitions: Sequence[csr_array]) -> NDArray[Any]:
    """The eigenvalues of largest modulus by Arnoldi iteration, without the matrix of the cycle."""
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigs  # takes long to import

    size = transitions[0].shape[0]

    def apply(vector: Floats) -> Floats:
        for matrix in reversed(transitions):
            vector = matrix @ vector
        return vector

    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = np.cos(np.arange(size))  # fixed, so that the same chain gives the same figure
    try:
        return np.asarray(eigs(operator, k=6, v0=start, ncv=60, return_eigenvectors=False))
    except ArpackError:  # not converged: many eigenvalues of nearly the same modulus
        return np.asarray(np.linalg.eigvals(operator @ np.eye(size)))
