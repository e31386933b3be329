"""What noised and mixed releases show: drawing published values, and how likely they are per outcome.

A raw sensor is one whose noise is always 0, so raw, noised and mixed schedules are one case here. The noise's
own probabilities are used: an observation can exclude an outcome altogether.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.drawing.random_draws_kernel import AliasTables, draw
from models.numerics.jit import bare_jit


class ReleasedSteps(NamedTuple):
    """All releases of ``T`` steps; ``R`` is the most in one step, ``O`` the most outcomes.

    ``law`` indexes the noise laws; law ``l`` gives the value ``first[l] + i`` the probability
    ``e^log_probability[tables.first[l] + i]``.
    """

    releases: NDArray[np.int64]  # (T,) how many
    outcomes: NDArray[np.int64]  # (T,) how many
    law: NDArray[np.int64]  # (T, R)
    counted: NDArray[np.int64]  # (T, O, R) 1 where the outcome is counted by the sensor
    first: NDArray[np.int64]  # (laws,)
    log_probability: NDArray[np.float64]
    tables: AliasTables  # of the noise laws


@bare_jit
def log_noise(steps: ReleasedSteps, law: int, noise: int) -> float:
    """Log-probability of a noise value, -inf outside the law's support."""
    index = noise - steps.first[law]
    begin, end = steps.tables.first[law], steps.tables.first[law + 1]
    if index < 0 or index >= end - begin:
        return -np.inf
    return steps.log_probability[begin + index]


@bare_jit
def log_likelihoods(
    steps: ReleasedSteps, step: int, outcome: int, stream: NDArray[np.uint64], found: NDArray[np.float64]
) -> None:
    """Publish ``step`` for a person in ``outcome``; every outcome's log-likelihood into ``found`` (O,)."""
    for other in range(steps.outcomes[step]):
        found[other] = 0.0
    for r in range(steps.releases[step]):
        law = steps.law[step, r]
        noise = steps.first[law] + draw(steps.tables, law, stream)
        seen = steps.counted[step, outcome, r] + noise
        for other in range(steps.outcomes[step]):
            found[other] += log_noise(steps, law, seen - steps.counted[step, other, r])


@bare_jit
def publish_trace(
    steps: ReleasedSteps,
    labels: NDArray[np.int32],
    stream: NDArray[np.uint64],
    log_likelihood: NDArray[np.float64],
) -> None:
    """Publish every step for somebody whose outcomes are ``labels`` (T,); fills ``log_likelihood`` (T, O)."""
    for step in range(labels.size):
        log_likelihoods(steps, step, labels[step], stream, log_likelihood[step])


@bare_jit
def relative_likelihoods(
    log_likelihood: NDArray[np.float64], outcomes: NDArray[np.int64], likelihood: NDArray[np.float64]
) -> None:
    """Likelihoods (T, O), the largest of each step 1."""
    for step in range(outcomes.size):
        top = log_likelihood[step, 0]
        for outcome in range(1, outcomes[step]):
            top = max(top, log_likelihood[step, outcome])
        for outcome in range(outcomes[step]):
            likelihood[step, outcome] = np.exp(log_likelihood[step, outcome] - top)
