"""What trying an attack gives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.numerics import PROVED, clopper_pearson


@dataclass(frozen=True, slots=True)
class AttackResult:
    """``success`` is ``Pr[at most s steps guessed wrong]``; ``low = high = success`` where it is exact.

    Otherwise ``[low, high]`` holds the true success with the confidence that was asked for, and ``proved`` is
    a lower end that misses it once in a thousand million times.
    """

    success: float
    low: float
    high: float
    proved: float

    @classmethod
    def exact(cls, success: float) -> AttackResult:
        """A success computed, not sampled; rounding above 1 is taken off."""
        value = min(1.0, max(0.0, success))
        return cls(value, value, value, value)

    @classmethod
    def sampled(cls, successes: int, draws: int, confidence: float) -> AttackResult:
        """A share of draws, with its Clopper-Pearson interval."""
        interval, surely = (clopper_pearson(successes, draws, each) for each in (confidence, PROVED))
        return cls(successes / draws, interval.low, interval.high, surely.low)

    @classmethod
    def beside_blind(
        cls, blind: float, found: NDArray[np.int64], draws: int, confidence: float
    ) -> AttackResult:
        """An attack whose blind guess is right with the known probability ``blind``, from its draws.

        ``found`` (3,) as the kernels count it: won, gained, lost. Estimated by the share of draws won or by
        ``blind + gained - lost``, whichever varies less. Each interval may miss in half of the failures, so
        that the choice between them costs nothing.

        With 1000 draws, 601 won, 3 gained and 2 lost beside a guess that is right in 0.6, the estimate is
        0.601, and [0.591, 0.611] at 95 % where the draws alone would say [0.570, 0.632].
        """
        won, gained, lost = (int(each) for each in found)
        spread_of_difference = gained + lost - (gained - lost) ** 2 / draws
        if spread_of_difference > won * (draws - won) / draws:
            # The same confidence as below: which of the two is shown has been decided by looking.
            half, surely = (clopper_pearson(won, draws, 0.5 * (1.0 + each)) for each in (confidence, PROVED))
            return cls(won / draws, half.low, half.high, surely.low)
        low, high = _beside(blind, gained, lost, draws, confidence)
        success = min(1.0, max(0.0, blind + (gained - lost) / draws))
        return cls(success, low, high, _beside(blind, gained, lost, draws, PROVED)[0])


def _beside(blind: float, gained: int, lost: int, draws: int, confidence: float) -> tuple[float, float]:
    """``blind`` and an interval for the difference to it, which misses in half of ``1 - confidence``."""
    each = 1.0 - (1.0 - confidence) / 4.0
    more, less = clopper_pearson(gained, draws, each), clopper_pearson(lost, draws, each)
    return max(0.0, blind + more.low - less.high), min(1.0, blind + more.high - less.low)


@dataclass(frozen=True, slots=True)
class RecordedResult:
    """One attack on one recorded trace: ``success`` is the share of noise draws it succeeded in.

    For raw releases there is one draw, so it is 0 or 1. ``impossible`` counts the draws whose observations
    the prior excludes; the attack then makes its guess from the prior alone.
    """

    success: float
    draws: int
    impossible: int
