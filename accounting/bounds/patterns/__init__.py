"""Bounds on raw and noised counts that follow which steps the person was counted in."""

from accounting.bounds.patterns.erasure_bound import ERASURE, expected_under_erasure
from accounting.bounds.patterns.exact import EXACT
from accounting.bounds.patterns.genie_aided import GENIE_AIDED
from accounting.bounds.patterns.moment import LEAST_PATTERN, MOMENT, MOST_OPERATIONS, Size
from accounting.bounds.patterns.sampled import SAMPLED

__all__ = [
    "ERASURE",
    "EXACT",
    "GENIE_AIDED",
    "LEAST_PATTERN",
    "MOMENT",
    "MOST_OPERATIONS",
    "SAMPLED",
    "Size",
    "expected_under_erasure",
]
