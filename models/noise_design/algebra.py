"""Small matrix facts that the noise designs share."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from models.gaussian_process import Conditional

Floats = NDArray[np.float64]

_NEVER = 1e150  # a weight beyond which nothing is spent any more: there is nothing to hide


def positive_part(matrix: Floats) -> Floats:
    """The positive semidefinite matrix of least trace above a symmetric ``matrix``.

    For the projector ``P`` on the positive eigenspace of ``N``: ``tr G >= tr(P G P) >= tr(P N P)``.
    """
    values, vectors = np.linalg.eigh(matrix)
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T, np.float64)


def trace_of_positive_part(matrix: Floats) -> float:
    """The sum of the positive eigenvalues."""
    return float(np.maximum(np.linalg.eigvalsh(matrix), 0.0).sum())


def block_noise(split: Conditional, secret_variance: float, rest: Floats) -> Floats:
    """``G`` with ``G_SS = secret_variance I``, ``G_UU = rest`` and nothing between them."""
    noise = np.zeros((split.points, split.points))
    noise[split.secret, split.secret] = secret_variance
    noise[np.ix_(split.rest, split.rest)] = rest
    return noise


def within_budget(noise: Floats, noise_budget: float) -> Floats:
    """The nearest covariance, scaled to use the whole budget: eigenvalues below zero are rounding."""
    covariance = positive_part((noise + noise.T) / 2.0)
    return covariance * (noise_budget / float(np.trace(covariance)))


def weight_at_budget(spent: Callable[[float], float], noise_budget: float) -> float:
    """Where a convex ``spent``, rising from 0 at 0, reaches the budget; inf where it never does."""
    from scipy.optimize import brentq

    high = 1.0
    while spent(high) < noise_budget:
        high *= 4.0
        if high > _NEVER:
            return math.inf
    while spent(high / 4.0) >= noise_budget:
        high /= 4.0
    return float(
        brentq(lambda weight: spent(weight) - noise_budget, high / 4.0, high, rtol=1e-14, xtol=1e-300)
    )
