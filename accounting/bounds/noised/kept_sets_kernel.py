"""Raw quantities for many sets of kept sensors at once: what the erasure bound averages."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.outside_kernel import unobserved
from accounting.bounds.patterns.raw_success_kernel import RawQuestion, seen_raw
from accounting.bounds.patterns.registry import least_raw_success
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit


class SensorSteps(NamedTuple):
    """The noised sensor-steps that can see the person, and what exact sensors see."""

    step: NDArray[np.int64]  # (n,)
    cover: NDArray[np.bool_]  # (n, K), the own places they count at
    reveal: NDArray[np.float64]  # (n,), how likely they show the raw count
    always: NDArray[np.bool_]  # (T, K), seen exactly


class Habits(NamedTuple):
    """What the prior alone says of the person over the horizon."""

    marginal: NDArray[np.float64]  # (T, K)
    powers: NDArray[np.float64]  # of one full matrix; empty where they do not help
    guess: float  # q


@jit
def kept_hits(sensors: SensorSteps, kept: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Where a hit is seen, (T, K), when only some of the sensor-steps are kept; ``kept`` (n,)."""
    hits = sensors.always.copy()
    for sensor in range(sensors.step.size):
        if kept[sensor]:
            hits[sensors.step[sensor]] |= sensors.cover[sensor]
    return hits


def kept_sets(
    person: LocalChain, habits: Habits, sensors: SensorSteps, kept: NDArray[np.bool_], question: RawQuestion
) -> NDArray[np.float64]:
    """Success bound and exact information (nats) of each kept set, shape (sets, 2).

    ``kept`` (sets, n) says which of the ``n`` noised sensor-steps survive.
    """
    values = np.empty((kept.shape[0], 2))
    _fill_kept_sets(values, person, habits, sensors, kept, question)
    return values


@pjit(lambda values, *_: values.shape[0])
def _fill_kept_sets(
    begin: int,
    end: int,
    values: NDArray[np.float64],
    person: LocalChain,
    habits: Habits,
    sensors: SensorSteps,
    kept: NDArray[np.bool_],
    question: RawQuestion,
) -> None:
    """Fill ``values`` (sets, 2) of :func:`kept_sets`."""
    for i in range(begin, end):
        hits = kept_hits(sensors, kept[i])
        shown = renewal_information(person.chain, person.start, person.first_slot, hits, habits.marginal)
        information = shown.sum()
        outside, order = unobserved(person.start), question.order if question.mistakes > 0 else 0
        seen = seen_raw(person, hits, habits.marginal, outside, order, habits.powers)
        values[i, 0] = min(
            least_raw_success(seen, question).value, divergence_root(information, habits.guess)
        )
        values[i, 1] = information
