"""How drawn attacks went, in whole numbers, so that parts of a population add up to the same bits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import Tried
from accounting.continuous.shadow.adversary_kernel import UNITS
from accounting.numerics import PROVED, mean_interval

_HALF = 20
_EXACT = float(1 << 2 * _HALF)  # sums of people's rounded shares are exact


class AttackedPart(NamedTuple):
    """Of a part of so many ``people``: what so many ``draws`` added to the guess without releases.

    In 256ths, rising; draws that added nothing are left out of ``added``.
    """

    people: int
    draws: int
    added: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeanAttack:
    """The mean success of the attack over people: the mean guess, and what the draws say is added to it.

    ``low..high`` misses it with probability ``1 - confidence`` at most.
    """

    success: float
    low: float
    high: float
    confidence: float
    parts: tuple[AttackedPart, ...]

    @property
    def draws(self) -> int:
        """How many it rests on."""
        return sum(part.draws for part in self.parts)


class MeanCeiling(NamedTuple):
    """The mean over the same people of what no method exceeds under the prior, after a step."""

    value: float
    step: int


class PriorGuesses(NamedTuple):
    """How often guesses without releases succeed, (G,), of so many ``people`` (G,) each."""

    baseline: NDArray[np.float64]
    people: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Over people; the same bits in whatever order and groups they come."""
        rounded = np.rint(self.baseline * _EXACT).astype(np.int64)
        high, low = rounded >> _HALF, rounded & ((1 << _HALF) - 1)  # so that no product is beyond 64 bits
        total = (int((high * self.people).sum()) << _HALF) + int((low * self.people).sum())
        return total / (_EXACT * int(self.people.sum()))


def mean_attack(
    parts: Iterable[AttackedPart],
    guesses: PriorGuesses,
    confidence: float,
    ceiling: MeanCeiling | None = None,
) -> MeanAttack | None:
    """The mean over all people, at most the ``ceiling``; None without a draw.

    Every part counts by its people; in which order they come makes no difference. The interval is a bet on
    the draws in an order that has nothing to do with them.

    An estimate may be above the ceiling by luck, the truth may not: what is shown is then the ceiling. But
    :class:`~accounting.exceptions.AttackAboveCeilingError` where luck is no explanation. A run asks this
    after every step, so step ``k`` has the share ``1 / ((k + 1) (k + 2))`` of a probability of 1e-9: they
    sum to one, and one run in a thousand million, however long, raises a false alarm.
    """
    drawn = tuple(sorted(parts))
    if not drawn:
        return None
    people, draws = sum(part.people for part in drawn), sum(part.draws for part in drawn)
    shares = [Fraction(part.people * draws, people * part.draws) for part in drawn]
    most = max(shares)
    each = [_added(part) * float(share / most) for part, share in zip(drawn, shares, strict=True)]
    order = np.random.Generator(np.random.Philox(draws)).permutation(draws)
    values = np.concatenate(each)[order]
    found = mean_interval(values, 1.0 - confidence)
    guess = guesses.mean
    total = sum(Fraction(part.people * sum(part.added), part.draws) for part in drawn)
    success = guess + float(total / (UNITS * people))
    low, high = guess + max(0.0, found.low) * float(most), guess + found.high * float(most)
    most_shown = 1.0 if ceiling is None else ceiling.value
    if ceiling is not None and low > ceiling.value:
        share = (1.0 - PROVED) / ((ceiling.step + 1) * (ceiling.step + 2))
        proved = guess + max(0.0, mean_interval(values, share).low) * float(most)
        Tried("the attack beside the ceiling", proved).refuse_above("the account", ceiling.value)
    return MeanAttack(
        success=min(most_shown, success),
        low=min(most_shown, low, success),
        high=min(most_shown, max(high, success)),
        confidence=confidence,
        parts=drawn,
    )


def _added(part: AttackedPart) -> NDArray[np.float64]:
    """What each draw added, those that added something first."""
    added = np.zeros(part.draws)
    added[: len(part.added)] = part.added
    return added / UNITS
