"""The erasure bound: a noised count is no more than a raw count that is shown now and then.

Write the laws of a noised count with and without the person as ``1 - delta`` times a common part plus the
rest, ``delta`` their total variation: the count is then a function of a channel that shows the raw one with
probability ``delta`` and nothing otherwise. The sensors' noises are independent, so the loss of the noised
schedule is at most the expected loss of the raw schedule in which each sensor-step is *kept* with its
``delta``; and so is its information. Beyond the papers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.levels_bound import LEVELS
from accounting.bounds.noised.sandwich_bound import SANDWICH
from accounting.bounds.patterns import (
    LEAST_PATTERN,
    Size,
    Trajectories,
    affordable_vectors,
    shown_optimum,
    trajectories,
    usable_order,
)
from accounting.bounds.patterns.frontier_bound import least_raw_success
from accounting.bounds.patterns.moment import moment_kernel
from accounting.bounds.patterns.raw_success_kernel import unobserved
from accounting.bounds.protocol import Bound, Question, Scope
from accounting.exposure import Exposure, baseline
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.numerics import divergence_root
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import jit, pjit
from models.priors.chain import LocalChain

# Raw quantities for many sets of kept sensors at once: what the erasure bound averages.


class SensorSteps(NamedTuple):
    """The noised sensor-steps that can see the person, and what exact sensors see."""

    step: Integers  # (n,)
    cover: Flags  # (n, K), the own places they count at
    reveal: Floats  # (n,), how likely they show the raw count
    always: Flags  # (T, K), seen exactly


@jit
def kept_hits(sensors: SensorSteps, kept: Flags) -> Flags:
    """Where a hit is seen, (T, K), when only some of the sensor-steps are kept; ``kept`` (n,)."""
    hits = sensors.always.copy()
    for sensor in range(sensors.step.size):
        if kept[sensor]:
            hits[sensors.step[sensor]] |= sensors.cover[sensor]
    return hits


@pjit(lambda values, *_: values.shape[0])
def _fill_kept_sets(
    begin: int,
    end: int,
    values: Floats,
    person: LocalChain,
    marginal: Floats,
    powers: Floats,
    guess: float,
    sensors: SensorSteps,
    kept: Flags,
    mistakes: int,
    vectors: int,
    order: int,
    least_pattern: float,
) -> None:
    """Fill ``values`` (S, 2) with the success bound and the exact information (nats) of each kept set.

    ``kept`` (S, n) says which of the ``n`` noised sensor-steps survive, ``marginal`` (T, K) is ``Pr[X_t =
    x]``, ``powers`` are those of one full matrix (empty where they do not help), ``guess`` is ``q``,
    ``vectors`` are of the frontier bound and ``order`` is that of the moment bound, 0 for none; patterns less
    likely than ``least_pattern`` count as success there.
    """
    for i in range(begin, end):
        hits = kept_hits(sensors, kept[i])
        shown = renewal_information(person, hits, marginal)
        information = shown.sum()
        outside = unobserved(person.start)
        success = least_raw_success(person, hits, marginal, outside, mistakes, vectors)
        moment = moment_kernel(person, hits, mistakes, order, least_pattern, powers)
        values[i, 0] = min(success, moment, divergence_root(information, guess))
        values[i, 1] = information


@pjit(lambda values, *_: values.shape[0])
def _lower_to_optima(
    begin: int, end: int, values: Floats, everything: Trajectories, sensors: SensorSteps, kept: Flags
) -> None:
    """Lower the success bounds of kept sets to the true optimum, by all trajectories."""
    own_label = np.arange(1, sensors.always.shape[1] + 1)
    for i in range(begin, end):
        labels = np.where(kept_hits(sensors, kept[i]), own_label, 0)
        values[i, 0] = min(values[i, 0], shown_optimum(everything, labels))


_MOST_WALKED = 1 << 16  # patterns of hits up to which each set's are walked to the lightest
_MOST_OPERATIONS = 1e10  # over all kept sets, twice; some ten seconds of one core
_MOST_FRONTIER = 4e9  # operations over all kept sets; some seconds of one core
_MOST_ENUMERATION = 1e9  # over all kept sets; two seconds
_ROUNDED_UP = 1.0 + 1e-9
_SAMPLED = 8  # sets by which it is estimated what all of them would give
_MANY = 64  # of which the optima are not written down for nothing
_LEAST_GAIN = 1e-3  # for which all sets are looked at
_LEAST_SHARE = 0.01  # of what others say that the counts added: the same


@dataclass(frozen=True, slots=True)
class Erasure:
    """``success`` and ``information_nats`` bound any adversary's and what the noised releases reveal."""

    success: float
    information_nats: float


