"""From the loss to a sentence about the adversary's belief."""

from __future__ import annotations

import math

from accounting.exceptions import InferentialPrivacyError
from accounting.inferential.checks import check_order


def prior_posterior_gap(epsilon: float, order: float, delta: float) -> float:
    """How far the release can move the adversary's log odds between two secrets, nats.

    ``epsilon + ln(1/delta) / (lambda - 1)``, with probability at least ``1 - delta`` over the noise and the
    rest of the trace (Meehan, Chaudhuri, theorem 3.3). :class:`InferentialPrivacyError` unless 0 < delta <
    1.
    """
    check_order(order)
    if not 0.0 < delta < 1.0:
        raise InferentialPrivacyError("delta must be between 0 and 1", delta, "try 0.05")
    return epsilon + math.log(1.0 / delta) / (order - 1.0)
