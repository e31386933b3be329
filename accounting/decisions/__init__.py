"""Release decisions under a risk budget: from priors, schedule and what was accounted, never from a count."""

from accounting.decisions.search import OPTIONS_A_ROUND, SearchSettings, SensorChoice
from accounting.decisions.step_decision import (
    BudgetReason,
    CandidateEffect,
    Decision,
    OverLimit,
    StepDecider,
    decide,
)

__all__ = [
    "OPTIONS_A_ROUND",
    "BudgetReason",
    "CandidateEffect",
    "Decision",
    "OverLimit",
    "SearchSettings",
    "SensorChoice",
    "StepDecider",
    "decide",
]
