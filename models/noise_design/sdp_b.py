"""SDP_B of Meehan and Chaudhuri (appendix 7.3.2): the least trace above a family of covariances.

``minimise tr G subject to G >= N_i for every i`` (in the order of positive semidefinite matrices). With
``N_i = F_i F_i^T`` its Lagrange dual is, after minimising over ``G`` by hand,

    maximise 2 tr (sum_i F_i Y_i F_i^T)^(1/2) - sum_i tr Y_i over Y_i >= 0,    G = (sum_i F_i Y_i F_i^T)^(1/2)

a smooth concave problem in a few numbers per member, solved by L-BFGS over ``Y_i = C_i C_i^T``. What the
search leaves uncovered is added to ``G``, and the dual's value proves how far from optimal the sum can be.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize

from models.exceptions import NoiseDesignError
from models.noise_design.algebra import Floats, positive_part

SOLVER = "L-BFGS on the dual, gap certified"

_RANK = 1e-12  # eigenvalues below this share of the largest are rounding
_START = 0.3
_FLOOR = 1e-18  # of the squared root's scale: directions that no member needs yet
_LARGEST_GAP = 1e-4
_SEARCH = {"maxiter": 3000, "maxfun": 6000, "ftol": 1e-15, "gtol": 1e-9, "maxcor": 30}


@dataclass(frozen=True, slots=True)
class LeastCover:
    """A covariance above every member, and how much lower than its trace any other's could be."""

    covariance: Floats
    relative_gap: float


def sdp_b(family: Sequence[Floats]) -> LeastCover:
    """The least-trace covariance above positive semidefinite matrices (n, n).

    :class:`NoiseDesignError` where the search stops further than 1e-4 from the optimum.
    """
    factors = _factors(family)
    scale = float(np.mean(np.sum(factors**2, axis=(1, 2))))
    factors = factors / np.sqrt(scale)
    members, _, rank = factors.shape
    start = np.tile(_START * np.eye(rank), (members, 1, 1)).ravel()
    found = minimize(  # type: ignore[call-overload]  # the stubs refuse jac=True with an array
        lambda flat: _negative_dual(flat, factors),
        start,
        jac=True,
        method="L-BFGS-B",
        options=_SEARCH,
    )
    root, _ = _roots(_spread(factors, found.x.reshape(members, rank, rank)))
    cover = scale * root
    for member in family:  # what the search left uncovered
        cover = cover + positive_part(member - cover)
    gap = 1.0 + scale * float(found.fun) / float(np.trace(cover))
    if not gap <= _LARGEST_GAP:
        raise NoiseDesignError(
            f"SDP_B must be solved to {_LARGEST_GAP}",
            gap,
            "leave times out, or take a shorter length scale",
        )
    return LeastCover(cover, max(gap, 0.0))


def _factors(family: Sequence[Floats]) -> Floats:
    """``F_i`` [member, time, column] with ``N_i = F_i F_i^T``, zero columns where the rank is less."""
    decomposed = [np.linalg.eigh(member) for member in family]
    ranks = [int(np.sum(values > _RANK * values[-1])) for values, _ in decomposed]
    rank = max(ranks)
    return np.stack(
        [vectors[:, -rank:] * np.sqrt(np.maximum(values[-rank:], 0.0)) for values, vectors in decomposed]
    )


def _negative_dual(flat: Floats, factors: Floats) -> tuple[float, Floats]:
    """Minus the dual's value at ``C`` and its gradient: ``d 2 tr K^(1/2) = tr K^(-1/2) dK``."""
    members, _, rank = factors.shape
    roots = flat.reshape(members, rank, rank)
    root, inverse = _roots(_spread(factors, roots))
    value = 2.0 * float(np.trace(root)) - float(np.sum(roots**2))
    pulled = factors.transpose(0, 2, 1) @ (inverse @ (factors @ roots))
    return -value, -2.0 * (pulled - roots).ravel()


def _spread(factors: Floats, roots: Floats) -> Floats:
    """``K = sum_i F_i C_i C_i^T F_i^T`` (n, n)."""
    columns = (factors @ roots).transpose(1, 0, 2).reshape(factors.shape[1], -1)
    return np.asarray(columns @ columns.T, np.float64)


def _roots(matrix: Floats) -> tuple[Floats, Floats]:
    """``K^(1/2)`` and ``K^(-1/2)``."""
    values, vectors = np.linalg.eigh(matrix)
    root = np.sqrt(np.maximum(values, _FLOOR))
    return (vectors * root) @ vectors.T, (vectors / root) @ vectors.T
