"""The outputs of a noised count, each with its evidence that the person is counted.

An output ``y`` of a count multiplies the evidence of a path by a *ray*: ``2 w (1 - theta)`` where the path is
not counted and ``2 w theta`` where it is; ``w = (P0(y) + P1(y)) / 2``, ``theta = P1(y) / (P0(y) + P1(y))``.
What can be won is convex in ``theta``, so outputs may be spread over kept neighbours: that reveals no less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, reduce
from itertools import pairwise
from math import sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr

from models.mechanisms import (
    Correlated,
    CountedAgain,
    DrawnPerWindow,
    Mechanism,
    NoiseFamily,
    NoiseLaw,
    SeenRelease,
    Versions,
    truncated_mass,
)
from models.numerics.arrays import Floats, Integers
from models.numerics.jit import jit

MOST_OUTPUTS = 64  # of one count in the horizon; a wider noise's are joined by their neighbours
FEW_OUTPUTS = 7  # of one count before it
_LEAST_WEIGHT = 1e-9  # of an output; what is rarer is left out and added to the bound
_LEAST_STEP = 1e-12  # between two thetas; closer ones are one
_LOG_CONCAVE = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.GEOMETRIC)
_TAIL, _SURE = 7.5, 14.0  # scales of a Gaussian, and logarithm of odds, beyond which its outputs are two


class Rays(NamedTuple):
    """One count's outputs: ``w = (P0 + P1) / 2`` and ``theta = P1 / (P0 + P1)``, sorted by ``theta``."""

    weight: Floats  # (O,)
    theta: Floats  # (O,)
    left_out: float  # probability that is not in the outputs: to be added to a bound

    @property
    def distance(self) -> float:
        """Total variation between counted and not counted."""
        return float((self.weight * np.abs(2.0 * self.theta - 1.0)).sum())


@lru_cache(1024)
def rays_of(mechanism: Mechanism) -> Rays:
    """All outputs of a count under this mechanism, or of one that reveals no less.

    - Several values of one count are independent given whether the person is counted: their rays multiply.
    - Who is counted up to ``L`` times: noise whose law is log-concave has ratios of likelihoods that rise
      with the value whatever the shift, so for every level the best test is one and the same threshold, and
      it finds a larger shift more often. So a shift by ``L`` reveals at least as much as a smaller one
      (Blackwell). The sampler's distance to such a law counts twice, for each of the two shifts.
    - Of noise that steps share all but each step's independent part may be known: a Gaussian shifted by
      ``L``, of which rounding shows no more.
    - A release that is seen through a channel has the channel's outputs, if it says so.
    - Any other mechanism without an own law is an erasure channel, which shows the exact count with the
      probability that the mechanism states and otherwise nothing.
    """
    if mechanism.is_exact:
        return exact_rays()
    if isinstance(mechanism, Versions):
        return reduce(_together, [rays_of(part) for part in mechanism.parts])  # type: ignore[arg-type]
    outputs = mechanism.outputs() if isinstance(mechanism, SeenRelease) else None
    if outputs is not None:
        return _joined(*outputs)
    inner, shift = mechanism, 1
    if isinstance(mechanism, CountedAgain):
        inner, shift = mechanism.inner, mechanism.most_counts
    if isinstance(inner, Correlated):
        return _gaussian_rays(shift * sqrt(2.0 * inner.divergence()), truncated_mass(inner))
    law = inner.noise_law()
    if law is not None and law.probabilities.size == 1:
        return exact_rays()
    is_known = shift == 1 or inner.noise_family in _LOG_CONCAVE
    if law is None or isinstance(inner, DrawnPerWindow) or not is_known:
        return _erased(min(1.0, mechanism.reveal_probability()))
    return _rays(law, shift)


def exact_rays() -> Rays:
    """The two outputs of an exact count."""
    return _erased(1.0)


def _erased(shown: float) -> Rays:
    weight, theta = np.array([shown / 2.0, 1.0 - shown, shown / 2.0]), np.array([0.0, 0.5, 1.0])
    return Rays(weight[weight > 0.0], theta[weight > 0.0], 0.0)


def _rays(law: NoiseLaw, shift: int) -> Rays:
    """Outputs of a count with this noise, and of ``shift`` more."""
    nothing = np.zeros(shift)
    absent, present = np.append(law.probabilities, nothing), np.append(nothing, law.probabilities)
    return _joined(absent, present, law.truncated_mass * min(shift, 2))


def _together(one: Rays, other: Rays) -> Rays:
    """Outputs of two values of a count, each with noise of its own."""
    absent = np.outer(one.weight * (1.0 - one.theta), other.weight * (1.0 - other.theta))
    present = np.outer(one.weight * one.theta, other.weight * other.theta)
    return _joined(4.0 * absent.ravel(), 4.0 * present.ravel(), one.left_out + other.left_out)


