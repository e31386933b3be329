"""What a candidate step would do to everybody, without accounting it."""

from accounting.decisions.what_if.questions import NextStep, WhatIf
from accounting.decisions.what_if.refined_check import RefinedSettings

__all__ = ["NextStep", "RefinedSettings", "WhatIf"]
