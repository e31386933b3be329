"""One log of what was released, several readers: what it costs by each notion of privacy."""

from accounting.ledgers.cost_of_windows import window_cost
from accounting.ledgers.differential_privacy import (
    DpStatement,
    check_delta,
    log_distance,
    pure_cost,
    read_differential_privacy,
)
from accounting.ledgers.inferential_log import SecretQuestion, read_inferential
from accounting.ledgers.neighbours import Cost, Neighbours, step_cost
from accounting.ledgers.oracle import oracle_epsilons
from accounting.ledgers.privacy_account import EVERY_GROUP, PrivacyAccount
from accounting.ledgers.reconstruction import read_reconstruction
from accounting.ledgers.release_log import ReleaseLog
from accounting.ledgers.sampling import SamplerDistance
from accounting.ledgers.zcdp import Unprotected, ZcdpSpend, epsilon_from_zcdp

__all__ = [
    "EVERY_GROUP",
    "Cost",
    "DpStatement",
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
    "pure_cost",
    "read_differential_privacy",
    "read_inferential",
    "read_reconstruction",
    "step_cost",
    "window_cost",
]
