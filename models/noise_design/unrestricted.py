"""The best Gaussian noise for one secret: least true loss among all covariances of the given trace.

Beyond the papers, which take noise at the secret to be independent of the rest. By the Schur complement the
loss is at most ``u`` if and only if ``blkdiag(0, Sigma_{U|S}) + G >= B B^T / u``. The least trace that does
it is that of the positive part of the difference, and it falls as ``u`` rises: the optimum is the ``u`` at
which it equals the budget.
"""

from __future__ import annotations

from models.noise_design.algebra import Floats, positive_part, trace_of_positive_part, weight_at_budget
from models.noise_design.problem import DesignProblem

SOLVER = "closed form and a root in one variable"


def unrestricted(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    split = problem.split
    lifted, residual = split.lifted_effect(), split.lifted_residual()
    gram = lifted @ lifted.T
    weight = weight_at_budget(
        lambda weight: trace_of_positive_part(weight * gram - residual), problem.noise_budget
    )
    return positive_part(weight * gram - residual)
