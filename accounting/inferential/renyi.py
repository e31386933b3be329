"""Rényi divergences between Gaussian laws."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky

from accounting.inferential.checks import check_order
from models.numerics.elementwise import log

Floats = NDArray[np.float64]


def gaussian_renyi_divergence(mean_shift: Floats, left: Floats, right: Floats, order: float) -> float:
    """``D_order(N(m, left) || N(m - mean_shift, right))`` in nats for covariances (n, n).

    With ``mixed = order right + (1 - order) left``: ``order/2 shift^T mixed^-1 shift
    - ln(|mixed| / (|left|^(1-order) |right|^order)) / (2 (order - 1))``, inf where ``mixed`` is not positive
    definite (Gil, Alajaji, Linder, "Rényi divergence measures for commonly used univariate continuous
    distributions", 2013, table 2 and its multivariate case).
    """
    check_order(order)
    try:
        factors = [cholesky(each, lower=True) for each in (left, right, order * right + (1.0 - order) * left)]
    except LinAlgError:
        return math.inf
    log_left, log_right, log_mixed = (2.0 * float(np.sum(log(np.diag(each)))) for each in factors)
    quadratic = float(mean_shift @ cho_solve((factors[2], True), mean_shift))
    spread = log_mixed - (1.0 - order) * log_left - order * log_right
    return max(0.5 * order * quadratic - spread / (2.0 * (order - 1.0)), 0.0)
