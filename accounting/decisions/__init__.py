"""Release decisions under a risk budget: from priors, schedule and what was accounted, never from a count."""

from accounting.decisions.candidate_effect import CandidateEffect
from accounting.decisions.choices import SensorChoice
from accounting.decisions.over_limit import OverLimit
from accounting.decisions.reason import BudgetReason
from accounting.decisions.search import OPTIONS_A_ROUND, SearchSettings
from accounting.decisions.step_decision import Decision, StepDecider, decide

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
