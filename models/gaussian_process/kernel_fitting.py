"""Fitting a kernel to observed values by maximum likelihood."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, cholesky

from models.exceptions import GaussianProcessError
from models.gaussian_process.covariances import Kernel
from models.numerics.elementwise import exp, log

Floats = NDArray[np.float64]

_RELATIVE_NUGGET = 1e-8  # of the mean variance: a smooth kernel's matrix is singular in floating point
_STARTS = (0.2, 1.0, 5.0)  # the likelihood of a length scale often has two maxima: smooth, and all noise
_REACH = math.log(1e4)  # how far from the given value a number may be fitted
_REJECTED = 1e25  # finite, so that the line search can step back from it


@dataclass(frozen=True, slots=True)
class KernelFit:
    """The kernel of greatest likelihood that was found."""

    kernel: Kernel
    log_likelihood_nats: float
    fitted: Mapping[str, float]


def fit_kernel(kernel: Kernel, times: Floats, values: Floats, free: Sequence[str]) -> KernelFit:
    """Fit the numbers named ``free`` to ``values`` (n,) or (series, n) observed at ``times`` (n,).

    The given kernel is the start of the search and keeps its other numbers. Each series loses its mean.
    Meehan and Chaudhuri fix the variance at that of the normalised trace and fit the length scale alone
    (appendix 7.4): ``free=["length_scale"]``. O(n^3) per evaluation.
    :class:`GaussianProcessError` for unknown names, wrong shapes, or where no start has a finite likelihood.
    """
    from scipy.optimize import minimize  # takes long to import, and workers fit nothing

    observed = _centred(times, values)
    start = _starting_logs(kernel, free)
    names = list(free)

    def misfit(logs: Floats) -> float:
        candidate = kernel.with_hyperparameters(dict(zip(names, exp(logs).tolist(), strict=True)))
        return -max(log_likelihood_nats(candidate.covariance(times), observed), -_REJECTED)

    bounds = [(low - _REACH, low + _REACH) for low in start]
    found = [minimize(misfit, start + shift, method="L-BFGS-B", bounds=bounds) for shift in _shifts(names)]
    best = min(found, key=lambda result: float(result.fun))
    if float(best.fun) >= _REJECTED:
        raise GaussianProcessError(
            "a starting kernel must have a positive definite covariance", kernel, "add a White part"
        )
    fitted = dict(zip(names, exp(best.x).tolist(), strict=True))
    return KernelFit(kernel.with_hyperparameters(fitted), -float(best.fun), fitted)


def log_likelihood_nats(covariance: Floats, values: Floats) -> float:
    """Log density (nats) of series [series, n] of mean zero; -inf where the matrix is no covariance."""
    points = len(covariance)
    nugget = _RELATIVE_NUGGET * float(np.trace(covariance)) / points
    try:
        factor = cholesky(covariance + nugget * np.eye(points), lower=True)
    except LinAlgError:
        return -math.inf
    misfit = float(np.sum(values.T * cho_solve((factor, True), values.T)))
    log_determinant = 2.0 * float(np.sum(log(np.diag(factor))))
    return -0.5 * (misfit + len(values) * (log_determinant + points * math.log(2.0 * math.pi)))


def effective_length_scale(length_scale: float, times: Floats) -> float:
    """The length scale in sampling periods: how many neighbouring points are highly correlated.

    ``l / P`` with the median spacing of ``times`` for ``P`` (Meehan, Chaudhuri, appendix 7.4).
    """
    if len(times) < 2:
        raise GaussianProcessError("times must be two or more", len(times), "give the sampling times")
    return length_scale / float(np.median(np.diff(times)))


def _centred(times: Floats, values: Floats) -> Floats:
    """Series [series, n] without their means."""
    series = np.atleast_2d(np.asarray(values, np.float64))
    if series.ndim != 2 or series.shape[1] != len(times) or not np.isfinite(series).all():
        raise GaussianProcessError(
            f"values must be finite, {len(times)} per series", series.shape, "give one value per time"
        )
    return np.asarray(series - series.mean(axis=1, keepdims=True), np.float64)


def _starting_logs(kernel: Kernel, free: Sequence[str]) -> Floats:
    known = kernel.hyperparameters()
    unknown = [name for name in free if name not in known]
    if unknown or not free:
        raise GaussianProcessError(f"free must be among {sorted(known)}", list(free), "check the spelling")
    return log([known[name] for name in free])


def _shifts(names: Sequence[str]) -> list[Floats]:
    """Every combination of starts for the length scales; other numbers start where they are."""
    factors = [_STARTS if name.endswith("length_scale") else (1.0,) for name in names]
    return [log(combination) for combination in product(*factors)]
