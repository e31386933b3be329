"""The frontier bound of a noised horizon: a tree of levels of evidence inside each segment.

Each noised count is put in a few levels of evidence, or shows the person (``seen_steps_kernel``), which
reveals no less. Whoever is shown begins anew, so the recursion over segments is that of exact counts
(``raw_frontier_kernel``): with ``g`` the bound on what comes from ``a`` to the next step ``b`` that shows the
person,

    S_a[m] = sum_b sum_levels sum_j (g_(a,levels,b)[j] - g_(a,levels,b)[j - 1]) S_b[m - j],

where the levels between ``a`` and ``b`` weigh the places, and each sequence of levels has its own frontier
search. Sequences that hardly ever come are charged in full. An exact count has one level, weight 0 where it
counts; so exact and noised counts mix. Beyond Koga et al.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.raw_frontier_kernel import (
    FrontierEffort,
    Limits,
    add_convolution,
    arrivals,
    at_end,
    bound_segment,
    departures,
)
from accounting.exposure.step_information.seen_steps_kernel import OwnChannels
from accounting.hmm.frontier.completion_kernel import Recursion, completion_gains, new_recursion
from accounting.hmm.frontier.search_kernel import Room, new_room
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from models.numerics.jit import inline, jit

_ROUNDING = 1e-12  # sums of thousands of products, each rounded
SEQUENCES = 8  # of levels that are told apart, for each vector of the searches
_LIGHT = 1e-5  # of success: what hardly ever comes is charged in full
_SLACK = 1e-3  # of the mass that comes to a target: its search may be off by so much
_SHARE = 0.1  # of a search's tolerance, for each of the many there are


class Sight(NamedTuple):
    """Which sensor sees whom when, and what is won behind each place where somebody is shown."""

    channels: OwnChannels
    sensor: NDArray[np.int64]  # (T, K), number of the channel that counts there; -1 = none
    first: NDArray[np.int64]  # (T + 1,), first channel of each step
    sequences: NDArray[np.int64]  # (T,), combinations of levels in each step
    won: NDArray[np.float64]  # (T, K, s + 1), S
    unshown: NDArray[np.float64]  # (s + 1,), ones: what is won behind the horizon


class Path(NamedTuple):
    """One sequence of levels, as far as it is followed; row ``t`` is before the evidence of step ``t``."""

    mass: NDArray[np.float64]  # (T + 1, K)
    likeliest: NDArray[np.float64]  # (T + 1, K), on the likeliest path
    weight: NDArray[np.float64]  # (T, K), evidence
    combination: NDArray[np.int64]  # (T + 1,), of the levels in each step; -1 before the first
    found: NDArray[np.float64]  # (s + 1,)
    success: NDArray[np.float64]  # (s + 1,), from the source of the path


class Tools(NamedTuple):
    """Memory of the searches."""

    room: Room
    walk: Recursion
    gains: NDArray[np.float64]  # (T, s + 1, K)
    target: NDArray[np.float64]  # (K,)


@jit
def _sight(channels: OwnChannels, steps: int, places: int, mistakes: int) -> Sight:
    """Channels by step and place; nothing known of what is won."""
    sensor, first = np.full((steps, places), -1), np.zeros(steps + 1, np.int64)
    sequences = np.ones(steps, np.int64)
    for g in range(channels.time.size):
        first[channels.time[g] + 1] += 1
        sequences[channels.time[g]] *= channels.size[g]
        for x in range(places):
            if channels.cover[g, x]:
                sensor[channels.time[g], x] = g
    for t in range(steps):
        first[t + 1] += first[t]
    won = np.zeros((steps, places, mistakes + 1))
    return Sight(channels, sensor, first, sequences, won, np.ones(mistakes + 1))


@inline
def _weigh(sight: Sight, path: Path, t: int) -> None:
    """The evidence of step ``t`` if its sensors are at the levels of the path's combination."""
    weight, code = path.weight, path.combination[t]
    absent, present, cover = sight.channels.absent, sight.channels.present, sight.channels.cover
    for x in range(weight.shape[1]):
        weight[t, x] = 1.0
    for g in range(sight.first[t], sight.first[t + 1]):
        level = code % sight.channels.size[g]
        code //= sight.channels.size[g]
        for x in range(weight.shape[1]):
            weight[t, x] *= present[g, level] if cover[g, x] else absent[g, level]


@inline
def _go_on(person: LocalChain, path: Path, t: int) -> None:
    """Rows ``t + 1`` of the path from its rows ``t`` and the evidence; nobody moves after the last step."""
    mass, likeliest, weight, chain = path.mass, path.likeliest, path.weight, person.chain
    column_start, row, value = chain.column_start, chain.row, chain.value
    slot = slot_of(person, t)
    for y in range(weight.shape[1]):
        total, largest = mass[t, y] * weight[t, y], likeliest[t, y] * weight[t, y]
        if t + 1 < weight.shape[0]:
            total, largest = 0.0, 0.0
            for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                x = np.uint64(row[j])
                moved = value[j] * weight[t, x]
                total += mass[t, x] * moved
                largest = max(largest, likeliest[t, x] * moved)
        mass[t + 1, y], likeliest[t + 1, y] = total, largest


