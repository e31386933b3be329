"""How well a horizon can be guessed once all outputs of a log are known: one posterior, bound and attained.

Given the outputs, the horizon is one chain: what was released before it leaves a law of its first place,
what was released in it is evidence at each step, what was released after it a likelihood of its last place.
The frontier search bounds every guess under it, and where it leaves much open (many places, many mistakes
allowed) so does the moment bound; a guess fixed beforehand succeeds with a probability that is exact.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.bounds.patterns.moment import success_bound
from accounting.bounds.patterns.segments_kernel import find_nodes, segment_polynomials
from accounting.exposure.drawing import (
    Draws,
    OwnReleases,
    ReleasedSteps,
    ValueTables,
    Walker,
    begin_stream,
    draw_likelihoods,
    new_walker,
    own_releases,
    walk,
)
from accounting.hmm.frontier.search_kernel import (
    Completions,
    Found,
    SearchMemory,
    completion_gains,
    found_guess,
    new_completions,
    new_gains,
    new_memory,
    search,
)
from accounting.hmm.propagation import dot, marginals, predict, retreat
from models.numerics.arrays import Floats, Integers, Integers32, Words
from models.numerics.jit import bare_jit, inline, jit, pjit, shared
from models.priors.chain import ChainView, LocalChain, is_labelled, slot_of

_NEGLIGIBLE = 1e-4  # of the posterior's mass: what a search may leave open
_MUCH_ABOVE = 1.1  # bound to attained, where a search is far from its end


class LogHorizon(NamedTuple):
    """Steps ``first..last`` of a log, of whose guesses at most ``mistakes`` may be wrong.

    With ``shows_start`` the place in the log's first step is seen, which stands for all that came before it.
    """

    first: int
    last: int
    mistakes: int
    guess: Integers  # (T,) own places or labels, fixed before anything is released
    vectors: int  # expansions of a search for each step
    order: int  # of the moment bound, tried where a search leaves much open; 0: never
    shows_start: bool


class Success(NamedTuple):
    """Given the outputs; ``unmoved <= attained`` but for the search's slack, ``attained <= bound``."""

    bound: float  # on any guess
    attained: float  # by the best guess found
    unmoved: float  # by the guess that was fixed beforehand


class PosteriorWork(NamedTuple):
    """Scratch of one posterior."""

    law: Floats  # (K,) of the first place
    ahead: Floats  # (K,) of a later one
    given: Floats  # (K,) the same given a step's outputs
    won: Floats  # (K,) likelihood of what comes after, of each last place
    weight: Floats  # (T, K) evidence, scaled so that the whole mass is 1
    gains: Floats  # (T, s + 1, W), K in whole eights
    recursion: Completions
    wrong: Floats  # (s + 1, K), exactly so many mistakes, and the place
    wrong_ahead: Floats  # (s + 1, K), a step later
    memory: SearchMemory


@jit
def new_posterior_work(horizon: LogHorizon, chain: ChainView) -> PosteriorWork:
    """Scratch for posteriors of this horizon of a person with this chain."""
    steps, rows, places = horizon.guess.size, horizon.mistakes + 1, chain.start.shape[1]
    return PosteriorWork(
        np.empty(places),
        np.empty(places),
        np.empty(places),
        np.empty(places),
        np.empty((steps, places)),
        new_gains(steps, horizon.mistakes, places),
        new_completions(horizon.mistakes, places),
        np.empty((rows, places)),
        np.empty((rows, places)),
        new_memory(chain, steps * horizon.vectors, horizon.mistakes),
    )


@inline
def _condition(law: Floats, likelihood: Floats, step: int, given: Floats) -> float:
    """Fill ``given`` (K,) with the law given the evidence of a step; returns the evidence's probability."""
    total = 0.0
    for x in range(law.size):
        given[x] = law[x] * likelihood[step, x]
        total += given[x]
    if total > 0.0:
        scale = 1.0 / total
        for x in range(law.size):
            given[x] *= scale
    return total


@bare_jit
def _law_before(person: LocalChain, likelihood: Floats, first: int, work: PosteriorWork) -> None:
    """Fill ``work.law`` with that of the place in step ``first``, given the outputs before; 0s: underflow."""
    law, given = work.law, work.given
    for x in range(law.size):
        law[x] = person.start[x]
    for t in range(first):
        _condition(law, likelihood, t, given)
        predict(person.chain, slot_of(person, t), given, law)


