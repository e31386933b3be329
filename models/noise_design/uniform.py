"""Independent noise of one variance at every time: a baseline of the papers."""

from __future__ import annotations

import numpy as np

from models.noise_design.algebra import Floats
from models.noise_design.problem import DesignProblem

SOLVER = "none"


def uniform(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n)."""
    return np.eye(problem.points) * (problem.noise_budget / problem.points)
