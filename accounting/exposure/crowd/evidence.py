"""What a count says of one person among others of whom only a sum of variances is known.

Given what is revealed of the others, a count is a known number, the person's bit, the noise and independent
bits with chances ``q`` and ``sum q (1 - q) >= V``; let ``N`` be the noise and these bits. To tell "counted"
from "not counted" at odds of ``g`` the count is worth ``e(g) = sum_k (Pr[N = k - 1] - g Pr[N = k])+``, the
other way round the same of ``-N``. A channel whose ``e`` is nowhere smaller reveals at least as much
(Blackwell). :func:`outputs_among` is one:

1. Let the adversary be told more: a bit with ``q < 1/4`` is one of chance 1/4 with probability ``4 q``, and
   otherwise sure; with ``q > 3/4`` likewise; any other is a mixture of a bit of chance 1/4 and one of chance
   3/4. Told which, ``K`` bits of these two chances are left. ``K`` is a sum of independent bits with the mean
   ``M = sum min(1, 4 q, 4 (1 - q)) >= 4 V``.
2. Given ``K``, ``e(g)`` is at most ``h(K)``, the largest over how many of the ``K`` have the chance 1/4. One
   more bit only hides more, so ``h`` decreases. Let it be raised where it is not convex.
3. ``E h(K)`` is then at most the mean over a Poisson count of mean ``M`` (Hoeffding: it is larger in convex
   order), and so of mean ``4 V``.

Also ``e(g) <= e(1)`` for ``g >= 1``, and ``e(1)`` is at most the mode, ``e^-V I_0(V)``. As ``e`` is convex,
it lies below its chords between the odds at which it is computed.

A person who may be counted up to ``L`` times shifts ``N`` by one of ``1 .. L``, for reasons that do not
depend on where the person goes: ``h`` is then also the largest over these shifts.

For example ``V = 4``: the mode is 0.21, so an erasure channel shows the exact count 21 times in 100. Here
odds of 4 to 1 or more come 6 times in 100.
"""

from __future__ import annotations

from functools import cache, lru_cache
from math import exp as exp_of

import numpy as np

from models.mechanisms import NoiseLaw
from models.numerics.arrays import Floats
from models.numerics.elementwise import exp
from models.numerics.jit import jit

MOST_BITS = 192
"""Bits of chance 1/4 or 3/4 of which a table is made; more hide at least as well as these."""

_ROUNDING = 1e-12  # of sums of products, each rounded


@jit
def _sum_of(one: Floats, other: Floats) -> Floats:
    """The law of a sum."""
    found = np.zeros(one.size + other.size - 1)
    for i in range(one.size):
        for j in range(other.size):
            found[i + j] += one[i] * other[j]
    return found


@jit
def worth_of_bits(noise: Floats, odds: Floats, most: int, most_counts: int) -> Floats:
    """``h`` (most + 1, O) of so many bits of chance 1/4 or 3/4 and symmetric noise, at odds of 1 or more."""
    quarter = np.zeros((most + 1, most + 1))  # Pr[so many ones] of so many bits of chance 1/4
    quarter[0, 0] = 1.0
    for number in range(most):
        for ones in range(number + 1):
            quarter[number + 1, ones] += 0.75 * quarter[number, ones]
            quarter[number + 1, ones + 1] += 0.25 * quarter[number, ones]
    found = np.zeros((most + 1, odds.size))
    for number in range(most + 1):
        for likely in range(number // 2 + 1):  # ones; the mirror image of each law is looked at, too
            seldom = number - likely
            law = _sum_of(quarter[seldom, : seldom + 1], quarter[likely, likely::-1].copy())
            law = _sum_of(noise, law)
            for o in range(odds.size):
                for often in range(1, min(most_counts, law.size) + 1):
                    raised, lowered = law[law.size - often :].sum(), law[:often].sum()
                    for k in range(often, law.size):
                        raised += max(0.0, law[k - often] - odds[o] * law[k])
                        lowered += max(0.0, law[k] - odds[o] * law[k - often])
                    found[number, o] = max(found[number, o], raised, lowered)
    for number in range(most - 2, -1, -1):
        for o in range(odds.size):
            found[number, o] = max(found[number, o], 2.0 * found[number + 1, o] - found[number + 2, o])
    return found


@jit
def _mean_over_numbers(mean: float, worth: Floats) -> Floats:
    """Over a Poisson count, of which what is beyond the last number counts as this one."""
    found, weight, left = np.zeros(worth.shape[1]), exp_of(-mean), 1.0
    for number in range(worth.shape[0] - 1):
        found += weight * worth[number]
        left -= weight
        weight *= mean / (number + 1)
    return found + max(0.0, left) * worth[-1]


@cache
def _odds() -> Floats:
    return np.asarray(exp(np.append(0.0, 0.02 * 1.3 ** np.arange(27))))


@lru_cache(64)
def _worth_among(noise: bytes, most_counts: int) -> Floats:
    return worth_of_bits(np.frombuffer(noise), _odds(), MOST_BITS, most_counts)


Outputs = tuple[Floats, Floats, float]
"""Probabilities of outputs if the person is not counted (O,), and if (O,), and what they leave out."""


def outputs_among(variance: float, noise: NoiseLaw | None, shown: float, most_counts: int = 1) -> Outputs:
    """A channel that reveals at least as much as a count among bits of this ``variance`` does.

    ``noise`` must be symmetric, None for none; ``shown`` bounds ``e(1)``, for one count the largest
    probability of bits and noise.
    """
    added, left_out = np.ones(1), 0.0
    if noise is not None:
        added, left_out = noise.probabilities, 2.0 * noise.truncated_mass
    mean, worth = min(4.0 * variance, float(MOST_BITS)), _worth_among(added.tobytes(), most_counts)
    at_odds = np.minimum.accumulate(np.minimum(shown, _mean_over_numbers(mean, worth) + _ROUNDING))
    # Sums and their mirror images: odds below 1 mirror those above, and are not computed, because
    # ``1 - g + g e(1 / g)`` rounds away what tiny odds say. At 1 ``e`` lies below each chord to its mirror.
    odds = _odds()
    at_odds[0] = ((2.0 * at_odds + odds - 1.0) / (odds + 1.0)).min()
    kept = _convex(odds, at_odds)
    slope = np.append(np.diff(at_odds[kept]) / np.diff(odds[kept]), 0.0)
    less = np.maximum(0.0, np.diff(slope))
    more, even = less * odds[kept[1:]], max(0.0, 1.0 - at_odds[0] + 2.0 * slope[0])
    absent = np.concatenate((at_odds[-1:], more[::-1], [even], less, [0.0]))
    return absent, absent[::-1].copy(), left_out


def _convex(odds: Floats, worth: Floats) -> list[int]:
    """Positions of the corners of the largest convex function that is nowhere above these values."""
    kept: list[int] = []
    for k in range(odds.size):
        while len(kept) > 1:
            a, b = kept[-2:]
            if (worth[b] - worth[a]) * (odds[k] - odds[b]) < (worth[k] - worth[b]) * (odds[b] - odds[a]):
                break
            kept.pop()
        kept.append(k)
    return kept
