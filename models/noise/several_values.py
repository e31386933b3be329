"""What several values of one count reveal about one person, each published with noise of its own.

The channel is ``(B + Z_1, ..., B + Z_n)`` with ``B`` one when the person is counted and the ``Z_i``
independent integer noises, everybody else's counts being known. All that matters of an outcome is its
probability for somebody absent, and the ratio of that for somebody counted to it. Where outcomes are too many
some are put together, at two ratios with the same mean: what such a channel reveals is not less (Blackwell),
so everything here errs upwards.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from models.noise.noise_information import InformationTable, likelihood_table

# What a noised count reveals about a person who can be counted more than once.
#
# The channel is ``Y = n + Z`` with a person's own count ``n`` in ``0..L`` and ``Z`` an integer noise,
# everybody else's counts being known.

_NUMERIC_MARGIN = 1e-11  # relative, of the sums of logarithms below
_SHARE_ROUNDING = (
    1e-15  # relative, of a sum of probabilities by math.fsum and of the probabilities themselves
)


def shift_probability(noise: NDArray[np.float64], shift: int) -> float:
    """Largest probability of ``shift`` consecutive values of ``noise`` (n,), rounded up.

    For a unimodal noise it is the total variation between the noise and itself shifted by ``shift``, and all
    shifts ``0..shift`` of the noise have the rest, one minus it, in common: over a run of shifts a unimodal
    law is smallest at one of the run's two ends. For a noise with several modes, ``shift`` times the total
    variation of a shift by one, which bounds what they do not have in common.
    """
    steps = np.diff(np.concatenate(([0.0], noise, [0.0])))
    falls = np.flatnonzero(steps < 0.0)
    if falls.size and (steps[falls[0] :] > 0.0).any():
        found = shift * math.fsum(np.maximum(steps, 0.0))
    else:
        found = _largest_run(noise, shift)
    return min(1.0, found * (1.0 + _SHARE_ROUNDING))


def _largest_run(noise: NDArray[np.float64], length: int) -> float:
    """The largest sum of ``length`` consecutive probabilities of a unimodal law."""
    first = last = int(np.argmax(noise))
    while last - first + 1 < min(length, noise.size):  # the larger neighbour belongs to it
        if last + 1 == noise.size or (first > 0 and noise[first - 1] >= noise[last + 1]):
            first -= 1
        else:
            last += 1
    return math.fsum(noise[first : last + 1])


def own_count_information(law: NDArray[np.float64], noise: NDArray[np.float64]) -> float:
    """``I(n; n + Z)`` nats for an own count of law ``law`` (L + 1,) and a noise ``noise`` (n,), exactly.

    Sums ``x - ln(1 + x)`` of the relative difference ``x`` of the mixture from each shifted noise: it is
    never negative, so nothing cancels.
    """
    counts = np.flatnonzero(law > 0.0)
    mixture = np.zeros(noise.size + law.size - 1)
    for count in counts:
        mixture[count : count + noise.size] += law[count] * noise
    total = 0.0
    for count in counts:
        seen = mixture[count : count + noise.size]
        possible = noise > 0.0
        excess = (seen[possible] - noise[possible]) / noise[possible]
        own = float((noise[possible] * (excess - np.log1p(excess))).sum())
        mixture_outside = mixture.copy()
        mixture_outside[count : count + noise.size][possible] = 0.0
        outside = float(mixture_outside.sum())  # the changes sum to minus this mass
        total += float(law[count]) * (own + outside)
    return max(0.0, min(total * (1.0 + _NUMERIC_MARGIN), float(entr(law[counts]).sum())))


_MOST_OUTCOMES = 4096  # of a channel; 3 840 knots of a table times so many take a quarter of a second
_MOST_OF_ONE = 2048  # of each of two channels before their outcomes are paired
_NO_RATIO = 1e-300  # stands for 0, which has no logarithm
_ROUNDING = 1e-12  # relative, of sums of millions of products
_UNSEEN = 1e-18  # tails of so little probability share one cell


class Outcomes(NamedTuple):
    """A channel of one bit: ``probability`` (n,) for somebody absent, and ``ratio`` (n,) when counted.

    ``unseen`` is the probability, when counted, of what is impossible for somebody absent.
    """

    probability: NDArray[np.float64]
    ratio: NDArray[np.float64]
    unseen: float


def joint_outcomes(noises: Sequence[NDArray[np.float64]]) -> Outcomes:
    """The channel of all values together; ``noises`` are the laws (n_i,) of each value's noise."""
    return reduce(_paired, map(_of_noise, noises))


