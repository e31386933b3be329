"""The frontier bound of what is seen, noised or not: every segment between two sights by its frontier search.

Each count is a channel with a few levels of evidence, or shows the person (``likelihood_levels``): an exact
count has one level, "not counted", and shows whom it counts; a count with noise has several, and shows now
and then; what is suppressed has none. Between two consecutive sights ``a`` and ``b`` of the person the
posterior depends on these two and on the levels between alone. Let ``g_(a,levels,b)[m]`` bound the mass,
given ``a``, of these levels, of being shown next at ``b``, and of at most ``m`` wrong guesses between. Given
sights and levels the segments are independent, and no strategy has a total of mistakes that is stochastically
smaller than the sum of independent ones with distributions ``g``; so with ``S_end[m] = 1``

    S_a[m] = sum_b sum_levels sum_j (g_(a,levels,b)[j] - g_(a,levels,b)[j - 1]) S_b[m - j]

bounds the success after ``a`` when ``m`` mistakes are left. Beyond Koga et al.

For example two steps, each spent at the place of an exact count with probability 1/2 and else at one of two
others, 1/4 each, no mistake allowed. Each step is guessed right with 1/2 + 1/4, so the optimum is 9/16. By
segments::

    S(shown in step 1) = 1                                      # nothing is left to guess
    S(shown in step 0) = 1/2 * 1 + 1/4 = 3/4                    # shown again, or one of two others is guessed
    S(start) = 1/2 * 3/4 + (1/4 * 1/2) * 1 + 1/4 * 1/4 = 9/16   # first shown in step 0, in step 1, never

From each ``b`` the sequences of levels are followed back in time, depth first: what is left to be won behind
a step is computed once for all ``a`` before it, and lowered (``shown_once_kernel``) where that is affordable.
Sequences that hardly ever come, and what next to nothing is won by, are not followed back further: of them
``g`` is what the genie wins from there on, so that all of them together are one product with the matrix a
step. Exact counts alone are one sequence, and polynomial.

What was released before and after enters as laws of the first place (a source more each) and likelihoods of
the last one (an end more each): exactly, for the last hit of a raw history and the first one of a raw future.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.exposure.step_information.likelihood_levels import OwnChannels
from accounting.hmm.frontier.search_kernel import (
    Completions,
    SearchMemory,
    gains_of,
    guess_and_be_shown,
    new_gains,
    new_memory,
    search,
)
from accounting.hmm.frontier.shown_once_kernel import (
    Lowering,
    first_right_bound,
    lower_completion,
    new_lowering,
)
from accounting.hmm.propagation import dot, retreat
from models.numerics.arrays import Flags, Floats, Integers
from models.numerics.jit import bare_jit, inline, jit, shared
from models.priors.chain import LocalChain, Rows, is_labelled, mistake_cost, slot_of

_TOLERANCE = 2.5e-3  # of success, over the square of the vectors: with 16 a segment may be off by 1e-5
EXPANSIONS = 4096  # of one person's searches, for each vector: some ten milliseconds with 16
SEQUENCES = 8  # of levels that are distinguished, for each vector of the searches

_ROUNDING = 1e-12  # sums of thousands of products, each rounded
_NOTHING = 1e-9  # of success: the most that is won at one target where it is not followed back further
# Where counts are noised, so that there are many sequences as a rule:
_LIGHT = 1e-5  # of success: what hardly ever comes is not followed back further
_SLACK = 1e-3  # of the mass that comes to a target: its search may be off by so much more
_SHARE = 0.1  # of a search's tolerance, for each of the many there are


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


@jit
def noised_effort(vectors: int, shown_once: int = -1) -> FrontierEffort:
    """So many vectors, and a tolerance for many searches: of sequences of levels and laws of the history."""
    tolerance = _SHARE * _TOLERANCE / vectors**2
    return FrontierEffort(vectors, tolerance, EXPANSIONS * vectors, shown_once)


class FrontierQuestion(NamedTuple):
    """Whose steps are guessed, what the adversary knows from outside them, and how hard it is looked at."""

    person: LocalChain  # of which the chain and the first slot are read
    marginal: Floats  # (T, K), Pr[X_t = x]
    mistakes: int
    outside: Outside  # laws as of ``history_laws``, of exact counts or through noise
    effort: FrontierEffort


@jit
def raw_channels(hits: Flags) -> OwnChannels:
    """Exact counts, one channel a step, that count a person wherever a sensor ``hits`` (T, K)."""
    steps, one = hits.shape[0], np.ones((hits.shape[0], 1))
    return OwnChannels(
        np.arange(steps), hits.copy(), np.ones(steps, np.int64), one, np.zeros((steps, 1)), np.ones(steps)
    )


class Sight(NamedTuple):
    """What each step shows: channels in order of time, and how many combinations of levels each step has."""

    is_noised: bool  # whether any count is not exact
    size: Integers  # (G,), levels of each channel
    level: Floats  # (G, L, K), probability of each where the person is
    first: Integers  # (T + 1,), first channel of each step
    sequences: Integers  # (T,), combinations of levels in each step
    shown: Floats  # (T, K), probability that a person who is there is shown
    unshown: Floats  # (T, K), probability that the person is not


class Sources(NamedTuple):
    """Where segments begin, by first step: the laws of the outside, then being shown in the step before."""

    begin: Integers  # (T + 2,), the first source of each first step; T for being shown in the last
    number: Integers  # (T, K), of the source that is being shown there; -1 = never
    law: Floats  # (S, K), of the place in the first step
    share: Floats  # (S,), probability of coming there
    success: Floats  # (S, s + 1, N), what is won from there on, by score


class Scores(NamedTuple):
    """What is won is told apart by a score: a sum over all that is shown of the horizon."""

    lift: Integers  # (T, K), of being shown there
    size: int  # N, of all scores
    nought: int  # the score of nothing shown


class SegmentTarget(NamedTuple):
    """Where segments end."""

    last: int  # step before it
    shown: float  # probability that a person who is there is shown
    success: Floats  # (s + 1, N), S behind it, by score with its own
    total: Floats  # (s + 1,), of all scores
    expansions: int  # of all searches up to this target's; twice as many end following sequences of levels


class Trail(NamedTuple):
    """One sequence of levels, followed back from a target; row ``t`` is before the evidence of step ``t``."""

    weight: Floats  # (T, K), evidence
    combination: Integers  # (T,), of the levels in each step; -1 before the first
    reach: Floats  # (T, K), probability of coming to the target
    genie: Floats  # (T, s + 1, K), W of the genie (``frontier.search_kernel``)
    gains: Floats  # (T, s + 1, W), of one more mistake; lowered where that is affordable
    light: Floats  # (T, s + 1, N, K), won from each place on by what is not followed back


class Tools(NamedTuple):
    """Memory of the searches."""

    is_noised: bool  # whether any count is not exact
    memory: SearchMemory
    lowering: Lowering
    value: Floats  # (s + 1, K)
    top: Floats  # (K,)
    arriving: Floats  # (K,)
    found: Floats  # (s + 1,)


@jit
def _sight(channels: OwnChannels, steps: int, places: int) -> Sight:
    """Channels that count the person or not, by step."""
    level = np.empty((channels.time.size, channels.absent.shape[1], places))
    first, sequences = np.zeros(steps + 1, np.int64), np.ones(steps, np.int64)
    shown, unshown = np.zeros((steps, places)), np.ones((steps, places))
    for g in range(channels.time.size):
        t, size = channels.time[g], channels.size[g]
        first[t + 1] += 1
        sequences[t] *= size
        absent, present = channels.absent[g, :size].sum(), channels.present[g, :size].sum()
        for x in range(places):
            unshown[t, x] *= present if channels.cover[g, x] else absent
            level[g, :, x] = channels.present[g] if channels.cover[g, x] else channels.absent[g]
            if channels.cover[g, x]:
                shown[t, x] = channels.shown[g]
    for t in range(steps):
        first[t + 1] += first[t]
    is_noised = bool((channels.size > 1).any() or (channels.shown < 1.0).any())
    return Sight(is_noised, channels.size, level, first, sequences, shown, unshown)


@jit
def _sources(asked: FrontierQuestion, rows: Rows, sight: Sight, scores: Scores) -> Sources:
    """All sources of a horizon, with nothing won yet; who is shown from outside is so in the first step."""
    person, marginal, mistakes, outside, _ = asked
    steps, places = marginal.shape
    laws = outside.laws.shape[0]
    shown = marginal * sight.shown
    shown[0] += outside.shown
    begin, number = np.zeros(steps + 2, np.int64), np.full((steps, places), -1)
    count = laws + (shown > 0.0).sum()
    law, share, success = (
        np.zeros((count, places)),
        np.ones(count),
        np.zeros((count, mistakes + 1, scores.size)),
    )
    law[:laws] = outside.laws
    count = laws
    for t in range(steps):
        begin[t + 1] = count
        for x in range(places):
            if shown[t, x] > 0.0:
                number[t, x], share[count] = count, shown[t, x]
                if t + 1 < steps:
                    _depart(person, rows, t, x, law[count])
                count += 1
    begin[steps + 1] = count
    success[begin[steps] :, :, scores.nought] = 1.0  # nothing is left to guess
    return Sources(begin, number, law, share, success)


@bare_jit
def _depart(person: LocalChain, rows: Rows, time: int, place: int, law: Floats) -> None:
    """``law[y] = P[place, y]`` of the move after step ``time``; ``rows`` are those of the chain."""
    slot, x = np.uint64(slot_of(person, time)), np.uint64(place)
    law[:] = 0.0
    for j in range(np.uint64(rows.start[slot, x]), np.uint64(rows.start[slot, x + np.uint64(1)])):
        law[np.uint64(rows.column[j])] = rows.value[j]


@bare_jit
def _arrive(person: LocalChain, last: int, place: int, won: Floats) -> None:
    """``won[x] = P[x, place]`` of the move after step ``last``."""
    chain, slot = person.chain, slot_of(person, last)
    won[:] = 0.0
    for j in range(chain.column_start[slot, place], chain.column_start[slot, place + 1]):
        won[chain.row[j]] = chain.value[j]


@inline
def _weigh(sight: Sight, trail: Trail, t: int) -> None:
    """The evidence of step ``t`` if its sensors are at the levels of the trail's combination."""
    weight, code = trail.weight, trail.combination[t]
    for x in range(weight.shape[1]):
        weight[t, x] = 1.0
    for g in range(sight.first[t], sight.first[t + 1]):
        level = code % sight.size[g]
        code //= sight.size[g]
        for x in range(weight.shape[1]):
            weight[t, x] *= sight.level[g, level, x]


