"""What noised and mixed releases show: drawing published values, and how likely they are per outcome.

A raw sensor is one whose noise is always 0, so raw, noised and mixed schedules are one case here. The noise's
own probabilities are used: an observation can exclude an outcome altogether.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.drawing.random_draws_kernel import AliasTables, draw
from models.numerics.jit import bare_jit, jit


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


# What is released about one person's own places, drawn as likelihoods of these places.
#
# A sensor's count shows the noise, or the noise and one more. Of the value drawn only the ratio of the two
# probabilities matters, so both are kept divided by the larger one.


class ValueTables(NamedTuple):
    """How likely each value is without and with the person; law ``l``'s values begin at ``first[l]``."""

    first: NDArray[np.int64]  # (laws,)
    absent: NDArray[np.float64]
    present: NDArray[np.float64]
    noise: AliasTables


class OwnReleases(NamedTuple):
    """Releases that tell a person's places apart; those of step ``t`` are ``first[t]..first[t + 1] - 1``."""

    first: NDArray[np.int64]  # (T + 1,)
    law: NDArray[np.int64]  # (R,)
    counted: NDArray[np.bool_]  # (R, K) whether a place is counted
    values: ValueTables


@jit
def value_tables(steps: ReleasedSteps) -> ValueTables:
    """Tables of a schedule's noise laws: value ``i`` is noise number ``i``, or number ``i - 1`` and one."""
    noise = steps.tables.first
    laws = noise.size - 1
    first = noise[:-1] + np.arange(laws)
    absent, present = np.zeros(noise[laws] + laws), np.zeros(noise[laws] + laws)
    for law in range(laws):
        size = noise[law + 1] - noise[law]
        for i in range(size + 1):
            without = steps.log_probability[noise[law] + i] if i < size else -np.inf
            counted = steps.log_probability[noise[law] + i - 1] if i > 0 else -np.inf
            if max(without, counted) > -np.inf:
                absent[first[law] + i] = np.exp(min(0.0, without - counted)) if without > -np.inf else 0.0
                present[first[law] + i] = np.exp(min(0.0, counted - without)) if counted > -np.inf else 0.0
    return ValueTables(first, absent, present, steps.tables)


@jit
def own_releases(steps: ReleasedSteps, labels: NDArray[np.int32], values: ValueTables) -> OwnReleases:
    """The releases that tell places apart, for somebody whose places have the outcomes ``labels`` (T, K).

    A release that counts all of them or none shows the same noise wherever the person is.
    """
    count, places = labels.shape
    most = steps.releases.sum()
    first, law = np.zeros(count + 1, np.int64), np.empty(most, np.int64)
    counted = np.empty((most, places), np.bool_)
    own = 0
    for t in range(count):
        for r in range(steps.releases[t]):
            inside = 0
            for x in range(places):
                counted[own, x] = steps.counted[t, labels[t, x], r] > 0
                inside += counted[own, x]
            if 0 < inside < places:
                law[own] = steps.law[t, r]
                own += 1
        first[t + 1] = own
    return OwnReleases(first, law[:own], counted[:own], values)


@bare_jit
def draw_likelihoods(
    releases: OwnReleases,
    trace: NDArray[np.int32],
    stream: NDArray[np.uint64],
    likelihood: NDArray[np.float64],
) -> None:
    """Publish every step of a ``trace`` (T,); ``likelihood`` (T, K) of the values up to a factor a step."""
    values, counted = releases.values, releases.counted
    likelihood[:] = 1.0
    for t in range(trace.size):
        here = np.uint64(t)
        for r in range(np.uint64(releases.first[t]), np.uint64(releases.first[t + 1])):
            law = releases.law[r]
            value = values.first[law] + draw(values.noise, law, stream) + counted[r, trace[t]]
            absent, present = values.absent[value], values.present[value]
            for x in range(np.uint64(likelihood.shape[1])):
                likelihood[here, x] *= present if counted[r, x] else absent
