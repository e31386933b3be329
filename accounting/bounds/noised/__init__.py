"""Bounds on noised counts: kept or erased, put in a few levels of evidence, and drawn."""

from accounting.bounds.noised.erasure_bound import ERASURE, expected_under_erasure
from accounting.bounds.noised.levels_bound import LEVELS
from accounting.bounds.noised.sampled import SAMPLED, sampled_success

__all__ = ["ERASURE", "LEVELS", "SAMPLED", "expected_under_erasure", "sampled_success"]
