"""What a count says of one person among others of whom only a sum of variances is known.

Given what is revealed of the others, a count is a known number, the person's bit, the noise and a sum ``N``
of independent bits whose variances add up to at least ``V``. To tell "counted" from "not counted" at odds of
``g`` the count is worth ``e(g) = sum_k (Pr[N = k - 1] - g Pr[N = k])+`` or the same of the reflected sum. A
channel whose ``e`` is nowhere smaller reveals at least as much (Blackwell).

The channel used has the largest ``e`` of all differences of two Poisson counts whose variances add up to a
little less than ``V``: sums of bits that are nearly always 0, or nearly always 1. Among the sums of a given
mean and variance, ``e`` is largest where their bits take two probabilities at most: the law of three bits
with a given sum and a given sum of squares is affine in their product, ``e`` is convex in it, and at either
end of its range two of them are equal or one is sure. Over sums of two probabilities the largest ``e`` was
searched (``tests/accounting/crowd/test_evidence.py``): it is that of a difference of Poisson counts of a
variance smaller by 4 % at most, and with noise by that of one fair coin at most; the margins are larger. At
odds of 1 ``e`` is the mode, ``e^-V I_0(V)``.

For example ``V = 4``: the mode is 0.21, so an erasure channel shows the exact count 21 times in 100. Odds of
4 to 1 or more come 2 times in 100.
"""

from __future__ import annotations

from math import floor, inf, log2, sqrt

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import NoiseLaw
from models.numerics.elementwise import exp
from models.numerics.jit import jit

_MARGIN, _MARGIN_NOISED = 0.05, 0.35  # relative, and absolute where there is noise
_STEPS_A_FACTOR = 32  # of two, from one variance of a channel to the next
_LEAST, _MOST = 0.01, 1e4  # of a variance; what is beyond hides nothing, or counts as the most
_PARTS = 16  # into which the variance is parted between two Poisson counts
_SPREADS = (
    0.0,
    0.1,
    0.2,
    0.3,
    0.45,
    0.6,
    0.8,
    1.0,
    1.25,
    1.5,
    1.8,
    2.1,
    2.5,
    3.0,
    3.6,
    4.3,
    5.2,
    6.5,
    8.5,
    12.0,
    18.0,
)
"""Logarithms of odds at which ``e`` is computed, in units of one over the standard deviation."""
_MOST_LOG_ODDS = 18.0
_ROUNDING = 1e-12  # relative: thousands of positive terms, each rounded


@jit
def poisson_difference(up: float, down: float) -> NDArray[np.float64]:
    """Probabilities of the difference of Poisson counts with means ``up >= down``, tails below 1e-16 cut off.

    Ratios of neighbours inwards from far out, ``p_k / p_(k-1) = up / (k + down p_(k+1) / p_k)``, and then
    products outwards from the mode: only positive terms.
    """
    mode = int(up - down)
    beyond = int(12.0 * sqrt(up + down)) + 40
    most, least = mode + beyond, min(mode, 0) - beyond
    masses = np.zeros(most - least + 1)
    above, below = np.zeros(most + 2), np.zeros(-least + 2)
    for k in range(most, 0, -1):
        above[k] = up / (k + down * above[k + 1])
    for k in range(-least, 0, -1):
        below[k] = down / (k + up * below[k + 1])
    masses[mode - least] = 1.0
    for k in range(mode + 1, most + 1):
        masses[k - least] = masses[k - 1 - least] * above[k]
    for k in range(mode, 0, -1):
        masses[k - 1 - least] = masses[k - least] / above[k]
    for k in range(1, -least + 1):
        masses[-k - least] = masses[-k + 1 - least] * below[k]
    return masses / masses.sum()


@jit
def advantages(variance: float, noise: NDArray[np.float64], odds: NDArray[np.float64]) -> NDArray[np.float64]:
    """``e`` at each of the ``odds`` (O,), of at least 1; the largest over all ways to part the variance."""
    found = np.zeros(odds.size)
    for part in range(_PARTS // 2 + 1):
        down = variance * part / _PARTS
        alone = poisson_difference(variance - down, down)
        masses = np.zeros(alone.size + noise.size + 1)  # nothing at either end
        for j in range(noise.size):
            for k in range(alone.size):
                masses[1 + j + k] += noise[j] * alone[k]
        for o in range(odds.size):
            raised, lowered = 0.0, 0.0
            for k in range(1, masses.size):
                raised += max(0.0, masses[k - 1] - odds[o] * masses[k])
                lowered += max(0.0, masses[k] - odds[o] * masses[k - 1])
            found[o] = max(found[o], raised, lowered)
    return found


def surely_hiding(variance: float, is_noised: bool) -> float:
    """The variance of Poisson counts that hide no better than others of this ``variance``; 0 if none do.

    Rounded down to one of few, so that few channels are computed.
    """
    least = min((1.0 - _MARGIN) * variance, variance - _MARGIN_NOISED if is_noised else inf, _MOST)
    if least < _LEAST:
        return 0.0
    return min(least, 2.0 ** (floor(_STEPS_A_FACTOR * log2(least)) / _STEPS_A_FACTOR))


Outputs = tuple[NDArray[np.float64], NDArray[np.float64], float]
"""Probabilities of outputs if the person is not counted (O,), and if (O,), and what they leave out."""


def outputs_among(variance: float, noise: NoiseLaw | None) -> Outputs:
    """A channel that reveals at least as much as a count among Poisson counts of this ``variance`` does.

    ``noise`` must be symmetric; None for none.
    """
    added, left_out, spread = np.ones(1), 0.0, variance
    if noise is not None:
        added, left_out = noise.probabilities, 2.0 * noise.truncated_mass
        spread += float((added * (noise.first + np.arange(added.size)) ** 2.0).sum())
    odds = exp(np.unique(np.minimum(np.array(_SPREADS) / sqrt(spread), _MOST_LOG_ODDS)))
    at_odds = np.minimum(1.0, advantages(variance, added, odds) * (1.0 + _ROUNDING))
    inverse = 1.0 / odds[:0:-1]
    every = np.concatenate(([0.0], inverse, odds))  # e(1 / g) = 1 - 1 / g + e(g) / g of a reflected sum
    convex = np.concatenate(([1.0], 1.0 - inverse + inverse * at_odds[:0:-1], at_odds))
    slope = np.diff(convex) / np.diff(every)
    absent = np.maximum(0.0, np.diff(np.concatenate(([-1.0], slope, [0.0]))))
    return np.append(absent, 0.0), np.append(absent * every, convex[-1]), left_out
