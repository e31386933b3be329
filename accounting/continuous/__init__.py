"""The continuous accountant: each person's risk over a sliding horizon, step by step."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.continuous.account_state import digest_of, pack_state, unpack_state
from accounting.continuous.accountant import AccountantView, ContinuousAccountant, PersonRisks
from accounting.continuous.cascade import Units
from accounting.continuous.people import (
    QUANTILES,
    AccountPositions,
    Cells,
    ChainPositions,
    PeopleShares,
    Ranked,
    RiskFigures,
    RiskSummary,
    SharesOfPeople,
    UnitPositions,
    WorstMoments,
    join_people,
    no_moments,
    shares_of_people,
    summarise,
)
