"""Exact optimum at ``s = 0`` for raw releases."""

from __future__ import annotations

from math import exp

from accounting.exposure import Exposure
from accounting.kernels.renewal import renewal_optimum


def exact_bound(exposure: Exposure, mistakes: int) -> float | None:
    """``sum_y max_x Pr[x, y]``, the best any adversary of the raw schedule can do; None for ``s > 0``.

    An upper bound for the noised schedule, and where a count covers several of the person's places.
    Beyond the paper.
    """
    if mistakes > 0:
        return None
    log_success = renewal_optimum(exposure.chain, exposure.start, exposure.first_slot, exposure.hits)
    return min(1.0, exp(log_success))
