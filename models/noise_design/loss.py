"""The loss that a noise design minimises: what a release with Gaussian noise reveals about a secret.

Two values of the secret shift the release's law and leave its covariance alone, so their Rényi divergence of
order ``lambda`` is ``lambda/2`` times a quadratic form in the difference. Its matrix is, for any noise ``G``,

    J = B^T (blkdiag(0, Sigma_{U|S}) + G)^-1 B,    B = [I; A],    A = Sigma_US Sigma_SS^-1

(Meehan, Chaudhuri, "Location Trace Privacy Under Conditional Priors", proof of theorem 3.4, here without its
assumption that the noise at the secret is independent of the rest). By Bayes ``J`` is also the precision that
the release adds to the adversary's belief: ``Post_SS^-1 - Sigma_SS^-1``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from models.exceptions import NoiseDesignError
from models.gaussian_process import Conditional, checked_covariance, condition_on, lift

Floats = NDArray[np.float64]

_SENSITIVE = 1e-2  # relative change by a hundredfold rounding error: 1e-4 by the error itself


@dataclass(frozen=True, slots=True)
class SecretInformation:
    """The matrix ``J`` (k, k) of the secret's k values; its unit is one over the values' squared."""

    matrix: Floats
    is_resolved: bool  # False: the release fixes the secret as far as floating point can tell

    @property
    def largest(self) -> float:
        """The largest eigenvalue of ``J``, inf where unresolved."""
        return float(np.linalg.eigvalsh(self.matrix)[-1]) if self.is_resolved else math.inf


def secret_information(prior: Floats, noise: Floats, secret: Sequence[int]) -> SecretInformation:
    """``J`` for a prior covariance (n, n), any noise covariance (n, n) and secret positions.

    Evaluated with the matrices' own rounding error as extra noise, and again with a hundred times that. Where
    the two differ the secret follows from values released (nearly) exactly, and no finite loss is claimed.
    :class:`NoiseDesignError` for noise that is no covariance of this size.
    """
    return conditional_information(condition_on(prior, secret), noise)


def conditional_information(split: Conditional, noise: Floats) -> SecretInformation:
    """:func:`secret_information` for a prior that is split already."""
    spread = split.lifted_residual() + checked_noise(noise, split.points)
    return information_through(split.lifted_effect(), spread, split.rounding)


def information_through(effect: Floats, spread: Floats, rounding: float) -> SecretInformation:
    """``effect^T spread^-1 effect`` (k, k): of a Gaussian with covariance ``spread`` (n, n) about its mean.

    ``effect`` (n, k) is how the mean moves with the secret, ``rounding`` the error of ``spread``.
    """
    once, more = (_precision(effect, lift(spread, rounding, times)) for times in (1.0, 100.0))
    change = float(np.linalg.norm(once - more, 2))
    return SecretInformation(once, change <= _SENSITIVE * float(np.linalg.norm(once, 2)))


def loss_nats(information: SecretInformation, order: float, radius: float) -> float:
    """``(lambda/2) k r^2 maxeig(J)``: the bound of theorem 3.4, true for any noise covariance.

    The largest Rényi divergence of ``order`` between releases of two secrets, each of whose ``k`` values
    differs by at most ``radius``; exact for one value.
    """
    if radius == 0.0:
        return 0.0
    return 0.5 * order * len(information.matrix) * radius**2 * information.largest


def indirect_information(split: Conditional, noise: Floats) -> SecretInformation:
    """``A^T (Sigma_{U|S} + G_UU)^-1 A``: what the rest reveals; its largest eigenvalue is ``alpha``."""
    if not split.rest.size:
        return SecretInformation(np.zeros((split.secret.size, split.secret.size)), True)
    noise = checked_noise(noise, split.points)[np.ix_(split.rest, split.rest)]
    return information_through(split.effect, split.residual + noise, split.rounding)


def posterior_half_width(split: Conditional, information: SecretInformation) -> float:
    """``2 sqrt(smallest eigenvalue of Post_SS)`` by ``Post_SS = (I + Sigma_SS J)^-1 Sigma_SS``.

    No difference of nearly equal matrices is taken, so a small posterior keeps its digits.
    """
    block = split.secret_covariance
    posterior = np.linalg.solve(np.eye(len(block)) + block @ information.matrix, block)
    return 2.0 * math.sqrt(max(float(np.linalg.eigvalsh((posterior + posterior.T) / 2.0)[0]), 0.0))


def checked_noise(noise: Floats, points: int) -> Floats:
    """The noise covariance, if it is one for ``points`` times; :class:`NoiseDesignError` otherwise."""
    matrix = checked_covariance(noise, "noise covariance")
    if len(matrix) != points:
        raise NoiseDesignError("noise must have one row per time of the prior", len(matrix), f"give {points}")
    values = np.linalg.eigvalsh(matrix)
    if values[0] < -1e-9 * max(float(values[-1]), 1e-300):
        raise NoiseDesignError(
            "noise must be positive semidefinite", f"an eigenvalue of {values[0]}", "clip its eigenvalues"
        )
    return matrix


def _precision(lifted: Floats, spread: Floats) -> Floats:
    """``B^T M^-1 B`` (k, k) by Cholesky."""
    try:
        form = lifted.T @ cho_solve(cho_factor(spread), lifted)
    except LinAlgError:
        raise NoiseDesignError(
            "prior and noise must be covariances", "a negative eigenvalue", "check both matrices"
        ) from None
    return np.asarray((form + form.T) / 2.0, np.float64)
