"""Bounds on raw and noised counts that follow which steps the person was counted in."""

from accounting.bounds.patterns.effort import Effort
from accounting.bounds.patterns.erasure_bound import erasure
from accounting.bounds.patterns.exact import exact_bound, trajectories
from accounting.bounds.patterns.genie_aided import feedback_bound
from accounting.bounds.patterns.moment import LEAST_PATTERN, MOST_OPERATIONS, HitMoments, Size, moment_bound
from accounting.bounds.patterns.sampled import sampled_bound

__all__ = [
    "LEAST_PATTERN",
    "MOST_OPERATIONS",
    "Effort",
    "HitMoments",
    "Size",
    "erasure",
    "exact_bound",
    "feedback_bound",
    "moment_bound",
    "sampled_bound",
    "trajectories",
]
