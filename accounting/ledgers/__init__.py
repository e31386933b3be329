"""One log of what was released, several readers: what it costs by each notion of privacy."""

from accounting.ledgers.differential_privacy import (
    EVERY_GROUP,
    Cost,
    DpStatement,
    Neighbours,
    PrivacyAccount,
    SamplerDistance,
    Unprotected,
    ZcdpSpend,
    check_delta,
    epsilon_from_zcdp,
    log_distance,
    pure_cost,
    read_differential_privacy,
    step_cost,
    window_cost,
)
from accounting.ledgers.inferential import (
    InferentialLoss,
    SecretQuestion,
    prior_posterior_gap,
    read_inferential,
    release_loss,
)
from accounting.ledgers.oracle import oracle_epsilons
from accounting.ledgers.release_log import ReleaseLog, read_reconstruction

__all__ = [
    "EVERY_GROUP",
    "Cost",
    "DpStatement",
    "InferentialLoss",
    "Neighbours",
    "PrivacyAccount",
    "ReleaseLog",
    "SamplerDistance",
    "SecretQuestion",
    "Unprotected",
    "ZcdpSpend",
    "check_delta",
    "epsilon_from_zcdp",
    "log_distance",
    "oracle_epsilons",
    "prior_posterior_gap",
    "pure_cost",
    "read_differential_privacy",
    "read_inferential",
    "read_reconstruction",
    "release_loss",
    "step_cost",
    "window_cost",
]
