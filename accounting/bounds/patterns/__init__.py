"""Bounds on raw counts, which follow the steps the person was counted in."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.bounds.patterns.exact import EXACT, Trajectories, shown_optimum, trajectories
from accounting.bounds.patterns.frontier_bound import FRONTIER, MOST_LAWS, least_raw_success
from accounting.bounds.patterns.moment import (
    LEAST_PATTERN,
    MOMENT,
    MOST_OPERATIONS,
    Size,
    affordable_vectors,
    usable_order,
)
