"""Bounds on noised counts: kept with some probability or erased, and drawn."""

from accounting.bounds.noised.erasure_bound import ERASURE, expected_under_erasure
from accounting.bounds.noised.sampled import SAMPLED, sampled_success

__all__ = ["ERASURE", "SAMPLED", "expected_under_erasure", "sampled_success"]
