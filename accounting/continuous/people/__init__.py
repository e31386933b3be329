"""The people behind accounts: who has which one, shares of the work, figures, and all of them summed up."""

from accounting.continuous.people.arrays import join_people, take_people
from accounting.continuous.people.groups import Figures, Groups
from accounting.continuous.people.holders import Cells, Holders, equal_accounts, joined_names
from accounting.continuous.people.index_spaces import (
    AccountPositions,
    CellPositions,
    ChainPositions,
    GroupPositions,
    PersonPositions,
    UnitPositions,
)
from accounting.continuous.people.people_shares import PeopleShares
from accounting.continuous.people.ranked import Ranked
from accounting.continuous.people.risk_summary import (
    QUANTILES,
    RiskFigures,
    RiskSummary,
    SharesOfPeople,
    shares_of_people,
    summarise,
)
from accounting.continuous.people.spread import Spread
from accounting.continuous.people.worst_moments import WorstMoments, no_moments

__all__ = [
    "QUANTILES",
    "AccountPositions",
    "CellPositions",
    "Cells",
    "ChainPositions",
    "Figures",
    "GroupPositions",
    "Groups",
    "Holders",
    "PeopleShares",
    "PersonPositions",
    "Ranked",
    "RiskFigures",
    "RiskSummary",
    "SharesOfPeople",
    "Spread",
    "UnitPositions",
    "WorstMoments",
    "equal_accounts",
    "join_people",
    "joined_names",
    "no_moments",
    "shares_of_people",
    "summarise",
    "take_people",
]
