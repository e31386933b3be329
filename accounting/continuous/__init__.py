"""The continuous accountant: everybody's risk over a sliding horizon, step by step."""

from accounting.continuous.accountant import AccountantView, ContinuousAccountant
from accounting.continuous.cascade import Due, find_due, is_above
from accounting.continuous.membership import join_people, take_people
from accounting.continuous.people_shares import PeopleShares
from accounting.continuous.risk_summary import RiskSummary, SharesOfPeople, shares_of_people, summarise
from accounting.continuous.saved_state import named, pack_state, taken, unpack_state
from accounting.continuous.worst_moments import WorstMoments, no_moments

__all__ = [
    "AccountantView",
    "ContinuousAccountant",
    "Due",
    "PeopleShares",
    "RiskSummary",
    "SharesOfPeople",
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
