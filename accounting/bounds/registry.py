"""Every bound there is. A new one is a file of its own, a line here and a line in its conformance suite."""

from __future__ import annotations

from accounting.bounds.divergence import DIVERGENCE
from accounting.bounds.loose import LOOSE
from accounting.bounds.patterns import ERASURE, EXACT, GENIE_AIDED, MOMENT, SAMPLED
from accounting.bounds.protocol import Bound, Effort, Question
from accounting.bounds.tight import TIGHT
from accounting.exposure import Exposure

BOUNDS: tuple[Bound, ...] = (
    LOOSE,
    TIGHT,
    DIVERGENCE,
    MOMENT,
    EXACT,
    ERASURE,
    GENIE_AIDED,
    SAMPLED,
)


def question(exposure: Exposure, mistakes: int, effort: Effort) -> Question:
    """The question that all bounds answer; of two that are equal the earlier one counts."""
    return Question(exposure, mistakes, effort, BOUNDS)
