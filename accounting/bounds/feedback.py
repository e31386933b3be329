"""The bound by feedback: what could be won by an adversary who is told the truth after each guess."""

from __future__ import annotations

import numpy as np

from accounting.bounds.effort import Effort
from accounting.bounds.moment import MOST_ENTRIES, MOST_OPERATIONS, HitMoments
from accounting.exposure import Exposure
from accounting.kernels.feedback import feedback_by_pattern
from accounting.kernels.segments import no_hit_weight

_SHARE = 0.01  # patterns charged without being looked at may make the bound this much larger

_ROUNDING = 1e-12  # the told adversary's success is the optimum itself where no mistake is allowed


def feedback_bound(
    exposure: Exposure, mistakes: int, effort: Effort, moments: HitMoments | None
) -> float | None:
    """Success of any adversary of the raw schedule, hence of the noised one; None where too dear.

    Per hit pattern the smaller of the told adversary's success and, with ``moments``, the moment bound. At
    ``s = 0`` the optimum. Patterns beyond ``effort.patterns`` are charged as success where they are light.
    """
    patterns = exposure.pattern_count
    if not _is_affordable(exposure, mistakes, effort, patterns):
        return None
    moments = moments or HitMoments.none(exposure)
    found = feedback_by_pattern(
        exposure.chain,
        exposure.start,
        exposure.first_slot,
        no_hit_weight(exposure.hits),
        moments.nodes,
        exposure.marginal,
        moments.polynomials,
        mistakes,
        _SHARE / patterns,
        0.0 if patterns <= effort.patterns else 1.0 / effort.patterns,
    )
    return float(np.minimum(1.0, found * (1.0 + _ROUNDING)))


def _is_affordable(exposure: Exposure, mistakes: int, effort: Effort, patterns: float) -> bool:
    """Whether memory and multiplications suffice; a pattern more costs about one step more."""
    stack = (exposure.steps + 2) * (exposure.hits.sum() + 2) * (mistakes + 1)
    if effort.patterns == 0 or stack > MOST_ENTRIES:
        return False
    moves = patterns + exposure.steps if patterns <= effort.patterns else effort.patterns * exposure.steps
    entries = exposure.chain.value.size / exposure.chain.start.shape[0]
    return bool(2.0 * moves * (mistakes + 1) * entries <= MOST_OPERATIONS)
