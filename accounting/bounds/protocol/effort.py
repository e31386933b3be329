"""How much work the refined bounds may do: time against sharpness, never against validity."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.exceptions import EffortError
from models.arguments import checked


@checked(EffortError)
@dataclass(frozen=True, slots=True)
class Effort:
    """Parameters of the refined bounds.

    ``order`` is the largest number of steps the moment bound looks at jointly; ``patterns`` how many hit
    patterns, and kept sets of noised sensors, may be enumerated (4096 covers 12 steps with one sensor each).
    ``vectors`` is how hard the frontier bound searches each segment: prefixes of guesses expanded a step.
    With ``draws`` > 0 the bound by sampling is computed too: it holds with probability ``confidence`` over
    the draws of ``seed``; divide ``1 - confidence`` over the people audited if all are to hold together.
    """

    order: int = 4
    patterns: int = 4096
    vectors: int = 64
    draws: int = 0
    seed: int = 0
    confidence: float = 0.95

    def __post_init__(self) -> None:
        """:class:`EffortError` names the parameter that is out of range."""
        if self.order < 1:
            raise EffortError("order must be at least 1", self.order, "use 1 for speed, 4 for sharpness")
        if self.patterns < 0:
            raise EffortError("effort must not be negative", self.patterns, "use 0 to enumerate nothing")
        if self.vectors < 0:
            raise EffortError("vectors must not be negative", self.vectors, "use 0 for no frontier bound")
        if self.draws < 0:
            raise EffortError("draws must not be negative", self.draws, "use 0 to sample nothing")
        if self.seed < 0:
            raise EffortError("a seed must be 0 or more", self.seed, "use any other number")
        if not 0.0 < self.confidence < 1.0:
            raise EffortError("confidence must lie in (0, 1)", self.confidence, "use 0.95")
