"""What trying an attack gives."""

from __future__ import annotations

from dataclasses import dataclass

from accounting.numerics import clopper_pearson


@dataclass(frozen=True, slots=True)
class AttackResult:
    """``success`` is ``Pr[at most s steps guessed wrong]``; ``low = high = success`` where it is exact.

    Otherwise ``[low, high]`` holds the true success with the confidence that was asked for.
    """

    success: float
    low: float
    high: float

    @classmethod
    def exact(cls, success: float) -> AttackResult:
        """A success computed, not sampled; rounding above 1 is taken off."""
        value = min(1.0, max(0.0, success))
        return cls(value, value, value)

    @classmethod
    def sampled(cls, successes: int, draws: int, confidence: float) -> AttackResult:
        """A share of draws, with its Clopper-Pearson interval."""
        interval = clopper_pearson(successes, draws, confidence)
        return cls(successes / draws, interval.low, interval.high)


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """One attack on one recorded trace: ``success`` is the share of noise draws it succeeded in.

    For raw releases there is one draw, so it is 0 or 1. ``impossible`` counts the draws whose observations
    the prior excludes; the attack then makes its guess from the prior alone.
    """

    success: float
    draws: int
    impossible: int