@dataclass(frozen=True, slots=True, eq=False)
class KeptSets:
    """Sets of kept sensor-steps (S, n), each with its probability (S,)."""

    kept: Flags
    probability: Floats


def sensor_steps(exposure: Exposure) -> SensorSteps:
    """Which noised sensors see the person when; those where the person cannot be are left out."""
    always = np.zeros_like(exposure.hits)
    steps: list[int] = []
    covers: list[Flags] = []
    reveal: list[float] = []
    for t, observation in enumerate(exposure.observations):
        counted: dict[int, list[int]] = {}
        for x in np.flatnonzero(exposure.hits[t]).tolist():
            for sensor in observation.outcomes[exposure.labels[t, x]]:
                counted.setdefault(sensor, []).append(x)
        for sensor, own_places in sorted(counted.items()):
            mechanism = observation.mechanisms[sensor]
            if mechanism.is_exact:
                always[t, own_places] = True
            else:
                steps.append(t)
                covers.append(np.zeros(exposure.place_count, dtype=np.bool_))
                covers[-1][own_places] = True
                reveal.append(mechanism.reveal_probability())
    stacked = np.array(covers, dtype=np.bool_).reshape(len(covers), exposure.place_count)
    return SensorSteps(np.array(steps, dtype=np.int64), stacked, np.array(reveal, dtype=np.float64), always)


def likeliest_sets(reveal: Floats, most: int) -> KeptSets:
    """The ``most`` likeliest kept sets (all 2^n if they are fewer), in a fixed order.

    Built sensor by sensor: a set among the likeliest has a beginning among the likeliest beginnings, because
    what follows is independent of it.
    """
    probability, chosen_of = np.ones(1), []
    for delta in reveal:
        probability = np.concatenate([probability * (1.0 - delta), probability * delta])
        chosen_of.append(_largest(probability, most))
        probability = probability[chosen_of[-1]]
    own = np.flatnonzero(probability > 0.0)  # then where each set's beginning was among those before it
    kept, at = np.empty((own.size, reveal.size), dtype=np.bool_), own
    for sensor in reversed(range(reveal.size)):
        at = chosen_of[sensor][at]
        beginnings = 1 if sensor == 0 else chosen_of[sensor - 1].size
        kept[:, sensor], at = at >= beginnings, at % beginnings
    return KeptSets(kept, probability[own])


def _largest(values: Floats, most: int) -> Integers:
    """The positions of the ``most`` largest values, increasing; of equal ones the first."""
    if values.size <= most:
        return np.arange(values.size)
    least = np.partition(values, -most)[-most]
    above, equal = np.flatnonzero(values > least), np.flatnonzero(values == least)
    return np.sort(np.concatenate([above, equal[: most - above.size]]))


def expected_under_erasure(question: Question) -> Erasure | None:
    """The erasure bound of one person's horizon; None when nothing noised is released, or without effort.

    None also where it has many kept sets and, by a few of them, lowers no other bound by more than nothing.
    """
    if question.exposure.is_raw or question.effort.patterns == 0:
        return None
    nats = float(question.exposure.renewal_nats.sum())
    guess = question.guess.best
    known = question.values(Scope.RAW).values()
    return erasure(question, guess, min([divergence_root(nats, guess), *known]), nats)


def _least_of_others(question: Question, raw_success: float) -> float:
    """The least bound that holds for the noised schedule without any kept set."""
    others = [question.once(bound.compute) for bound in (SANDWICH, LEVELS)]
    return min([raw_success, *(value for value in others if value is not None)])


