"""The frontier bound of one person's horizon: a few per cent above the optimum at most, as a rule."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.moment import MOST_ENTRIES, Size
from accounting.bounds.patterns.raw_success_kernel import (
    Outside,
    RawQuestion,
    SeenRaw,
    history_laws,
    unobserved,
)
from accounting.bounds.patterns.segments_kernel import Nodes, find_nodes, no_hit_weight
from accounting.bounds.protocol import Bound, LogQuestion, Question, Scope
from accounting.exposure import Exposure, window_of
from accounting.hmm.eight import padded
from accounting.hmm.frontier.search_kernel import (
    SearchMemory,
    completion_gains,
    new_completions,
    new_memory,
    search,
)
from accounting.hmm.frontier.shown_once_kernel import (
    FirstRight,
    first_right_bound,
    lower_completions,
    new_first_right,
)
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, Rows, slot_of

# The frontier bound of a raw horizon: every segment between two hits by its frontier search.
#
# Between two consecutive hits ``a`` and ``b`` the posterior depends on these two alone. Let ``g_ab[m]``
# bound the mass, given ``a``, of no hit between, hit ``b`` next, and at most ``m`` wrong guesses between.
# Given the pattern of hits the segments are independent, and no strategy has a total of mistakes that is
# stochastically smaller than the sum of independent ones with distributions ``g_ab``; so with ``S_end[m] =
# 1``
#
#     S_a[m] = sum_b sum_j (g_ab[j] - g_ab[j - 1]) S_b[m - j]
#
# bounds the success after hit ``a`` when ``m`` mistakes are left. Polynomial, with nothing walked. Beyond
# Koga et al.
#
# For example two steps, each spent at the sensor's place with probability 1/2 and else at one of two
# others, 1/4 each, no mistake allowed. Each step is guessed right with 1/2 + 1/4, so the optimum is 9/16.
# By segments::
#
#     S(hit in step 1) = 1                                        # nothing is left to guess
#   S(hit in step 0) = 1/2 * 1 + 1/4 = 3/4                      # seen again, or one of two others is guessed
#     S(start) = 1/2 * 3/4 + (1/4 * 1/2) * 1 + 1/4 * 1/4 = 9/16   # first hit in step 0, in step 1, none
#
# What was released before and after the horizon enters exactly: a raw history leaves, for each last hit
# before the horizon, a law of its first place (a source more), and a raw future, for each first hit after
# it, a likelihood of its last place (an end more).

_TOLERANCE = 2.5e-3  # of success, over the square of the vectors: with 16 a segment may be off by 1e-5
EXPANSIONS = 4096  # of one person's searches, for each vector: some ten milliseconds with 16

_ROUNDING = 1e-12  # sums of thousands of products, each rounded


class FrontierEffort(NamedTuple):
    """How hard the guesses of each segment are searched."""

    vectors: int  # prefixes expanded for each step of the segment, at least 1
    tolerance: float  # a search ends once its slack matters less than this
    expansions: int  # of all searches together; then only what a genie leaves bounds a segment
    shown_once: int  # expansions of each search that lowers a completion, 0 for none; -1 lowers none


@jit
def frontier_effort(vectors: int, shown_once: int = -1) -> FrontierEffort:
    """So many vectors, and a tolerance that is worth them."""
    return FrontierEffort(vectors, _TOLERANCE / vectors**2, EXPANSIONS * vectors, shown_once)


class Targets(NamedTuple):
    """Where segments can end: at each hit, then at each end of the horizon."""

    time: NDArray[np.int64]  # (N,), T for an end
    place: NDArray[np.int64]  # (N,), -1 for an end
    gains: NDArray[np.float64]  # (N, T, s + 1, W), of what is won by coming there
    won: NDArray[np.float64]  # (N, s + 1), S behind it


@jit
def _targets(
    person: LocalChain, weight: NDArray[np.float64], nodes: Nodes, ends: NDArray[np.float64], mistakes: int
) -> Targets:
    """All targets of a horizon; what is won behind the hits is filled later."""
    steps, places = weight.shape
    hits = nodes.time.size - 2
    size = hits + ends.shape[0]
    time, place = np.full(size, steps), np.full(size, -1)
    gains = np.empty((size, steps, mistakes + 1, padded(places)))
    walk = new_completions(mistakes, places)
    won = np.empty(places)
    for b in range(size):
        if b < hits:
            time[b], place[b] = nodes.time[b + 1], nodes.place[b + 1]
            if time[b] > 0:
                arrivals(person, time[b] - 1, place[b], won)
        else:
            won[:] = ends[b - hits]
        if time[b] > 0:
            completion_gains(person, weight, time[b] - 1, won, walk, gains[b])
    return Targets(time, place, gains, np.ones((size, mistakes + 1)))


@bare_jit
def arrivals(person: LocalChain, last: int, place: int, won: NDArray[np.float64]) -> None:
    """``won[x] = P[x, place]`` of the move after step ``last``."""
    chain, slot = person.chain, slot_of(person, last)
    won[:] = 0.0
    for j in range(chain.column_start[slot, place], chain.column_start[slot, place + 1]):
        won[chain.row[j]] = chain.value[j]


@bare_jit
def departures(person: LocalChain, rows: Rows, time: int, place: int, law: NDArray[np.float64]) -> None:
    """``law[y] = P[place, y]`` of the move after step ``time``; ``rows`` are those of the chain."""
    slot, x = np.uint64(slot_of(person, time)), np.uint64(place)
    law[:] = 0.0
    for j in range(np.uint64(rows.start[slot, x]), np.uint64(rows.start[slot, x + np.uint64(1)])):
        law[np.uint64(rows.column[j])] = rows.value[j]


@bare_jit
def _spread(
    person: LocalChain,
    weight: NDArray[np.float64],
    first: int,
    mass: NDArray[np.float64],
    likeliest: NDArray[np.float64],
) -> None:
    """Move ``mass[first]`` on to the end without a hit on the way, in all and on the likeliest path.

    Row ``t`` of both, (T + 1, K), is before the evidence of step ``t``, row ``T`` after the last.
    """
    steps, places = weight.shape
    chain = person.chain
    column_start, row, value = chain.column_start, chain.row, chain.value
    for y in range(places):
        likeliest[first, y] = mass[first, y]
    for t in range(first, steps):
        slot = slot_of(person, t)
        for y in range(places):
            total, largest = mass[t, y] * weight[t, y], likeliest[t, y] * weight[t, y]
            if t + 1 < steps:
                total, largest = 0.0, 0.0
                for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                    x = np.uint64(row[j])
                    moved = value[j] * weight[t, x]
                    total += mass[t, x] * moved
                    largest = max(largest, likeliest[t, x] * moved)
            mass[t + 1, y], likeliest[t + 1, y] = total, largest


class Arrival(NamedTuple):
    """What comes to a target from one source."""

    mass: float  # of all paths: what is won if every guess may be wrong
    likeliest: float  # of the likeliest path: what is won if none may


@bare_jit
def _at_end(mass: NDArray[np.float64], likeliest: NDArray[np.float64], end: NDArray[np.float64]) -> Arrival:
    """What comes to an end of the horizon, whose likelihood is ``end`` (K,)."""
    total, largest = 0.0, 0.0
    for x in range(end.size):
        total += mass[x] * end[x]
        largest = max(largest, likeliest[x] * end[x])
    return Arrival(total, largest)


@inline
def bound_segment(
    person: LocalChain,
    weight: NDArray[np.float64],
    law: NDArray[np.float64],
    first: int,
    last: int,
    gains: NDArray[np.float64],
    arrival: Arrival,
    share: float,
    tolerance: float,
    vectors: int,
    expansions: int,
    memory: SearchMemory,
    found: NDArray[np.float64],
    won: NDArray[np.float64],
) -> None:
    """Fill ``found[m]`` with a bound on what comes to a target with at most ``m`` wrong guesses.

    ``won[m]`` is won behind the target with ``m`` mistakes left, ``share`` the probability with which the
    horizon comes to the source: a segment matters as much as the two together say. ``expansions`` are those
    of all searches, this one and those before it.
    """
    steps = last - first + 1
    for m in range(found.size - 1, -1, -1):
        matters = share * won[found.size - 1 - m]
        if m >= steps or arrival.mass * matters <= tolerance:
            found[m] = arrival.mass
        elif m == 0:
            found[m] = arrival.likeliest
        else:
            slack = tolerance / max(matters, tolerance)
            if memory.spent[0] >= expansions:
                slack = np.inf  # what a genie leaves bounds the segment then
            found[m] = search(
                person, weight, law, first, last, gains, m, steps * vectors, slack, memory
            ).bound
        if m < found.size - 1:
            found[m] = min(found[m], found[m + 1])


class Source(NamedTuple):
    """Where a segment begins."""

    first: int  # its first step
    share: float  # probability with which the horizon comes there


@bare_jit
def _depart(
    person: LocalChain,
    targets: Targets,
    marginal: NDArray[np.float64],
    outside: Outside,
    number: int,
    rows: Rows,
    mass: NDArray[np.float64],
) -> Source:
    """One source by its ``number``; fills the row of ``mass`` of its first step.

    Sources are the hits, from the last to the first; then the places shown; then the laws of the outside.
    """
    hits, places = targets.time.size - outside.ends.shape[0], mass.shape[1]
    if number >= hits + places:
        for x in range(places):
            mass[0, x] = outside.laws[number - hits - places, x]
        return Source(0, 1.0)
    time, place, share = 0, number - hits, 0.0
    if number < hits:
        time, place = targets.time[hits - 1 - number], targets.place[hits - 1 - number]
        share = marginal[time, place]
    else:
        share = outside.shown[place]
    departures(person, rows, time, place, mass[time + 1])
    return Source(time + 1, share)


@bare_jit
def add_convolution(
    success: NDArray[np.float64], found: NDArray[np.float64], won: NDArray[np.float64]
) -> None:
    """``success[m] += sum_j (found[j] - found[j - 1]) won[m - j]``."""
    before = 0.0
    for j in range(found.size):
        for m in range(j, found.size):
            success[m] += (found[j] - before) * won[m - j]
        before = found[j]


@bare_jit
def _add_sources(
    person: LocalChain,
    weight: NDArray[np.float64],
    marginal: NDArray[np.float64],
    targets: Targets,
    outside: Outside,
    effort: FrontierEffort,
    memory: SearchMemory,
    mass: NDArray[np.float64],
    likeliest: NDArray[np.float64],
    found: NDArray[np.float64],
    success: NDArray[np.float64],
    first_right: FirstRight,
) -> float:
    """What is won from the horizon's beginning; fills what is won behind each hit, from the last on.

    Scratch: ``mass`` and ``likeliest`` (T + 1, K), ``found`` and ``success`` (s + 1,).
    """
    steps, places = weight.shape
    time, place, gains, won, ends = targets.time, targets.place, targets.gains, targets.won, outside.ends
    hit_count = time.size - ends.shape[0]
    total, sources = 0.0, hit_count + places + outside.laws.shape[0]
    for number in range(sources):
        expansions = effort.expansions * (number + 1) // sources
        first, share = _depart(person, targets, marginal, outside, number, memory.rows, mass)
        success[:] = 1.0 if first == steps else 0.0
        if first < steps and share > 0.0:
            _spread(person, weight, first, mass, likeliest)
            for b in range(time.size):
                if time[b] < first:
                    continue
                if b < hit_count:
                    arrival = Arrival(mass[time[b], place[b]], likeliest[time[b], place[b]])
                else:
                    arrival = _at_end(mass[steps], likeliest[steps], ends[b - hit_count])
                last = time[b] - 1
                bound_segment(
                    person,
                    weight,
                    mass[first],
                    first,
                    last,
                    gains[b],
                    arrival,
                    share,
                    effort.tolerance,
                    effort.vectors,
                    expansions,
                    memory,
                    found,
                    won[b],
                )
                if effort.shown_once >= 0:
                    first_right_bound(person, weight, mass[first], first, last, gains[b], found, first_right)
                add_convolution(success, found, won[b])
        if number < hit_count:
            for m in range(success.size):
                won[hit_count - 1 - number, m] = success[m]
        else:
            total += share * success[success.size - 1]
    return total


@jit
def raw_frontier(
    person: LocalChain,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    mistakes: int,
    outside: Outside,
    effort: FrontierEffort,
) -> float:
    """Bound on the success of any adversary who sees the ``hits`` (T, K) of a raw schedule, and the outside.

    ``marginal`` (T, K) is ``Pr[X_t = x]``; of the person the chain and the first slot are read.
    """
    steps, places = hits.shape
    weight = no_hit_weight(hits)
    targets = _targets(person, weight, find_nodes(hits), outside.ends, mistakes)
    memory = new_memory(person.chain, max(steps * effort.vectors, effort.shown_once), mistakes)
    if effort.shown_once >= 0:
        for b in range(targets.time.size):
            last = targets.time[b] - 1
            lower_completions(person, weight, last, targets.gains[b], effort.shown_once, memory)
        memory.spent[0] = 0  # the limit on expansions is that of the segments' searches alone
    mass, likeliest = np.empty((steps + 1, places)), np.empty((steps + 1, places))
    found, success = np.empty(mistakes + 1), np.empty(mistakes + 1)
    first_right = new_first_right(places, mistakes)
    total = _add_sources(
        person,
        weight,
        marginal,
        targets,
        outside,
        effort,
        memory,
        mass,
        likeliest,
        found,
        success,
        first_right,
    )
    return min(1.0, total * (1.0 + _ROUNDING))


_MOST_OPERATIONS = 1e9  # at most; a second or so of one core
_MOST_COMPLETION_OPERATIONS = 2e9  # at most; as long
MOST_LAWS = 64
"""Hits before and after the horizon that are distinguished; for the lightest others a place is shown."""


def affordable_vectors(size: Size, mistakes: int, wanted: int, most: float = _MOST_OPERATIONS) -> int:
    """Vectors up to ``wanted`` for which memory and ``most`` operations suffice; 0 where none does."""
    rows = mistakes + 1
    if (size.hits + 1) * size.steps * rows * size.places > MOST_ENTRIES:
        return 0
    one_expansion = rows * (size.moves + 2 * size.places)
    segments = 0.5 * (size.hits + 1) * (size.hits + 2)
    a_vector = segments * max(1.0, size.steps / 3) * rows * one_expansion
    entries = size.steps * rows * size.places
    return int(min(wanted, most / a_vector, MOST_ENTRIES // entries))


def affordable_completions(size: Size, mistakes: int, wanted: int) -> int:
    """Expansions of each search that lowers a completion, up to ``wanted``; -1 where none can be lowered.

    A segment of ``L`` steps has a completion at each place of each step but its last, which looks at the
    ``l < L`` steps behind it: a search for each number of mistakes below ``l``.
    """
    lengths = [size.hits / size.steps] * (size.steps - 1) + [size.hits / size.steps + 1.0]
    looked_at, searched = 0.0, 0.0
    for length, segments in enumerate(lengths, start=1):
        for behind in range(1, length):
            most_wrong = min(mistakes, behind - 1)
            looked_at += segments * behind
            searched += segments * most_wrong * (most_wrong + 3) / 2
    without_search = size.places * looked_at * (size.moves + (mistakes + 1) * size.places)
    left = _MOST_COMPLETION_OPERATIONS - without_search
    if left < 0.0:
        return -1
    an_expansion = size.places * searched * (size.moves + 2 * size.places)
    return int(min(wanted, left / (an_expansion + 1.0)))


def frontier_success(exposure: Exposure, mistakes: int, outside: Outside, wanted: int) -> float | None:
    """Success of any adversary of the raw schedule, who knows the outside too; None where too expensive."""
    size = Size.of(exposure)
    vectors = affordable_vectors(size, mistakes, wanted)
    if vectors == 0:
        return None
    shown_once = affordable_completions(size, mistakes, 2 * wanted)
    effort = frontier_effort(vectors, shown_once)
    return float(raw_frontier(exposure.person, exposure.hits, exposure.marginal, mistakes, outside, effort))


def frontier_bound(question: Question) -> float | None:
    """The frontier bound of the horizon on its own; it holds for the noised schedule, which reveals less."""
    exposure = question.exposure
    return frontier_success(exposure, question.mistakes, unobserved(exposure.start), question.effort.vectors)


def _within_log(asked: LogQuestion) -> float | None:
    """The raw history and future enter exactly, noise as if it were none."""
    exposure, first = asked.exposure, asked.first
    window, vectors = window_of(exposure, first, asked.last), asked.effort.vectors

    def compute() -> float | None:
        before = exposure.hits[:first], exposure.marginal[:first]
        laws, shown = history_laws(exposure.person, *before, MOST_LAWS)
        return frontier_success(window, asked.mistakes, Outside(laws, shown, asked.ends), vectors)

    what = "frontier", first, window.steps, asked.ends.tobytes(), asked.mistakes, vectors
    return exposure.of_raw_version(what, compute)


@inline
def frontier_kernel(seen: SeenRaw, question: RawQuestion) -> float:
    """Completions are not lowered: that takes longer than the search. At `s = 0` the optimum is known."""
    if question.vectors == 0 or question.mistakes == 0:
        return 1.0
    effort = frontier_effort(question.vectors)
    return raw_frontier(seen.person, seen.hits, seen.marginal, question.mistakes, seen.outside, effort)


FRONTIER = Bound(
    "frontier",
    idea="below; the optimum or a few per cent above it",
    scope=Scope.RAW,
    cost="hits squared times T, mistakes squared, nnz and `vectors`",
    compute=frontier_bound,
    kernel=frontier_kernel,
    knows_history=True,
    within_log=_within_log,
)
