"""Multiple Secrets of Meehan and Chaudhuri (algorithm 1): SDP_A for each secret, then SDP_B above them all.

The algorithm bounds each secret's own budget and lets SDP_B's trace come out as it may. For basic secrets
both programs scale with the budget, so the result is scaled to the noise budget asked for.
"""

from __future__ import annotations

from dataclasses import replace

from models.noise_design.algebra import Floats, within_budget
from models.noise_design.problem import DesignProblem
from models.noise_design.sdp_a import sdp_a
from models.noise_design.sdp_b import LeastCover, sdp_b


def multiple(problem: DesignProblem) -> Floats:
    """The noise covariance (n, n) that protects every time of the window, of trace ``noise_budget``."""
    return within_budget(multiple_secrets(problem).covariance, problem.noise_budget)


def multiple_secrets(problem: DesignProblem) -> LeastCover:
    """Algorithm 1 itself, ``noise_budget`` being each basic secret's own."""
    single_secrets = [replace(problem, secret=(time,)) for time in range(problem.points)]
    return sdp_b([sdp_a(each) for each in single_secrets])
