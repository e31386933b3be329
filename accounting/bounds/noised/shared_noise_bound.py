"""Few counts that share noise over steps, by all that they say together.

A noise vector is ``L z`` with independent ``z``, ``L`` lower triangular. So its counts say as much as ``u =
L^-1 counts``, step by step a Gaussian of scale one about a mean ``m`` that depends on which of the counts
until then the person is in. The likelihood ``e^(m u - m^2 / 2)`` is convex in ``u`` whatever the mean:
between two points of a grid it is at most that of the two, each as often as it keeps the mean of ``u``. What
can be won is a maximum of sums that are linear in the likelihoods, so the points in place of ``u`` reveal no
less. Of each count a few are kept that cover the others. Rounding of what is published shows no more.

Where each count has noise of its own, all but the independent part of the noise is taken to be known.
"""

from __future__ import annotations

from collections import defaultdict
from math import isfinite

import numpy as np
from scipy.special import ndtr

from accounting.bounds.noised.own_counts_bound import Asked, OwnPattern, kept_levels, success_by_pattern
from accounting.exposure import Exposure
from accounting.exposure.own_counts import OwnWindow, law_together
from models.mechanisms import Correlated, truncated_mass
from models.numerics.arrays import Flags, Floats
from models.numerics.elementwise import exp

_MOST_COUNTS = 4
_LEVELS, _MOST_TOGETHER = 24, 1000  # of a count, and of all counts so far together, beside exact ones
_RARE = 1e-12  # a mean that never comes is covered, too
_STEP, _REACH = 0.05, 9.0  # of the grid of a Gaussian, in scales
_ROUNDING, _BEYOND = 1.0 + 1e-11, 1e-12  # of its points, and what is beyond them


def success_by_shared_noise(exposure: Exposure, mistakes: int, wanted: int) -> float | None:
    """Success of any adversary who sees counts of presence that share noise, and nothing else.

    None for other counts, where no noise is shared, or where there are too many.
    """
    if exposure.has_independent_noise:
        return None
    windows: dict[tuple[str, int, int], list[int]] = defaultdict(list)
    steps: list[int] = []
    covers: list[Flags] = []
    mechanisms: list[Correlated] = []
    for t, (seen, shown) in enumerate(zip(exposure.observations, exposure.released, strict=True)):
        for sensor, (cover, mechanism) in zip(seen.sensors, shown, strict=True):
            if not isinstance(mechanism, Correlated) or not isfinite(mechanism.divergence()):
                return None
            windows[sensor, mechanism.design, t - mechanism.position].append(len(steps))
            steps.append(t)
            covers.append(cover)
            mechanisms.append(mechanism)
    count = len(steps)
    if count > _MOST_COUNTS or len(windows) == count:
        return None
    bits = (np.arange(1 << count)[:, np.newaxis] >> np.arange(count - 1, -1, -1)) & 1
    mean = np.empty((count, 1 << count))
    for own in windows.values():
        position = [mechanisms[number].position for number in own]
        factor = np.linalg.cholesky(mechanisms[own[0]].noise.covariance[np.ix_(position, position)])
        mean[own] = np.linalg.solve(factor, bits[:, own].T)
    counts = tuple(
        OwnWindow(t, t, 1, np.tile(cover.astype(np.int64), (cover.size, 1)), np.ones(1))
        for t, cover in zip(steps, covers, strict=True)
    )
    law, together = law_together(exposure, counts).reshape(-1), np.ones((1, 1 << count))
    for number, each in enumerate(mean):
        levels = _levels(each, law)
        together = (together[:, np.newaxis] * levels).reshape(-1, law.size)
        if len(together) > _MOST_TOGETHER and number + 1 < count:
            later = 1 << (count - 1 - number)  # patterns that are one so far
            kept = kept_levels(together[:, ::later], law.reshape(-1, later).sum(axis=1), _MOST_TOGETHER)
            together = np.repeat(kept, later, axis=1)
    asked = Asked(exposure.start, exposure.moves, exposure.guessed, exposure.cost, 0, False, mistakes)
    found = success_by_pattern(asked, OwnPattern(counts, together), wanted)
    left_out = sum(truncated_mass(own) + _BEYOND for own in mechanisms)
    return None if found is None else min(1.0, found + left_out)


def _levels(mean: Floats, law: Floats) -> Floats:
    """A few levels (L, N) of a Gaussian of scale one about one of N means, which come with this ``law``."""
    means, which = np.unique(mean, return_inverse=True)
    seen = _on_a_grid(means - (means[0] + means[-1]) / 2.0)
    chance = np.maximum(_RARE, np.bincount(which, law))
    return kept_levels(seen, chance, _LEVELS)[:, which]


def _on_a_grid(mean: Floats) -> Floats:
    """Likelihoods (V, N) of the points of a grid about 0 in place of a Gaussian about each mean."""
    points = np.arange(0.0, _REACH + np.abs(mean).max() + _STEP, _STEP)
    mass = -np.diff(ndtr(-points))
    moment = -np.diff(exp(-0.5 * points**2)) / np.sqrt(2.0 * np.pi)
    weight = np.zeros(points.size)
    weight[:-1] += (points[1:] * mass - moment) / _STEP
    weight[1:] += (moment - points[:-1] * mass) / _STEP
    weight = np.concatenate((weight[:0:-1], [2.0 * weight[0]], weight[1:]))
    points = np.concatenate((-points[:0:-1], points))
    return np.asarray(weight[:, np.newaxis] * exp(np.outer(points, mean) - 0.5 * mean**2)) * _ROUNDING
