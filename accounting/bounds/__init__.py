"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.bounds.certified import (
    BY_INFORMATION,
    BY_LEVELS,
    ROUNDING,
    Bounds,
    Certified,
    SeenInCrowd,
    Tried,
    all_bounds,
    baseline_bound,
    certify,
    certify_in_crowd,
    horizon_risk,
    horizon_risk_in_crowd,
    smallest,
    with_whole_windows,
)
from accounting.bounds.conformance import BoundCheck, check_bound, register_bound
from accounting.bounds.population_bounds import mean_added
from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import ALL_BOUNDS, BOUNDS, deciding_bound, question
