"""The frontier bound of one person's counts over windows: each published count as a channel of the own count.

What a person adds to a count is a function of the places in its window. So the person's states are a place
and how often each open window has counted them so far; a published count then is a channel of the state in
the window's last step, and what is to be guessed is the place: a question about labels. Beyond the papers.

For example a window of two steps that counts place 1, somebody who stays put, and one who changes place::

    states in step 0: (0, 0 times)  (1, once);  in step 1: (0, 0) from (0, 0), (1, 2 times) from (1, once)
                                                           (1, once) from (0, 0), (0, once) from (1, once)
    a count of 1: both changed, or none did; what is seen are two states of step 1, which no place tells apart

A count with noise is put in a few levels, likelihoods of the own count: each value's is covered by a few that
are kept and by exact own counts, which reveals no less. Where there are too many levels, the exact ones show
the state. Where there are too many states, a window is shown in its single steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.sandwich_bound import own_signals_of
from accounting.bounds.noised.sandwich_kernel import history_laws
from accounting.bounds.patterns import affordable_vectors
from accounting.bounds.patterns.frontier_kernel import (
    EXPANSIONS,
    SEQUENCES,
    FrontierEffort,
    Sight,
    frontier_in_sight,
)
from accounting.bounds.patterns.moment import Size
from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.exposure import Exposure
from accounting.exposure.own_counts import OwnCount, counted_moves
from accounting.exposure.step_information.likelihood_levels import (
    THREE,
    TWO,
    WHOLE,
    OwnSignals,
    levels_of,
)
from models.mechanisms import Mechanism, Raw, shares_noise, truncated_mass
from models.priors.chain import ChainView, LocalChain
from models.releases import MoveSensor, WindowRelease, shown_places

_MOST_STATES = 512  # of a person, in one step
_MOST_OPERATIONS = 2e10  # some seconds of one core
_TOLERANCE = 1e-7  # of success, of each search
_KEPT = (1, 2, 4, 8)  # likelihoods of the own count that are kept of one noised count, in its ways
_ROUNDING = 1.0 + 1e-12


class _Channel(NamedTuple):
    """One published count: ways to put it in levels, from few to many, and how much it may reveal."""

    step: int
    ways: list[tuple[NDArray[np.float64], NDArray[np.float64]]]  # levels (L, K) and shown (K,), by state
    uncertainty: float


class _States(NamedTuple):
    """The states of each step and the moves between them: a chain that is gone through once."""

    chain: ChainView
    marginal: NDArray[np.float64]  # (T, K)
    place: NDArray[np.int64]  # (T, K), own place of each state; -1: no state
    counted: NDArray[np.int64]  # (T, K, R), how often each window has counted so far


def own_counts_success(
    exposure: Exposure, owns: Sequence[OwnCount], horizon: tuple[int, int], mistakes: int, wanted: int
) -> float | None:
    """Success of any adversary who sees the whole of ``exposure`` and the windows of ``owns``.

    The observations of ``exposure`` are the counts of single steps beside the windows. None where it is too
    expensive.
    """
    found = _success(exposure, owns, horizon, mistakes, wanted)
    if found is None or all(own.release.mechanism.is_exact for own in owns):
        return found
    exact = [replace(own, release=replace(own.release, mechanism=Raw())) for own in owns]
    without_noise = _success(exposure, exact, horizon, mistakes, wanted)  # which reveals more
    return found if without_noise is None else min(found, without_noise)


def _success(
    exposure: Exposure, owns: Sequence[OwnCount], horizon: tuple[int, int], mistakes: int, wanted: int
) -> float | None:
    """:func:`own_counts_success` through the noise of the windows."""
    whole, in_steps = _chosen(exposure, owns)
    if not whole:
        return None
    states = _states(exposure, whole, horizon)
    signals = [each for t in range(exposure.steps) for each in own_signals_of(exposure, t)]
    left_out = sum(each.rays.left_out for each in signals)
    left_out += sum(own.release.values * truncated_mass(own.release.mechanism) for own in owns)
    channels = [_of_places(states, each.step, each.cover, each.mechanism or Raw()) for each in signals]
    for own in in_steps:
        for part in shown_places(own.release):
            cover = np.isin(exposure.chain.places, part.places.locations)
            channels.append(_of_places(states, own.release.first + part.places.offset, cover, part.mechanism))
    channels += [_of_window(exposure, states, number, own) for number, own in enumerate(whole)]
    channels = sorted((each for each in channels if each.uncertainty > 0.0), key=lambda each: each.step)
    places = states.chain.places.size
    size = Size(exposure.steps, places, states.chain.value.size // exposure.steps, 0, True)
    hits = sum(int((each.ways[0][1] > 0.0).sum()) for each in channels)
    a_search = size.steps * (mistakes + 1) ** 2 * (size.moves + 2 * places)
    affordable = int(sqrt(_MOST_OPERATIONS / (SEQUENCES * (hits + 1) * a_search)))
    vectors = min(wanted, affordable, affordable_vectors(size, mistakes, wanted))
    if vectors == 0:
        return None
    person = LocalChain(states.chain, states.marginal[0], 0)
    outside = Outside(states.marginal[:1], np.zeros(places), np.ones((1, places)))
    effort = FrontierEffort(vectors, _TOLERANCE, 4 * EXPANSIONS * vectors, -1)
    found = 1.0
    for most in (
        vectors,
        SEQUENCES * vectors,
    ):  # many that hardly ever come may tell less
        sight = _sight(channels, states, most)
        found = min(found, frontier_in_sight(person, sight, states.marginal, mistakes, outside, effort))
    return float(min(1.0, found + left_out))


def _chosen(exposure: Exposure, owns: Sequence[OwnCount]) -> tuple[list[OwnCount], list[OwnCount]]:
    """Windows whose own counts are states, those that may reveal most first, and the others."""
    whole: list[OwnCount] = []
    states, in_steps = np.full(exposure.steps, exposure.place_count), []
    for own in sorted(owns, key=lambda each: each.information_nats, reverse=True):
        open_in = slice(own.release.first, own.release.last + 1)
        has_own_law = own.release.has_own_law and not shares_noise(own.release.mechanism)
        if not has_own_law or states[open_in].max() * own.law.size > _MOST_STATES:
            in_steps.append(own)
        else:
            states[open_in] *= own.law.size
            whole.append(own)
    return whole, in_steps


def _states(exposure: Exposure, whole: Sequence[OwnCount], horizon: tuple[int, int]) -> _States:
    """Every place and number of counts that the person can come to, step by step."""
    releases = [own.release for own in whole]
    added = [_times_counted(exposure, each) for each in releases]
    steps = exposure.steps
    known: list[dict[tuple[int, ...], float]] = []
    moves: list[dict[tuple[int, int], float]] = []  # by number of the state before and behind
    for t in range(steps):
        law: dict[tuple[int, ...], float] = {}
        number: dict[tuple[int, ...], int] = {}
        moved: dict[tuple[int, int], float] = {}
        before = known[-1].items() if t else [((-1, *(0 for _ in whole)), 1.0)]
        for i, (state, mass) in enumerate(before):
            row = exposure.moves[t - 1, state[0]] if t else exposure.start
            for y in np.flatnonzero(row).tolist():
                counts = (
                    min(each.most_counts, (state[r + 1] if t > each.first else 0) + int(times[state[0], y]))
                    if each.first <= t <= each.last
                    else 0
                    for r, (each, times) in enumerate(zip(releases, added, strict=True))
                )
                behind = (y, *counts)
                law[behind] = law.get(behind, 0.0) + mass * float(row[y])
                moved[i, number.setdefault(behind, len(number))] = float(row[y])
        known.append(law)
        moves.append(moved)
    most = max(*map(len, known), int(exposure.guessed.max()) + 1)  # labels are numbered as states
    place, count = np.full((steps, most), -1), np.zeros((steps, most, len(whole)), np.int64)
    marginal, label = np.zeros((steps, most)), np.zeros((steps, most + 1), np.int32)
    for t, law in enumerate(known):
        table = np.array(list(law), np.int64)
        place[t, : len(law)], count[t, : len(law)] = table[:, 0], table[:, 1:]
        marginal[t, : len(law)] = list(law.values())
        label[t, : len(law)] = exposure.guessed[t, table[:, 0]]
        label[t, most] = exposure.cost[t] if horizon[0] <= t <= horizon[1] else 0
    return _States(_chain(moves[1:], marginal, label), marginal, place, count)


def _times_counted(exposure: Exposure, release: WindowRelease) -> NDArray[np.int64]:
    """How often each move between own places is counted, (K, K); for presence by where it leads."""
    if isinstance(release.sensor, MoveSensor):
        return counted_moves(exposure, release.sensor)
    here = np.isin(exposure.chain.places, release.sensor.locations)
    return np.tile(here.astype(np.int64), (exposure.place_count, 1))


def _chain(
    moves: Sequence[dict[tuple[int, int], float]], marginal: NDArray[np.float64], label: NDArray[np.int32]
) -> ChainView:
    """The moves as a chain with a slot for each step; nothing follows on the last one."""
    steps, states = marginal.shape
    column_start = np.zeros((steps, states + 1), np.int32)
    row: list[int] = []
    value: list[float] = []
    for t, moved in enumerate(moves):
        order = sorted(moved, key=lambda each: (each[1], each[0]))
        ends = np.cumsum(np.bincount([y for _, y in order], minlength=states))
        column_start[t] = len(row) + np.append(0, ends)
        row += [x for x, _ in order]
        value += [moved[each] for each in order]
    column_start[steps - 1] = len(row)
    places = np.zeros(states, np.int32)
    return ChainView(places, marginal, column_start, np.array(row, np.int32), np.array(value, float), label)


def _of_places(states: _States, step: int, cover: NDArray[np.bool_], mechanism: Mechanism) -> _Channel:
    """A count of presence at own places ``cover`` in one step, with the levels that accounts have for it."""
    tables, here = levels_of(mechanism), (states.place[step] >= 0) & cover[states.place[step]]  # type: ignore[arg-type]
    ways = []
    for way in (WHOLE, TWO, THREE):
        size, shown = int(tables.size[0, way]), np.where(here, tables.shown[0, way], 0.0)
        absent, present = tables.absent[0, way, :size], tables.present[0, way, :size]
        ways.append((np.where(here, present[:, np.newaxis], absent[:, np.newaxis]), shown))
    if mechanism.is_exact:
        ways[1:] = [(np.stack([~here, here]).astype(float), np.zeros(here.size))]
    chance = float(states.marginal[step][here].sum())
    return _Channel(
        step, ways, min(1.0, mechanism.reveal_probability()) * _variance(np.array([chance, 1.0 - chance]))
    )


def _of_window(exposure: Exposure, states: _States, number: int, own: OwnCount) -> _Channel:
    """The count of a window in its last step, by how often the person was counted."""
    step, count, mechanism = (
        own.release.last,
        states.counted[own.release.last, :, number],
        own.release.mechanism,
    )
    noise = mechanism.noise_law()
    assert noise is not None
    counts = own.law.size
    seen = np.zeros((counts + noise.probabilities.size, counts))
    for n in range(counts):
        seen[n : n + noise.probabilities.size, n] = noise.probabilities
    ways = []
    for most in (0,) if mechanism.is_exact else _KEPT:
        kept, exact = _kept(exposure.person, seen, own.law, most)
        ways.append((kept[:, count], exact[count]))
    levels, exact = ways[-1]
    each = np.where(count == np.arange(counts)[:, np.newaxis], exact, 0.0)
    ways.append((np.concatenate((levels, each[each.any(axis=1)])), np.zeros(count.size)))
    return _Channel(step, ways, own.reveal_probability() * _variance(own.law))


def _kept(
    person: LocalChain, seen: NDArray[np.float64], law: NDArray[np.float64], most: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Up to ``most`` likelihoods of the own count (L, N), and the probability that it is shown, (N,).

    Together they cover every value's (V, N), weighed with the ``law`` of the own count.
    """
    possible = law > 0.0
    values = seen[:, possible] * law[possible]
    values = values[values.any(axis=1)]
    levels, shown = np.zeros((1, law.size)), np.zeros(law.size)
    if most == 0:
        shown[possible] = 1.0
        return levels, shown
    outputs = np.zeros((0, values.shape[0]))
    nothing = OwnSignals(
        np.zeros(0, np.int64),
        np.zeros((0, values.shape[1]), np.bool_),
        np.zeros(0, np.int64),
        outputs,
        outputs,
    )
    laws = history_laws(person, nothing, values, 0, np.zeros((1, values.shape[1])), most)
    likely = laws / law[possible] * _ROUNDING
    is_exact = (laws > 0.0).sum(axis=1) == 1
    shown[possible] = np.minimum(1.0, likely[is_exact].sum(axis=0))
    if not is_exact.all():
        levels = np.zeros((int((~is_exact).sum()), law.size))
        levels[:, possible] = likely[~is_exact]
    return levels, shown


