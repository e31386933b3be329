"""The frontier bound of a noised horizon: a tree of levels of evidence inside each segment.

Each noised count is put in a few levels of evidence, or shows the person (``likelihood_levels``), which
reveals no less. After being shown the person begins anew, so the recursion over segments is that of exact
counts (``patterns.frontier_bound``): with ``g`` the bound on what comes from ``a`` to the next step ``b``
that shows the person,

    S_a[m] = sum_b sum_levels sum_j (g_(a,levels,b)[j] - g_(a,levels,b)[j - 1]) S_b[m - j],

where the levels between ``a`` and ``b`` weigh the places, and each sequence of levels has its own frontier
search. From each ``b`` the sequences are followed back in time, depth first: what is left to be won behind a
step is computed once for all ``a`` before it. Sequences that hardly ever come are charged in full: for them
``g`` is their probability, so that all of them together are one product with the matrix a step. An exact
count has one level, weight 0 where it counts; so exact and noised counts mix. Beyond Koga et al.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.frontier_bound import (
    Arrival,
    FrontierEffort,
    add_convolution,
    arrivals,
    bound_segment,
    departures,
)
from accounting.exposure.step_information.likelihood_levels import OwnChannels
from accounting.hmm.frontier.search_kernel import (
    Completions,
    SearchMemory,
    gains_of,
    guess_and_be_shown,
    new_gains,
    new_memory,
)
from accounting.hmm.propagation import dot, retreat
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain, Rows, slot_of

_ROUNDING = 1e-12  # sums of thousands of products, each rounded
SEQUENCES = 8  # of levels that are distinguished, for each vector of the searches
_LIGHT = 1e-5  # of success: what hardly ever comes is charged in full
_SLACK = 1e-3  # of the mass that comes to a target: its search may be off by so much
_SHARE = 0.1  # of a search's tolerance, for each of the many there are


class Sight(NamedTuple):
    """Which sensor counts at which place in which step."""

    channels: OwnChannels
    sensor: NDArray[np.int64]  # (T, K), number of the channel that counts there; -1 = none
    first: NDArray[np.int64]  # (T + 1,), first channel of each step
    sequences: NDArray[np.int64]  # (T,), combinations of levels in each step
    unshown: NDArray[np.float64]  # (T, K), probability that the person is not shown there


class Sources(NamedTuple):
    """Where segments begin: at a place shown in the step before; at first, with the history's laws."""

    law: NDArray[np.float64]  # (T, K, K), of the place in step t, given that x was shown in step t - 1
    share: NDArray[np.float64]  # (T, K), probability of being shown at x in step t
    success: NDArray[np.float64]  # (T, K, s + 1), S after being shown there
    first_law: NDArray[np.float64]  # (R, K)
    first_success: NDArray[np.float64]  # (R, s + 1)


class SegmentTarget(NamedTuple):
    """Where segments end."""

    last: int  # step before it
    shown: float  # probability that a person who is there is shown
    success: NDArray[np.float64]  # (s + 1,), S behind it
    expansions: int  # of all searches up to this target's; twice as many end following sequences of levels


class Trail(NamedTuple):
    """One sequence of levels, followed back from a target; row ``t`` is before the evidence of step ``t``."""

    weight: NDArray[np.float64]  # (T, K), evidence
    combination: NDArray[np.int64]  # (T,), of the levels in each step; -1 before the first
    reach: NDArray[np.float64]  # (T, K), probability of coming to the target
    genie: NDArray[np.float64]  # (T, s + 1, K), W of the genie (``frontier.search_kernel``)
    gains: NDArray[np.float64]  # (T, s + 1, W), of one more mistake
    light: NDArray[np.float64]  # (T, s + 1, K), won from each place on by sequences charged in full


class Tools(NamedTuple):
    """Memory of the searches."""

    memory: SearchMemory
    value: NDArray[np.float64]  # (s + 1, K)
    top: NDArray[np.float64]  # (K,)
    arriving: NDArray[np.float64]  # (K,)
    found: NDArray[np.float64]  # (s + 1,)


@jit
def _sight(channels: OwnChannels, steps: int, places: int) -> Sight:
    """Channels by step and place."""
    sensor, first = np.full((steps, places), -1), np.zeros(steps + 1, np.int64)
    sequences, unshown = np.ones(steps, np.int64), np.ones((steps, places))
    for g in range(channels.time.size):
        t, size = channels.time[g], channels.size[g]
        first[t + 1] += 1
        sequences[t] *= size
        absent, present = channels.absent[g, :size].sum(), channels.present[g, :size].sum()
        for x in range(places):
            unshown[t, x] *= present if channels.cover[g, x] else absent
            if channels.cover[g, x]:
                sensor[t, x] = g
    for t in range(steps):
        first[t + 1] += first[t]
    return Sight(channels, sensor, first, sequences, unshown)