def erasure(question: Question, guess: float, raw_success: float, raw_nats: float) -> Erasure | None:
    """The bounds averaged over kept sets; a set that is not enumerated counts with the raw schedule's bound.

    ``guess`` is ``q``; ``raw_success`` and ``raw_nats`` are valid for the raw version of the whole schedule.
    The true optimum of each kept set is used where trajectories can be enumerated for all of them.
    """
    sensors, most = sensor_steps(question.exposure), question.effort.patterns
    everything = question.once_raw(trajectories)
    raw = np.array([raw_success, raw_nats])

    def lowers_little(values: Floats, weight: Floats, rest: float) -> bool:
        """Whether sets that each stand for so much probability say that next to nothing can be gained."""
        without = baseline(question.exposure, question.mistakes).success
        others = _least_of_others(question, raw_success)
        success, nats = _expected(np.maximum(values, [without, 0.0]), weight, rest, raw)
        gain = others - min(success, float(divergence_root(nats, guess)))
        return gain <= max(_LEAST_GAIN, _LEAST_SHARE * (others - without))

    # The sets looked at are together no likelier than so many of the likeliest one.
    likeliest = float(np.maximum(sensors.reveal, 1.0 - sensors.reveal).prod())
    share = min(1.0, _ROUNDED_UP * most * likeliest)
    if lowers_little(np.zeros((1, 2)), np.array([share]), 1.0 - share):
        return None
    sets = likeliest_sets(sensors.reveal, most)
    are_all = len(sets.probability) == 2**sensors.reveal.size
    rest = 0.0 if are_all else max(0.0, 1.0 - float(sets.probability.sum()))
    if everything is not None and everything.operations * len(sets.kept) > _MOST_ENUMERATION:
        everything = None
    for_all = usable_order(
        question.exposure, question.mistakes, question.effort, _MOST_OPERATIONS / len(sets.kept)
    )
    if len(sets.kept) > (_SAMPLED if everything is None else _MANY):
        some, weight = _spread(sets.probability)
        few = _values(question, sensors, sets.kept[some], guess, for_all)
        if everything is not None:
            _lower_to_optima(few, everything, sensors, sets.kept[some])
        if lowers_little(few, weight, rest):
            return None
    values = _all_values(question, sensors, sets, guess, for_all)
    if everything is not None:
        _lower_to_optima(values, everything, sensors, sets.kept)
    success, information = _expected(values, sets.probability, rest, raw)
    return Erasure(min(1.0, success), information)


def _spread(probability: Floats) -> tuple[Integers, Floats]:
    """A few sets spread evenly over all that probability, likeliest first, and how much each stands for."""
    likeliest_first = np.argsort(-probability, kind="stable")
    reached = np.cumsum(probability[likeliest_first])
    wanted = reached[-1] * (np.arange(_SAMPLED) + 0.5) / _SAMPLED
    kept, times = np.unique(likeliest_first[np.searchsorted(reached, wanted)], return_counts=True)
    return kept, times * reached[-1] / _SAMPLED


def _expected(values: Floats, weight: Floats, rest: float, raw: Floats) -> tuple[float, float]:
    """Success and nats on average over sets with these values (S, 2); the ``rest`` has those of ``raw``."""
    success, nats = (weight[:, np.newaxis] * np.minimum(values, raw)).sum(axis=0) + rest * raw
    return float(success), float(nats)


def _all_values(
    question: Question, sensors: SensorSteps, sets: KeptSets, guess: float, for_all: int
) -> Floats:
    """Success bound and information of each kept set, (S, 2): the likeliest sets at the full moment order.

    What is left gets the order that is affordable ``for_all`` of them; a low order on every set would waste
    the noise, for the likeliest sets keep little and are where a high order lowers the bound most.
    """
    full = usable_order(question.exposure, question.mistakes, question.effort)
    affordable = int(_MOST_OPERATIONS / max(Size.of(question.exposure).operations(max(full, 1)), 1.0))
    likeliest_first = np.argsort(-sets.probability, kind="stable")
    values = np.empty((likeliest_first.size, 2))
    for group, order in zip(np.split(likeliest_first, [affordable]), (full, for_all), strict=True):
        if group.size:
            values[group] = _values(question, sensors, sets.kept[group], guess, order)
    return values


def _values(question: Question, sensors: SensorSteps, kept: Flags, guess: float, order: int) -> Floats:
    """Those of some kept sets, (G, 2), by the moment bound of an order and as many vectors as it may take."""
    exposure, effort = question.exposure, question.effort
    hits = sensors.always.sum() + kept @ sensors.cover.sum(axis=1)
    typical = replace(Size.of(exposure), hits=int(np.sqrt(np.mean(hits**2))))
    vectors = affordable_vectors(typical, question.mistakes, effort.vectors, _MOST_FRONTIER / len(kept))
    are_many = exposure.pattern_count > _MOST_WALKED
    least_pattern = max(LEAST_PATTERN, 1.0 / effort.patterns) if are_many else LEAST_PATTERN
    powers = exposure.powers if order > 1 else exposure.no_powers
    known = exposure.person, exposure.marginal, powers, max(guess, 1e-300), sensors  # ln q must be finite
    found = np.empty((len(kept), 2))
    _fill_kept_sets(found, *known, kept, question.mistakes, vectors, order, least_pattern)
    return found


def _compute(question: Question) -> float | None:
    erased = question.once(expected_under_erasure)
    return None if erased is None else erased.success


ERASURE = Bound(
    "erasure",
    idea="below",
    scope=Scope.NOISED,
    cost="number of kept sets",
    compute=_compute,
)
