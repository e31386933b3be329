"""Release decisions under a risk budget: from priors, schedule and what was accounted, never from a count."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.decisions.step_decision import (
    OPTIONS_A_ROUND,
    BudgetReason,
    Decision,
    OverLimit,
    SearchSettings,
    SensorChoice,
    StepDecider,
    WindowsAtHand,
    begun_windows,
    decide,
)
