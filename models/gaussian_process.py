"""Gaussian-process priors: what is believed about a trace or a count series before anything is released."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Self

import numpy as np
from numpy.typing import NDArray

from models.arguments import checked
from models.exceptions import GaussianProcessError
from models.numerics.arrays import Floats
from models.numerics.elementwise import exp, log

# What a prior says about the rest of a trace once the values at the secret times are known.

Indices = NDArray[np.intp]

_EPSILON = float(np.finfo(np.float64).eps)
_LEAST = 1e-300  # so that a matrix of zeros can be factorised too
_SYMMETRY = 1e-8  # relative; beyond rounding, well below any covariance that matters


@dataclass(frozen=True, slots=True)
class Conditional:
    """``n`` times split into the secret ones ``S`` (k of them) and the rest ``U`` (n - k).

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
    matrix that is not a covariance, or positions that are repeated or outside it.
    """
    from scipy.linalg import lstsq

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


# Covariance functions of time: RBF, periodic, Matérn, white noise, and their sums and products.
#
# Times may be irregular; they and the length scales share one unit, of the caller's choice. Variances are
# in the square of the unit of the values. Definitions as in Meehan, Chaudhuri, "Location Trace Privacy
# Under Conditional Priors", appendix equation (6), and Rasmussen, Williams, "Gaussian Processes for Machine
# Learning" (2006), section 4.2.

_SMOOTHNESS = (0.5, 1.5, 2.5)


class Kernel(ABC):
    """A positive semidefinite function of two times. ``+`` and ``*`` make sums and products."""

    @abstractmethod
    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right] between the values at times ``left`` (n,) and ``right`` (m,)."""

    @abstractmethod
    def hyperparameters(self) -> dict[str, float]:
        """Every number that can be fitted, by name; all are positive."""

    @abstractmethod
    def with_hyperparameters(self, values: Mapping[str, float]) -> Kernel:
        """The same kernel with some numbers replaced."""

    def covariance(self, times: Floats) -> Floats:
        """The covariance matrix [time, time] of the values at ``times`` (n,), exactly symmetric."""
        matrix = self.between(times, times)
        return (matrix + matrix.T) / 2.0

    def __add__(self, other: Kernel) -> Sum:
        """The kernel of two independent processes added up."""
        return Sum(self, other)

    def __mul__(self, other: Kernel) -> Product:
        """The kernel of two independent processes multiplied."""
        return Product(self, other)


@dataclass(frozen=True)
class _Leaf(Kernel):
    """A kernel made of positive numbers."""

    def __post_init__(self) -> None:
        for name, value in self.hyperparameters().items():
            if not (math.isfinite(value) and value > 0.0):
                kind = type(self).__name__
                raise GaussianProcessError(
                    f"{name} of {kind} must be positive and finite", value, "give a positive number"
                )

    def hyperparameters(self) -> dict[str, float]:
        return {item.name: getattr(self, item.name) for item in fields(self) if item.name != "smoothness"}

    def with_hyperparameters(self, values: Mapping[str, float]) -> Self:
        own = self.hyperparameters()
        return replace(self, **{name: value for name, value in values.items() if name in own})


@checked(GaussianProcessError)
@dataclass(frozen=True)
class RBF(_Leaf):
    """``variance exp(-dt^2 / (2 length_scale^2))``: very smooth movement."""

    length_scale: float
    variance: float = 1.0

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.variance * exp(-0.5 * (_apart(left, right) / self.length_scale) ** 2)


@checked(GaussianProcessError)
@dataclass(frozen=True)
class Periodic(_Leaf):
    """``variance exp(-2 sin^2(pi dt / period) / length_scale^2)``; the length scale has no unit."""

    length_scale: float
    period: float
    variance: float = 1.0

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        turn = np.sin(np.pi * _apart(left, right) / self.period)
        return self.variance * exp(-2.0 * (turn / self.length_scale) ** 2)


