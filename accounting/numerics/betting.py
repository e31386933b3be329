"""A mean from independent draws, bounded with a stated confidence."""

from __future__ import annotations

from math import inf, log

import numpy as np
from numpy.typing import NDArray

from accounting.numerics.betting_kernel import is_refuted, stakes
from accounting.numerics.intervals import Interval
from accounting.numerics.roots import bracket


def upper_mean(values: NDArray[np.float64], failure_probability: float) -> float:
    """Upper bound on the mean of draws in [0, 1] that fails with at most the given probability.

    The largest mean that betting does not refute (:mod:`accounting.numerics.betting_kernel`), and never less
    than the draws' own; their order matters. Their number must have been fixed beforehand. Without draws it
    says 1.
    """
    if values.size == 0 or failure_probability <= 0.0:
        return 1.0
    threshold = 1.0 / failure_probability
    stake = stakes(values, log(threshold) if threshold < inf else inf)
    refuted = bracket(lambda mean: not is_refuted(mean, values, stake, threshold), 0.0, 1.0)
    return max(refuted.first_false, min(1.0, float(values.mean())))


def mean_interval(values: NDArray[np.float64], failure_probability: float) -> Interval:
    """An interval that misses the mean of draws in [0, 1] with at most the given probability.

    The upper bound on the mean, and what the upper bound on the mean of ``1 - x`` leaves of it.
    """
    each = 0.5 * failure_probability
    return Interval(1.0 - upper_mean(1.0 - values, each), upper_mean(values, each))