@inline
def _step_back(
    person: LocalChain, sight: Sight, trail: Trail, t: int, last: int, shown_once: int, tools: Tools
) -> None:
    """Row ``t - 1`` of the trail from row ``t`` and its evidence."""
    chain, slot = person.chain, slot_of(person, t - 1)
    value, arriving = tools.value, tools.arriving
    for m in range(value.shape[0]):
        for x in range(arriving.size):
            value[m, x] = trail.genie[t, m, x] * trail.weight[t, x]
    guess_and_be_shown(chain, slot, Completions(value, trail.genie[t - 1], tools.top))
    gains_of(trail.genie[t - 1], trail.gains[t - 1])
    retreat(chain, slot, arriving, trail.reach[t - 1])
    if shown_once >= 0:
        spent, memory = tools.memory.spent[0], tools.memory
        lower_completion(
            person,
            trail.weight,
            sight.unshown[t - 1],
            t - 1,
            last,
            trail.gains,
            shown_once,
            memory,
            tools.lowering,
        )
        memory.spent[0] = spent  # the limit on expansions is that of the segments' searches alone


@inline
def _bound_segment(
    person: LocalChain,
    trail: Trail,
    law: Floats,
    first: int,
    mass: float,
    likeliest: float,
    share: float,
    target: SegmentTarget,
    tolerance: float,
    vectors: int,
    tools: Tools,
) -> None:
    """Fill ``tools.found[m]`` with a bound on what comes to a target with at most ``m`` wrong guesses.

    ``mass`` comes to it in all, which is won if every guess may be wrong, ``likeliest`` on the likeliest
    path, which is won if none may (of labels even that is searched for). ``share`` is the probability with
    which the horizon comes to the source and is shown at the target: a segment matters as much as that and
    what is won behind say.
    """
    found, won, memory = tools.found, target.total, tools.memory
    steps, by_label = target.last - first + 1, is_labelled(person.chain)
    cost = mistake_cost(person, first, target.last)
    for m in range(found.size - 1, -1, -1):
        matters = share * won[found.size - 1 - m]
        if m >= cost or mass * matters <= tolerance:
            found[m] = mass
        elif m == 0 and not by_label:
            found[m] = likeliest
        else:
            slack = tolerance / max(matters, tolerance)
            if memory.spent[0] >= target.expansions:
                slack = np.inf  # what a genie leaves bounds the segment then
            found[m] = search(
                person, trail.weight, law, first, target.last, trail.gains, m, steps * vectors, slack, memory
            ).bound
        if m < found.size - 1:
            found[m] = min(found[m], found[m + 1])


