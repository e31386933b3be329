"""Noise in exact integers: laws, samplers, tiers of one count, and what a noised count reveals."""

from models.noise.correlated_noise import CorrelatedNoise
from models.noise.gaussian_shares import GaussianShare, gaussian_share
from models.noise.integer_chain import (
    chain_noise,
    check_epsilon,
    check_levels,
    continued_value,
    geometric_table,
)
from models.noise.integer_table import (
    FAITHFUL_LOG_RATIO,
    MIN_SIGMA,
    TOTAL,
    IntegerTable,
    check_sigma,
    discrete_gaussian_table,
)
from models.noise.noise_information import (
    EXACT_UP_TO_SIGMA,
    InformationTable,
    binary_channel_information_table,
    binary_entropy,
    continuous_gaussian_information_table,
    fill_information,
    large_sigma_information_table,
    least_information,
    noise_information_table,
    scaled_entropy_table,
    truncation_information_nats,
)
from models.noise.several_values import (
    joint_information_table,
    joint_outcomes,
    joint_shift_probability,
    own_count_information,
    shift_probability,
)

__all__ = [
    "EXACT_UP_TO_SIGMA",
    "FAITHFUL_LOG_RATIO",
    "MIN_SIGMA",
    "TOTAL",
    "CorrelatedNoise",
    "GaussianShare",
    "InformationTable",
    "IntegerTable",
    "binary_channel_information_table",
    "binary_entropy",
    "chain_noise",
    "check_epsilon",
    "check_levels",
    "check_sigma",
    "continued_value",
    "continuous_gaussian_information_table",
    "discrete_gaussian_table",
    "fill_information",
    "gaussian_share",
    "geometric_table",
    "joint_information_table",
    "joint_outcomes",
    "joint_shift_probability",
    "large_sigma_information_table",
    "least_information",
    "noise_information_table",
    "own_count_information",
    "scaled_entropy_table",
    "shift_probability",
    "truncation_information_nats",
]
