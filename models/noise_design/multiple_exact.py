"""The joint exact design: among all covariances of the given trace, least loss at the worst single time.

The loss at a single time is ``lambda/2 r^2 (1/Post_tt - 1/Sigma_tt)``, so the design raises the smallest
posterior variance. Where all prior variances are equal (a stationary kernel) the optimum is noise shaped like
the prior, ``G = c Sigma``:

- the mean of ``(Sigma M^-1 Sigma)_tt``, ``M = Sigma + G``, is ``tr(M^-1 Sigma^2) / n``; at a given trace it
  is least at ``M`` proportional to ``(Sigma^2)^(1/2) = Sigma``, which ``G = c Sigma`` is;
- there all times are equal, so no other ``G`` makes the largest of them smaller than that mean.

Its loss is ``lambda/2 r^2 n / budget``, the same as for values that do not depend on each other at all. With
unequal variances it is a semidefinite program
(:func:`models.noise_design.semidefinite.worst_of_all_times`).
"""

from __future__ import annotations

import numpy as np

from models.noise_design.algebra import Floats
from models.noise_design.problem import DesignProblem

SOLVER = "closed form"

_EQUAL = 1e-9  # relative difference of variances that counts as none


def has_closed_form(problem: DesignProblem) -> bool:
    """Whether all prior variances are equal."""
    variances = np.diag(problem.prior)
    return bool(np.ptp(variances) <= _EQUAL * variances.max())


def multiple_exact(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) that protects every time; optimal where :func:`has_closed_form`."""
    return problem.prior * (problem.noise_budget / float(np.trace(problem.prior)))
