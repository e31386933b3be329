"""Mechanisms as channels: with a few levels of evidence, which reveal at least as much, and as rays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from math import fsum, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.observation import StepObservation, observed
from accounting.exposure.step_information.rays import FEW_OUTPUTS, Rays, few_rays, rays_of
from models.mechanisms import DrawnPerWindow, Mechanism, Raw
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.elementwise import exp, log
from models.numerics.jit import jit
from models.priors.chain import ChainView, is_labelled
from models.releases import SensorRelease

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

CHANCES = (0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
"""Probabilities of being counted, for each of which the few outputs are chosen that suit it."""
HARDLY_EVER = 2e-4
"""A sensor before the horizon that counts, or misses, the person less often may as well be exact."""
_RARELY = 5e-3  # a sensor that counts the person less often, or misses less often, is not worth two levels


class LevelTables(NamedTuple):
    """``C`` channels in levels, in each of the ways, and as rays; what is beyond a size is zero.

    Rays are all outputs of a count, and the few that suit somebody who is counted with each of ``CHANCES``.
    """

    size: Integers  # (C, WAYS) levels
    absent: Floats  # (C, WAYS, MOST_LEVELS), probability of each if the person is not counted
    present: Floats  # (C, WAYS, MOST_LEVELS), if the person is
    shown: Floats  # (C, WAYS), probability that the person is shown, if counted
    outputs: Integers  # (C,)
    weight: Floats  # (C, O) of each output
    theta: Floats  # (C, O)
    few_outputs: Integers  # (C, len(CHANCES))
    few_weight: Floats  # (C, len(CHANCES), F)
    few_theta: Floats  # (C, len(CHANCES), F)
    left_out: Floats  # (C,), probability of outputs that are left out


class SeenSteps(NamedTuple):
    """Released steps, row by row."""

    labels: Integers32  # (R, M), outcome of each location, 0 = counted nowhere
    channel: Integers32  # (R, M), number of the channel in ``tables``; -1 = counted nowhere
    tables: LevelTables

    @property
    def is_noised(self) -> bool:
        """Whether any count is not exact."""
        return bool((self.tables.present[:, WHOLE, 0] > 0.0).any())


class OwnSignals(NamedTuple):
    """The sensor-steps that can count one person, in order of time, each with its outputs.

    Outputs of one are sorted by ``theta``, no two alike; beyond ``size`` there is nothing.
    """

    time: Integers  # (G,)
    cover: Flags  # (G, K), the own places it counts at
    size: Integers  # (G,), outputs
    weight: Floats  # (G, O), their sum is at most 1
    theta: Floats  # (G, O)


class OwnChannels(NamedTuple):
    """The sensor-steps that can count one person, in order of time, each with the levels chosen for it."""

    time: Integers  # (G,)
    cover: Flags  # (G, K), the own places it counts at
    size: Integers  # (G,), levels
    absent: Floats  # (G, MOST_LEVELS)
    present: Floats  # (G, MOST_LEVELS)
    shown: Floats  # (G,)


@jit
def is_noised(chain: ChainView, hits: Flags, seen: SeenSteps, first_row: int) -> bool:
    """Whether anything that counts the person, ``hits`` (T, K) from row ``first_row`` on, is not exact."""
    for t in range(hits.shape[0]):
        for x in range(hits.shape[1]):
            if hits[t, x]:
                channel = seen.channel[first_row + t, chain.places[x]]
                if seen.tables.present[channel, WHOLE, 0] > 0.0:
                    return True
    return False


@jit
def find_sensors(
    chain: ChainView, hits: Flags, seen: SeenSteps, first_row: int
) -> tuple[Integers, Integers, Flags]:
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
def _counts(chain: ChainView, cover: Flags, labels: Integers32, label: int) -> bool:
    """Whether the places of a cover have this outcome."""
    for x in range(cover.size):
        if cover[x]:
            return bool(labels[chain.places[x]] == label)
    return False


@jit
def _ways(counted: Floats, size: Integers, most: int) -> Integers:
    """How each sensor-step is put in levels, (G,); it counts the person with probability ``counted`` (G,)."""
    way = np.full(counted.size, WHOLE)
    # of equal ones the later: fewer segments end behind them, so that their levels take less work
    order = np.argsort(-counted * (1.0 + np.arange(counted.size) / (2.0 * counted.size)), kind="mergesort")
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
def chances(time: Integers, cover: Flags, marginal: Floats) -> Floats:
    """How likely each sensor-step counts the person, (G,)."""
    counted = np.zeros(time.size)
    for g in range(time.size):
        for x in range(cover.shape[1]):
            if cover[g, x]:
                counted[g] += marginal[time[g], x]
    return counted


@jit
def own_channels(
    chain: ChainView, hits: Flags, marginal: Floats, seen: SeenSteps, first_row: int, most: int
) -> OwnChannels:
    """The sensor-steps behind ``hits`` (T, K), which begin with row ``first_row`` of what was seen.

    Levels go to those that count the person neither rarely nor nearly always, the likeliest and latest first:
    two, then three, until their product is ``most``. With ``most = 0`` they have two far apart, whatever it
    costs. Where labels are guessed, an exact count of several states is carried as two levels, counted or
    not, as far as ``most`` goes: showing the state, as it does else, is more than was seen.
    """
    time, channel, cover = find_sensors(chain, hits, seen, first_row)
    counted = chances(time, cover, marginal)
    way = _ways(counted, seen.tables.size[channel], most)
    size, shown = np.empty(time.size, np.int64), np.empty(time.size)
    absent, present = np.empty((time.size, MOST_LEVELS)), np.empty((time.size, MOST_LEVELS))
    for g in range(time.size):
        size[g], shown[g] = seen.tables.size[channel[g], way[g]], seen.tables.shown[channel[g], way[g]]
        absent[g], present[g] = (
            seen.tables.absent[channel[g], way[g]],
            seen.tables.present[channel[g], way[g]],
        )
    if is_labelled(chain):
        product = 1
        for g in range(time.size):
            product *= size[g]
        for g in np.argsort(-counted, kind="mergesort"):
            is_exact = size[g] == 1 and present[g, 0] == 0.0 and shown[g] == 1.0
            if is_exact and 2 * product <= most and (cover[g] & (marginal[time[g]] > 0.0)).sum() > 1:
                product *= 2
                size[g], shown[g] = 2, 0.0
                absent[g, 0], absent[g, 1] = 1.0, 0.0
                present[g, 0], present[g, 1] = 0.0, 1.0
    return OwnChannels(time, cover, size, absent, present, shown)


@jit
def own_signals(
    chain: ChainView, hits: Flags, marginal: Floats, seen: SeenSteps, first_row: int, is_few: bool
) -> tuple[OwnSignals, float]:
    """The sensor-steps behind ``hits`` (T, K) as :func:`own_channels`, with all outputs or few of each.

    Few are two, as if the count were exact, where the person is hardly ever counted, or hardly ever not. And
    the probability of outputs that are left out, which is to be added to a bound.
    """
    tables = seen.tables
    time, channel, cover = find_sensors(chain, hits, seen, first_row)
    size = np.empty(time.size, np.int64)
    width = max(2, tables.few_theta.shape[2]) if is_few else tables.theta.shape[1]
    weight, theta, left_out = np.zeros((time.size, width)), np.zeros((time.size, width)), 0.0
    counted = chances(time, cover, marginal)
    for g in range(time.size):
        c, nearest = channel[g], 0
        left_out += tables.left_out[c]
        if is_few and min(counted[g], 1.0 - counted[g]) < HARDLY_EVER:
            size[g], weight[g, :2], theta[g, 1] = 2, 0.5, 1.0
        elif is_few:
            for k in range(len(CHANCES)):
                if abs(CHANCES[k] - counted[g]) < abs(CHANCES[nearest] - counted[g]):
                    nearest = k
            size[g] = tables.few_outputs[c, nearest]
            weight[g, : size[g]] = tables.few_weight[c, nearest, : size[g]]
            theta[g, : size[g]] = tables.few_theta[c, nearest, : size[g]]
        else:
            size[g], weight[g], theta[g] = tables.outputs[c], tables.weight[c], tables.theta[c]
    return OwnSignals(time, cover, size, weight, theta), left_out


_OFFSETS = {WHOLE: (0.0,), WIDE: (-2.5, 2.5), TWO: (-1.0, 1.0), THREE: (-1.5, 0.0, 1.5)}
"""Levels of each way: logarithms of the likelihood ratio, in units of its spread."""

_ROUNDING = 1e-12  # sums of thousands of probabilities, each rounded


@lru_cache(1024)
def levels_of(mechanism: Mechanism) -> LevelTables:
    """The table of one channel, every way.

    An exact count has one level, "not counted", and is shown otherwise. An erasure channel shows the exact
    count now and then.
    """
    law = mechanism.noise_law()
    if law is not None and law.probabilities.size > 1 and not isinstance(mechanism, DrawnPerWindow):
        absent, present = np.append(law.probabilities, 0.0), np.append(0.0, law.probabilities)
        left_out = law.truncated_mass
    else:
        rays = rays_of(mechanism)  # type: ignore[arg-type]
        absent, present = 2.0 * rays.weight * (1.0 - rays.theta), 2.0 * rays.weight * rays.theta
        left_out = rays.left_out
        if np.isin(rays.theta, (0.0, 1.0)).all():
            return _RAW
        if np.isin(rays.theta, (0.0, 0.5, 1.0)).all():
            shown, hidden = float(present[-1]), float(absent[rays.theta == 0.5].sum())
            ways = {WHOLE: ([1.0], [1.0], shown), WIDE: ([shown, hidden], [0.0, hidden], shown)}
            return _table(ways, mechanism)
    ways = {way: _levels(absent, present, left_out, offsets) for way, offsets in _OFFSETS.items()}
    return _table(ways, mechanism)


def _table(
    ways: Mapping[int, tuple[Sequence[float], Sequence[float], float]], mechanism: Mechanism
) -> LevelTables:
    """One channel from ``absent``, ``present``, ``shown`` of its ways; one left out is as the one before."""
    size, shown = np.zeros((1, WAYS), np.int64), np.zeros((1, WAYS))
    absent, present = np.zeros((1, WAYS, MOST_LEVELS)), np.zeros((1, WAYS, MOST_LEVELS))
    for way in range(WAYS):
        known = max(known for known in ways if known <= way)
        without, with_person, shown[0, way] = ways[known]
        size[0, way] = len(without)
        absent[0, way, : len(without)], present[0, way, : len(without)] = without, with_person
    every = rays_of(mechanism)  # type: ignore[arg-type]
    few = _stacked([few_rays(mechanism, FEW_OUTPUTS, chance) for chance in CHANCES])  # type: ignore[arg-type]
    outputs, weight, theta = _stacked([every])
    return LevelTables(
        size,
        absent,
        present,
        shown,
        outputs,
        weight,
        theta,
        few[0][np.newaxis],
        few[1][np.newaxis],
        few[2][np.newaxis],
        np.array([every.left_out]),
    )


def _stacked(channels: Sequence[Rays]) -> tuple[Integers, Floats, Floats]:
    """How many outputs each of these has, their weights and their thetas, with zeros up to the most."""
    size = np.array([each.weight.size for each in channels], np.int64)
    weight, theta = np.zeros((size.size, size.max())), np.zeros((size.size, size.max()))
    for row, each in enumerate(channels):
        weight[row, : size[row]], theta[row, : size[row]] = each.weight, each.theta
    return size, weight, theta


def _at(tables: LevelTables, channels: Sequence[int]) -> LevelTables:
    """Some of the channels."""
    if list(channels) == list(range(len(tables.size))):
        return tables
    at = np.array(channels, np.int64)
    taken: list[Any] = [array[at] for array in tables]
    return LevelTables(*taken)


_RAW = _table({WHOLE: ([1.0], [0.0], 1.0)}, Raw())
_NONE = _at(_RAW, [])


def _levels(
    absent: Floats, present: Floats, left_out: float, offsets: Sequence[float]
) -> tuple[list[float], list[float], float]:
    """``absent``, ``present`` and ``shown`` of a count with these outputs, at these levels.

    What is left out, as the law's distance to the ideal one, counts as shown, and as "certainly not here".
    """
    is_both = (absent > 0.0) & (present > 0.0)
    log_ratio = log(present[is_both] / absent[is_both])
    spread = fsum((absent + present)[is_both] / 2.0 * log_ratio**2) ** 0.5
    levels = exp(
        sorted({float(np.clip(spread * each, log_ratio.min(), log_ratio.max())) for each in offsets})
    )
    mass: list[list[float]] = [[] for _ in levels]
    shown = [left_out]
    mass[0].append(left_out)
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
    """One row, a channel for each mechanism; kept with the observation.

    Where sensors overlap, so that one count says something of another, all count as exact.
    """
    kept: dict[str, SeenSteps] = vars(observation)
    if "seen" not in kept:
        kept["seen"] = _seen(observation)
    return kept["seen"]


def _seen(observation: StepObservation) -> SeenSteps:
    sees_separately = observation.is_separate
    kinds: dict[Mechanism, int] = {}
    kind = [kinds.setdefault(each, len(kinds)) for each in observation.mechanisms]
    tables = [levels_of(each) for each in kinds] if sees_separately else [_RAW]  # type: ignore[arg-type]
    number = [-1, *((kind[own[0]] if sees_separately else 0) for own in observation.outcomes[1:])]
    channel = np.array(number, np.int32)[observation.labels]
    return SeenSteps(observation.labels[np.newaxis], channel[np.newaxis], _joined(tables))


def seen_release(releases: tuple[SensorRelease, ...], location_count: int) -> SeenSteps:
    """:func:`seen_step` of a step with these releases; the same object when they come again."""
    return seen_step(observed(releases, location_count))


def seen_exactly(labels: Integers32) -> SeenSteps:
    """Steps with these outcomes (R, M), every count exact."""
    return SeenSteps(labels, np.where(labels > 0, 0, -1).astype(np.int32), _RAW)


def nothing_seen_for(steps: int, location_count: int) -> SeenSteps:
    """So many steps in which nothing is released."""
    labels = np.zeros((steps, location_count), np.int32)
    return SeenSteps(labels, np.full_like(labels, -1), _joined([]))


def is_whole(seen: SeenSteps) -> bool:
    """Whether the arrays, which may come from a snapshot, belong together."""
    tables = seen.tables
    count, outputs, few = len(tables.size), tables.weight.shape[1], tables.few_weight.shape[2]
    shapes = {
        "size": (count, WAYS),
        "absent": (count, WAYS, MOST_LEVELS),
        "present": (count, WAYS, MOST_LEVELS),
        "shown": (count, WAYS),
        "outputs": (count,),
        "weight": (count, outputs),
        "theta": (count, outputs),
        "few_outputs": (count, len(CHANCES)),
        "few_weight": (count, len(CHANCES), few),
        "few_theta": (count, len(CHANCES), few),
        "left_out": (count,),
    }
    if {name: array.shape for name, array in tables._asdict().items()} != shapes:
        return False
    if (tables.outputs > outputs).any() or (tables.few_outputs > few).any():
        return False
    is_seen = seen.channel >= 0
    return bool((seen.channel < count).all() and np.array_equal(is_seen, seen.labels > 0))


def followed_by(seen: SeenSteps, step: SeenSteps) -> SeenSteps:
    """The rows moved on by one: without the first, with ``step``."""
    return in_order([seen._replace(labels=seen.labels[1:], channel=seen.channel[1:]), step])


def in_order(parts: Sequence[SeenSteps]) -> SeenSteps:
    """The rows of all parts, one after the other.

    Channels without a row are dropped, and equal ones are one.
    """
    first = np.cumsum([0, *(len(each.tables.size) for each in parts)])
    numbered = zip(parts, first.tolist(), strict=False)
    channel = np.concatenate(
        [np.where(each.channel < 0, -1, each.channel + begin) for each, begin in numbered]
    )
    tables = _joined([each.tables for each in parts])
    known: dict[bytes, int] = {}
    place = np.full(len(tables.size) + 1, -1, np.int32)  # the last one for "counted nowhere"
    needed: list[int] = []
    each_channel = _as_bytes(tables)
    for number in np.flatnonzero(np.bincount(channel[channel >= 0])).tolist():
        place[number] = known.setdefault(each_channel[number].tobytes(), len(needed))
        if place[number] == len(needed):
            needed.append(number)
    return SeenSteps(
        np.concatenate([each.labels for each in parts]), place[channel], _narrow(_at(tables, needed))
    )


def _as_bytes(tables: LevelTables) -> NDArray[np.uint8]:
    """The bytes of each channel, (C, bytes)."""
    rows = [array.reshape(len(array), prod(array.shape[1:])).view(np.uint8) for array in tables]
    return np.concatenate(rows, axis=1)


def _joined(tables: Sequence[LevelTables]) -> LevelTables:
    """All channels of all tables, in order."""
    outputs = max((each.weight.shape[1] for each in tables), default=0)
    few = max((each.few_weight.shape[2] for each in tables), default=0)
    return LevelTables(
        *map(np.concatenate, zip(*(_as_wide(each, outputs, few) for each in tables or (_NONE,)), strict=True))
    )


def _narrow(tables: LevelTables) -> LevelTables:
    """Without columns of outputs that no channel has."""
    return _as_wide(tables, int(tables.outputs.max(initial=0)), int(tables.few_outputs.max(initial=0)))


def _as_wide(tables: LevelTables, outputs: int, few: int) -> LevelTables:
    """With room for so many outputs, and so many of the few."""
    return tables._replace(
        weight=_columns(tables.weight, outputs),
        theta=_columns(tables.theta, outputs),
        few_weight=_columns(tables.few_weight, few),
        few_theta=_columns(tables.few_theta, few),
    )


def _columns(array: Floats, count: int) -> Floats:
    """The first so many of the last axis, zeros where there are fewer."""
    if array.shape[-1] == count:
        return array
    found = np.zeros((*array.shape[:-1], count))
    kept = min(count, array.shape[-1])
    found[..., :kept] = array[..., :kept]
    return found
