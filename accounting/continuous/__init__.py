"""The continuous accountant: everybody's risk over a sliding horizon, step by step."""

from accounting.continuous.accountant import AccountantView, ContinuousAccountant
from accounting.continuous.membership import join_people
from accounting.continuous.people_shares import PeopleShares
from accounting.continuous.risk_summary import RiskSummary, SharesOfPeople, shares_of_people, summarise
from accounting.continuous.worst_moments import WorstMoments, no_moments

__all__ = [
    "AccountantView",
    "ContinuousAccountant",
    "PeopleShares",
    "RiskSummary",
    "SharesOfPeople",
    "WorstMoments",
    "join_people",
    "no_moments",
    "shares_of_people",
    "summarise",
]
