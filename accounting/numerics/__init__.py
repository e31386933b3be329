"""Generic numerics: roots that err to the safe side, and confidence bounds on probabilities."""

from accounting.numerics.bernstein import upper_mean
from accounting.numerics.intervals import clopper_pearson
from accounting.numerics.roots import bracket

__all__ = ["bracket", "clopper_pearson", "upper_mean"]
