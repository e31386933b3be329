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

What was published before the horizon enters as a few laws of its first state, which cover those that all
levels of these counts leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import prod, sqrt
from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.sandwich_bound import own_signals_of
from accounting.bounds.noised.sandwich_kernel import thinned_laws
from accounting.bounds.patterns import affordable_vectors
from accounting.bounds.patterns.frontier_kernel import (
    EXPANSIONS,
    SEQUENCES,
    FrontierEffort,
    FrontierQuestion,
    Sight,
    frontier_in_sight,
)
from accounting.bounds.patterns.moment import Size
from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.exposure import Exposure
from accounting.exposure.own_counts import OwnCount, OwnWindow, own_window
from accounting.exposure.step_information.likelihood_levels import THREE, TWO, WHOLE, LevelTables, levels_of
from models.mechanisms import Raw, truncated_mass
from models.numerics.arrays import Flags, Floats, Integers
from models.priors.chain import ChainView, LocalChain
from models.releases import shown_places

BY_OWN_COUNTS = 65
MOST_STATES = 512  # of a person, in one step
_MOST_OPERATIONS = 2e10  # some seconds of one core
_MOST_OPERATIONS_AT_ONCE = 2e9  # of a pattern
_TOLERANCE = 1e-7  # of success, of each search
_KEPT = (1, 2, 4, 8)  # likelihoods of the own count that are kept of one noised count, in its ways
_LAWS = 8  # of the first state, beside states that are shown
_ROUNDING = 1.0 + 1e-12

Way = tuple[Floats, Floats]
"""Levels (L, K) of a count, and the probability (K,) that it shows the state, by state."""


class Presence(NamedTuple):
    """A count of one step's presence at own places ``cover`` (K,), a channel in levels."""

    step: int
    cover: Flags
    tables: LevelTables
    number: int  # of the channel in the tables


class OwnPattern(NamedTuple):
    """Counts that say something of each other, by how often each of them counts the person.

    These own counts are one number, of which the first count is the highest digit.
    """

    windows: tuple[OwnWindow, ...]
    seen: Floats  # (V, P), what is published by these numbers

    @property
    def first(self) -> int:
        """The first step of any count."""
        return min(each.first for each in self.windows)

    @property
    def last(self) -> int:
        """The last step of all."""
        return max(each.last for each in self.windows)

    @property
    def most(self) -> int:
        """The largest number."""
        return prod(self._sizes) - 1

    @property
    def _sizes(self) -> tuple[int, ...]:
        return tuple(each.most + 1 for each in self.windows)

    def counted(self, t: int, before: Integers, to: Integers, so_far: Integers) -> Integers:
        """The own counts until step ``t`` of people who move from ``before`` then."""
        so_far = so_far if t > self.first else np.zeros_like(to)
        digits = zip(self.windows, np.unravel_index(so_far, self._sizes), strict=True)
        own = [each.counted(t, before, to, n) if each.first <= t <= each.last else n for each, n in digits]
        return np.asarray(np.ravel_multi_index(own, self._sizes), dtype=np.int64)


class Asked(NamedTuple):
    """What is to be guessed in the steps of a log, ``label`` (T, K), at which ``cost`` (T,) if wrong.

    Counts of the steps before ``first``, the horizon's, enter as laws. Where the place of step 0 is shown,
    ``is_shown``, nothing before it matters.
    """

    start: Floats  # (K,) law of the place in step 0
    moves: Floats  # (T - 1, K, K)
    label: Integers
    cost: Integers
    first: int
    is_shown: bool
    mistakes: int


class _Channel(NamedTuple):
    """One published count: ways to put it in levels, from few to many, and how much it may reveal."""

    step: int
    ways: list[Way]
    uncertainty: float
    is_window: bool


class States(NamedTuple):
    """The states of each step, and how they follow each other."""

    place: list[Integers]  # (k,) of each step
    mass: list[Floats]  # (k,)
    counted: list[Integers]  # (k, W), how often each window has counted so far
    moves: list[tuple[Integers, Integers, Floats]]  # from, to, probability


