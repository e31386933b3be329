"""Bounds on one person's counts over windows: each published count as a channel of the own count.

What a person adds to a count is a function of the places in its window. So the person's states are a place
and how often each open window has counted them so far; a published count then is a channel of the state in
the window's last step, and what is to be guessed is the place: a question about labels. Beyond the papers.

For example a window of two steps that counts place 1, somebody who stays put, and one who changes place::

    states in step 0: (0, 0 times)  (1, once);  in step 1: (0, 0) from (0, 0), (1, 2 times) from (1, once)
                                                           (1, once) from (0, 0), (0, once) from (1, once)
    a count of 1: both changed, or none did; what is seen are two states of step 1, which no place tells apart

Exact counts are bounded by the frontier bound: all of one step are one channel, whose outcomes are the own
counts that occur together, so there are no more of them than states. Through noise the sandwich bound takes
all outputs of each count, as far as they matter. Where there are too many states, a window is shown in its
single steps.

What was published before the horizon enters as a few laws of its first state, which cover those that a few
likelihoods of each of these own counts leave; once a window has ended, its states are one again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.sandwich_bound import own_signals_of
from accounting.bounds.noised.sandwich_kernel import (
    AS_LOW_AS_MAY_BE,
    EXPANSIONS_PER_VECTOR,
    Counts,
    Limits,
    Window,
    affordable_nodes,
    affordable_operations,
    moves_of,
    sandwich_success,
    thinned_laws,
)
from accounting.bounds.patterns import affordable_vectors
from accounting.bounds.patterns.frontier_kernel import (
    EXPANSIONS,
    FrontierEffort,
    FrontierQuestion,
    Sight,
    frontier_in_sight,
)
from accounting.bounds.patterns.moment import Size
from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.exposure import Exposure
from accounting.exposure.own_counts import OwnCount, OwnWindow, own_window
from accounting.exposure.step_information.rays import rays_of
from models.mechanisms import truncated_mass
from models.numerics.arrays import Flags, Floats, Integers
from models.priors.chain import ChainView, LocalChain
from models.releases import shown_places

BY_OWN_COUNTS = 65
MOST_STATES = 512  # of a person, in one step
_MOST_OPERATIONS = 2e9  # of a pattern's searches
_MOST_OUTPUTS = 128  # of one count; a wider noise's are covered by so many
_LEAST_WEIGHT = 1e-9  # of an output; what is rarer is left out and added to the bound
_MOST_ENTRIES = 1 << 22  # of a search's prefixes: 32 MiB
_PRECISION, _CLOSE = 0.002, 1e-5  # how close a tree shall come, as far as its work goes (``Limits``)
_ALIKE = 1e-12  # between two outputs that say the same
_TOLERANCE = 1e-7  # of success, of each search
_KEPT = 8  # likelihoods of the own count that are kept of a noised count before the horizon
_LAWS = 8  # of the first state, beside states that are shown
_ROUNDING = 1.0 + 1e-12
_OF_A_TREE = 8.0  # times the work of one of presence: there are more states, and more values
IN_AUDITS = 2
"""Times the work of a running ceiling with as many vectors that one of an audit may take."""


class Presence(NamedTuple):
    """A count of one step's presence at own places ``cover`` (K,), by its outputs (``rays``)."""

    step: int
    cover: Flags
    weight: Floats  # (O,)
    theta: Floats  # (O,)


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


class _Count(NamedTuple):
    """One published count, or all of a pattern, by the values that it has of the person."""

    step: int
    value: Integers  # (k,), of each state of the step: a position in ``law``
    law: Floats  # (N,), how likely each value is
    seen: Floats  # (O, N), how likely each output is at each value
    is_pattern: bool = False

    @property
    def is_noised(self) -> bool:
        """Whether an output leaves the value open; of a pattern nothing is known to be exact."""
        return not self.is_pattern and bool(((self.seen > 0.0).sum(axis=1) > 1).any())


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
    plain = [Presence(each.step, each.cover, each.rays.weight, each.rays.theta) for each in signals]
    whole: list[OwnWindow] = []
    for own in sorted(owns, key=lambda each: each.information_nats, reverse=True):
        window = own_window(exposure, own.release)
        if own.release.has_own_law and states_of(asked, [*whole, window]) is not None:
            whole.append(window)
            continue
        for part in shown_places(own.release):
            cover = np.isin(exposure.chain.places, part.places.locations)
            rays, step = rays_of(part.mechanism), own.release.first + part.places.offset  # type: ignore[arg-type]
            left_out += rays.left_out
            plain.append(Presence(step, cover, rays.weight, rays.theta))
    if not whole:
        return None
    found = success_by_own_counts(asked, plain, whole, wanted, IN_AUDITS)
    return None if found is None else min(1.0, found + left_out)


