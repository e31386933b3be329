"""The erasure bound: a noised count is no more than a raw count that is shown now and then.

Write the laws of a noised count with and without the person as ``1 - delta`` times a common part plus the
rest, ``delta`` their total variation: the count is then a function of a channel that shows the raw one with
probability ``delta`` and nothing otherwise. The sensors' noises are independent, so the loss of the noised
schedule is at most the expected loss of the raw schedule in which each sensor-step is *kept* with its
``delta``; and so is its information. Beyond the papers.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.effort import Effort
from accounting.bounds.patterns.erasure_kernel import kept_hits, kept_sets
from accounting.bounds.patterns.exact import Trajectories
from accounting.bounds.patterns.moment import LEAST_PATTERN, Size, usable_order
from accounting.exposure import Exposure
from accounting.numerics import upper_mean

MOST_ENUMERATED = 16
"""Noised sensor-steps beyond which kept sets are sampled too, where draws are allowed."""

_MOST_OPERATIONS = 1e10  # over all kept sets, twice; some ten seconds of one core
_MOST_FEEDBACK = 4e9  # multiplications over all kept sets; about a second of one core
_MOST_ENUMERATION = 1e9  # over all kept sets; two seconds


@dataclass(frozen=True, slots=True)
class Erasure:
    """``success`` and ``information_nats`` bound any adversary's and what the noised releases tell.

    ``sampled`` is the success bound from sampled kept sets, which holds with the effort's confidence only;
    None where sets were enumerated.
    """

    success: float
    information_nats: float
    sampled: float | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SensorSteps:
    """The noised sensor-steps that can see the person.

    ``step`` (n,), the own places they ``cover`` (n, K), the probability ``reveal`` (n,) that they show the
    raw count; ``always`` (T, K) is what exact sensors see.
    """

    step: NDArray[np.int64]
    cover: NDArray[np.bool_]
    reveal: NDArray[np.float64]
    always: NDArray[np.bool_]


@dataclass(frozen=True, slots=True, eq=False)
class KeptSets:
    """Sets of kept sensor-steps (S, n), each with its probability (S,)."""

    kept: NDArray[np.bool_]
    probability: NDArray[np.float64]


def sensor_steps(exposure: Exposure) -> SensorSteps:
    """Which noised sensors see the person when; those where the person cannot be are left out."""
    always = np.zeros_like(exposure.hits)
    steps: list[int] = []
    covers: list[NDArray[np.bool_]] = []
    reveal: list[float] = []
    for t, observation in enumerate(exposure.observations):
        for sensor, mechanism in enumerate(observation.mechanisms):
            members = [k for k, sensors in enumerate(observation.outcomes) if sensor in sensors]
            cover = np.isin(exposure.labels[t], members) & exposure.hits[t]
            if mechanism.is_exact:
                always[t] |= cover
            elif cover.any():
                steps.append(t)
                covers.append(cover)
                reveal.append(mechanism.reveal_probability())
    stacked = np.array(covers, dtype=np.bool_).reshape(len(covers), exposure.place_count)
    return SensorSteps(np.array(steps, dtype=np.int64), stacked, np.array(reveal, dtype=np.float64), always)


def likeliest_sets(reveal: NDArray[np.float64], most: int) -> KeptSets:
    """The ``most`` likeliest kept sets (all 2^n if they are fewer), in a fixed order.

    Built sensor by sensor: a set among the likeliest has a beginning among the likeliest beginnings, because
    what follows is independent of it.
    """
    kept = np.zeros((1, 0), dtype=np.bool_)
    probability = np.ones(1)
    for delta in reveal:
        flags = np.repeat([False, True], len(kept))
        kept = np.column_stack([np.vstack([kept, kept]), flags])
        probability = np.concatenate([probability * (1.0 - delta), probability * delta])
        if len(kept) > most:
            chosen = np.sort(np.argsort(-probability, kind="stable")[:most])
            kept, probability = kept[chosen], probability[chosen]
    positive = probability > 0.0
    return KeptSets(kept[positive], probability[positive])


def erasure(
    exposure: Exposure,
    mistakes: int,
    guess: float,
    raw_success: float,
    raw_nats: float,
    effort: Effort,
    everything: Trajectories | None = None,
) -> Erasure | None:
    """The erasure bound of one person's horizon; None when nothing noised can see the person.

    Kept sets that are not enumerated are charged at ``raw_success`` and ``raw_nats``, any valid bounds for
    the raw version of the whole schedule. ``guess`` is ``q``; with ``everything`` at hand the true optimum of
    each kept set is used where that is affordable.
    """
    sensors = sensor_steps(exposure)
    count = sensors.reveal.size
    if exposure.is_raw or effort.patterns == 0:
        return None
    sets = likeliest_sets(sensors.reveal, effort.patterns)
    values = _evaluate_all(exposure, sensors, sets, mistakes, guess, effort)
    if everything is not None and everything.operations * len(sets.kept) <= _MOST_ENUMERATION:
        values[:, 0] = np.minimum(values[:, 0], _optima(everything, sensors, sets.kept))
    rest = max(0.0, 1.0 - float(sets.probability.sum()))
    if len(sets.probability) == 2**count:
        rest = 0.0
    success = float((sets.probability * np.minimum(values[:, 0], raw_success)).sum()) + rest * raw_success
    information = float((sets.probability * np.minimum(values[:, 1], raw_nats)).sum()) + rest * raw_nats
    sampled = None
    if count > MOST_ENUMERATED and effort.draws > 0:
        sampled = _sampled(exposure, sensors, mistakes, guess, raw_success, effort)
    return Erasure(min(1.0, success), information, sampled)


def _optima(everything: Trajectories, sensors: SensorSteps, kept: NDArray[np.bool_]) -> NDArray[np.float64]:
    """The true optimum of each kept set, (S,)."""
    own_label = np.arange(1, everything.places + 1)
    return np.array(
        [
            everything.optimum(kept_hits(sensors.always, sensors.step, sensors.cover, which) * own_label)
            for which in kept
        ]
    )


def _evaluate_all(
    exposure: Exposure, sensors: SensorSteps, sets: KeptSets, mistakes: int, guess: float, effort: Effort
) -> NDArray[np.float64]:
    """Success bound and information of each kept set, (S, 2): the likeliest sets at the full moment order.

    What is left gets the order that is affordable for all of them; a low order on every set would waste the
    noise, for the likeliest sets keep little and are where a high order tells most.
    """
    full = usable_order(exposure, mistakes, effort)
    affordable = int(_MOST_OPERATIONS / max(Size.of(exposure).operations(max(full, 1)), 1.0))
    likeliest_first = np.argsort(-sets.probability, kind="stable")
    values = np.empty((len(sets.kept), 2))
    for chosen, order in (
        (likeliest_first[:affordable], full),
        (
            likeliest_first[affordable:],
            usable_order(exposure, mistakes, effort, _MOST_OPERATIONS / len(sets.kept)),
        ),
    ):
        if chosen.size:
            values[chosen] = _evaluate(exposure, sensors, sets.kept[chosen], mistakes, guess, effort, order)
    return values


def _evaluate(
    exposure: Exposure,
    sensors: SensorSteps,
    kept: NDArray[np.bool_],
    mistakes: int,
    guess: float,
    effort: Effort,
    order: int,
) -> NDArray[np.float64]:
    """Success bound and information of each kept set, (S, 2)."""
    return kept_sets(
        exposure.chain,
        exposure.start,
        exposure.first_slot,
        exposure.marginal,
        sensors.always,
        sensors.step,
        sensors.cover,
        kept,
        mistakes,
        order,
        max(LEAST_PATTERN, 1.0 / max(effort.patterns, 1))
        if len(kept[0]) > MOST_ENUMERATED
        else LEAST_PATTERN,
        max(guess, 1e-300),
        _has_feedback(exposure, sensors, kept, mistakes),
    )


def _has_feedback(exposure: Exposure, sensors: SensorSteps, kept: NDArray[np.bool_], mistakes: int) -> bool:
    """Whether the bound by feedback is affordable for all these sets: a pattern costs about a step."""
    patterns = np.where(kept, 1.0 + sensors.cover.sum(axis=1), 1.0).prod(axis=1)
    patterns *= np.prod(1.0 + sensors.always.sum(axis=1))
    entries = exposure.chain.value.size / exposure.chain.start.shape[0]
    moves = patterns.sum() + exposure.steps * len(kept)
    return bool(2.0 * moves * (mistakes + 1) * entries <= _MOST_FEEDBACK)


def _sampled(
    exposure: Exposure,
    sensors: SensorSteps,
    mistakes: int,
    guess: float,
    raw_success: float,
    effort: Effort,
) -> float:
    """The bound from ``effort.draws`` independent kept sets, with the effort's confidence."""
    generator = np.random.Generator(np.random.Philox(effort.seed))
    kept = generator.random((effort.draws, sensors.reveal.size)) < sensors.reveal
    order = usable_order(exposure, mistakes, effort, _MOST_OPERATIONS / len(kept))
    values = np.minimum(_evaluate(exposure, sensors, kept, mistakes, guess, effort, order)[:, 0], raw_success)
    return upper_mean(values, effort.failure_probability)
