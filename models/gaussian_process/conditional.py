"""What a prior says about the rest of a trace once the values at the secret times are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lstsq

from models.exceptions import GaussianProcessError

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]

_EPSILON = float(np.finfo(np.float64).eps)
_LEAST = 1e-300  # so that a matrix of zeros can be factorised too
_SYMMETRY = 1e-8  # relative; beyond rounding, well below any covariance that matters


@dataclass(frozen=True, slots=True)
class Conditional:
    """The split of ``n`` times into secret ``S`` (k of them) and the rest ``U`` (n - k).

    ``X_U | X_S = x`` has mean ``effect @ x`` plus a constant and covariance ``residual``.
    """

    secret: Indices  # (k,), positions, ascending
    rest: Indices  # (n - k,)
    secret_covariance: Floats  # (k, k), Sigma_SS
    effect: Floats  # (n - k, k), A = Sigma_US Sigma_SS^-1
    residual: Floats  # (n - k, n - k), Sigma_{U|S}
    rounding: float  # size of the error of `residual`: large where the secret values nearly fix each other

    @property
    def points(self) -> int:
        """Number of times, n."""
        return self.secret.size + self.rest.size

    def lifted_effect(self) -> Floats:
        """``B = [I; A]`` (n, k) in the order of time: how the whole trace shifts with the secret."""
        lifted = np.zeros((self.points, self.secret.size))
        lifted[self.secret] = np.eye(self.secret.size)
        lifted[self.rest] = self.effect
        return lifted

    def lifted_residual(self) -> Floats:
        """``blkdiag(0, Sigma_{U|S})`` (n, n) in the order of time: what the prior leaves uncertain."""
        lifted = np.zeros((self.points, self.points))
        lifted[np.ix_(self.rest, self.rest)] = self.residual
        return lifted


def condition_on(covariance: Floats, secret: Sequence[int]) -> Conditional:
    """Split a prior covariance (n, n) at the positions ``secret``.

    ``Sigma_SS`` may be singular (two times of a purely periodic prior one period apart): the least-squares
    solution of least norm is taken, which is the conditional mean there. :class:`GaussianProcessError` for a
    matrix that is not a covariance or positions that are not distinct and inside it.
    """
    matrix = checked_covariance(covariance, "prior covariance")
    positions = checked_positions(secret, len(matrix))
    rest = np.setdiff1d(np.arange(len(matrix)), positions)
    block = matrix[np.ix_(positions, positions)]
    cross = matrix[np.ix_(positions, rest)]
    effect = lstsq(block, cross)[0].T if rest.size else np.zeros((0, positions.size))
    residual = matrix[np.ix_(rest, rest)] - effect @ cross
    rounding = rounding_error(len(matrix), _norm(matrix) + _norm(effect) * _norm(cross))
    return Conditional(positions, rest, block, effect, (residual + residual.T) / 2.0, rounding)


def rounding_error(points: int, size: float) -> float:
    """How far eigenvalues of a matrix (points, points) made of products of this size may be off."""
    return max(4.0 * points * _EPSILON * size, _LEAST)


def _norm(matrix: Floats) -> float:
    return float(np.linalg.norm(matrix, 2)) if matrix.size else 0.0


def checked_covariance(matrix: Floats, name: str) -> Floats:
    """The matrix as floats, if it is square, finite and symmetric up to rounding."""
    covariance = np.asarray(matrix, np.float64)
    if covariance.ndim != 2 or covariance.shape[0] != covariance.shape[1] or not covariance.size:
        raise GaussianProcessError(
            f"{name} must be a square matrix", covariance.shape, "give one row per time"
        )
    if not np.isfinite(covariance).all():
        raise GaussianProcessError(f"{name} must be finite", "inf or NaN", "check how it was made")
    worst = float(np.abs(covariance - covariance.T).max())
    if worst > _SYMMETRY * float(np.abs(covariance).max()):
        raise GaussianProcessError(f"{name} must be symmetric", f"a difference of {worst}", "symmetrise it")
    return (covariance + covariance.T) / 2.0


def checked_positions(secret: Sequence[int], points: int) -> Indices:
    """Distinct positions among ``points`` times, ascending."""
    positions = np.unique(np.asarray(secret, np.intp))
    if not positions.size or positions.size != len(secret):
        raise GaussianProcessError(
            "secret times must be distinct, at least one", list(secret), "name each once"
        )
    if positions[0] < 0 or positions[-1] >= points:
        raise GaussianProcessError(
            f"secret times must be positions 0..{points - 1}", list(secret), "count from 0"
        )
    return positions