def success_by_own_counts(
    asked: Asked, plain: Sequence[Presence], windows: Sequence[OwnWindow], wanted: int, more: int = 1
) -> float | None:
    """Success of any adversary who sees these counts; None where it is too expensive.

    The least of two: as if all were exact, by the frontier bound, and through noise by the sandwich bound
    with ``more`` times the work of so many vectors.
    """
    states = states_of(asked, windows)
    if states is None:
        return None
    counts = [_of_presence(states, each) for each in plain]
    counts += [_of_window(states, number, each) for number, each in enumerate(windows)]
    return _success(asked, states, counts, wanted, more)


def success_by_pattern(asked: Asked, pattern: OwnPattern, wanted: int) -> float | None:
    """Success of any adversary who sees these counts; None where it is too expensive."""
    states = states_of(asked, (pattern,))
    if states is None:
        return None
    value = states.counted[pattern.last][:, 0]
    law = np.bincount(value, states.mass[pattern.last], pattern.most + 1).astype(np.float64)
    return _success(asked, states, [_Count(pattern.last, value, law, pattern.seen, True)], wanted, 4)


def _success(asked: Asked, states: States, counts: Sequence[_Count], wanted: int, more: int) -> float | None:
    """:func:`success_by_own_counts` of these counts of a person with these states."""
    steps, first = len(asked.cost) - asked.first, asked.first
    chain, marginal = chain_of(asked, states)
    places = chain.places.size
    counts = sorted((each for each in counts if (each.law > 0.0).sum() > 1), key=lambda each: each.step)
    before = [each for each in counts if each.step < first]
    counts = [each._replace(step=each.step - first) for each in counts if each.step >= first]
    size = Size(steps, places, chain.value.size // steps, 0, True)
    vectors = affordable_vectors(size, asked.mistakes, wanted)
    for each in counts:
        if each.is_pattern:
            a_search = steps * (asked.mistakes + 1) ** 2 * (size.moves + 2 * places)
            vectors = min(vectors, int(_MOST_OPERATIONS / (len(each.seen) * a_search)))
    if vectors == 0:
        return None
    person = LocalChain(chain, marginal[0], 0)
    exact = [each._replace(seen=np.eye(each.law.size)) if each.is_noised else each for each in before]
    outside = Outside(_laws_before(asked, states, exact, places), np.zeros(places), np.ones((1, places)))
    effort = FrontierEffort(vectors, _TOLERANCE, more * EXPANSIONS * vectors, -1)
    question = FrontierQuestion(person, marginal, asked.mistakes, outside, effort)
    least = float(frontier_in_sight(question, _sight(counts, steps, places)))
    if any(each.is_noised for each in (*before, *counts)):
        laws = _laws_before(asked, states, before, places)
        most = _MOST_ENTRIES // ((asked.mistakes + 1) * places)
        expansions = max(steps, min(EXPANSIONS_PER_VECTOR * vectors * steps, most))
        work = more * _OF_A_TREE * affordable_operations(vectors, asked.mistakes)
        moves = moves_of(person, steps)
        window = Window(person, steps, np.ones(places), asked.mistakes, expansions, work, moves, np.inf)
        outputs, left_out = _outputs(counts, places)
        nodes = affordable_nodes(outputs, 0, steps, places, asked.mistakes, moves, work)
        if nodes > 0:
            limits = Limits(_PRECISION, _CLOSE, nodes, least, False, AS_LOW_AS_MAY_BE)
            least = min(least, sandwich_success(window, outputs, laws, limits)[0] + left_out)
    return least


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


def _of_presence(states: States, count: Presence) -> _Count:
    """A count of presence in one step."""
    value = count.cover[states.place[count.step]].astype(np.int64)
    law = np.bincount(value, states.mass[count.step], 2).astype(np.float64)
    seen = 2.0 * count.weight[:, np.newaxis] * np.stack((1.0 - count.theta, count.theta), axis=1)
    return _Count(count.step, value, law, seen[(seen > 0.0).any(axis=1)])


def _of_window(states: States, number: int, window: OwnWindow) -> _Count:
    """The count of a window in its last step, by how often the person was counted."""
    counted = states.counted[window.last][:, number]
    values, value = np.unique(counted, return_inverse=True)
    law = np.bincount(value.reshape(-1), states.mass[window.last]).astype(np.float64)
    seen = np.zeros((int(values[-1]) + window.noise.size, values.size))
    for v, own in enumerate(values.tolist()):
        seen[own : own + window.noise.size, v] = window.noise * window.shown
    if window.shown < 1.0:
        seen = np.concatenate((seen, np.full((1, values.size), 1.0 - window.shown)))
    return _Count(window.last, value.reshape(-1), law, seen[(seen > 0.0).any(axis=1)])


def _outputs(counts: Sequence[_Count], places: int) -> tuple[Counts, float]:
    """The counts as the sandwich bound takes them, and how likely outputs are that are left out.

    Outputs are in order of the value that they speak for: what lies between two of them is covered by these.
    """
    rows, left_out = [], 0.0
    for each in counts:
        seen = each.seen
        if len(seen) > _MOST_OUTPUTS:
            seen = kept_levels(seen, each.law, _MOST_OUTPUTS)
        weight = seen.mean(axis=1)
        is_rare = weight <= _LEAST_WEIGHT
        left_out += float(seen[is_rare].sum(axis=0).max(initial=0.0))
        seen, weight = seen[~is_rare], weight[~is_rare]
        order = np.argsort((seen * np.arange(each.law.size)).sum(axis=1) / weight, kind="stable")
        own = seen[order] / weight[order, np.newaxis]
        apart = np.abs(np.diff(own, axis=0, prepend=-1.0)).max(axis=1) > _ALIKE
        weight = np.add.reduceat(weight[order], np.flatnonzero(apart))
        rows.append((own[apart], weight))
    most, values = (max((each[0].shape[axis] for each in rows), default=1) for axis in (0, 1))
    value = np.zeros((len(rows), places), np.int64)
    all_weights, likely = np.zeros((len(rows), most)), np.zeros((len(rows), most, values))
    for g, (each, (own, weight)) in enumerate(zip(counts, rows, strict=True)):
        value[g, : each.value.size], all_weights[g, : weight.size] = each.value, weight
        likely[g, : own.shape[0], : own.shape[1]] = own
    time = np.array([each.step for each in counts], np.int64)
    size, of_each = (np.array([own.shape[axis] for own, _ in rows], np.int64) for axis in (0, 1))
    return Counts(time, value, of_each, size, all_weights, likely), left_out


def kept_levels(seen: Floats, law: Floats, most: int) -> Floats:
    """Levels (L, N) of an own count that cover every value's, ``seen`` (V, N): ``most`` and exact ones.

    They are chosen with the ``law`` of the own count.
    """
    possible = law > 0.0
    laws = thinned_laws(seen[:, possible] * law[possible], most, law[possible])
    levels = np.zeros((len(laws), law.size))
    levels[:, possible] = laws / law[possible] * _ROUNDING
    return levels


def _laws_before(asked: Asked, states: States, counts: Sequence[_Count], places: int) -> Floats:
    """Laws (R, K) of the horizon's first state that cover those that counts before the horizon leave."""
    laws = np.diag(states.mass[0]) if asked.is_shown else states.mass[0][np.newaxis]
    coming = list(counts)
    for t in range(asked.first):
        while coming and coming[0].step == t:
            own = coming.pop(0)
            levels = kept_levels(own.seen, own.law, _KEPT)[:, own.value]
            seen = (laws[:, np.newaxis] * levels).reshape(-1, laws.shape[1])
            laws = thinned_laws(seen, _LAWS, states.mass[t])
        before, state, chance = states.moves[t]
        mass = states.mass[t + 1]
        laws = np.array([np.bincount(state, law[before] * chance, mass.size) for law in laws])
        laws = thinned_laws(laws, _LAWS, mass)  # states of windows that ended are one now
    return np.ascontiguousarray(np.pad(laws, ((0, 0), (0, places - laws.shape[1]))))


def _sight(counts: Sequence[_Count], steps: int, places: int) -> Sight:
    """All counts of a step as one, exact, of which each output is a level; or those of a pattern."""
    levels: list[Floats] = []
    at: list[int] = []
    for t in range(steps):
        here = [each for each in counts if each.step == t]
        if here and here[0].is_pattern:
            levels.append(here[0].seen[:, here[0].value])
        elif here:
            _, code = np.unique([each.value for each in here], axis=1, return_inverse=True)
            levels.append((code.reshape(-1) == np.arange(code.max() + 1)[:, np.newaxis]).astype(np.float64))
        at += [t] if here else []
    size = np.array([len(each) for each in levels], np.int64)
    level = np.zeros((len(levels), int(size.max(initial=1)), places))
    combinations, unshown = np.ones(steps, np.int64), np.ones((steps, places))
    for g, (t, each) in enumerate(zip(at, levels, strict=True)):
        level[g, : size[g], : each.shape[1]] = each
        combinations[t], unshown[t, : each.shape[1]] = size[g], each.sum(axis=0)
    first = np.searchsorted(at, np.arange(steps + 1)).astype(np.int64)
    is_charged = not any(each.is_pattern for each in counts)  # a pattern has many rare values, which matter
    return Sight(is_charged, size, level, first, combinations, np.zeros((steps, places)), unshown)
