"""Certified Monte Carlo: the moment bound on exact posteriors, averaged over drawn trajectories and noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.erasure_bound import expected_under_erasure
from accounting.bounds.noised.sampled_kernel import posterior_bounds, walk
from accounting.bounds.patterns import MOST_OPERATIONS, Size
from accounting.bounds.protocol import Bound, Effort, Question, Scope
from accounting.exposure import Exposure
from accounting.numerics import upper_mean
from models.mechanisms import Mechanism

_DRAWS_AT_ONCE = 1024


def sampled_bound(exposure: Exposure, mistakes: int, effort: Effort) -> float | None:
    """Success of any adversary, with the effort's confidence over its draws.

    None without draws, and where steps share noise: drawing them one by one would show less than is released.

    ``E_y max_xhat Pr[d(X, xhat) <= s | y]`` is at most the mean of the moment bound on the posterior of each
    draw of ``y``; empirical Bernstein makes that mean an upper bound. Any mechanism, sensors of several
    places and overlapping ones included. Draws come from a counter generator that no publisher accepts.
    """
    order = _order(exposure, mistakes, effort)
    if effort.draws == 0 or order == 0 or not exposure.has_independent_noise:
        return None
    generator = np.random.Generator(np.random.Philox(effort.seed))
    bounds = np.concatenate(
        [
            _bounds(exposure, mistakes, order, generator, min(_DRAWS_AT_ONCE, effort.draws - done))
            for done in range(0, effort.draws, _DRAWS_AT_ONCE)
        ]
    )
    return upper_mean(bounds, effort.failure_probability)


def _order(exposure: Exposure, mistakes: int, effort: Effort) -> int:
    """As of the moment bound, with the work shared out over the draws."""
    size = Size(exposure.steps, exposure.place_count, Size.of(exposure).moves, 0, True)
    most = 4.0 * MOST_OPERATIONS / max(effort.draws, 1)
    return size.affordable_order(min(effort.order, exposure.steps - mistakes), most)


def _bounds(
    exposure: Exposure, mistakes: int, order: int, generator: np.random.Generator, draws: int
) -> NDArray[np.float64]:
    """The posterior's bound for some draws of movement and noise."""
    uniforms = generator.random((draws, exposure.steps))
    paths = walk(exposure.person, uniforms)
    likelihoods = np.ones((draws, exposure.steps, exposure.place_count))
    for t, observation in enumerate(exposure.observations):
        for sensor, mechanism in enumerate(observation.mechanisms):
            members = [k for k, sensors in enumerate(observation.outcomes) if sensor in sensors]
            counted = np.isin(exposure.labels[t], members)
            likelihoods[:, t] *= _likelihood(mechanism, counted, counted[paths[:, t]], generator)
    return posterior_bounds(exposure.person, likelihoods, mistakes, order)


def _likelihood(
    mechanism: Mechanism,
    counted: NDArray[np.bool_],
    was_counted: NDArray[np.bool_],
    generator: np.random.Generator,
) -> NDArray[np.float64]:
    """``Pr[published | place]`` (draws, K), scaled to maximum 1, for one drawn value a draw.

    ``counted`` (K,) says which places the sensor covers, ``was_counted`` (draws,) what was true.
    """
    law = mechanism.noise_law()
    assert law is not None  # suppressed sensors show nothing and are not in an observation
    cumulative = np.cumsum(law.probabilities)
    uniform = generator.random(was_counted.size) * cumulative[-1]
    noise = np.searchsorted(cumulative, uniform, side="right")
    # Positions in the table of the noise that each hypothesis needs; one more entry at both ends is zero.
    padded = np.concatenate([[0.0], law.probabilities, [0.0]])
    value = noise + was_counted
    absent, present = padded[value + 1], padded[value]
    scale = np.maximum(absent, present)
    return np.asarray(np.where(counted, (present / scale)[:, None], (absent / scale)[:, None]))


def _compute(asked: Question) -> float | None:
    """The smaller of the bounds from sampled posteriors and from sampled kept sets."""
    erased = asked.once(expected_under_erasure)
    posterior = sampled_bound(asked.exposure, asked.mistakes, asked.effort)
    kept = None if erased is None else erased.sampled
    return min((bound for bound in (posterior, kept) if bound is not None), default=None)


SAMPLED = Bound(
    "sampled",
    idea="below, only with `--draws`; holds with the confidence stated",
    scope=Scope.ANY,
    cost="draws",
    compute=_compute,
    is_certain=False,
)
