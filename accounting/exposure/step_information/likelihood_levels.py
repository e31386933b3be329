"""Mechanisms as channels with a few levels of evidence, which reveal at least as much."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import fsum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.observation import StepObservation, observe
from models.mechanisms import DrawnPerWindow, Mechanism, NoiseLaw
from models.numerics.elementwise import exp, log
from models.numerics.jit import jit
from models.priors.chain import ChainView
from models.releases import SensorRelease, StepSchedule

# What a run of steps shows, noise included: each sensor as a channel with a few levels of evidence.
#
# A published count reveals "the person is counted here" through its likelihood ratio ``l(y) = P1(y) / P0(y)``
# alone. Take levels ``l_1 < .. < l_n``. A value between two of them is as good as a random one of the two,
# with odds that keep its ratio on average: an adversary who learns which of the two it was knows more. A
# value above ``l_n`` becomes ``l_n`` or *shown* (the person is here, for certain), one below ``l_1`` becomes
# ``l_1`` or "certainly not here". So a channel with these few outcomes reveals at least as much as the noised
# count does; that is Blackwell's order (1951), and the levels beyond Koga et al. "Certainly not here" joins
# the level ``l_1``, which weighs no place less.
#
# For example noise that makes the ratio 1/2 or 2. Levels (1/2, 2) say all there is. With the one level 1 a
# ratio of 2 becomes 1, or the person is shown, each half of the time; a ratio of 1/2 becomes 1 or
# "certainly not here". That is the erasure channel, which shows the exact count now and then.

WHOLE, WIDE, TWO, THREE = range(4)
"""Ways to put a channel in levels: one level; two far apart; two; three."""
WAYS, MOST_LEVELS = 4, 3

_RARELY = 5e-3  # a sensor that counts the person less often, or misses less often, is not worth two levels


class LevelTables(NamedTuple):
    """``C`` channels in levels, in each of the ways; what is beyond a way's levels is zero."""

    size: NDArray[np.int64]  # (C, WAYS) levels
    absent: NDArray[np.float64]  # (C, WAYS, MOST_LEVELS), probability of each if the person is not counted
    present: NDArray[np.float64]  # (C, WAYS, MOST_LEVELS), if the person is
    shown: NDArray[np.float64]  # (C, WAYS), probability that the person is shown, if counted


class SeenSteps(NamedTuple):
    """Released steps, row by row."""

    labels: NDArray[np.int32]  # (R, M), outcome of each location, 0 = counted nowhere
    channel: NDArray[np.int32]  # (R, M), number of the channel in ``tables``; -1 = counted nowhere
    tables: LevelTables

    @property
    def is_noised(self) -> bool:
        """Whether any count is not exact."""
        return bool((self.tables.present[:, WHOLE, 0] > 0.0).any())


class OwnChannels(NamedTuple):
    """The sensor-steps that can count one person, in order of time, each with the levels chosen for it."""

    time: NDArray[np.int64]  # (G,)
    cover: NDArray[np.bool_]  # (G, K), the own places it counts at
    size: NDArray[np.int64]  # (G,), levels
    absent: NDArray[np.float64]  # (G, MOST_LEVELS)
    present: NDArray[np.float64]  # (G, MOST_LEVELS)
    shown: NDArray[np.float64]  # (G,)


@jit
def is_noised(chain: ChainView, hits: NDArray[np.bool_], seen: SeenSteps, first_row: int) -> bool:
    """Whether anything that counts the person, ``hits`` (T, K) from row ``first_row`` on, is not exact."""
    for t in range(hits.shape[0]):
        for x in range(hits.shape[1]):
            if hits[t, x]:
                channel = seen.channel[first_row + t, chain.places[x]]
                if seen.tables.present[channel, WHOLE, 0] > 0.0:
                    return True
    return False


