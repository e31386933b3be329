"""One log of what was released, several readers: what it costs by each notion of privacy."""

from accounting.ledgers.cost_of_windows import window_cost
from accounting.ledgers.differential_privacy import (
    DpStatement,
    charged_epsilon,
    check_delta,
    pure_cost,
    read_differential_privacy,
    truncated_mass_cost,
)
from accounting.ledgers.inferential_log import SecretQuestion, read_inferential
from accounting.ledgers.neighbours import Cost, Neighbours, step_cost
from accounting.ledgers.oracle import oracle_epsilons
from accounting.ledgers.privacy_account import EVERY_GROUP, PrivacyAccount
from accounting.ledgers.reconstruction import read_reconstruction
from accounting.ledgers.release_log import ReleaseLog
from accounting.ledgers.zcdp import ZcdpSpend, epsilon_from_zcdp

__all__ = [
    "EVERY_GROUP",
    "Cost",
    "DpStatement",
    "Neighbours",
    "PrivacyAccount",
    "ReleaseLog",
    "SecretQuestion",
    "ZcdpSpend",
    "charged_epsilon",
    "check_delta",
    "epsilon_from_zcdp",
    "oracle_epsilons",
    "pure_cost",
    "read_differential_privacy",
    "read_inferential",
    "read_reconstruction",
    "step_cost",
    "truncated_mass_cost",
    "window_cost",
]
