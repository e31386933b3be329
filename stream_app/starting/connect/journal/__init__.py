"""What connectors took, durably, and the messages the engine reads of it."""

from stream_app.starting.connect.journal.count_journal import MESSAGES, CountJournal, NotOverError, Taken
from stream_app.starting.connect.journal.deployments_journal import announced_sensors, journal_of
from stream_app.starting.connect.journal.step_fold import (
    RECENT_STEPS,
    ContradictionError,
    StepCount,
    StepFold,
    StepRules,
)

__all__ = [
    "MESSAGES",
    "RECENT_STEPS",
    "ContradictionError",
    "CountJournal",
    "NotOverError",
    "StepCount",
    "StepFold",
    "StepRules",
    "Taken",
    "announced_sensors",
    "journal_of",
]
