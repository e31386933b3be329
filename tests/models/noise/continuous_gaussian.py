"""Information through *continuous* Gaussian noise: the papers' case. Releases have discrete noise."""

from __future__ import annotations

import math
from itertools import pairwise

from models.exceptions import MechanismError

_REACH = 13.0  # standard deviations: what lies beyond has mass below 1e-37
_SMALL_CHANGE = 1e-4
_NO_OVERFLOW = 700.0


def continuous_gaussian_information(probability: float, sigma: float) -> float:
    """``I(B; B + N(0, sigma^2))`` in nats for ``B`` one with ``probability``, by adaptive quadrature to 1e-9.

    The exact value of what Koga, Meehan and Chaudhuri bound by their equation 4 (after Guo et al.), for one
    step and one sensor. :class:`MechanismError` unless ``sigma`` is positive and finite.
    """
    if not (math.isfinite(sigma) and sigma > 0):
        raise MechanismError("sigma must be positive and finite", sigma, "give it in people, e.g. 1.0")
    p = min(probability, 1.0 - probability)
    if p <= 0.0:
        return 0.0
    absent = _divergence(1.0 - p, p, 1.0 / sigma)
    counted = _divergence(p, 1.0 - p, 1.0 / sigma)
    return p * counted + (1.0 - p) * absent


def _divergence(own: float, other: float, shift: float) -> float:
    """Divergence (nats) of N(0, 1) to ``own`` N(0, 1) plus ``other`` N(shift, 1)."""
    from scipy.integrate import quad

    log_own, log_other = math.log(own), math.log(other)

    def excess(x: float) -> float:
        # density times u - ln(1 + u) for the relative change u, whose own integral is zero
        log_ratio = x * shift - shift**2 / 2
        density = math.exp(-(x**2) / 2)
        change = other * math.expm1(min(log_ratio, _NO_OVERFLOW))
        if abs(change) < _SMALL_CHANGE:  # the difference would cancel
            return density * change**2 * (0.5 - change * (1 / 3 - change / 4))
        low, high = sorted((log_own, log_other + log_ratio))
        log_mixture = high + math.log1p(math.exp(low - high))
        return other * (math.exp(-((x - shift) ** 2) / 2) - density) - density * log_mixture

    balance = (log_own - log_other) / shift + shift / 2  # where both parts of the mixture weigh the same
    inner = {0.0, shift, min(max(balance, -_REACH), shift + _REACH)}
    ends = sorted({-_REACH, shift + _REACH, *inner})
    pieces = [
        quad(excess, start, end, epsabs=0.0, epsrel=1e-9, limit=200)[0] for start, end in pairwise(ends)
    ]
    return math.fsum(pieces) / math.sqrt(2 * math.pi)
