"""Conditional inferential privacy: what noised releases of a trace reveal about its values at secret times.

Meehan, Chaudhuri, "Location Trace Privacy Under Conditional Priors". The secret is one person's trace or one
series; the adversary knows a Gaussian-process prior of it up to its mean.
"""

from accounting.inferential.composition import ReleasedSeries, Window
from accounting.inferential.dimensions import (
    euclidean_radius_loss,
    papers_dimension_loss,
    per_coordinate_radius_loss,
)
from accounting.inferential.gap import prior_posterior_gap
from accounting.inferential.loss import InferentialLoss, per_value_loss, release_loss
from accounting.inferential.misspecified import (
    conditional_divergence,
    misspecified_loss,
    misspecified_release_loss,
)
from accounting.inferential.renyi import gaussian_renyi_divergence

__all__ = [
    "InferentialLoss",
    "ReleasedSeries",
    "Window",
    "conditional_divergence",
    "euclidean_radius_loss",
    "gaussian_renyi_divergence",
    "misspecified_loss",
    "misspecified_release_loss",
    "papers_dimension_loss",
    "per_coordinate_radius_loss",
    "per_value_loss",
    "prior_posterior_gap",
    "release_loss",
]