@jit
def _find(
    person: LocalChain,
    path: Path,
    between: tuple[int, int],
    limits: Limits,
    tools: Tools,
    won: NDArray[np.float64],
) -> None:
    """``path.found`` of one segment, to the target ``tools.target`` behind its last step."""
    tolerance = limits.tolerance + _SLACK * limits.mass * limits.share
    limits = Limits(limits.mass, limits.likeliest, limits.share, tolerance, limits.vectors)
    if path.found.size > 1 and limits.mass * limits.share > limits.tolerance:
        completion_gains(person, path.weight, between[1], tools.target, tools.walk, tools.gains)
    law = path.mass[between[0]]
    bound_segment(person, path.weight, law, between, tools.gains, limits, tools.room, (path.found, won))


@jit
def _be_shown(
    person: LocalChain, sight: Sight, path: Path, between: tuple[int, int], effort: Limits, tools: Tools
) -> None:
    """Add what is won where step ``between[1] + 1`` shows the person; ``effort`` has the source's share."""
    first, last = between
    t, shown = last + 1, sight.channels.shown
    for x in range(path.weight.shape[1]):
        sensor = sight.sensor[t, x]
        if sensor < 0 or path.mass[t, x] <= 0.0 or shown[sensor] <= 0.0:
            continue
        if t == first:
            path.found[:] = path.mass[t, x]
        else:
            arrivals(person, last, x, tools.target)
            share = effort.share * shown[sensor]
            limits = Limits(path.mass[t, x], path.likeliest[t, x], share, effort.tolerance, effort.vectors)
            _find(person, path, between, limits, tools, sight.won[t, x])
        for m in range(path.found.size):
            path.found[m] *= shown[sensor]
        add_convolution(path.success, path.found, sight.won[t, x])


@jit
def _end(
    person: LocalChain, sight: Sight, path: Path, between: tuple[int, int], effort: Limits, tools: Tools
) -> None:
    """Add what is won at the end of the horizon."""
    tools.target[:] = 1.0
    mass, path_mass = at_end(path.mass[between[1] + 1], path.likeliest[between[1] + 1], tools.target)
    limits = Limits(mass, path_mass, effort.share, effort.tolerance, effort.vectors)
    _find(person, path, between, limits, tools, sight.unshown)
    add_convolution(path.success, path.found, sight.unshown)


@jit
def _follow(person: LocalChain, sight: Sight, path: Path, first: int, effort: Limits, tools: Tools) -> None:
    """``path.success`` from a source whose mass is in row ``first``: all sequences of levels, depth first."""
    steps = path.weight.shape[0]
    path.success[:] = 0.0
    path.likeliest[first] = path.mass[first]
    path.combination[first] = -1
    t = first
    while t >= first:
        if path.combination[t] < 0:
            arriving = path.mass[t].sum()
            is_light = arriving * effort.share <= _LIGHT
            if is_light:
                path.success[:] += arriving
            elif t == steps:
                _end(person, sight, path, (first, steps - 1), effort, tools)
            else:
                _be_shown(person, sight, path, (first, t - 1), effort, tools)
            if is_light or t == steps:
                t -= 1
                continue
        path.combination[t] += 1
        if path.combination[t] >= sight.sequences[t]:
            t -= 1
            continue
        _weigh(sight, path, t)
        _go_on(person, path, t)
        t += 1
        path.combination[t] = -1


@jit
def noised_frontier(
    person: LocalChain,
    channels: OwnChannels,
    marginal: NDArray[np.float64],
    laws: NDArray[np.float64],
    mistakes: int,
    effort: FrontierEffort,
) -> float:
    """Bound on the success of any adversary who sees ``channels`` over the steps of ``marginal`` (T, K).

    ``marginal`` is ``Pr[X_t = x]``; ``laws`` (R, K) those of the first place, as of ``noised_history_laws``.
    Of the person the chain and the first slot are read.
    """
    steps, places = marginal.shape
    sight = _sight(channels, steps, places, mistakes)
    path = Path(
        np.empty((steps + 1, places)),
        np.empty((steps + 1, places)),
        np.empty((steps, places)),
        np.empty(steps + 1, np.int64),
        np.empty(mistakes + 1),
        np.empty(mistakes + 1),
    )
    tools = Tools(
        new_room(steps * effort.vectors, mistakes, places),
        new_recursion(mistakes, places),
        np.empty((steps, mistakes + 1, places)),
        np.empty(places),
    )
    tolerance = effort.tolerance * _SHARE
    for t in range(steps - 1, -1, -1):
        for x in range(places):
            sensor = sight.sensor[t, x]
            share = marginal[t, x] * channels.shown[sensor] if sensor >= 0 else 0.0
            sight.won[t, x] = 1.0
            if share > 0.0 and t + 1 < steps:
                departures(person, t, x, path.mass[t + 1])
                limits = Limits(1.0, 1.0, share, tolerance, effort.vectors)
                _follow(person, sight, path, t + 1, limits, tools)
                sight.won[t, x] = path.success
    total = 0.0
    for r in range(laws.shape[0]):
        path.mass[0] = laws[r]
        _follow(person, sight, path, 0, Limits(1.0, 1.0, 1.0, tolerance, effort.vectors), tools)
        total += path.success[mistakes]
    return min(1.0, total * (1.0 + _ROUNDING))