def joint_shift_probability(outcomes: Outcomes) -> float:
    """Total variation between being counted and not, rounded up: the erasure bound's ``delta``.

    Somebody who is counted in some of the values only shifts those: it is not more then.
    """
    less = np.maximum(1.0 - outcomes.ratio, 0.0)
    return min(1.0, math.fsum(outcomes.probability * less) * (1.0 + _ROUNDING))


def joint_information_table(outcomes: Outcomes) -> InformationTable:
    """Table of the information (nats) between being counted and all values together."""
    channel = _symmetric(outcomes)
    last = int(np.argmax(channel.ratio))  # takes what is impossible for the absent; the table charges it
    channel.ratio[last] += channel.unseen / channel.probability[last]
    return likelihood_table(channel.probability, channel.ratio, channel.unseen)


def _of_noise(noise: NDArray[np.float64]) -> Outcomes:
    """One value: the ratio at ``k`` is ``noise[k - 1] / noise[k]``."""
    possible = noise > 0.0
    before = np.concatenate(([0.0], noise[:-1]))
    unseen = float(before[~possible].sum() + noise[-1])
    return Outcomes(noise[possible], before[possible] / noise[possible], unseen)


def _symmetric(outcomes: Outcomes) -> Outcomes:
    """The channel or its mirror, by a coin that is seen: tables want one that treats the two alike.

    Symmetric noise makes such a channel; only the cells of :func:`_fewer` are not even for both.
    """
    possible = outcomes.ratio > 0.0
    probability, ratio = outcomes.probability[possible], outcomes.ratio[possible]
    impossible = float(outcomes.probability[~possible].sum())
    unseen = 0.5 * (outcomes.unseen + impossible)
    return Outcomes(
        np.concatenate((0.5 * probability, 0.5 * probability * ratio, [max(unseen, 1e-300)])),
        np.concatenate((ratio, 1.0 / ratio, [0.0])),
        unseen,
    )


def _paired(one: Outcomes, other: Outcomes) -> Outcomes:
    """Two independent channels of the same bit."""
    one, other = _fewer(one, _MOST_OF_ONE), _fewer(other, _MOST_OF_ONE)
    probability = np.multiply.outer(one.probability, other.probability).ravel()
    ratio = np.multiply.outer(one.ratio, other.ratio).ravel()
    seen = probability > 0.0  # what is rounded to nothing was at most 1e-308
    unseen = one.unseen + other.unseen  # and not their product, which is less
    return _fewer(Outcomes(probability[seen], ratio[seen], unseen), _MOST_OUTCOMES)


def _fewer(outcomes: Outcomes, most: int) -> Outcomes:
    """At most about so many outcomes, which reveal no less: each cell of ratios goes to its two ends."""
    order = np.argsort(outcomes.ratio, kind="stable")
    probability, ratio = outcomes.probability[order], outcomes.ratio[order]
    cells = _cells(probability, ratio, most)
    first = np.flatnonzero(np.concatenate(([True], cells[1:] != cells[:-1])))
    mass = np.add.reduceat(probability, first)
    counted = np.add.reduceat(probability * ratio, first)
    low, high = ratio[first], ratio[np.append(first[1:], ratio.size) - 1]
    width = high - low
    share = np.where(width > 0.0, (counted - mass * low) / np.where(width > 0.0, width, 1.0), 0.0)
    above = np.clip(share, 0.0, mass)
    ends = np.stack([mass - above, above], axis=1).ravel()
    where = np.stack([low, high], axis=1).ravel()
    kept = ends > 0.0
    return Outcomes(ends[kept], where[kept], outcomes.unseen)


def _cells(probability: NDArray[np.float64], ratio: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """A cell (n,) for each outcome, in increasing order of ratio.

    Ratios that differ by rounding only share one; where they are too many, even cells of their logarithm.
    """
    level = np.log(np.maximum(ratio, _NO_RATIO))
    cells = np.cumsum(np.diff(level, prepend=level[0]) > _ROUNDING, dtype=np.int64)
    if cells[-1] < most:
        return cells
    below, above = np.cumsum(probability), np.cumsum((probability * ratio)[::-1])[::-1]
    inner = np.flatnonzero((below > _UNSEEN) & (above > _UNSEEN) & (ratio > 0.0))
    low, high = level[inner[0]], level[inner[-1]]
    place = (np.clip(level, low, high) - low) * ((most // 2 - 2) / (high - low))
    even: NDArray[np.int64] = np.ceil(place).astype(np.int64)
    even[level > high] = most // 2
    even[level < low] = -1
    return even
