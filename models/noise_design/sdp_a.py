"""SDP_A of Meehan and Chaudhuri for one secret (appendix 7.3.1), as their published code solves it.

Maximise the smallest eigenvalue of ``P (D + G) P^T`` with ``P`` the left pseudo-inverse of ``B = [I; A]``,
``D = blkdiag(0, Sigma_{U|S})`` and ``tr G`` at most ``stabilisation`` times the budget; divide the solution
by ``stabilisation``; keep the mean of the secret's variances and the block of the rest.

The optimal ``G`` lives in the range of ``B`` (anything else costs trace and does not count), so it is
``B L^(1/2) H L^(1/2) B^T`` with ``L = (B^T B)^-1`` and a k-by-k matrix ``H``, and for a smallest eigenvalue
``beta`` the least ``tr H`` is that of the positive part of ``L^(-1/2) (beta I - P D P^T) L^(-1/2)``. For one
value this is the closed form ``sigma_s^2 = budget / (1 + |a|^2)``, ``G_UU = sigma_s^2 a a^T``.
"""

from __future__ import annotations

import numpy as np

from models.noise_design.algebra import (
    Floats,
    block_noise,
    positive_part,
    trace_of_positive_part,
    weight_at_budget,
)
from models.noise_design.problem import DesignProblem

SOLVER = "closed form and a root in one variable"
STABILISATION = 1000.0  # the authors' for compound secrets; of no consequence for basic ones


def sdp_a(problem: DesignProblem, stabilisation: float = STABILISATION) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    noise = surrogate_optimum(problem, stabilisation)
    secret, rest = problem.split.secret, problem.split.rest
    return block_noise(problem.split, float(noise[secret, secret].mean()), noise[np.ix_(rest, rest)])


def surrogate_optimum(problem: DesignProblem, stabilisation: float) -> Floats:
    """The optimal ``G`` (n, n) of the program, divided by ``stabilisation``, cross terms still in it."""
    lifted = problem.split.lifted_effect()
    root, inverse_root = _gram_roots(lifted)
    base = lifted @ inverse_root  # orthonormal columns that span the range of B
    uncertain = inverse_root @ base.T @ problem.split.lifted_residual() @ base @ inverse_root  # P D P^T

    def excess(beta: float) -> Floats:
        return root @ (beta * np.eye(len(root)) - uncertain) @ root

    beta = weight_at_budget(
        lambda beta: trace_of_positive_part(excess(beta)), stabilisation * problem.noise_budget
    )
    return base @ positive_part(excess(beta)) @ base.T / stabilisation


def _gram_roots(lifted: Floats) -> tuple[Floats, Floats]:
    """``(B^T B)^(1/2)`` and ``(B^T B)^(-1/2)``; ``B`` holds an identity, so no eigenvalue is below 1."""
    values, vectors = np.linalg.eigh(lifted.T @ lifted)
    return (vectors * np.sqrt(values)) @ vectors.T, (vectors / np.sqrt(values)) @ vectors.T
