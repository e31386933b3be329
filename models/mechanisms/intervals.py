"""How far off a published value, or a sum of such, is at most with a given probability: the exact law.

The sum of discrete Gaussians is nearly the discrete Gaussian ``DG`` of the summed variance: a coset sum is a
theta function, so that ``|ln Pr[sum = n] / DG(n)| <= tau`` with the ``tau`` of :func:`log_ratio_of_sum`. Sums
that hold other noise are convolved; of noise that steps share the variance of the sum is known.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from scipy.special import ndtri

from models.mechanisms.base import Mechanism
from models.mechanisms.correlated import Correlated
from models.mechanisms.gaussian import Gaussian
from models.numerics.arrays import Floats
from models.numerics.elementwise import exp

_REACH = 14.0  # scales: what lies beyond has less than 2^-140 of the mass
_LEAST_SIGMA = 0.8  # of each of several, so that the theta function costs little; else laws are convolved
_CUT = 1e-15  # mass that a convolution may leave out at each end, charged to the interval


def half_width(noises: Sequence[Mechanism], level: float, shared: Sequence[Sequence[Correlated]] = ()) -> int:
    """The least ``h`` known with ``Pr[|sum of the noises| > h] <= 1 - level``; ``level`` within (0, 1).

    Noises are independent of each other. Each of ``shared`` has the steps of one noise window: their normal
    numbers have a variance of ``1' Sigma 1``, and are rounded one by one.
    """
    left = 1.0 - level
    if shared:
        left /= 2.0 if noises else 1.0  # half of what may lie outside for each kind
        return _of_shared(shared, left) + (half_width(noises, 1.0 - left) if noises else 0)
    noised = [each for each in noises if not each.is_exact]
    laws = [law for each in noised if (law := each.noise_law()) is not None]
    left -= math.fsum(law.truncated_mass for law in laws)
    if left <= 0.0:
        raise ValueError("samplers must be closer to their laws than the interval's level to one")
    if not laws:
        return 0
    sigmas = tuple(sorted(each.sigma for each in noised if isinstance(each, Gaussian)))
    if len(sigmas) == len(laws) and (len(sigmas) == 1 or sigmas[0] >= _LEAST_SIGMA):
        return gaussian_half_width(math.fsum(each**2 for each in sigmas), left, log_ratio_of_sum(sigmas))
    found = laws[0].probabilities
    for law in laws[1:]:
        found, cut = _trimmed(_convolved(found, law.probabilities))
        left -= cut
    return _half_width(found[found.size // 2 :], left)


def sigma_of_sum(noises: Sequence[Mechanism], shared: Sequence[Sequence[Correlated]] = ()) -> float:
    """The standard deviation of the sum; of shared noise that of the numbers before they are rounded."""
    return math.sqrt(math.fsum(each.variance() for each in noises) + _shared_variance(shared))


def interval_of_mean(
    whole: int, total: int, noises: Sequence[Mechanism], level: float
) -> tuple[int, int] | None:
    """The count that a ``whole`` and the ``total`` of its parts are two values of: ends, 0 or more.

    The last of ``noises`` is that of the whole. The smallest set of the discrete Gaussian about their mean by
    inverse variance holds the count with ``level``, since nothing changes where all are shifted; how far the
    total is off one discrete Gaussian is charged. None for other noise, or too small a sigma.
    """
    sigmas = [each.sigma for each in noises if isinstance(each, Gaussian) and each.sigma >= _LEAST_SIGMA]
    if len(sigmas) < len(noises):
        return None
    laws = [law for each in noises if (law := each.noise_law()) is not None]
    left = (1.0 - level - math.fsum(law.truncated_mass for law in laws)) * math.exp(
        -log_ratio_of_sum(sorted(sigmas[:-1]))
    )
    own, other = sigmas[-1] ** -2, 1.0 / math.fsum(each**2 for each in sigmas[:-1])
    centre, scale = (own * whole + other * total) / (own + other), (own + other) ** -0.5
    reach = math.ceil(_REACH * scale) + 2
    near = math.floor(centre) + np.arange(-reach, reach + 1)
    weights = exp(-(((near - centre) / scale) ** 2) / 2.0)
    order = np.argsort(-weights, kind="stable")
    beyond = 1.0 - np.cumsum(weights[order]) / weights.sum()
    kept = near[order][: int(np.count_nonzero(beyond > left)) + 1]
    return max(0, int(kept.min())), max(0, int(kept.max()))


def _of_shared(shared: Sequence[Sequence[Correlated]], left: float) -> int:
    steps = [each for window in shared for each in window]
    mass = math.fsum(each.noise_law().truncated_mass for each in steps)
    scale = -float(ndtri((left - mass) / 2.0))
    return math.ceil(scale * math.sqrt(_shared_variance(shared)) + len(steps) / 2.0)


def _shared_variance(shared: Sequence[Sequence[Correlated]]) -> float:
    """``1' Sigma 1`` of each window."""
    return math.fsum(
        one.covariance_at(other.position) for window in shared for one in window for other in window
    )


