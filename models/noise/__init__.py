"""Noise in exact integers: laws, samplers, tiers of one count, and what a noised count reveals."""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.noise.correlated_noise import CorrelatedNoise
from models.noise.gaussian_shares import GaussianShare, gaussian_share
from models.noise.integer_chain import (
    FAITHFUL_LOG_RATIO,
    MIN_SIGMA,
    TOTAL,
    IntegerTable,
    chain_noise,
    check_epsilon,
    check_levels,
    check_sigma,
    continued_value,
    discrete_gaussian_table,
    geometric_table,
)
from models.noise.noise_information import (
    EXACT_UP_TO_SIGMA,
    InformationTable,
    binary_channel_information_table,
    binary_entropy,
    charged,
    continuous_gaussian_information_table,
    fill_information,
    joint_information_table,
    joint_outcomes,
    joint_shift_probability,
    large_sigma_information_table,
    least_information,
    noise_information_table,
    own_count_information,
    scaled_entropy_table,
    shift_probability,
    truncation_information_nats,
)
