"""Designed noise: which Gaussian noise of a given trace hides a secret best from a Gaussian-process prior.

One method is one file; :func:`design_noise` finds it by name and checks the result.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.noise_design.design import METHODS, NoiseDesign, design_noise, worst_information
from models.noise_design.problem import (
    DesignProblem,
    SecretInformation,
    conditional_information,
    indirect_information,
    loss_nats,
    posterior_half_width,
    secret_information,
)