@bare_jit
def _likelihood_after(person: LocalChain, likelihood: Floats, last: int, work: PosteriorWork) -> None:
    """Fill ``work.won`` with the likelihood of the outputs after ``last``, its maximum 1."""
    won, moved = work.won, work.given
    for x in range(won.size):
        won[x] = 1.0
    for t in range(likelihood.shape[0] - 1, last, -1):
        for x in range(won.size):
            moved[x] = won[x] * likelihood[t, x]
        retreat(person.chain, slot_of(person, t - 1), moved, won)
        top = 0.0
        for x in range(won.size):
            top = max(top, won[x])
        if top > 0.0:
            for x in range(won.size):
                won[x] /= top


@bare_jit
def _scale_evidence(horizon: LocalChain, evidence: Floats, work: PosteriorWork) -> bool:
    """Fill ``work.weight`` so that the paths' masses up to any step add up to 1, with ``won`` to the end.

    False where the outputs are too unlikely for floats.
    """
    steps, places = evidence.shape
    law, given = work.ahead, work.given
    for x in range(places):
        law[x] = horizon.start[x]
    for t in range(steps):
        total = _condition(law, evidence, t, given)
        if t == steps - 1:
            total *= dot(given, work.won)
        if not total > 0.0:  # an underflow, or no number after one
            return False
        scale = 1.0 / total
        for x in range(places):
            work.weight[t, x] = evidence[t, x] * scale
        if t < steps - 1:
            predict(horizon.chain, slot_of(horizon, t), given, law)
    return True


@bare_jit
def _unmoved(horizon: LocalChain, guess: Integers, work: PosteriorWork) -> float:
    """``Pr[d(X, guess) <= s]`` given the outputs: the recursion over (mistakes, place)."""
    now, ahead = work.wrong, work.wrong_ahead
    rows, places = now.shape
    by_label = is_labelled(horizon.chain)
    ahead[:] = 0.0
    for x in range(places):
        ahead[0, x] = horizon.start[x]
    for t in range(guess.size):
        if t > 0:
            for m in range(rows):
                predict(horizon.chain, slot_of(horizon, t - 1), now[m], ahead[m])
        if by_label:
            label = horizon.chain.label[slot_of(horizon, t)]
            cost = label[places]
            for m in range(rows):
                for x in range(places):
                    before = m if cost == 0 or label[x] == guess[t] else m - cost
                    now[m, x] = ahead[before, x] * work.weight[t, x] if before >= 0 else 0.0
            continue
        for m in range(rows):
            for x in range(places):
                now[m, x] = ahead[m - 1, x] * work.weight[t, x] if m > 0 else 0.0
            now[m, guess[t]] = ahead[m, guess[t]] * work.weight[t, guess[t]]
    total = 0.0
    for m in range(rows):
        total += dot(now[m], work.won)
    return total


@jit
def _moment_bound(horizon: LocalChain, question: LogHorizon, work: PosteriorWork) -> float:
    """``min_j S_j / C(T - s, j)`` of the posterior; spends ``work.weight``."""
    steps, places = work.weight.shape
    for x in range(places):
        work.weight[steps - 1, x] *= work.won[x]
    nodes = find_nodes(np.zeros((steps, places), np.bool_))
    no_powers = np.empty((0, places, places))
    moments = segment_polynomials(horizon, work.weight, nodes, question.order, no_powers)[1, 0]
    return success_bound(moments / moments[0], steps - question.mistakes) if moments[0] > 0.0 else 1.0


@bare_jit
def _search(inside: LocalChain, law: Floats, horizon: LogHorizon, slack: float, work: PosteriorWork) -> Found:
    """The frontier search of the horizon's steps with the evidence in ``work``."""
    last, expansions = horizon.last - horizon.first, horizon.guess.size * horizon.vectors
    completion_gains(inside, work.weight, last, work.won, work.recursion, work.gains)
    return search(
        inside, work.weight, law, 0, last, work.gains, horizon.mistakes, expansions, slack, work.memory
    )


@bare_jit
def success_by_search(
    person: LocalChain, likelihood: Floats, horizon: LogHorizon, work: PosteriorWork
) -> Success:
    """:func:`success_given` without the moment bound; 1, 0, 0 where outputs are too unlikely for floats."""
    first, last = horizon.first, horizon.last
    _law_before(person, likelihood, first, work)
    _likelihood_after(person, likelihood, last, work)
    inside = LocalChain(person.chain, work.law, slot_of(person, first))
    if not _scale_evidence(inside, likelihood[first : last + 1], work):
        return Success(1.0, 0.0, 0.0)
    found = _search(inside, work.law, horizon, _NEGLIGIBLE, work)
    return Success(min(1.0, found.bound), found.attained, _unmoved(inside, horizon.guess, work))