@checked(GaussianProcessError)
@dataclass(frozen=True)
class Matern(_Leaf):
    """The Matérn kernel of smoothness 0.5, 1.5 or 2.5 (Rasmussen, Williams, equations 4.17 and below)."""

    length_scale: float
    smoothness: float = 1.5
    variance: float = 1.0

    def __post_init__(self) -> None:
        """:class:`GaussianProcessError` unless the smoothness is one with a closed form."""
        super().__post_init__()
        if self.smoothness not in _SMOOTHNESS:
            raise GaussianProcessError(
                "smoothness must be 0.5, 1.5 or 2.5", self.smoothness, "choose one of them, or RBF"
            )

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        scaled = math.sqrt(2.0 * self.smoothness) * np.abs(_apart(left, right)) / self.length_scale
        polynomial = 1.0 + (self.smoothness > 1.0) * scaled + (self.smoothness > 2.0) * scaled**2 / 3.0
        return np.asarray(self.variance * polynomial * exp(-scaled), np.float64)


@checked(GaussianProcessError)
@dataclass(frozen=True)
class White(_Leaf):
    """Independent noise: ``variance`` at equal times, nothing between different ones."""

    variance: float

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return np.asarray(self.variance * (_apart(left, right) == 0.0), np.float64)


@dataclass(frozen=True)
class _Pair(Kernel):
    """Two kernels combined; the numbers of each are named ``left.`` and ``right.``."""

    left: Kernel
    right: Kernel

    def hyperparameters(self) -> dict[str, float]:
        sides = (("left", self.left), ("right", self.right))
        return {
            f"{side}.{name}": value
            for side, kernel in sides
            for name, value in kernel.hyperparameters().items()
        }

    def with_hyperparameters(self, values: Mapping[str, float]) -> Self:
        return replace(
            self,
            left=self.left.with_hyperparameters(_below("left", values)),
            right=self.right.with_hyperparameters(_below("right", values)),
        )


@dataclass(frozen=True)
class Sum(_Pair):
    """The sum of two independent processes."""

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.left.between(left, right) + self.right.between(left, right)


@dataclass(frozen=True)
class Product(_Pair):
    """The product of two independent processes of mean zero, e.g. a daily cycle that slowly changes."""

    def between(self, left: Floats, right: Floats) -> Floats:
        """Covariances [left, right]."""
        return self.left.between(left, right) * self.right.between(left, right)


def _apart(left: Floats, right: Floats) -> Floats:
    """Time differences [left, right]."""
    return np.subtract.outer(np.asarray(left, np.float64), np.asarray(right, np.float64))


def _below(side: str, values: Mapping[str, float]) -> dict[str, float]:
    """The numbers of one side, without its prefix."""
    prefix = f"{side}."
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}


# A Gaussian-process prior at given times.


@checked(GaussianProcessError)
@dataclass(frozen=True, eq=False)
class GaussianProcessPrior:
    """A kernel at increasing times (n,), regular or not.

    The mean may be anything, no guarantee depends on it (Meehan, Chaudhuri, appendix 7.5: a conditional prior
    class holds every mean function).
    """

    kernel: Kernel
    times: Floats

    def __post_init__(self) -> None:
        """:class:`GaussianProcessError` unless the times are finite and increasing."""
        times = np.array(self.times, np.float64)
        if times.ndim != 1 or not times.size or not np.isfinite(times).all():
            raise GaussianProcessError(
                "times must be a list of finite numbers", times.shape, "give at least one"
            )
        if (np.diff(times) <= 0.0).any():
            raise GaussianProcessError("times must increase", "a step back or a repeat", "sort them")
        times.flags.writeable = False
        object.__setattr__(self, "times", times)

    @classmethod
    def at_steps(cls, kernel: Kernel, points: int) -> GaussianProcessPrior:
        """The prior at ``points`` times 0, 1, 2, ..."""
        return cls(kernel, np.arange(points, dtype=np.float64))

    def covariance(self) -> Floats:
        """The covariance [time, time]."""
        return self.kernel.covariance(self.times)

    def condition_on(self, secret: Sequence[int]) -> Conditional:
        """What the values at the positions ``secret`` say about the others."""
        return condition_on(self.covariance(), secret)

    def sample(self, draws: int, random: np.random.Generator) -> Floats:
        """Traces [draw, time] of mean zero, for simulations; the prior may be singular."""
        values, vectors = np.linalg.eigh(self.covariance())
        root = vectors * np.sqrt(np.maximum(values, 0.0))
        return np.asarray(random.standard_normal((draws, self.times.size)) @ root.T, np.float64)


