"""Why a step is released as it is under a risk budget."""

from __future__ import annotations

from enum import StrEnum


class BudgetReason(StrEnum):
    """What settled a decision; a fixed list, so that it can be a metrics label."""

    FREE = "free"  # the best option of every sensor keeps the budget
    BUDGET = "budget"  # the budget asks for more noise, or for some silence
    SPENT = "spent"  # nothing can be released any more without breaking the budget
    HABITS = "habits"  # habits alone put too many people over the limit at this hour
    CONTRADICTION = "contradiction"  # a sensor that must be raw cannot be within the budget: suppressed
    NO_ANSWER = "no_answer"  # not everybody's accounts could be asked in time, or there are none
