"""One log of what was released, several readers: what it costs by each notion of privacy."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.ledgers.differential_privacy import (
    EVERY_GROUP,
    DpStatement,
    PrivacyAccount,
    ZcdpSpend,
    epsilon_from_zcdp,
    read_differential_privacy,
    window_cost,
)
from accounting.ledgers.inferential import (
    CipStatement,
    InferentialLoss,
    SecretQuestion,
    prior_posterior_gap,
    read_inferential,
    release_loss,
)
from accounting.ledgers.oracle import OracleEpsilons, oracle_epsilons
from accounting.ledgers.person_cost import Neighbours
from accounting.ledgers.release_log import ReleaseLog, read_reconstruction
