"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""

from accounting.bounds.against_crowd import (
    BY_INFORMATION,
    BY_LEVELS,
    SeenInCrowd,
    certify_in_crowd,
    horizon_risk_in_crowd,
)
from accounting.bounds.certified import (
    Bounds,
    Certified,
    Tried,
    all_bounds,
    baseline_bound,
    certify,
    smallest,
)
from accounting.bounds.certified_horizon import HorizonRisk, horizon_risk
from accounting.bounds.population_sample import MeanAdded, mean_added
from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import BOUNDS, deciding_bound, question

__all__ = [
    "BOUNDS",
    "BY_INFORMATION",
    "BY_LEVELS",
    "Bounds",
    "Certified",
    "Effort",
    "HorizonRisk",
    "MeanAdded",
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
    "smallest",
]
