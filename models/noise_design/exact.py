"""The exact design for one secret: least ``1/sigma_s^2 + alpha`` with independent noise at the secret.

The semidefinite program that minimises theorem 3.4's bound (:func:`models.noise_design.semidefinite.exact`)
is solved here in closed form up to one number. ``alpha <= u`` holds if and only if
``Sigma_{U|S} + G_UU >= A A^T / u`` (Schur complement), and the least trace that does it is that of the
positive part of ``A A^T / u - Sigma_{U|S}``. In the weight ``1 / u`` trace and bound are convex.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.optimize import minimize_scalar

from models.noise_design.algebra import (
    Floats,
    block_noise,
    positive_part,
    trace_of_positive_part,
    weight_at_budget,
)
from models.noise_design.problem import DesignProblem

SOLVER = "closed form and a search in one variable"

_DECADES = 60.0  # natural-log range of weights below the largest one that the budget allows
_TOLERANCE = 1e-10  # of the weight's logarithm; the bound is flat there


def exact(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``."""
    split, budget = problem.split, problem.noise_budget
    size = split.secret.size
    gram = split.effect @ split.effect.T

    def spent(weight: float) -> float:
        """Trace of the noise at the rest that makes ``alpha`` at most ``1 / weight``."""
        return trace_of_positive_part(weight * gram - split.residual)

    def bound(log_weight: float) -> float:
        left = budget - spent(math.exp(log_weight))
        return size / left + math.exp(-log_weight) if left > 0.0 else math.inf

    largest = weight_at_budget(spent, budget) if np.any(gram) else math.inf
    if math.isinf(largest):  # the rest reveals nothing
        return block_noise(split, budget / size, np.zeros_like(split.residual))
    reach = (math.log(largest) - _DECADES, math.log(largest))
    found = minimize_scalar(bound, bounds=reach, method="bounded", options={"xatol": _TOLERANCE})
    rest = positive_part(math.exp(found.x) * gram - split.residual)
    return block_noise(split, (budget - float(np.trace(rest))) / size, rest)