def lift(matrix: Floats, rounding: float = 0.0, times: float = 1.0) -> Floats:
    """``matrix`` (n, n) plus ``times`` its rounding error, or the larger ``rounding``, on the diagonal.

    A Cholesky factorisation accepts the result for a positive semidefinite matrix. Long length scales make
    priors nearly singular and designed noise often has a low rank, so neither is ever inverted.
    """
    points = len(matrix)
    own = rounding_error(points, float(np.linalg.norm(matrix, 2)))
    return matrix + times * max(own, rounding) * np.eye(points)


# Fitting a kernel to observed values by maximum likelihood.

_RELATIVE_NUGGET = 1e-8  # of the mean variance: a smooth kernel's matrix is singular in floating point
_STARTS = (0.2, 1.0, 5.0)  # the likelihood of a length scale often has two maxima: smooth, and all noise
_REACH = math.log(1e4)  # how far from the given value a number may be fitted
_REJECTED = 1e25  # finite, so that the line search can step back from it


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The kernel of greatest likelihood, and its fitted numbers by name."""

    kernel: Kernel
    log_likelihood_nats: float
    fitted: Mapping[str, float]


def fit_kernel(kernel: Kernel, times: Floats, values: Floats, free: Sequence[str]) -> KernelFit:
    """Fit the numbers named ``free`` to ``values`` (n,) or (series, n) observed at ``times`` (n,).

    The given kernel is the start of the search and keeps its other numbers. Each series is centred.
    Meehan and Chaudhuri fix the variance at that of the normalised trace and fit the length scale alone
    (appendix 7.4): ``free=["length_scale"]``. O(n^3) per evaluation.
    :class:`GaussianProcessError` for unknown names, wrong shapes, or where no start has a finite likelihood.
    """
    from scipy.optimize import minimize  # takes long to import, and workers fit nothing

    series = np.atleast_2d(np.asarray(values, np.float64))
    if series.ndim != 2 or series.shape[1] != len(times) or not np.isfinite(series).all():
        raise GaussianProcessError(
            f"values must be finite, {len(times)} per series", series.shape, "give one value per time"
        )
    observed = series - series.mean(axis=1, keepdims=True)
    names, known = list(free), kernel.hyperparameters()
    if not names or not set(names) <= known.keys():
        raise GaussianProcessError(f"free must be among {sorted(known)}", names, "check the spelling")
    start = log([known[name] for name in names])
    # length scales start at several values, as their likelihood often has several maxima
    factors = [_STARTS if name.endswith("length_scale") else (1.0,) for name in names]
    shifts = [log(combination) for combination in product(*factors)]

    def misfit(logs: Floats) -> float:
        candidate = kernel.with_hyperparameters(dict(zip(names, exp(logs).tolist(), strict=True)))
        return -max(log_likelihood_nats(candidate.covariance(times), observed), -_REJECTED)

    bounds = [(low - _REACH, low + _REACH) for low in start]
    found = [minimize(misfit, start + shift, method="L-BFGS-B", bounds=bounds) for shift in shifts]
    best = min(found, key=lambda result: float(result.fun))
    if float(best.fun) >= _REJECTED:
        raise GaussianProcessError(
            "a starting kernel must have a positive definite covariance", kernel, "add a White part"
        )
    fitted = dict(zip(names, exp(best.x).tolist(), strict=True))
    return KernelFit(kernel.with_hyperparameters(fitted), -float(best.fun), fitted)


def log_likelihood_nats(covariance: Floats, values: Floats) -> float:
    """Log density (nats) of series [series, n] of mean zero; -inf where the matrix is no covariance."""
    from scipy.linalg import cho_solve, cholesky  # takes long to import, and runs need none of it

    points = len(covariance)
    nugget = _RELATIVE_NUGGET * float(np.trace(covariance)) / points
    try:
        factor = cholesky(covariance + nugget * np.eye(points), lower=True)
    except np.linalg.LinAlgError:
        return -math.inf
    misfit = float(np.sum(values.T * cho_solve((factor, True), values.T)))
    log_determinant = 2.0 * float(np.sum(log(np.diag(factor))))
    return -0.5 * (misfit + len(values) * (log_determinant + points * math.log(2.0 * math.pi)))