def own_counts_success(
    exposure: Exposure, owns: Sequence[OwnCount], horizon: tuple[int, int], mistakes: int, wanted: int
) -> float | None:
    """Success of any adversary who sees the whole of ``exposure`` and the windows of ``owns``.

    The observations of ``exposure`` are the counts of single steps beside the windows. None where it is too
    expensive.
    """
    first, last = horizon
    asked_in = (np.arange(exposure.steps) >= first) & (np.arange(exposure.steps) <= last)
    cost = np.where(asked_in, exposure.cost, 0)
    asked = Asked(exposure.start, exposure.moves, exposure.guessed, cost, first, False, mistakes)
    signals = [each for t in range(exposure.steps) for each in own_signals_of(exposure, t)]
    left_out = sum(each.rays.left_out for each in signals)
    left_out += sum(own.release.values * truncated_mass(own.release.mechanism) for own in owns)
    plain = [Presence(each.step, each.cover, levels_of(each.mechanism or Raw()), 0) for each in signals]  # type: ignore[arg-type]
    whole: list[OwnWindow] = []
    for own in sorted(owns, key=lambda each: each.information_nats, reverse=True):
        window = own_window(exposure, own.release)
        if own.release.has_own_law and states_of(asked, [*whole, window]) is not None:
            whole.append(window)
            continue
        for part in shown_places(own.release):
            cover = np.isin(exposure.chain.places, part.places.locations)
            step = own.release.first + part.places.offset
            plain.append(Presence(step, cover, levels_of(part.mechanism), 0))  # type: ignore[arg-type]
    if not whole:
        return None
    found = success_by_own_counts(asked, plain, whole, wanted, (1, SEQUENCES))
    return None if found is None else min(1.0, found + left_out)


def success_by_own_counts(
    asked: Asked,
    plain: Sequence[Presence],
    windows: Sequence[OwnWindow],
    wanted: int,
    sequences: Sequence[int],
) -> float | None:
    """Success of any adversary who sees these counts, as they are or without noise, which reveals more.

    The least with each of these numbers of ``sequences`` of levels a vector: many that hardly ever come may
    tell less than few. None where it is too expensive.
    """
    ways = [(plain, windows)]
    if any(each.noise.size > 1 for each in windows):
        exact = [each._replace(noise=np.ones(1)) for each in windows]
        ways += [
            (plain, exact),
            ([each._replace(tables=levels_of(Raw()), number=0) for each in plain], exact),
        ]
    found = [_success(asked, *counts, wanted, most) for counts in ways for most in sequences]
    return min((each for each in found if each is not None), default=None)


def success_by_pattern(asked: Asked, pattern: OwnPattern, wanted: int) -> float | None:
    """Success of any adversary who sees these counts; None where it is too expensive."""
    return _success(asked, (), (pattern,), wanted, 512)


