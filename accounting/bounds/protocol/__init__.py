"""What every bound is given and must answer."""

from accounting.bounds.protocol.bound import Bound, LogQuestion, Question, Scope
from accounting.bounds.protocol.effort import Effort

__all__ = ["Bound", "Effort", "LogQuestion", "Question", "Scope"]
