"""Bounds on raw counts, which follow the steps the person was counted in."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.bounds.patterns.exact import EXACT, trajectories
from accounting.bounds.patterns.frontier_bound import FRONTIER, MOST_LAWS
from accounting.bounds.patterns.moment import (
    LEAST_PATTERN,
    MOST_OPERATIONS,
    Size,
    affordable_vectors,
    usable_order,
)
from accounting.bounds.patterns.registry import RAW_BOUNDS
