"""Generic numerics: roots that err to the safe side, confidence bounds on means, flat arrays of people."""

from accounting.numerics.betting import mean_interval, upper_mean
from accounting.numerics.intervals import PROVED, clopper_pearson
from accounting.numerics.packed import packed_positions
from accounting.numerics.roots import bracket

__all__ = ["PROVED", "bracket", "clopper_pearson", "mean_interval", "packed_positions", "upper_mean"]
