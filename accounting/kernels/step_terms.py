"""What one step adds to the information about one person: the cheap terms, a few operations per sensor.

``unconditioned`` bounds ``I(X_t; Y_t)``; ``conditional`` bounds ``I(X; Y_t | Y_w..Y_{t-1})`` for every
earlier ``w``. Koga, Meehan, Chaudhuri, *Measuring Privacy Loss in Distributed Spatio-Temporal Data*,
section 3.3, for one sensor; here for any number of sensors, exact and noised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.kernels.renewal import surprise
from models.chain import ChainView
from models.information import InformationTable, table_information
from models.jit import jit


class StepView(NamedTuple):
    """One step in the form the kernels read; see :class:`accounting.observation.StepObservation`."""

    labels: NDArray[np.int32]  # (M,) outcome of each location, 0 = counted nowhere
    overlap: NDArray[np.float64]  # (O, O) exp(-divergence) between outcomes; the identity for a raw step
    members: NDArray[np.bool_]  # (O, sensors) which sensors count someone in each outcome
    is_exact: NDArray[np.bool_]  # (sensors,) whether the sensor's count is published as it is
    information_grid: NDArray[np.float64]  # (G,) knots common to all mechanisms' tables
    information_nats: NDArray[np.float64]  # (sensors, G) of each noised sensor; no rows if raw
    is_raw: bool


class Scratch(NamedTuple):
    """Working memory of one thread; all zero between people."""

    mass: NDArray[np.float64]  # (O,) probability of each outcome now
    mass_before: NDArray[np.float64]  # (O before,)
    joint: NDArray[np.float64]  # (O before, O)
    seen: NDArray[np.int64]  # (O,) outcomes this person can cause now
    seen_before: NDArray[np.int64]  # (O before,)


class StepTerms(NamedTuple):
    """Information of one step about one person, nats, each an upper bound."""

    unconditioned: float
    conditional: float


@jit
def collect_outcomes(
    places: NDArray[np.int32],
    distribution: NDArray[np.float64],
    labels: NDArray[np.int32],
    mass: NDArray[np.float64],
    seen: NDArray[np.int64],
) -> int:
    """Add up the probability of each outcome over the person's places; how many outcomes were seen."""
    count = 0
    for x in range(places.size):
        outcome = labels[places[x]]
        if outcome > 0 and distribution[x] > 0.0:
            if mass[outcome] == 0.0:
                seen[count] = outcome
                count += 1
            mass[outcome] += distribution[x]
    return count


@jit
def outcome_entropy(mass: NDArray[np.float64], seen: NDArray[np.int64], count: int) -> float:
    """``H(Y_t)`` of a raw step, the outcome "counted nowhere" included."""
    entropy = 0.0
    rest = 1.0
    for k in range(count):
        entropy += surprise(mass[seen[k]])
        rest -= mass[seen[k]]
    return entropy + surprise(rest)


@jit
def pairwise_information(
    mass: NDArray[np.float64], seen: NDArray[np.int64], count: int, step: StepView
) -> float:
    """``-sum_i p_i ln sum_j p_j exp(-D_ij)``: Koga et al. eq. (4) for any number of sensors and noises.

    The mixture bound of Kolchinsky and Tracey (*Estimating Mixture Entropy with Pairwise Distances*, 2017)
    with the Kullback-Leibler divergence as distance.
    """
    rest = 1.0
    for k in range(count):
        rest -= mass[seen[k]]
    rest = max(rest, 0.0)
    total = 0.0
    for i in range(-1, count):
        outcome = seen[i] if i >= 0 else 0
        probability = mass[outcome] if i >= 0 else rest
        if probability > 0.0:
            likeness = rest * step.overlap[outcome, 0]
            for j in range(count):
                likeness += mass[seen[j]] * step.overlap[outcome, seen[j]]
            total -= probability * np.log(likeness)
    return total


@jit
def separate_information(
    mass: NDArray[np.float64], seen: NDArray[np.int64], count: int, step: StepView
) -> float:
    """Sum over sensors of the exact information of "counted by this sensor" and its value.

    ``I(X; Y_1..Y_n) <= sum_k I(X; Y_k)`` as the noises are independent given ``X``.
    """
    total = 0.0
    for sensor in range(step.members.shape[1]):
        probability = 0.0
        for k in range(count):
            if step.members[seen[k], sensor]:
                probability += mass[seen[k]]
        if probability > 0.0:
            probability = min(probability, 1.0)
            if step.is_exact[sensor]:
                total += surprise(probability) + surprise(1.0 - probability)
            else:
                total += table_information(
                    InformationTable(step.information_grid, step.information_nats[sensor]), probability
                )
    return total


@jit
def conditional_entropy(
    chain: ChainView,
    slot_before: int,
    before: NDArray[np.float64],
    labels_before: NDArray[np.int32],
    labels: NDArray[np.int32],
    scratch: Scratch,
    count: int,
    count_before: int,
) -> float:
    """``H(Y_t | Y_{t-1})`` of two raw steps, from the marginal before and the active columns."""
    rest_before = 1.0
    for k in range(count_before):
        rest_before -= scratch.mass_before[scratch.seen_before[k]]
    for y in range(chain.places.size):
        outcome = labels[chain.places[y]]
        if outcome > 0 and scratch.mass[outcome] > 0.0:
            for j in range(chain.column_start[slot_before, y], chain.column_start[slot_before, y + 1]):
                x = chain.row[j]
                scratch.joint[labels_before[chain.places[x]], outcome] += before[x] * chain.value[j]
    entropy = 0.0
    for i in range(-1, count_before):
        origin = scratch.seen_before[i] if i >= 0 else 0
        probability = scratch.mass_before[origin] if i >= 0 else max(rest_before, 0.0)
        rest = probability
        for k in range(count):
            rest -= scratch.joint[origin, scratch.seen[k]]
            entropy += surprise(scratch.joint[origin, scratch.seen[k]])
            scratch.joint[origin, scratch.seen[k]] = 0.0
        entropy += surprise(rest) - surprise(probability)
    return entropy


@jit
def clear(mass: NDArray[np.float64], seen: NDArray[np.int64], count: int) -> None:
    """Leave the working memory as it was found."""
    for k in range(count):
        mass[seen[k]] = 0.0


@jit
def step_terms(
    chain: ChainView,
    slot_before: int,
    before: NDArray[np.float64],
    now: NDArray[np.float64],
    step_before: StepView,
    step: StepView,
    scratch: Scratch,
) -> StepTerms:
    """The two terms of one step; ``before`` and ``now`` are the person's marginals of the two steps."""
    count = collect_outcomes(chain.places, now, step.labels, scratch.mass, scratch.seen)
    if count == 0:
        return StepTerms(0.0, 0.0)
    unconditioned = outcome_entropy(scratch.mass, scratch.seen, count)
    if not step.is_raw:
        pairwise = pairwise_information(scratch.mass, scratch.seen, count, step)
        separate = separate_information(scratch.mass, scratch.seen, count, step)
        unconditioned = min(unconditioned, pairwise, separate)
    conditional = unconditioned
    if step.is_raw and step_before.is_raw:
        count_before = collect_outcomes(
            chain.places, before, step_before.labels, scratch.mass_before, scratch.seen_before
        )
        if count_before > 0:
            conditional = min(
                conditional,
                conditional_entropy(
                    chain, slot_before, before, step_before.labels, step.labels, scratch, count, count_before
                ),
            )
            clear(scratch.mass_before, scratch.seen_before, count_before)
    clear(scratch.mass, scratch.seen, count)
    return StepTerms(unconditioned, conditional)