def log_ratio_of_sum(sigmas: Sequence[float]) -> float:
    """``tau``: by how much the log-probability of a sum of discrete Gaussians is off that of one of them.

    ``sum_{j>=2} 2 artanh e(s_j^2)``, ``e(v) = 2 sum_m e^(-2 pi^2 v m^2)``,
    ``s_j^2 = A_(j-1) sigma_j^2 / A_j`` and ``A_j`` the summed variance of the first ``j``. For sigmas of
    0.5 or more.
    """
    total, found = 0.0, 0.0
    for sigma in sigmas:
        before, total = total, total + sigma**2
        if before:
            within = before * sigma**2 / total
            other = 2.0 * math.fsum(math.exp(-2.0 * math.pi**2 * within * m * m) for m in (1, 2, 3, 4))
            found += 2.0 * math.atanh(other)
    return found


@lru_cache(maxsize=4096)
def gaussian_half_width(variance: float, outside: float, log_ratio: float = 0.0) -> int:
    """The least ``h`` with ``Pr_DG[|Z| > h] <= outside e^-log_ratio`` of this variance."""
    last = math.ceil(_REACH * math.sqrt(variance)) + 2
    side = exp(-(np.arange(last + 1.0) ** 2) / (2.0 * variance))
    return _half_width(side / (2.0 * side.sum() - side[0]), outside * math.exp(-log_ratio))


def _half_width(side: Floats, outside: float) -> int:
    """Of a law that is symmetric about zero, by its probabilities from 0 on."""
    beyond = 2.0 * np.cumsum(side[::-1])[::-1][1:]  # Pr[|Z| > h] for h = 0, 1, ...
    return int(np.count_nonzero(beyond > outside))


def _convolved(one: Floats, other: Floats) -> Floats:
    if one.size > other.size:
        one, other = other, one
    found = np.zeros(one.size + other.size - 1)
    for shift, weight in enumerate(one.tolist()):
        found[shift : shift + other.size] += weight * other
    return found


def _trimmed(law: Floats) -> tuple[Floats, float]:
    """The law without its ends, and their mass."""
    cut = int(np.count_nonzero(np.cumsum(law[: law.size // 2]) <= _CUT))
    return law[cut : law.size - cut], 2.0 * float(law[:cut].sum())


# Noise for a target.

_ROUNDS = 60
_SMALLEST_SIGMA = 0.05
_MARGIN = 1e-9


def largest_sigma(within: int, level: float, cells: int = 1) -> float:
    """The most noise of each of so many values whose sum is off by at most ``within`` so often.

    ``Pr[|Z| <= w]`` of a discrete Gaussian falls in sigma (monotone likelihood ratio), so it is bisected; the
    found sigma keeps it. ``within`` / 1.96 would waste a tenth.
    """

    def keeps(sigma: float) -> bool:
        if cells > 1 and sigma < _LEAST_SIGMA:
            return half_width([Gaussian(sigma)] * cells, level) <= within
        outside = (1.0 - level) * math.exp(-log_ratio_of_sum((sigma,) * cells))
        return 1.0 - gaussian_coverage(sigma * math.sqrt(cells), within) <= outside

    low, high = _SMALLEST_SIGMA, 2.0 * within + 2.0
    while keeps(high):
        high *= 2.0
    for _ in range(_ROUNDS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if keeps(middle) else (low, middle)
    return low * (1.0 - _MARGIN)  # what samplers are off the law, 2^-86, is less


def gaussian_coverage(sigma: float, within: int) -> float:
    """``Pr[|Z| <= within]`` of a discrete Gaussian."""
    last = max(within, math.ceil(_REACH * sigma)) + 2
    side = exp(-(np.arange(last + 1.0) ** 2) / (2.0 * sigma**2))
    beyond = math.fsum(side[within + 1 :].tolist())
    inside = math.fsum(side[: within + 1].tolist()) - 0.5
    return inside / (inside + beyond)
