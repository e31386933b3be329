"""What a run of steps shows, noise included: each sensor as a channel with a few levels of evidence.

A published count reveals "the person is counted here" through its likelihood ratio ``l(y) = P1(y) / P0(y)``
alone. Take levels ``l_1 < .. < l_n``. A value between two of them is as good as a random one of the two, with
odds that keep its ratio on average: whoever is told which of the two it was knows more. A value above
``l_n`` becomes ``l_n`` or *shown* (the person is here, for certain), one below ``l_1`` becomes ``l_1`` or
"certainly not here". So a channel with these few outcomes reveals at least as much as the noised count does;
that is Blackwell's order (1951), and the levels beyond Koga et al. "Certainly not here" joins the level
``l_1``, which weighs no place less.

For example noise that makes the ratio 1/2 or 2. Levels (1/2, 2) say all there is. With the one level 1 a
ratio of 2 becomes 1, or the person is shown, each half of the time; a ratio of 1/2 becomes 1 or "certainly
not here". That is the erasure channel, which shows the exact count now and then.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit
from models.priors.chain import ChainView

WHOLE, WIDE, TWO, THREE = range(4)
"""Ways to put a channel in levels: one level; two far apart; two; three."""
WAYS, MOST_LEVELS = 4, 3

_RARELY = 5e-3  # who is counted less often, or more often than all but this, is not worth two levels


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

    Levels go to those that count the person neither hardly ever nor nearly always, the likeliest first: two,
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
