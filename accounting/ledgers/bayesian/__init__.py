"""Bayesian differential privacy: what correlated people or steps cost together."""

from accounting.ledgers.bayesian.bayesian_composition import Declared
from accounting.ledgers.bayesian.bayesian_log import read_bayesian

__all__ = ["Declared", "read_bayesian"]
