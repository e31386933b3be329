"""What every bound is given and must answer."""

from accounting.bounds.protocol.bound import Bound, Question, Scope
from accounting.bounds.protocol.effort import Effort

__all__ = ["Bound", "Effort", "Question", "Scope"]