@jit
def _sources(
    person: LocalChain,
    rows: Rows,
    sight: Sight,
    marginal: NDArray[np.float64],
    first_law: NDArray[np.float64],
    mistakes: int,
) -> Sources:
    """All sources of a horizon, with nothing won yet."""
    steps, places = marginal.shape
    law, share = np.zeros((steps, places, places)), np.zeros((steps, places))
    for t in range(steps):
        for x in range(places):
            if sight.sensor[t, x] >= 0:
                share[t, x] = marginal[t, x] * sight.channels.shown[sight.sensor[t, x]]
            if share[t, x] > 0.0 and t + 1 < steps:
                departures(person, rows, t, x, law[t + 1, x])
    success = np.zeros((steps, places, mistakes + 1))
    return Sources(law, share, success, first_law, np.zeros((first_law.shape[0], mistakes + 1)))


@inline
def _weigh(sight: Sight, trail: Trail, t: int) -> None:
    """The evidence of step ``t`` if its sensors are at the levels of the trail's combination."""
    weight, code = trail.weight, trail.combination[t]
    absent, present, cover = sight.channels.absent, sight.channels.present, sight.channels.cover
    for x in range(weight.shape[1]):
        weight[t, x] = 1.0
    for g in range(sight.first[t], sight.first[t + 1]):
        level = code % sight.channels.size[g]
        code //= sight.channels.size[g]
        for x in range(weight.shape[1]):
            weight[t, x] *= present[g, level] if cover[g, x] else absent[g, level]


@bare_jit
def _step_back(person: LocalChain, trail: Trail, t: int, tools: Tools) -> None:
    """Row ``t - 1`` of the trail from row ``t`` and its evidence."""
    chain, slot = person.chain, slot_of(person, t - 1)
    value, arriving = tools.value, tools.arriving
    for m in range(value.shape[0]):
        for x in range(arriving.size):
            value[m, x] = trail.genie[t, m, x] * trail.weight[t, x]
    guess_and_be_shown(chain, slot, Completions(value, trail.genie[t - 1], tools.top))
    gains_of(trail.genie[t - 1], trail.gains[t - 1])
    retreat(chain, slot, arriving, trail.reach[t - 1])


@bare_jit
def _bound_from(
    person: LocalChain,
    trail: Trail,
    first: int,
    law: NDArray[np.float64],
    share: float,
    success: NDArray[np.float64],
    target: SegmentTarget,
    effort: FrontierEffort,
    tools: Tools,
) -> None:
    """Add what is won from a source, which begins with step ``first``, by way of the trail to the target.

    ``law`` is that of the place in ``first``, ``share`` how likely the horizon comes to the source, and
    ``success`` the source's ``S``, which grows.
    """
    found, arriving = tools.found, tools.arriving
    mass, likeliest = 0.0, 0.0
    for x in range(law.size):
        mass += law[x] * arriving[x]
        likeliest = max(likeliest, law[x] * trail.weight[first, x] * trail.genie[first, 0, x])
    if mass > 0.0:
        share *= target.shown
        tolerance = effort.tolerance * _SHARE + _SLACK * mass * share
        bound_segment(
            person,
            trail.weight,
            law,
            first,
            target.last,
            trail.gains,
            Arrival(mass, likeliest),
            share,
            tolerance,
            effort.vectors,
            target.expansions,
            tools.memory,
            found,
            target.success,
        )
        for m in range(found.size):
            found[m] *= target.shown
        add_convolution(success, found, target.success)


