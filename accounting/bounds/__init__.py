"""Upper bounds on the success of any adversary, one file each; the certified bound is their minimum."""

from accounting.bounds.certified import Bounds, all_bounds, baseline_bound, certify
from accounting.bounds.horizon_risk import HorizonRisk, horizon_risk
from accounting.bounds.population_sample import MeanAdded, mean_added
from accounting.bounds.protocol import Effort
from accounting.bounds.registry import BOUNDS, deciding_bound, question

__all__ = [
    "BOUNDS",
    "Bounds",
    "Effort",
    "HorizonRisk",
    "MeanAdded",
    "all_bounds",
    "baseline_bound",
    "certify",
    "deciding_bound",
    "horizon_risk",
    "mean_added",
    "question",
]
