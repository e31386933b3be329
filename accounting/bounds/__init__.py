"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""

from accounting.bounds.certified import (
    BY_INFORMATION,
    BY_LEVELS,
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
)
from accounting.bounds.population_bounds import mean_added
from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import BOUNDS, deciding_bound, question

__all__ = [
    "BOUNDS",
    "BY_INFORMATION",
    "BY_LEVELS",
    "Bounds",
    "Certified",
    "Effort",
    "Question",
    "SeenInCrowd",
    "Tried",
    "all_bounds",
    "baseline_bound",
    "certify",
    "certify_in_crowd",
    "deciding_bound",
    "horizon_risk",
    "horizon_risk_in_crowd",
    "mean_added",
    "question",
]
