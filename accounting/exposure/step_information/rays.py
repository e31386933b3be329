"""The outputs of a noised count, each with its evidence that the person is counted.

An output ``y`` of a count multiplies the evidence of a path by a *ray*: ``2 w (1 - theta)`` where the path is
not counted and ``2 w theta`` where it is; ``w = (P0(y) + P1(y)) / 2``, ``theta = P1(y) / (P0(y) + P1(y))``.
What can be won is convex in ``theta``, so outputs may be spread over kept neighbours: that reveals no less.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.mechanisms import DrawnPerWindow, Mechanism, NoiseLaw

MOST_OUTPUTS = 64  # of one count in the horizon; a wider noise's are joined by their neighbours
FEW_OUTPUTS = 7  # of one count before it
_LEAST_WEIGHT = 1e-9  # of an output; what is rarer is left out and added to the bound
_LEAST_STEP = 1e-12  # between two thetas; closer ones are one


class Rays(NamedTuple):
    """One count's outputs: ``w = (P0 + P1) / 2`` and ``theta = P1 / (P0 + P1)``, sorted by ``theta``."""

    weight: NDArray[np.float64]  # (O,)
    theta: NDArray[np.float64]  # (O,)
    left_out: float  # probability that is not in the outputs: to be added to a bound

    @property
    def distance(self) -> float:
        """Total variation between counted and not counted."""
        return float((self.weight * np.abs(2.0 * self.theta - 1.0)).sum())


@lru_cache(1024)
def rays_of(mechanism: Mechanism) -> Rays:
    """All outputs of a count under this mechanism.

    A mechanism without an own law is an erasure channel, which shows the exact count with the probability
    that the mechanism states and otherwise nothing.
    """
    law = mechanism.noise_law()
    if mechanism.is_exact or (law is not None and law.probabilities.size == 1):
        return exact_rays()
    if law is None or isinstance(mechanism, DrawnPerWindow):
        return _erased(min(1.0, mechanism.reveal_probability()))
    return _rays(law)


def exact_rays() -> Rays:
    """The two outputs of an exact count."""
    return _erased(1.0)


def _erased(shown: float) -> Rays:
    weight, theta = np.array([shown / 2.0, 1.0 - shown, shown / 2.0]), np.array([0.0, 0.5, 1.0])
    return Rays(weight[weight > 0.0], theta[weight > 0.0], 0.0)


def _rays(law: NoiseLaw) -> Rays:
    """Outputs of a count with this noise, and of one more, joined where their ``theta`` is the same."""
    absent, present = np.append(law.probabilities, 0.0), np.append(0.0, law.probabilities)
    is_kept = (absent + present) / 2.0 > _LEAST_WEIGHT
    left_out = max(absent[~is_kept].sum(), present[~is_kept].sum()) + law.truncated_mass
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
    weight, theta = rays.weight, rays.theta
    count = weight.size
    if count <= outputs:
        return rays
    p = min(max(chance, 0.02), 0.98)
    counted, not_counted = 2.0 * p * theta, 2.0 * (1.0 - p) * (1.0 - theta)
    known = (counted**2 / p + not_counted**2 / (1.0 - p)) / (counted + not_counted)
    # the loss between two kept outputs, from sums over all outputs up to each
    mass, moment, at_best = (np.cumsum(each) for each in (weight, weight * theta, weight * known))
    low, high = np.triu_indices(count, 1)
    inside = mass[high - 1] - mass[low]
    above = (moment[high - 1] - moment[low] - theta[low] * inside) / (theta[high] - theta[low])
    chord = known[low] * (inside - above) + known[high] * above
    cost = np.full((count, count), np.inf)
    cost[low, high] = np.maximum(chord - (at_best[high - 1] - at_best[low]), 0.0)
    least, before = np.full(count, np.inf), []
    least[0] = 0.0
    for _ in range(outputs - 1):
        total = least[:, np.newaxis] + cost
        before.append(total.argmin(axis=0))
        least = total.min(axis=0)
    kept = [count - 1]
    for each in reversed(before):
        kept.append(int(each[kept[-1]]))
    return _spread(rays, sorted(set(kept)))
