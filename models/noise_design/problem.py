"""The problem that a noise design solves, and the loss that it minimises."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from models.exceptions import NoiseDesignError
from models.gaussian_process import Conditional, checked_covariance, checked_positions, condition_on, lift
from models.numerics.arrays import Floats

# Small matrix facts that the noise designs share.


_NEVER = 1e150  # where nothing is spent at such a weight, there is nothing to hide


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


@dataclass(frozen=True, eq=False)
class DesignProblem:
    """Noise for one window: the prior covariance (n, n), the secret positions and the noise budget.

    ``noise_budget`` is the trace of the noise covariance: the summed error variance of the n released values.
    Without ``secret`` every time is one of its own (a *basic* secret); several positions together are one
    *compound* secret. :class:`NoiseDesignError` or :class:`GaussianProcessError` for anything out of range.
    """

    prior: Floats
    secret: tuple[int, ...] | None
    noise_budget: float

    def __post_init__(self) -> None:
        """Check everything once, so that the methods need not."""
        matrix = checked_covariance(self.prior, "prior covariance")
        if not (np.diag(matrix) > 0.0).all():
            raise NoiseDesignError("every value must vary", "a variance of 0", "leave that time out")
        if self.secret is not None:
            checked_positions(self.secret, len(matrix))
        if not (math.isfinite(self.noise_budget) and self.noise_budget > 0.0):
            raise NoiseDesignError(
                "the noise budget must be positive and finite", self.noise_budget, "give the trace wanted"
            )
        object.__setattr__(self, "prior", matrix)

    @property
    def points(self) -> int:
        """Number of times, n."""
        return len(self.prior)

    @property
    def secrets(self) -> tuple[tuple[int, ...], ...]:
        """The secrets to protect: the one given, or each time."""
        return tuple((time,) for time in range(self.points)) if self.secret is None else (self.secret,)

    @cached_property
    def split(self) -> Conditional:
        """The prior conditioned on the secret; :class:`NoiseDesignError` if none was given."""
        if self.secret is None:
            raise NoiseDesignError(
                "this method protects one secret",
                "none",
                "give the secret, or use multiple or multiple-exact",
            )
        return condition_on(self.prior, self.secret)


# The loss that a noise design minimises: what a release with Gaussian noise reveals about a secret.
#
# Two values of the secret shift the release's law and leave its covariance alone, so their Rényi divergence
# of order ``lambda`` is ``lambda/2`` times a quadratic form in the difference. Its matrix is, for any noise
# ``G``,
#
#     J = B^T (blkdiag(0, Sigma_{U|S}) + G)^-1 B,    B = [I; A],    A = Sigma_US Sigma_SS^-1
#
# (Meehan, Chaudhuri, "Location Trace Privacy Under Conditional Priors", proof of theorem 3.4, here without
# its assumption that the noise at the secret is independent of the rest). By Bayes ``J`` is also the
# precision that the release adds to the adversary's belief: ``Post_SS^-1 - Sigma_SS^-1``.

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
    the two differ, the secret follows from values that are released (nearly) exactly, and no finite loss is
    claimed. :class:`NoiseDesignError` for noise that is no covariance of this size.
    """
    return conditional_information(condition_on(prior, secret), noise)


def conditional_information(split: Conditional, noise: Floats) -> SecretInformation:
    """:func:`secret_information` for a prior that is already split."""
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
    from scipy.linalg import cho_factor, cho_solve

    try:
        form = lifted.T @ cho_solve(cho_factor(spread), lifted)
    except np.linalg.LinAlgError:
        raise NoiseDesignError(
            "prior and noise must be covariances", "a negative eigenvalue", "check both matrices"
        ) from None
    return np.asarray((form + form.T) / 2.0, np.float64)