@inline
def _add_segment(
    person: LocalChain,
    trail: Trail,
    first: int,
    law: Floats,
    share: float,
    success: Floats,
    target: SegmentTarget,
    effort: FrontierEffort,
    tools: Tools,
) -> None:
    """Add what is won from a source, which begins with step ``first``, by way of the trail to the target.

    ``law`` is that of the place in ``first``, ``share`` how likely the horizon comes to the source, and
    ``success`` the source's ``S``, which grows by ``sum_j (found[j] - found[j - 1]) won[m - j]``.
    """
    found, arriving = tools.found, tools.arriving
    mass, likeliest = 0.0, 0.0
    for x in range(law.size):
        mass += law[x] * arriving[x]
        likeliest = max(likeliest, law[x] * trail.weight[first, x] * trail.genie[first, 0, x])
    share *= target.shown
    tolerance = effort.tolerance
    if tools.is_noised:
        tolerance += _SLACK * mass * share
    _bound_segment(
        person, trail, law, first, mass, likeliest, share, target, tolerance, effort.vectors, tools
    )
    if effort.shown_once >= 0:
        work = tools.lowering.first_right
        first_right_bound(person, trail.weight, law, first, target.last, trail.gains, found, work)
    before = 0.0
    for j in range(found.size):
        here = found[j] * target.shown
        for m in range(j, found.size):
            for n in range(success.shape[1]):
                success[m, n] += (here - before) * target.success[m - j, n]
        before = here


