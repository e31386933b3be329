"""What an adversary with a Gaussian-process prior believes after a release with Gaussian noise.

Meehan, Chaudhuri, appendix 7.4: the covariance ``(Sigma^-1 + G^-1)^-1``. Long length scales make ``Sigma``
close to singular and designed noise is often of low rank, so neither is ever inverted here.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from models.gaussian_process.conditional import checked_covariance, condition_on, rounding_error

Floats = NDArray[np.float64]


def posterior_covariance(prior: Floats, noise: Floats) -> Floats:
    """``Sigma - Sigma (Sigma + G)^-1 Sigma`` (n, n): the uncertainty left about every time."""
    prior = checked_covariance(prior, "prior covariance")
    noise = checked_covariance(noise, "noise covariance")
    left = prior - prior @ cho_solve(cho_factor(lift(prior + noise)), prior)
    return (left + left.T) / 2.0


def posterior_mean(prior: Floats, noise: Floats, released: Floats) -> Floats:
    """``Sigma (Sigma + G)^-1 z`` for releases ``z`` (..., n) of a prior of mean zero."""
    factor = cho_factor(lift(prior + noise))
    return np.asarray(released @ cho_solve(factor, prior), np.float64)


def posterior_interval(prior: Floats, noise: Floats, secret: Sequence[int]) -> float:
    """Half-width ``2 sigma`` of the adversary's belief about the secret, in the unit of the values.

    ``2 sqrt(smallest eigenvalue of the posterior's block)`` at the positions ``secret``: its best known
    direction.
    """
    split = condition_on(prior, secret)
    posterior = posterior_covariance(prior, noise)
    smallest = np.linalg.eigvalsh(posterior[np.ix_(split.secret, split.secret)])[0]
    return 2.0 * float(np.sqrt(max(float(smallest), 0.0)))


def lift(matrix: Floats, rounding: float = 0.0, times: float = 1.0) -> Floats:
    """``matrix`` (n, n) plus ``times`` its rounding error, or the larger ``rounding``, on the diagonal.

    A positive semidefinite matrix becomes one that a Cholesky factorisation accepts; nothing smaller is known
    about it anyway.
    """
    points = len(matrix)
    own = rounding_error(points, float(np.linalg.norm(matrix, 2)))
    return matrix + times * max(own, rounding) * np.eye(points)