@bare_jit
def _follow_back(
    person: LocalChain,
    sight: Sight,
    marginal: NDArray[np.float64],
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
        comes = 0.0
        for x in range(arriving.size):
            arriving[x] = trail.weight[t, x] * trail.reach[t, x]
            comes += marginal[t, x] * arriving[x]
        if comes * target.shown <= _LIGHT or tools.memory.spent[0] >= 2 * target.expansions:
            for m in range(success.size):
                for x in range(arriving.size):
                    trail.light[t, m, x] += arriving[x] * (target.shown * success[m])
            continue
        if t == 0:
            for r in range(sources.first_law.shape[0]):
                law, won = sources.first_law[r], sources.first_success[r]
                _bound_from(person, trail, t, law, 1.0, won, target, effort, tools)
            continue
        for x in range(arriving.size):
            share = sources.share[t - 1, x]
            if share > 0.0:
                law, won = sources.law[t, x], sources.success[t - 1, x]
                _bound_from(person, trail, t, law, share, won, target, effort, tools)
        _step_back(person, trail, t, tools)
        t -= 1
        trail.combination[t] = -1


@jit
def _add_light(person: LocalChain, sight: Sight, trail: Trail, sources: Sources, t: int) -> None:
    """Add to ``S`` of step ``t - 1`` what needs no search, and move ``light`` back to there.

    That is what the sequences charged in full win, and what is won if the place is shown again in step ``t``.
    """
    places, light = trail.reach.shape[1], trail.light
    won, moved = np.empty(places), np.empty(places)
    for m in range(light.shape[1]):
        for x in range(places):
            sensor = sight.sensor[t, x]
            again = sight.channels.shown[sensor] * sources.success[t, x, m] if sensor >= 0 else 0.0
            won[x] = light[t, m, x] + again
        if t == 0:
            for r in range(sources.first_law.shape[0]):
                sources.first_success[r, m] += dot(sources.first_law[r], won)
            continue
        retreat(person.chain, slot_of(person, t - 1), won, moved)
        for x in range(places):
            success = sources.success[t - 1, x, m] + moved[x]
            sources.success[t - 1, x, m] = min(1.0, success) if sources.share[t - 1, x] > 0.0 else 1.0
        retreat(person.chain, slot_of(person, t - 1), light[t, m], moved)
        for x in range(places):
            light[t - 1, m, x] += moved[x] * sight.unshown[t - 1, x]


@inline
def _expansions_up_to(number: int, targets: int, effort: FrontierEffort) -> int:
    """What searches up to this target's may take: 3/4 are for the first targets, of the longest segments."""
    return effort.expansions * (3 * targets + number) // (4 * targets)


@jit
def noised_frontier(
    person: LocalChain,
    channels: OwnChannels,
    marginal: NDArray[np.float64],
    laws: NDArray[np.float64],
    ends: NDArray[np.float64],
    mistakes: int,
    effort: FrontierEffort,
) -> float:
    """Bound on the success of any adversary who sees ``channels`` over the steps of ``marginal`` (T, K).

    ``marginal`` is ``Pr[X_t = x]``; ``laws`` (R, K) those of the first place, as of ``noised_history_laws``;
    ``ends`` (E, K) the likelihood of what is seen after the last one, as of ``future_ends``. Of the person
    the chain and the first slot are read.
    """
    steps, places = marginal.shape
    sight = _sight(channels, steps, places)
    trail = Trail(
        np.empty((steps, places)),
        np.empty(steps, np.int64),
        np.empty((steps, places)),
        np.empty((steps, mistakes + 1, places)),
        new_gains(steps, mistakes, places),
        np.zeros((steps, mistakes + 1, places)),
    )
    tools = Tools(
        new_memory(person.chain, steps * effort.vectors, mistakes),
        np.empty((mistakes + 1, places)),
        np.empty(places),
        np.empty(places),
        np.empty(mistakes + 1),
    )
    sources = _sources(person, tools.memory.rows, sight, marginal, laws, mistakes)
    sources.success[steps - 1] = 1.0
    targets = ends.shape[0] + (sight.sensor[1:] >= 0).sum()
    number = 0
    for e in range(ends.shape[0]):
        trail.reach[steps - 1] = ends[e]
        trail.genie[steps - 1] = ends[e]
        number += 1
        end = SegmentTarget(steps - 1, 1.0, np.ones(mistakes + 1), _expansions_up_to(number, targets, effort))
        _follow_back(person, sight, marginal, trail, sources, end, effort, tools)
    for t in range(steps - 1, -1, -1):
        for x in range(places):
            if t > 0 and sight.sensor[t, x] >= 0:
                arrivals(person, t - 1, x, trail.reach[t - 1])
                trail.genie[t - 1] = trail.reach[t - 1]
                number += 1
                expansions = _expansions_up_to(number, targets, effort)
                target = SegmentTarget(
                    t - 1, channels.shown[sight.sensor[t, x]], sources.success[t, x], expansions
                )
                _follow_back(person, sight, marginal, trail, sources, target, effort, tools)
        _add_light(person, sight, trail, sources, t)
    total = 0.0
    for r in range(laws.shape[0]):
        total += sources.first_success[r, mistakes]
    return min(1.0, total * (1.0 + _ROUNDING))
