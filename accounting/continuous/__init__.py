"""The continuous accountant: everybody's risk over a sliding horizon, step by step."""

from accounting.continuous.account_state import named, pack_state, taken, unpack_state
from accounting.continuous.accountant import AccountantView, ContinuousAccountant, PersonRisks
from accounting.continuous.cascade import Due, Units, find_due, is_above
from accounting.continuous.people import (
    QUANTILES,
    AccountPositions,
    Cells,
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
    take_people,
)

__all__ = [
    "QUANTILES",
    "AccountPositions",
    "AccountantView",
    "Cells",
    "ContinuousAccountant",
    "Due",
    "PeopleShares",
    "PersonRisks",
    "Ranked",
    "RiskFigures",
    "RiskSummary",
    "SharesOfPeople",
    "UnitPositions",
    "Units",
    "WorstMoments",
    "find_due",
    "is_above",
    "join_people",
    "named",
    "no_moments",
    "pack_state",
    "shares_of_people",
    "summarise",
    "take_people",
    "taken",
    "unpack_state",
]
