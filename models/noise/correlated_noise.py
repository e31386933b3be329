"""Correlated Gaussian noise of a noise window: its covariance, how it is drawn, and what it hides.

A designed covariance ``G`` over the ``n`` steps of a noise window. The vector is drawn once per sensor and
window and released in time order: with ``L L^T = G``, ``L`` lower triangular, the noise of a step needs only
the draws of that step and of those before it, whether or not their values were ever released.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from scipy.special import ndtri

from models.arguments import checked
from models.exceptions import MechanismError
from models.numerics.arrays import Floats, Words
from models.numerics.eigenvalues import extreme_eigenvalues
from models.numerics.jit import jit

MAX_STEPS = 1024
_PIVOT = 1e-12  # of the largest variance: a direction with less has no noise
_UNDECIDED = 1e-9  # of the largest eigenvalue: rounding may make eigenvalues of a covariance that negative
_REAL = "fiu"  # kinds of numpy's types: floating point, integer, unsigned
_FINGERPRINT_BITS = 52  # exact as a JSON number


@dataclass(frozen=True, eq=False)
class CorrelatedNoise:
    """The noise of one noise window. ``factor`` (n, n) is lower triangular; ``covariance`` is its square.

    Two with the same factor are the same noise; ``design`` is a hash of it.
    """

    factor: Floats

    @classmethod
    @checked(MechanismError)
    def of_covariance(cls, covariance: Floats) -> CorrelatedNoise:
        """Noise with this covariance (n, n), in people squared; :class:`MechanismError` if it is none."""
        matrix = np.asarray(covariance, dtype=np.float64)
        if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or not 1 <= len(matrix) <= MAX_STEPS:
            raise MechanismError(
                f"a noise covariance must be a square matrix of 1..{MAX_STEPS} steps",
                matrix.shape,
                "give one row and one column for each step of the noise window",
            )
        if not np.all(np.isfinite(matrix)) or not np.allclose(matrix, matrix.T, rtol=1e-9, atol=0.0):
            raise MechanismError(
                "a noise covariance must be finite and symmetric", "another matrix", "use (G + G.T) / 2"
            )
        matrix = 0.5 * (matrix + matrix.T)
        least, largest = extreme_eigenvalues(matrix)
        if least < -_UNDECIDED * max(largest, 0.0) or largest <= 0.0:
            raise MechanismError(
                "a noise covariance must have no negative eigenvalue, and not be zero",
                f"eigenvalues {least:.3g} to {largest:.3g}",
                "check the design; release raw where no noise is wanted",
            )
        factor = np.zeros_like(matrix)
        _factorise(matrix, _PIVOT * float(np.diag(matrix).max()), factor)
        return cls(factor)

    @classmethod
    def load(cls, path: Path) -> CorrelatedNoise:
        """The covariance in a file of numpy's (``noise design --covariance``)."""
        remedy = "write one with `tallyguard noise design --covariance`"
        try:
            matrix = np.load(path, allow_pickle=False)
        except Exception as error:  # numpy does not say what it raises for a damaged file
            raise MechanismError(f"{path} must be a numpy file with a covariance", error, remedy) from error
        if not isinstance(matrix, np.ndarray) or matrix.dtype.kind not in _REAL:
            found = getattr(matrix, "dtype", "several arrays")
            raise MechanismError(f"{path} must hold one matrix of real numbers", found, remedy)
        return cls.of_covariance(matrix)

    @property
    def steps(self) -> int:
        """Length of the noise window."""
        return len(self.factor)

    @cached_property
    def covariance(self) -> Floats:
        """Covariance (n, n) of what is drawn, people squared."""
        return _square(self.factor)

    @cached_property
    def design(self) -> int:
        """A number that names the design, the same on every machine that has the same factor."""
        digest = hashlib.sha256(self.factor.astype(">f8").tobytes()).digest()
        return int.from_bytes(digest[:8], "big") >> (64 - _FINGERPRINT_BITS)

    @cached_property
    def independent_variance(self) -> Floats:
        """Variances (n,) of independent noise that reveals at least as much; 0 where no bound is known.

        For diagonal ``D`` with ``G - D`` positive semidefinite, the noise is independent noise with variances
        ``D`` plus independent further noise: the release is post-processing of one with noise ``D`` alone.
        Of ``lambda_min(G) I`` and ``lambda_min(C) diag(G)``, ``C`` the correlations, the one with the smaller
        sum of ``1 / D`` is taken. Beyond the papers.
        """
        variance = np.diag(self.covariance)
        noised = np.flatnonzero(variance > 0.0)
        block = self.covariance[np.ix_(noised, noised)]
        spread = np.sqrt(variance[noised])
        even = np.full(noised.size, _least_eigenvalue(block))
        scaled = _least_eigenvalue(block / np.outer(spread, spread)) * variance[noised]
        valid = [own for own in (even, scaled) if own.min() > 0.0]
        independent = np.zeros_like(variance)
        independent[noised] = min(valid, key=lambda own: float(np.sum(1.0 / own)), default=0.0)
        return independent

    def noise(self, position: int, words: Words) -> Floats:
        """Noise (m,) of the step at ``position`` for the window's draws ``words`` (m, position + 1, 2)."""
        bits = (words[:, :, 0] >> np.uint64(11)).astype(np.float64)
        normals = np.asarray(ndtri((bits + 0.5) * 2.0**-53), dtype=np.float64)
        total = np.zeros(words.shape[0])
        _combine(self.factor[position, : position + 1], normals, total)
        return total

    def realisation_mass(self, position: int) -> float:
        """Total variation between what is drawn and rounded to integers and the ideal, at most.

        Draws have 53 bits and end at 8.2 standard deviations; the sum's rounding error matters where the sum
        is that close to a half-integer.
        """
        sigma = math.sqrt(float(self.covariance[position, position]))
        return (position + 1) * (1.0 + sigma) * 2.0**-47


def _least_eigenvalue(matrix: Floats) -> float:
    """The smallest eigenvalue less its numerical uncertainty, and not below 0."""
    least, largest = extreme_eigenvalues(matrix)
    return max(0.0, least - len(matrix) * 2.0**-48 * largest)


@jit
def _factorise(covariance: Floats, least: float, factor: Floats) -> None:
    """Cholesky's factor, a column of zeros where the pivot is below ``least`` (semidefinite matrices)."""
    for j in range(covariance.shape[0]):
        pivot = covariance[j, j]
        for k in range(j):
            pivot -= factor[j, k] ** 2
        if pivot <= least:
            continue
        factor[j, j] = math.sqrt(pivot)
        for i in range(j + 1, covariance.shape[0]):
            rest = covariance[i, j]
            for k in range(j):
                rest -= factor[i, k] * factor[j, k]
            factor[i, j] = rest / factor[j, j]


@jit
def _square(factor: Floats) -> Floats:
    """``L L^T`` of a lower triangular ``L``, each sum in the same order on every machine."""
    square = np.empty_like(factor)
    for i in range(factor.shape[0]):
        for j in range(i + 1):
            total = 0.0
            for k in range(j + 1):
                total += factor[i, k] * factor[j, k]
            square[i, j] = square[j, i] = total
    return square


@jit
def _combine(row: Floats, normals: Floats, total: Floats) -> None:
    """``normals`` (m, k) times ``row`` (k,), each sum in the same order whatever the batch."""
    for i in range(normals.shape[0]):
        for k in range(row.size):
            total[i] += row[k] * normals[i, k]
