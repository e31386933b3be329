"""Independent noise at the secret times only: a baseline of the papers, and usually no protection at all."""

from __future__ import annotations

import numpy as np

from models.noise_design.algebra import Floats, block_noise
from models.noise_design.problem import DesignProblem

SOLVER = "none"


def concentrated(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) for ``problem.secret``; the rest is released as it is."""
    split = problem.split
    return block_noise(split, problem.noise_budget / split.secret.size, np.zeros_like(split.residual))
