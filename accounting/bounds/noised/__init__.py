"""Bounds on noised counts: kept or erased, put in levels of evidence, between chord and line, and drawn."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.bounds.noised.erasure_bound import ERASURE, expected_under_erasure
from accounting.bounds.noised.levels_bound import LEVELS
from accounting.bounds.noised.sampled import SAMPLED, drawn_log, judged_draws, sampled_success
from accounting.bounds.noised.sandwich_bound import SANDWICH