@bare_jit
def _follow_back(
    person: LocalChain,
    sight: Sight,
    marginal: Floats,
    trail: Trail,
    sources: Sources,
    target: SegmentTarget,
    effort: FrontierEffort,
    tools: Tools,
) -> None:
    """Add to every source what is won at one target, whose row of the trail is filled but for the gains.

    An odometer: ``trail.combination[t]`` counts the levels of step ``t``, the earliest step fastest; when it
    has run through, the step behind goes on. For example two steps of two levels::

        step 1:  0        1        # each is weighed once, and its row of the trail serves
        step 0:  0   1    0   1    # both sequences that end with it: six rows, not eight
    """
    last, arriving, success = target.last, tools.arriving, target.success
    gains_of(trail.genie[last], trail.gains[last])
    trail.combination[last] = -1
    t = last
    while t <= last:
        trail.combination[t] += 1
        if trail.combination[t] >= sight.sequences[t]:
            t += 1
            continue
        _weigh(sight, trail, t)
        comes, matters, is_any, top = 0.0, 0.0, False, success.shape[0] - 1
        for x in range(arriving.size):
            arriving[x] = trail.weight[t, x] * trail.reach[t, x]
            comes += marginal[t, x] * arriving[x]
            matters += marginal[t, x] * trail.weight[t, x] * trail.genie[t, top, x]
            is_any |= arriving[x] > 0.0
        if not is_any:
            continue
        is_over = tools.memory.spent[0] >= 2 * target.expansions
        is_light = matters * target.shown * target.total[top] <= _NOTHING
        if is_light or (tools.is_noised and (comes * target.shown <= _LIGHT or is_over)):
            for m in range(success.shape[0]):
                for n in range(success.shape[1]):
                    for x in range(arriving.size):
                        before = won = 0.0
                        for j in range(m + 1):
                            won += (trail.genie[t, j, x] - before) * success[m - j, n]
                            before = trail.genie[t, j, x]
                        trail.light[t, m, n, x] += trail.weight[t, x] * won * target.shown
            continue
        for number in range(sources.begin[t], sources.begin[t + 1]):
            law, share, won = sources.law[number], sources.share[number], sources.success[number]
            _add_segment(person, trail, t, law, share, won, target, effort, tools)
        if t == 0:
            continue
        _step_back(person, sight, trail, t, last, effort.shown_once, tools)
        t -= 1
        trail.combination[t] = -1


@bare_jit
def _add_unsearched(
    person: LocalChain, sight: Sight, trail: Trail, sources: Sources, scores: Scores, t: int, tools: Tools
) -> None:
    """Add to ``S`` of the sources of step ``t`` what needs no search, and move ``light`` back from there.

    That is what is won behind steps not followed back further, and if the place is shown again in step ``t``.
    """
    places, light, won, moved = trail.reach.shape[1], trail.light, tools.arriving, tools.top
    for m in range(light.shape[1]):
        for n in range(scores.size):
            for x in range(places):
                number, again = sources.number[t, x], sight.shown[t, x]
                before = n - scores.lift[t, x]
                if number >= 0:
                    is_there = 0 <= before < scores.size
                    again *= sources.success[number, m, before] if is_there else 0.0
                won[x] = light[t, m, n, x] + again
            for number in range(sources.begin[t], sources.begin[t + 1]):
                known = sources.success[number, m, n]
                sources.success[number, m, n] = min(1.0, known + dot(sources.law[number], won))
            if t > 0:
                retreat(person.chain, slot_of(person, t - 1), light[t, m, n], moved)
                for x in range(places):
                    light[t - 1, m, n, x] += moved[x] * sight.unshown[t - 1, x]


