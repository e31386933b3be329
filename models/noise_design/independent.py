"""Independent noise, the baselines of the papers: at every time, or at the secret times only."""

from __future__ import annotations

import numpy as np

from models.noise_design.algebra import Floats, block_noise
from models.noise_design.problem import DesignProblem

SOLVER = "none"


def uniform(problem: DesignProblem) -> Floats:
    """Noise of one variance at every time; its covariance (n, n)."""
    return np.eye(problem.points) * (problem.noise_budget / problem.points)


def concentrated(problem: DesignProblem) -> Floats:
    """All noise at ``problem.secret``, the rest released as it is: usually no protection; (n, n)."""
    split = problem.split
    return block_noise(split, problem.noise_budget / split.secret.size, np.zeros_like(split.residual))
