"""How drawn attacks went, in whole numbers, so that parts of a population add up to the same bits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.shadow.adversary_kernel import UNITS
from accounting.numerics import mean_interval

_EXACT = float(1 << 40)  # sums of so many people's rounded shares are exact in 64 bits, up to 8 million


@dataclass(frozen=True, slots=True)
class MeanAttack:
    """The mean success of the attack over people: the mean guess, and what the draws say is added to it.

    ``low..high`` misses it with probability ``1 - confidence`` at most. ``times`` as in
    :class:`DrawnAttacks`.
    """

    success: float
    low: float
    high: float
    confidence: float
    times: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class DrawnAttacks:
    """``times[v]`` draws added ``v / 256`` to the success of the best guess made without any release."""

    times: Mapping[int, int]

    @property
    def draws(self) -> int:
        """How many there were."""
        return sum(self.times.values())

    def mean(self, baseline: NDArray[np.float64], confidence: float) -> MeanAttack | None:
        """The mean over people whose guesses succeed with ``baseline`` (N,); None without a draw.

        The interval is a bet on the draws in an order that has nothing to do with them.
        """
        draws = self.draws
        if draws == 0:
            return None
        values = sorted(self.times)
        added = np.repeat(values, [self.times[value] for value in values]) / UNITS
        order = np.random.Generator(np.random.Philox(draws)).permutation(draws)
        found = mean_interval(added[order], 1.0 - confidence)
        guess = int(np.rint(baseline * _EXACT).astype(np.int64).sum()) / (_EXACT * baseline.size)
        success = guess + sum(value * self.times[value] for value in values) / (UNITS * draws)
        low, high = guess + max(0.0, found.low), guess + found.high
        return MeanAttack(
            min(1.0, success), min(1.0, low, success), min(1.0, max(high, success)), confidence, self.times
        )


def joined(parts: Iterable[DrawnAttacks | None]) -> DrawnAttacks | None:
    """Those of several parts of a population as one; None where a part was not attacked."""
    times: Counter[int] = Counter()
    for part in parts:
        if part is None:
            return None
        times.update(part.times)
    return DrawnAttacks(dict(sorted(times.items())))
