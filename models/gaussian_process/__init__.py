"""Gaussian-process priors: what is believed about a trace or a count series before anything is released."""

from models.gaussian_process.conditional import (
    Conditional,
    checked_covariance,
    checked_positions,
    condition_on,
)
from models.gaussian_process.covariances import RBF, Kernel, Matern, Periodic, Product, Sum, White
from models.gaussian_process.dimensions import IndependentDimensions
from models.gaussian_process.kernel_fitting import KernelFit, effective_length_scale, fit_kernel
from models.gaussian_process.posterior import (
    lift,
    posterior_covariance,
    posterior_interval,
    posterior_mean,
)
from models.gaussian_process.process_prior import GaussianProcessPrior

__all__ = [
    "RBF",
    "Conditional",
    "GaussianProcessPrior",
    "IndependentDimensions",
    "Kernel",
    "KernelFit",
    "Matern",
    "Periodic",
    "Product",
    "Sum",
    "White",
    "checked_covariance",
    "checked_positions",
    "condition_on",
    "effective_length_scale",
    "fit_kernel",
    "lift",
    "posterior_covariance",
    "posterior_interval",
    "posterior_mean",
]