@inline
def _expansions_up_to(number: int, targets: int, effort: FrontierEffort) -> int:
    """What searches up to this target's may take: 3/4 are for the first targets, of the longest segments."""
    return effort.expansions * (3 * targets + number) // (4 * targets)


@jit
def frontier_of(asked: FrontierQuestion, channels: OwnChannels) -> float:
    """Bound on the success of any adversary who sees these channels."""
    return frontier_in_sight(asked, _sight(channels, asked.marginal.shape[0], asked.marginal.shape[1]))


@shared
@jit
def frontier_in_sight(asked: FrontierQuestion, sight: Sight) -> float:
    """:func:`frontier_of` channels of any kind."""
    marginal, mistakes, outside = asked.marginal, asked.mistakes, asked.outside
    nothing = Scores(np.zeros(marginal.shape, np.int64), 1, 0)
    sources = _filled_sources(asked, sight, nothing)
    total = sources.success[: sources.begin[1], mistakes].sum()
    for x in range(marginal.shape[1]):
        if outside.shown[x] > 0.0:
            total += outside.shown[x] * sources.success[sources.number[0, x], mistakes, 0]
    return min(1.0, total * (1.0 + _ROUNDING))


@shared
@jit
def frontier_by_score(asked: FrontierQuestion, channels: OwnChannels, scores: Scores) -> Floats:
    """What is won with each law and score, (R, N), of channels with one level."""
    seen = _sight(channels, asked.marginal.shape[0], asked.marginal.shape[1])
    sight = Sight(False, seen.size, seen.level, seen.first, seen.sequences, seen.shown, seen.unshown)
    sources = _filled_sources(asked, sight, scores)
    return sources.success[: sources.begin[1], asked.mistakes] * (1.0 + _ROUNDING)


@jit
def _filled_sources(asked: FrontierQuestion, sight: Sight, scores: Scores) -> Sources:
    """All sources with what is won from there on."""
    person, marginal, mistakes, outside, effort = asked
    steps, places = marginal.shape
    trail = Trail(
        np.empty((steps, places)),
        np.empty(steps, np.int64),
        np.empty((steps, places)),
        np.empty((steps, mistakes + 1, places)),
        new_gains(steps, mistakes, places),
        np.zeros((steps, mistakes + 1, scores.size, places)),
    )
    tools = Tools(
        sight.is_noised,
        new_memory(person.chain, max(steps * effort.vectors, effort.shown_once), mistakes),
        new_lowering(places, mistakes),
        np.empty((mistakes + 1, places)),
        np.empty(places),
        np.empty(places),
        np.empty(mistakes + 1),
    )
    rows, ends = tools.memory.rows, outside.ends
    sources = _sources(asked, rows, sight, scores)
    targets = ends.shape[0] + (sight.shown[1:] > 0.0).sum()
    everything, total, count = np.zeros((mistakes + 1, scores.size)), np.ones(mistakes + 1), 0
    everything[:, scores.nought] = 1.0
    for e in range(ends.shape[0]):
        trail.reach[steps - 1] = ends[e]
        trail.genie[steps - 1] = ends[e]
        count += 1
        end = SegmentTarget(steps - 1, 1.0, everything, total, _expansions_up_to(count, targets, effort))
        _follow_back(person, sight, marginal, trail, sources, end, effort, tools)
    for t in range(steps - 1, -1, -1):
        for x in range(places):
            if t > 0 and sight.shown[t, x] > 0.0:
                _arrive(person, t - 1, x, trail.reach[t - 1])
                trail.genie[t - 1] = trail.reach[t - 1]
                count += 1
                number, expansions = sources.number[t, x], _expansions_up_to(count, targets, effort)
                won = sources.success[number] if number >= 0 else everything
                won, total = _lifted(won, scores.lift[t, x])
                target = SegmentTarget(t - 1, sight.shown[t, x], won, total, expansions)
                _follow_back(person, sight, marginal, trail, sources, target, effort, tools)
        _add_unsearched(person, sight, trail, sources, scores, t, tools)
    return sources


@jit
def _lifted(won: Floats, lift: int) -> tuple[Floats, Floats]:
    """What is won (s + 1, N) with each score so much higher, and of all scores, (s + 1,)."""
    lifted, total = np.zeros(won.shape), np.zeros(won.shape[0])
    for m in range(won.shape[0]):
        for n in range(max(0, -lift), min(won.shape[1], won.shape[1] - lift)):
            lifted[m, n + lift] = won[m, n]
            total[m] += won[m, n]
    return lifted, total
