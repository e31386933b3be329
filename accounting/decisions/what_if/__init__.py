"""What a candidate step would do to each person's risk, without accounting it."""

from accounting.decisions.what_if.questions import (
    DECIDING_PART,
    DECIDING_PART_IN_CROWD,
    AnnouncedStep,
    NextStep,
    NextStepOfWindows,
    WhatIf,
    crowds_of_sensors,
)

__all__ = [
    "DECIDING_PART",
    "DECIDING_PART_IN_CROWD",
    "AnnouncedStep",
    "NextStep",
    "NextStepOfWindows",
    "WhatIf",
    "crowds_of_sensors",
]
