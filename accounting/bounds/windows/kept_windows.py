"""Noised releases over windows as coins: each is shown as a whole, or not at all.

All values that a person's own count can have leave ``1 - delta`` of the noise's law in common, so a noised
release is a function of a channel that shows the own count with probability ``delta`` and nothing otherwise:
one coin a release, not one a fine step, whose windows the same noise covers. Hence

    success <= E[ success where the releases whose coin fell are shown ].

Where somebody is rarely counted more often than ``k``, such a person may be charged as found, and everybody
else's coin falls with the smaller ``delta_k``: whatever is guessed, success together with "nobody was counted
more than ``k`` times" has at most the probability that the coins leave.

Success rises with what is shown. So several releases may share one coin that falls when any of theirs would,
and no set of releases is charged more than a larger one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from accounting.exposure.own_counts import OwnCount
from models.mechanisms import revealed_by_shift

MOST_COINS = 6
"""Sets of shown releases double with each coin; more releases share coins, neighbours in time together."""


def by_the_spread(own_counts: Sequence[OwnCount]) -> tuple[list[float], float]:
    """Each release's probability of being shown, and 0: the probability charged beside."""
    return [own.reveal_probability() for own in own_counts], 0.0


def with_large_counts_charged(own_counts: Sequence[OwnCount]) -> tuple[list[float], float]:
    """The same with, for each release, the ``k`` that makes ``delta_k + Pr[n > k]`` least."""
    shown, charged = [], 0.0
    for own in own_counts:
        mechanism, spread = own.release.mechanism, own.spread
        thresholds = [spread] if own.release.miscounts else range(spread + 1)
        choices = [(revealed_by_shift(mechanism, k), own.probability_above(k)) for k in thresholds]
        kept, beside = min(choices, key=sum)
        shown.append(kept)
        charged += beside
    return shown, charged


def coin_groups(own_counts: Sequence[OwnCount], most: int) -> list[list[int]]:
    """Positions of the releases that share each of at most ``most`` coins."""
    order = sorted(range(len(own_counts)), key=lambda each: own_counts[each].release.last)
    coins = min(most, len(order))
    return [order[len(order) * k // coins : len(order) * (k + 1) // coins] for k in range(coins)]


def success_of_sets(groups: int, success: Callable[[Sequence[int]], float]) -> list[float]:
    """A bound for each set of ``groups``, by the bits of its index; ``success`` of those that are shown."""
    found = [success([k for k in range(groups) if shown >> k & 1]) for shown in range(1 << groups)]
    for k in range(groups):
        for shown in range(1 << groups):
            found[shown] = min(found[shown], found[shown | 1 << k])
    return found


def expected_success(
    success: Sequence[float], groups: Sequence[Sequence[int]], shown: Sequence[float]
) -> float:
    """The expectation over coins, releases being shown with the probabilities ``shown``."""
    falls = [1.0 - prod(1.0 - shown[each] for each in group) for group in groups]
    expected = 0.0
    for index, value in enumerate(success):
        expected += value * prod(falls[k] if index >> k & 1 else 1.0 - falls[k] for k in range(len(groups)))
    return expected
