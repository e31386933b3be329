"""Sums of probabilities kept as logarithms."""

from __future__ import annotations

import numpy as np

from models.numerics.jit import jit


@jit
def log_sum(total: float, term: float) -> float:
    """``ln(e^total + e^term)``; minus infinity is an empty sum."""
    larger = max(total, term)
    if larger == -np.inf:
        return larger
    return larger + np.log(1.0 + np.exp(min(total, term) - larger))
