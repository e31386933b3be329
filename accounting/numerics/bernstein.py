"""A mean from independent draws, as an upper bound that holds with a stated confidence."""

from __future__ import annotations

from math import inf, log, sqrt

import numpy as np
from numpy.typing import NDArray


def upper_mean(values: NDArray[np.float64], failure_probability: float) -> float:
    """Upper bound on the mean of draws in [0, 1] that fails with at most the given probability.

    Empirical Bernstein (Maurer and Pontil, *Empirical Bernstein Bounds and Sample-Variance Penalization*,
    2009, theorem 4). The number of draws must have been fixed beforehand. Below two draws it says 1.
    """
    count = values.size
    if count < 2:
        return 1.0
    charge = log(2.0 / failure_probability) if failure_probability > 0.0 else inf
    variance = float(values.var(ddof=1))
    mean = float(values.mean())
    return min(1.0, mean + sqrt(2.0 * variance * charge / count) + 7.0 * charge / (3.0 * (count - 1)))