def _success(
    asked: Asked,
    plain: Sequence[Presence],
    windows: Sequence[OwnWindow | OwnPattern],
    wanted: int,
    sequences: int,
) -> float | None:
    """:func:`success_by_own_counts` in one way."""
    states = states_of(asked, windows)
    if states is None:
        return None
    channels = [_of_presence(states, each) for each in plain]
    channels += [_of_window(states, number, each) for number, each in enumerate(windows)]
    channels = sorted((each for each in channels if each.uncertainty > 0.0), key=lambda each: each.step)
    steps, first = len(asked.cost) - asked.first, asked.first
    chain, marginal = chain_of(asked, states)
    places = chain.places.size
    laws = _laws_before(asked, states, [each for each in channels if each.step < first], places)
    channels = [each._replace(step=each.step - first) for each in channels if each.step >= first]
    size = Size(steps, places, chain.value.size // steps, 0, True)
    hits = sum(int((each.ways[0][1] > 0.0).sum()) for each in channels) + len(laws)
    a_search = size.steps * (asked.mistakes + 1) ** 2 * (size.moves + 2 * places)
    affordable = int(sqrt(_MOST_OPERATIONS / (SEQUENCES * hits * a_search)))
    patterns = [each for each in windows if isinstance(each, OwnPattern)]
    if patterns:
        affordable = int(_MOST_OPERATIONS_AT_ONCE / (sum(len(each.seen) for each in patterns) * a_search))
    vectors = min(wanted, affordable, affordable_vectors(size, asked.mistakes, wanted))
    if vectors == 0:
        return None
    person = LocalChain(chain, marginal[0], 0)
    outside = Outside(laws, np.zeros(places), np.ones((1, places)))
    effort = FrontierEffort(vectors, _TOLERANCE, 4 * EXPANSIONS * vectors, -1)
    sight = _sight(channels, steps, places, sequences * vectors)
    sight = sight._replace(is_noised=not patterns)  # nothing is charged in full: rare values are many
    question = FrontierQuestion(person, marginal, asked.mistakes, outside, effort)
    return float(frontier_in_sight(question, sight))


def states_of(
    asked: Asked, windows: Sequence[OwnWindow | OwnPattern], most: int = MOST_STATES
) -> States | None:
    """Every place and number of counts that the person can come to, step by step; None where many."""
    place, mass = np.flatnonzero(asked.start), asked.start[asked.start > 0.0]
    counted, nowhere = np.zeros((place.size, len(windows)), np.int64), np.zeros_like(place)
    for w, window in enumerate(windows):
        if window.first == 0:
            counted[:, w] = window.counted(0, nowhere, place, nowhere)
    states = States([place], [mass], [counted], [])
    for t, matrix in enumerate(asked.moves, start=1):
        before, to = np.nonzero(matrix[place])
        chance = matrix[place[before], to]
        code, now = to.copy(), np.zeros((to.size, len(windows)), np.int64)
        for w, window in enumerate(windows):
            if window.first <= t <= window.last:
                now[:, w] = window.counted(t, place[before], to, counted[before, w])
                code = code * (window.most + 1) + now[:, w]
                _, code = np.unique(code, return_inverse=True)  # so that it does not overflow
        _, at, state = np.unique(code, return_index=True, return_inverse=True)
        if at.size > most:
            return None
        mass = np.bincount(state, mass[before] * chance, minlength=at.size).astype(np.float64)
        place, counted = to[at], now[at]
        states.place.append(place)
        states.mass.append(mass)
        states.counted.append(counted)
        states.moves.append((before, state, chance))
    return states


def chain_of(asked: Asked, states: States) -> tuple[ChainView, Floats]:
    """The states from the horizon's first step on as a chain, gone through once, and their laws (T, K)."""
    first, steps = asked.first, len(asked.cost) - asked.first
    sizes = [each.size for each in states.place[first:]]
    most = max(*sizes, int(asked.label[first:].max()) + 1)  # labels are numbered as states
    marginal, label = np.zeros((steps, most)), np.zeros((steps, most + 1), np.int32)
    column_start, row = np.zeros((steps, most + 1), np.int32), [np.zeros(0, np.int64)]
    value = [np.zeros(0)]
    nonzero = 0
    for t in range(steps):
        marginal[t, : sizes[t]] = states.mass[first + t]
        label[t, : sizes[t]] = asked.label[first + t, states.place[first + t]]
        label[t, most] = asked.cost[first + t]
        column_start[t] = nonzero
        if t + 1 < steps:
            before, state, chance = states.moves[first + t]
            order = np.lexsort((before, state))
            column_start[t, 1:] += np.cumsum(np.bincount(state, minlength=most)).astype(np.int32)
            row.append(before[order])
            value.append(chance[order])
            nonzero += order.size
    joined = np.concatenate(row).astype(np.int32), np.concatenate(value)
    return ChainView(np.zeros(most, np.int32), marginal, column_start, *joined, label), marginal


def _of_presence(states: States, count: Presence) -> _Channel:
    """A count of presence in one step, with the levels that accounts have for it."""
    here, tables, g = count.cover[states.place[count.step]], count.tables, count.number
    ways = []
    for way in (WHOLE, TWO, THREE):
        size, shown = int(tables.size[g, way]), np.where(here, tables.shown[g, way], 0.0)
        absent, present = tables.absent[g, way, :size], tables.present[g, way, :size]
        ways.append((np.where(here, present[:, np.newaxis], absent[:, np.newaxis]), shown))
    if tables.shown[g, WHOLE] == 1.0 and tables.present[g, WHOLE, 0] == 0.0:  # exact
        ways[1:] = [(np.stack([~here, here]).astype(float), np.zeros(here.size))]
    chance = float(states.mass[count.step][here].sum())
    shown_at_most = float(tables.shown[g, WHOLE])
    uncertainty = shown_at_most * _variance(np.array([chance, 1.0 - chance]))
    return _Channel(count.step, ways, uncertainty, False)


def _of_window(states: States, number: int, window: OwnWindow | OwnPattern) -> _Channel:
    """The count of a window in its last step, by how often the person was counted."""
    count = states.counted[window.last][:, number]
    if isinstance(window, OwnPattern):
        law = np.bincount(count, states.mass[window.last], window.most + 1).astype(np.float64)
        return _Channel(window.last, [(window.seen[:, count], np.zeros(count.size))], _variance(law), True)
    law = np.bincount(count, states.mass[window.last]).astype(np.float64)
    possible = np.flatnonzero(law)
    spread = int(possible[-1] - possible[0])
    seen = np.zeros((law.size + window.noise.size - 1, law.size))
    for n in possible.tolist():
        seen[n : n + window.noise.size, n] = window.noise * window.shown
    is_exact = window.noise.size == 1 and window.shown == 1.0
    if window.shown < 1.0:
        seen = np.concatenate((seen, np.where(law > 0.0, 1.0 - window.shown, 0.0)[np.newaxis]))
    ways: list[Way] = []
    for most in (0,) if is_exact else _KEPT:
        kept, exact = _kept(seen, law, most)
        ways.append((kept[:, count], exact[count]))
    ways.append(_with_exact(kept, exact, count))
    padded = np.append(window.noise, np.zeros(spread))
    apart = float(np.maximum(padded - np.roll(padded, spread), 0.0).sum())
    return _Channel(window.last, ways, apart * window.shown * _variance(law), True)


def kept_levels(seen: Floats, law: Floats, most: int) -> Floats:
    """Levels (L, N) of an own count that cover every value's, ``seen`` (V, N): ``most`` and exact ones."""
    return _with_exact(*_kept(seen, law, most), np.arange(law.size))[0]


def _with_exact(levels: Floats, exact: Floats, count: Integers) -> Way:
    """These levels of the own ``count`` (K,) of each state, and exact ones as levels: no state is shown."""
    shown = np.diag(exact)[exact > 0.0]
    return np.concatenate((levels, shown))[:, count], np.zeros(count.size)


def _kept(seen: Floats, law: Floats, most: int) -> tuple[Floats, Floats]:
    """Up to ``most`` likelihoods of the own count (L, N), and the probability that it is shown, (N,).

    Together they cover every value's (V, N), weighed with the ``law`` of the own count.
    """
    possible = law > 0.0
    levels, shown = np.zeros((1, law.size)), np.zeros(law.size)
    if most == 0:
        shown[possible] = 1.0
        return levels, shown
    laws = thinned_laws(seen[:, possible] * law[possible], most, law[possible])
    likely = laws / law[possible] * _ROUNDING
    is_exact = (laws > 0.0).sum(axis=1) == 1
    shown[possible] = np.minimum(1.0, likely[is_exact].sum(axis=0))
    if not is_exact.all():
        levels = np.zeros((int((~is_exact).sum()), law.size))
        levels[:, possible] = likely[~is_exact]
    return levels, shown


def _variance(law: Floats) -> float:
    """How likely two draws differ."""
    return max(0.0, 1.0 - float((law**2).sum()))


def _laws_before(asked: Asked, states: States, channels: Sequence[_Channel], places: int) -> Floats:
    """Laws (R, K) of the horizon's first state that cover those that counts before the horizon leave."""
    laws = np.diag(states.mass[0]) if asked.is_shown else states.mass[0][np.newaxis]
    coming = list(channels)
    for t in range(asked.first):
        while coming and coming[0].step == t:
            levels, shown = coming.pop(0).ways[-1]
            corners = np.diag(laws.sum(axis=0) * shown)
            seen = (laws[:, np.newaxis] * levels).reshape(-1, laws.shape[1])
            laws = thinned_laws(np.concatenate((seen, corners)), _LAWS, states.mass[t])
        before, state, chance = states.moves[t]
        size = states.mass[t + 1].size
        laws = np.array([np.bincount(state, law[before] * chance, size) for law in laws])
    return np.ascontiguousarray(np.pad(laws, ((0, 0), (0, places - laws.shape[1]))))


def _sight(channels: Sequence[_Channel], steps: int, places: int, most: int) -> Sight:
    """Channels with as many levels as ``most`` sequences allow; those that may reveal most get them first.

    Windows come before counts of single steps, which show a place that was counted anyhow.
    """
    way, sequences = [0] * len(channels), 1
    order = sorted(range(len(channels)), key=lambda g: channels[g].uncertainty, reverse=True)
    most_ways = max((len(each.ways) for each in channels), default=1)
    for is_window, wanted in product((True, False), range(1, most_ways)):
        for g in (each for each in order if channels[each].is_window == is_window):
            ways = channels[g].ways
            if wanted < len(ways):
                before, after = len(ways[way[g]][0]), len(ways[wanted][0])
                if sequences // before * after <= most:
                    sequences, way[g] = sequences // before * after, wanted
    chosen = [each.ways[k] for each, k in zip(channels, way, strict=True)]
    size = np.array([len(levels) for levels, _ in chosen], np.int64)
    level = np.zeros((len(chosen), int(size.max(initial=1)), places))
    first = np.searchsorted([each.step for each in channels], np.arange(steps + 1))
    combinations = np.ones(steps, np.int64)
    unshown, hidden = np.ones((steps, places)), np.ones((steps, places))
    for g, (each, (levels, shown)) in enumerate(zip(channels, chosen, strict=True)):
        states = shown.size  # of the step; beyond there are none
        level[g, : size[g], :states] = levels
        combinations[each.step] *= size[g]
        unshown[each.step, :states] *= levels.sum(axis=0)
        hidden[each.step, :states] *= 1.0 - shown
    return Sight(True, size, level, first.astype(np.int64), combinations, 1.0 - hidden, unshown)
