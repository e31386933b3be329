"""What a candidate step would do to each person's risk, without accounting it."""

# mypy: implicit-reexport
# ruff: noqa: F401

from accounting.decisions.what_if.questions import (
    DECIDING_PART,
    DECIDING_PART_BESIDE,
    AnnouncedStep,
    KnownStep,
    NextStep,
    NextStepOfWindows,
    WhatIf,
    crowds_of_sensors,
)
