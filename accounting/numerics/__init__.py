"""Generic numerics: roots that err to the safe side, and confidence bounds on probabilities and means."""

from accounting.numerics.betting import mean_interval, upper_mean
from accounting.numerics.intervals import clopper_pearson
from accounting.numerics.roots import bracket

__all__ = ["bracket", "clopper_pearson", "mean_interval", "upper_mean"]