def _variance(law: NDArray[np.float64]) -> float:
    """How likely two draws differ."""
    return max(0.0, 1.0 - float((law**2).sum()))


def _sight(channels: Sequence[_Channel], states: _States, most: int) -> Sight:
    """Channels with as many levels as ``most`` sequences allow; those that may reveal most get them first."""
    way, sequences = [0] * len(channels), 1
    order = sorted(range(len(channels)), key=lambda g: channels[g].uncertainty, reverse=True)
    for wanted in range(1, max((len(each.ways) for each in channels), default=1)):
        for g in order:
            ways = channels[g].ways
            if wanted < len(ways):
                before, after = len(ways[way[g]][0]), len(ways[wanted][0])
                if sequences // before * after <= most:
                    sequences, way[g] = sequences // before * after, wanted
    steps, places = states.marginal.shape
    chosen = [each.ways[k] for each, k in zip(channels, way, strict=True)]
    size = np.array([len(levels) for levels, _ in chosen], np.int64)
    level = np.zeros((len(chosen), int(size.max(initial=1)), places))
    first = np.searchsorted([each.step for each in channels], np.arange(steps + 1))
    combinations, unshown, hidden = (
        np.ones(steps, np.int64),
        np.ones((steps, places)),
        np.ones((steps, places)),
    )
    for g, (each, (levels, shown)) in enumerate(zip(channels, chosen, strict=True)):
        level[g, : size[g]] = levels
        combinations[each.step] *= size[g]
        unshown[each.step] *= levels.sum(axis=0)
        hidden[each.step] *= 1.0 - shown
    return Sight(True, size, level, first.astype(np.int64), combinations, 1.0 - hidden, unshown)