def _gaussian_rays(shift: float, left_out: float) -> Rays:
    """Outputs of a Gaussian of scale one that may be shifted, each cell of values spread over its ends."""
    if not shift < 2.0 * _TAIL:
        return exact_rays()
    most = min(_SURE, shift * (_TAIL + shift / 2.0))
    log_odds = np.linspace(-most, most, MOST_OUTPUTS - 1)
    edge = log_odds / shift + shift / 2.0
    absent = np.diff(ndtr(edge), prepend=0.0, append=1.0)
    present = np.diff(ndtr(edge - shift), prepend=0.0, append=1.0)
    ends = np.concatenate(([0.0], expit(log_odds), [1.0]))
    weight = (absent + present) / 2.0
    share = np.where(weight > 0.0, present / np.where(weight > 0.0, 2.0 * weight, 1.0), 0.0)
    above = np.clip((share - ends[:-1]) / np.diff(ends), 0.0, 1.0)
    at_ends = np.append(weight * (1.0 - above), 0.0) + np.append(0.0, weight * above)
    return _joined(2.0 * at_ends * (1.0 - ends), 2.0 * at_ends * ends, left_out)


def _joined(absent: Floats, present: Floats, left_out: float) -> Rays:
    """Outputs with these probabilities, those of the same ``theta`` as one, and at most ``MOST_OUTPUTS``."""
    is_kept = (absent + present) / 2.0 > _LEAST_WEIGHT
    left_out += max(absent[~is_kept].sum(), present[~is_kept].sum())
    absent, present = absent[is_kept], present[is_kept]
    theta = present / (absent + present)
    order = np.argsort(theta, kind="stable")
    first = np.flatnonzero(np.diff(theta[order], prepend=-1.0) > _LEAST_STEP)
    absent, present = np.add.reduceat(absent[order], first), np.add.reduceat(present[order], first)
    rays = Rays((absent + present) / 2.0, present / (absent + present), float(left_out))
    if rays.weight.size > MOST_OUTPUTS:
        cumulated = np.cumsum(rays.weight) / rays.weight.sum()
        kept = np.searchsorted(cumulated, np.linspace(0.0, 1.0, MOST_OUTPUTS))
        kept = np.unique(np.clip(np.append(kept, 0), 0, rays.weight.size - 1))
        rays = _spread(rays, np.unique(np.append(kept, rays.weight.size - 1)).tolist())
    return rays


def _spread(rays: Rays, kept: Sequence[int]) -> Rays:
    """Only the ``kept`` outputs, both extremes among them; each other one is spread over its neighbours.

    What can be won is convex in ``theta``, so this reveals no less.
    """
    weight = rays.weight[list(kept)].copy()
    for i, (low, high) in enumerate(pairwise(kept)):
        between = slice(low + 1, high)
        above = (rays.theta[between] - rays.theta[low]) / (rays.theta[high] - rays.theta[low])
        weight[i] += float((rays.weight[between] * (1.0 - above)).sum())
        weight[i + 1] += float((rays.weight[between] * above).sum())
    return Rays(weight, rays.theta[list(kept)], rays.left_out)


@lru_cache(4096)
def few_rays(mechanism: Mechanism, outputs: int, chance: float) -> Rays:
    """The best so many outputs to keep for a person who is counted with this probability.

    The least loss of chi-square about the bit, by dynamic programming over intervals (Tal and Vardy, *How to
    Construct Polar Codes*, from above).
    """
    rays = rays_of(mechanism)  # type: ignore[arg-type]
    if rays.weight.size <= outputs:
        return rays
    kept = _best_kept(rays.weight, rays.theta, outputs, min(max(chance, 0.02), 0.98))
    return _spread(rays, np.unique(kept).tolist())


@jit
def _best_kept(weight: Floats, theta: Floats, outputs: int, p: float) -> Integers:
    """The positions of the outputs to keep, the last one first; some may be named twice."""
    count = weight.size
    known, least, lower = np.empty(count), np.full(count, np.inf), np.empty(count)
    for k in range(count):
        counted, not_counted = 2.0 * p * theta[k], 2.0 * (1.0 - p) * (1.0 - theta[k])
        both = counted * counted / p + not_counted * not_counted / (1.0 - p)
        known[k] = both / (counted + not_counted)
    # the loss between two kept outputs, from sums over all outputs up to each
    mass, moment, at_best = np.cumsum(weight), np.cumsum(weight * theta), np.cumsum(weight * known)
    cost = np.empty((count, count))
    for low in range(count):
        for high in range(low + 1, count):
            inside = mass[high - 1] - mass[low]
            above = (moment[high - 1] - moment[low] - theta[low] * inside) / (theta[high] - theta[low])
            chord = known[low] * (inside - above) + known[high] * above
            cost[high, low] = max(chord - (at_best[high - 1] - at_best[low]), 0.0)
    before = np.zeros((outputs - 1, count), np.int64)
    least[0] = 0.0
    for chosen in range(outputs - 1):
        for high in range(count):
            lower[high] = np.inf
            for low in range(high):
                total = least[low] + cost[high, low]
                if total < lower[high]:
                    lower[high], before[chosen, high] = total, low
        least, lower = lower, least
    kept = np.full(outputs, count - 1)
    for place in range(1, outputs):
        kept[place] = before[outputs - 1 - place, kept[place - 1]]
    return kept
