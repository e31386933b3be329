"""Bounds on raw counts, which follow the steps the person was counted in."""

from accounting.bounds.patterns.exact import EXACT, Trajectories, trajectories
from accounting.bounds.patterns.frontier_bound import FRONTIER, affordable_vectors, frontier_success
from accounting.bounds.patterns.genie_aided import GENIE_AIDED
from accounting.bounds.patterns.moment import LEAST_PATTERN, MOMENT, MOST_OPERATIONS, Size, usable_order

__all__ = [
    "EXACT",
    "FRONTIER",
    "GENIE_AIDED",
    "LEAST_PATTERN",
    "MOMENT",
    "MOST_OPERATIONS",
    "Size",
    "Trajectories",
    "affordable_vectors",
    "frontier_success",
    "trajectories",
    "usable_order",
]