@shared
@jit
def success_given(
    person: LocalChain, likelihood: Floats, horizon: LogHorizon, work: PosteriorWork
) -> Success:
    """What can be guessed of a horizon given all outputs of its log.

    ``likelihood`` (L, K) is ``Pr[outputs of step t | place]`` up to a factor a step, of every step of the
    log that is known; ``person`` starts with the log.
    """
    found = success_by_search(person, likelihood, horizon, work)
    is_known = found.attained > 0.0 or found.bound < 1.0
    has_moments = horizon.order > 0 and not is_labelled(person.chain)
    if has_moments and is_known and found.bound > _MUCH_ABOVE * found.attained:
        inside = LocalChain(person.chain, work.law, slot_of(person, horizon.first))
        found = Success(min(found.bound, _moment_bound(inside, horizon, work)), found.attained, found.unmoved)
    return found


@jit
def fill_prior_guess(person: LocalChain, horizon: LogHorizon, work: PosteriorWork) -> float:
    """Fill ``horizon.guess`` with the best guess found without any output; its success is exact.

    ``person`` starts with the log.
    """
    law = marginals(person, horizon.first + 1)[horizon.first]
    inside = LocalChain(person.chain, law, slot_of(person, horizon.first))
    work.weight[:] = 1.0
    work.won[:] = 1.0
    found_guess(work.memory, _search(inside, law, horizon, 0.0, work), horizon.guess)
    return min(1.0, _unmoved(inside, horizon.guess, work))


# Drawn trajectories and outputs of one person's log, each judged by the posterior it leads to.


class OwnLog(NamedTuple):
    """One person, how to draw their trajectory, and what is released of it in ``L`` steps."""

    person: LocalChain
    walker: Walker
    releases: OwnReleases


class DrawWork(NamedTuple):
    """Scratch of one draw."""

    stream: Words  # (1,)
    trace: Integers32  # (L,)
    start: Floats  # (K,) law of the first place, as it is seen
    likelihood: Floats  # (L, K)
    posterior: PosteriorWork


@jit
def own_log(person: LocalChain, labels: Integers32, steps: ReleasedSteps, values: ValueTables) -> OwnLog:
    """What is released of a person whose places have the outcomes ``labels`` (L, K)."""
    return OwnLog(person, new_walker(person), own_releases(steps, labels, values))


@jit
def new_draw_work(log: OwnLog, horizon: LogHorizon) -> DrawWork:
    """Scratch for draws of this log."""
    steps, chain = log.releases.first.size - 1, log.person.chain
    stream, trace = np.empty(1, np.uint64), np.empty(steps, np.int32)
    start, likelihood = log.person.start.copy(), np.empty((steps, log.person.start.size))
    return DrawWork(stream, trace, start, likelihood, new_posterior_work(horizon, chain))


@jit
def draw_log(log: OwnLog, seed: int, paths: Integers32, likelihood: Floats) -> None:
    """Fill in trajectories (draws, T) of own places, and what each is seen as (draws, T, K)."""
    stream = np.empty(1, np.uint64)
    for i in range(paths.shape[0]):
        begin_stream(Draws(seed, i, 1), stream)
        walk(log.walker, stream, paths[i])
        draw_likelihoods(log.releases, paths[i], stream, likelihood[i])


@jit
def judge_draw(log: OwnLog, horizon: LogHorizon, draws: Draws, work: DrawWork) -> Success:
    """A trajectory and its outputs from the stream of ``draws``, and what can be guessed given them."""
    begin_stream(draws, work.stream)
    walk(log.walker, work.stream, work.trace)
    draw_likelihoods(log.releases, work.trace, work.stream, work.likelihood)
    if horizon.shows_start:
        work.start[:] = 0.0
        work.start[work.trace[0]] = 1.0
    person = LocalChain(log.person.chain, work.start, log.person.first_slot)
    return success_given(person, work.likelihood, horizon, work.posterior)


@pjit(lambda found, *_: len(found), least=64)
def judge_draws(begin: int, end: int, found: Floats, log: OwnLog, horizon: LogHorizon, seed: int) -> None:
    """Fill ``found`` (n, 3) with bound, attained and unmoved success; draw ``i`` is from block ``i``."""
    work = new_draw_work(log, horizon)
    for i in range(begin, end):
        success = judge_draw(log, horizon, Draws(seed, i, 1), work)
        found[i, 0], found[i, 1], found[i, 2] = success.bound, success.attained, success.unmoved