@jit
def _find_sensors(
    chain: ChainView, hits: NDArray[np.bool_], seen: SeenSteps, first_row: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Time, channel and cover of the sensor-steps behind ``hits`` (T, K)."""
    count = hits.sum()
    time, channel = np.empty(count, np.int64), np.empty(count, np.int64)
    cover = np.zeros((count, hits.shape[1]), np.bool_)
    found = 0
    for t in range(hits.shape[0]):
        begin = found
        for x in range(hits.shape[1]):
            if hits[t, x]:
                label = seen.labels[first_row + t, chain.places[x]]
                g = begin
                while g < found and not _counts(chain, cover[g], seen.labels[first_row + t], label):
                    g += 1
                if g == found:
                    time[g], channel[g] = t, seen.channel[first_row + t, chain.places[x]]
                    found += 1
                cover[g, x] = True
    return time[:found], channel[:found], cover[:found]


@jit
def _counts(chain: ChainView, cover: NDArray[np.bool_], labels: NDArray[np.int32], label: int) -> bool:
    """Whether the places of a cover have this outcome."""
    for x in range(cover.size):
        if cover[x]:
            return bool(labels[chain.places[x]] == label)
    return False


@jit
def _ways(counted: NDArray[np.float64], size: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """How each sensor-step is put in levels, (G,); it counts the person with probability ``counted`` (G,)."""
    way = np.full(counted.size, WHOLE)
    order = np.argsort(-counted, kind="mergesort")
    product = 1
    for wanted in (WIDE, TWO, THREE):
        if (wanted == WIDE) != (most == 0):
            continue
        for g in order:
            before, after = size[g, way[g]], size[g, wanted]
            is_worth_it = _RARELY < counted[g] < 1.0 - _RARELY and after > before
            if is_worth_it and most == 0:
                way[g] = wanted
            elif is_worth_it and product * after <= most * before:
                product = product * after // before
                way[g] = wanted
    return way


@jit
def own_channels(
    chain: ChainView,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    seen: SeenSteps,
    first_row: int,
    most: int,
) -> OwnChannels:
    """The sensor-steps behind ``hits`` (T, K), which begin with row ``first_row`` of what was seen.

    Levels go to those that count the person neither rarely nor nearly always, the likeliest first: two,
    then three, until their product is ``most``. With ``most = 0`` they have two far apart, whatever it costs.
    """
    time, channel, cover = _find_sensors(chain, hits, seen, first_row)
    counted = np.zeros(time.size)
    for g in range(time.size):
        for x in range(hits.shape[1]):
            if cover[g, x]:
                counted[g] += marginal[time[g], x]
    way = _ways(counted, seen.tables.size[channel], most)
    size, shown = np.empty(time.size, np.int64), np.empty(time.size)
    absent, present = np.empty((time.size, MOST_LEVELS)), np.empty((time.size, MOST_LEVELS))
    for g in range(time.size):
        size[g], shown[g] = seen.tables.size[channel[g], way[g]], seen.tables.shown[channel[g], way[g]]
        absent[g], present[g] = (
            seen.tables.absent[channel[g], way[g]],
            seen.tables.present[channel[g], way[g]],
        )
    return OwnChannels(time, cover, size, absent, present, shown)


_OFFSETS = {WHOLE: (0.0,), WIDE: (-2.5, 2.5), TWO: (-1.0, 1.0), THREE: (-1.5, 0.0, 1.5)}
"""Levels of each way: logarithms of the likelihood ratio, in units of its spread."""

_ROUNDING = 1e-12  # sums of thousands of probabilities, each rounded
_MOST_STEPS_KEPT = 256  # a week of hours, each with sensors of its own, and more


@lru_cache(1024)
def levels_of(mechanism: Mechanism) -> LevelTables:
    """The table of one channel, every way.

    An exact count has one level, "not counted", and is shown otherwise. Noise that steps share has no law of
    its own; its mechanism says how likely it shows the exact count, if it is the erasure channel.
    """
    law = mechanism.noise_law()
    if mechanism.is_exact or (law is not None and law.probabilities.size == 1):  # no noise is ever drawn
        return _RAW
    if law is None or isinstance(mechanism, DrawnPerWindow):
        shown = mechanism.reveal_probability()
        if shown >= 1.0:
            return _RAW
        hidden = 1.0 - shown
        return _table({WHOLE: ([1.0], [1.0], shown), WIDE: ([shown, hidden], [0.0, hidden], shown)})
    return _table({way: _levels(law, offsets) for way, offsets in _OFFSETS.items()})


def _table(ways: dict[int, tuple[Sequence[float], Sequence[float], float]]) -> LevelTables:
    """One channel from ``absent``, ``present``, ``shown`` of its ways; one left out is as the one before."""
    size, shown = np.zeros((1, WAYS), np.int64), np.zeros((1, WAYS))
    absent, present = np.zeros((1, WAYS, MOST_LEVELS)), np.zeros((1, WAYS, MOST_LEVELS))
    for way in range(WAYS):
        known = max(known for known in ways if known <= way)
        without, with_person, shown[0, way] = ways[known]
        size[0, way] = len(without)
        absent[0, way, : len(without)], present[0, way, : len(without)] = without, with_person
    return LevelTables(size, absent, present, shown)


_RAW = _table({WHOLE: ([1.0], [0.0], 1.0)})
_NONE = LevelTables(_RAW.size[:0], _RAW.absent[:0], _RAW.present[:0], _RAW.shown[:0])


def _levels(law: NoiseLaw, offsets: Sequence[float]) -> tuple[list[float], list[float], float]:
    """``absent``, ``present`` and ``shown`` of a count with this noise, at these levels.

    The law's distance to the ideal one counts as shown, and as "certainly not here".
    """
    absent = np.append(law.probabilities, 0.0)
    present = np.append(0.0, law.probabilities)
    is_both = (absent > 0.0) & (present > 0.0)
    log_ratio = log(present[is_both] / absent[is_both])
    spread = fsum((absent + present)[is_both] / 2.0 * log_ratio**2) ** 0.5
    levels = exp(
        sorted({float(np.clip(spread * each, log_ratio.min(), log_ratio.max())) for each in offsets})
    )
    mass: list[list[float]] = [[] for _ in levels]
    shown = [law.truncated_mass]
    mass[0].append(law.truncated_mass)
    for without, with_person in zip(absent.tolist(), present.tolist(), strict=True):
        if with_person <= levels[0] * without:
            mass[0].append(without)
        elif with_person >= levels[-1] * without:
            mass[-1].append(without)
            shown.append(with_person - levels[-1] * without)
        else:
            above = min(int(np.searchsorted(levels, with_person / without, side="right")), len(levels) - 1)
            low, high = levels[above - 1], levels[above]
            upper = min(1.0, max(0.0, (with_person - low * without) / (high - low)))
            mass[above].append(upper)
            mass[above - 1].append(without - upper)
    each = [fsum(parts) * (1.0 + _ROUNDING) for parts in mass]
    with_person = [level * probability for level, probability in zip(levels.tolist(), each, strict=True)]
    return each, with_person, min(1.0, fsum(shown) * (1.0 + _ROUNDING) + _ROUNDING)


def seen_step(observation: StepObservation) -> SeenSteps:
    """One row, a channel for each mechanism.

    Where sensors overlap, so that one count says something of another, all count as exact.
    """
    sees_separately = observation.is_disjoint and all(len(own) == 1 for own in observation.outcomes[1:])
    kinds: dict[Mechanism, int] = {}
    kind = [kinds.setdefault(each, len(kinds)) for each in observation.mechanisms]
    tables = [levels_of(each) for each in kinds] if sees_separately else [_RAW]  # type: ignore[arg-type]
    number = [-1, *((kind[own[0]] if sees_separately else 0) for own in observation.outcomes[1:])]
    channel = np.array(number, np.int32)[observation.labels]
    return SeenSteps(observation.labels[np.newaxis], channel[np.newaxis], _joined(tables))


@lru_cache(_MOST_STEPS_KEPT)
def seen_release(releases: tuple[SensorRelease, ...], location_count: int) -> SeenSteps:
    """:func:`seen_step` of a step with these releases; the same object when they come again."""
    return seen_step(observe(StepSchedule(0, releases), location_count))


def seen_exactly(labels: NDArray[np.int32]) -> SeenSteps:
    """Steps with these outcomes (R, M), every count exact."""
    return SeenSteps(labels, np.where(labels > 0, 0, -1).astype(np.int32), _RAW)


def nothing_seen_for(steps: int, location_count: int) -> SeenSteps:
    """So many steps in which nothing is released."""
    labels = np.zeros((steps, location_count), np.int32)
    return SeenSteps(labels, np.full_like(labels, -1), _joined([]))


def is_whole(seen: SeenSteps) -> bool:
    """Whether the arrays, which may come from a snapshot, belong together."""
    count = len(seen.tables.size)
    shapes = [(count, WAYS), (count, WAYS, MOST_LEVELS), (count, WAYS, MOST_LEVELS), (count, WAYS)]
    if [array.shape for array in seen.tables] != shapes:
        return False
    is_seen = seen.channel >= 0
    return bool((seen.channel < count).all() and np.array_equal(is_seen, seen.labels > 0))


def followed_by(seen: SeenSteps, step: SeenSteps) -> SeenSteps:
    """The rows moved on by one: without the first, with ``step``. Channels without a row are dropped."""
    count, added = len(seen.tables.size), len(step.tables.size)
    channel = np.concatenate((seen.channel[1:], np.where(step.channel < 0, -1, step.channel + count)))
    is_needed = np.zeros(count + added + 1, np.bool_)  # the last one for "counted nowhere"
    is_needed[channel] = True
    needed = np.flatnonzero(is_needed[:-1])
    place = np.full(is_needed.size, -1, np.int32)
    place[needed] = np.arange(needed.size)
    tables: list[Any] = [array[needed] for array in _joined([seen.tables, step.tables])]
    return SeenSteps(
        np.concatenate((seen.labels[1:], step.labels)),
        place[channel],
        LevelTables(*tables),
    )


def _joined(tables: Sequence[LevelTables]) -> LevelTables:
    """All channels of all tables, in order."""
    return LevelTables(*map(np.concatenate, zip(_NONE, *tables, strict=True)))
