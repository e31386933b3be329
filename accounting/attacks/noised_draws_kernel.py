"""Monte Carlo attacks on noised, mixed or blurred releases: every draw is decoded.

On the graph of possible hits (:func:`graph_successes`) or, where sensors cover so many of the person's
places that the graph is larger than the chain, step by step (:func:`stepwise_successes`). Both try the same
two attacks on the same draws: the most likely path, and the most likely place of each step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.attacks.hit_graph_kernel import (
    SAFE_SWING,
    WalkTables,
    best_walk,
    likeliest_graph,
    new_graph_work,
    sum_walks,
    trace_walk,
    weigh_nodes,
)
from accounting.attacks.hit_tables_kernel import HitTables
from accounting.exposure.drawing import (
    Draws,
    NoiseTables,
    OwnReleases,
    ReleasedSteps,
    Walker,
    draw,
    draw_likelihoods,
    new_stream,
    publish_trace,
    relative_likelihoods,
    walk,
)
from accounting.hmm.forward_viterbi import POSSIBLE, Observed, new_recursion
from accounting.hmm.trace_decoding import decode_trace, likeliest_places, posterior
from models.numerics.arrays import Floats, Integers, Integers32, Words
from models.numerics.jit import bare_jit, inline, jit
from models.priors.chain import LocalChain

MAP, MARGINAL = 0, 1
"""Columns of the results."""

WON, GAINED, LOST = 0, 1, 2
"""Rows of the results: draws an attack is right in; of them those its blind guess is wrong in; the reverse.

A blind guess is what the attack guesses before anything is released. How often that is right is known
exactly, so that only the difference has to be drawn (a control variate): with much noise it is nearly none.
"""


@bare_jit
def wrong_steps(guess: Integers32, trace: Integers32) -> int:
    """Hamming distance of two traces (T,)."""
    wrong = 0
    for step in range(trace.size):
        wrong += guess[step] != trace[step]
    return wrong


class Simulation(NamedTuple):
    """One person's trajectories and what is published of them; places are the person's own, ``0..K-1``."""

    walker: Walker
    steps: ReleasedSteps
    labels: Integers32  # (T, K) outcome of each place
    person: LocalChain
    smallest: float  # positive entry of the person's matrices
    blind: Integers32  # (2, T) guesses of both attacks before anything is released


class TraceWork(NamedTuple):
    """Scratch of one simulated trace: the truth, what is seen of it, and the guess."""

    trace: Integers32  # (T,)
    outcome: Integers32  # (T,)
    log_likelihood: Floats  # (T, O)
    observed: Observed
    forward: Floats  # (T, K)
    guess: Integers32  # (T,)


@jit
def new_trace_work(labels: Integers32, steps: ReleasedSteps) -> TraceWork:
    """Scratch for traces of as many steps as ``labels`` (T, K) has."""
    count = labels.shape[0]
    log_likelihood = np.empty((count, steps.counted.shape[1]))
    trace, outcome, guess = np.empty((3, count), np.int32)
    observed = Observed(labels, np.empty_like(log_likelihood))
    return TraceWork(trace, outcome, log_likelihood, observed, np.empty(labels.shape), guess)


@inline
def count_draw(
    found: Integers, attack: int, wrong: int, blind: Integers32, trace: Integers32, mistakes: int
) -> None:
    """Add one draw, in which ``attack`` makes so many ``wrong`` steps, to ``found`` (3, 2)."""
    is_won, is_won_blind = wrong <= mistakes, wrong_steps(blind[attack], trace) <= mistakes
    found[WON, attack] += is_won
    found[GAINED, attack] += is_won and not is_won_blind
    found[LOST, attack] += is_won_blind and not is_won


@inline
def _count_guess(found: Integers, attack: int, seen: TraceWork, blind: Integers32, mistakes: int) -> None:
    """:func:`count_draw` of the guess in ``seen``."""
    count_draw(found, attack, wrong_steps(seen.guess, seen.trace), blind, seen.trace, mistakes)


@inline
def _simulate(simulation: Simulation, stream: Words, seen: TraceWork) -> None:
    """One trajectory and what is published about it."""
    walk(simulation.walker, stream, seen.trace)
    for step in range(seen.trace.size):
        seen.outcome[step] = simulation.labels[step, seen.trace[step]]
    publish_trace(simulation.steps, seen.outcome, stream, seen.log_likelihood)


@jit
def graph_successes(
    simulation: Simulation, tables: HitTables, walks: WalkTables, mistakes: int, draws: Draws
) -> Integers:
    """How both attacks go (3, 2) in simulated traces, decoded on the graph of hits.

    Marginals of the few traces whose sums might leave the number range are taken step by step.
    """
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    labels, person = simulation.labels, simulation.person
    work = new_graph_work(tables.nodes.time.size, labels.shape[1])
    seen = new_trace_work(labels, simulation.steps)
    for _ in range(draws.number):
        _simulate(simulation, stream, seen)
        swing = weigh_nodes(tables, labels, seen.log_likelihood, work)
        best_walk(tables, work)
        trace_walk(tables, work, seen.guess)
        _count_guess(found, MAP, seen, simulation.blind, mistakes)
        if walks.is_safe and swing < SAFE_SWING:
            sum_walks(walks, work)
            likeliest_graph(tables, walks, work, seen.guess)
        else:
            relative_likelihoods(seen.log_likelihood, simulation.steps.outcomes, seen.observed.likelihood)
            likeliest_places(person, seen.observed, seen.forward, seen.guess)
        _count_guess(found, MARGINAL, seen, simulation.blind, mistakes)
    return found


@jit
def stepwise_successes(simulation: Simulation, mistakes: int, draws: Draws) -> Integers:
    """How both attacks go (3, 2) in simulated traces, decoded step by step."""
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    labels, person = simulation.labels, simulation.person
    work = new_recursion(labels.shape[0], labels.shape[1])
    seen = new_trace_work(labels, simulation.steps)
    for _ in range(draws.number):
        _simulate(simulation, stream, seen)
        relative_likelihoods(seen.log_likelihood, simulation.steps.outcomes, seen.observed.likelihood)
        # What no place explains, within the range of numbers, is guessed without it.
        seen.guess[:] = simulation.blind[MAP]
        decoded = decode_trace(person, simulation.smallest, seen.observed, work, seen.guess)
        _count_guess(found, MAP, seen, simulation.blind, mistakes)
        if decoded.status == POSSIBLE:
            # Where this underflows the most likely path stays the guess.
            likeliest_places(person, seen.observed, seen.forward, seen.guess)
        _count_guess(found, MARGINAL, seen, simulation.blind, mistakes)
    return found


# Monte Carlo attacks on counts over windows, as they are published.
#
# The posterior of the place alone is not enough while a window is open: what its count will say also depends
# on what it has counted so far. So what is decoded is a chain of states, a place with these counts
# (:mod:`accounting.bounds.noised.own_counts_bound`). A window's value ``y`` weighs each state of its last
# step with the noise's probability of ``y - n``. A path of states is a path of places; of a step the likelier
# place is that of the most states together (math3.md, 19.5).


class WindowSimulation(NamedTuple):
    """One person's trajectories of ``S`` states, and ``W`` counts over windows beside those of steps."""

    walker: Walker
    person: LocalChain
    smallest: float  # positive entry of the chain's matrices
    place: Integers32  # (T, S) own place of each state
    places: int
    releases: OwnReleases  # what is counted in single steps
    last: Integers  # (W,) the step that each window ends with
    counted: Integers  # (W, S) how often it has counted each state of that step
    law: Integers  # (W,) of its noise
    noise: NoiseTables
    blind: Integers32  # (2, T) guesses of both attacks before anything is released


@bare_jit
def _weigh_windows(
    simulation: WindowSimulation, trace: Integers32, stream: Words, likelihood: Floats
) -> None:
    """Publish every window's count of a ``trace`` of states, and weigh ``likelihood`` (T, S) with it."""
    tables, log_probability = simulation.noise.tables, simulation.noise.log_probability
    for w in range(simulation.last.size):
        step, law, counted = simulation.last[w], simulation.law[w], simulation.counted[w]
        begin, end = tables.first[law], tables.first[law + 1]
        seen = begin + counted[trace[step]] + draw(tables, law, stream)
        for state in range(counted.size):
            index = seen - counted[state]
            is_possible = begin <= index < end
            likelihood[step, state] *= np.exp(log_probability[index]) if is_possible else 0.0


@bare_jit
def _guess_places(law: Floats, place: Integers32, chance: Floats, guess: Integers32) -> None:
    """The likeliest place of each step, by the ``law`` (T, S) of states; ties at the lowest index."""
    for step in range(guess.size):
        chance[:] = 0.0
        for state in range(law.shape[1]):
            chance[place[step, state]] += law[step, state]
        guess[step] = np.argmax(chance)


@jit
def window_successes(simulation: WindowSimulation, mistakes: int, draws: Draws) -> Integers:
    """How both attacks go (3, 2) in simulated traces, decoded state by state."""
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    person, place, blind = simulation.person, simulation.place, simulation.blind
    steps, states = place.shape
    trace, truth, path, guess = np.empty((4, steps), np.int32)
    likelihood, forward, chance = (
        np.empty((steps, states)),
        np.empty((steps, states)),
        np.empty(simulation.places),
    )
    own = np.empty((steps, states), np.int32)
    own[:] = np.arange(states)
    observed, work = Observed(own, likelihood), new_recursion(steps, states)
    for _ in range(draws.number):
        walk(simulation.walker, stream, trace)
        draw_likelihoods(simulation.releases, trace, stream, likelihood)
        _weigh_windows(simulation, trace, stream, likelihood)
        decoded = decode_trace(person, simulation.smallest, observed, work, path)
        for step in range(steps):
            truth[step], guess[step] = place[step, trace[step]], blind[MAP, step]
            if decoded.status == POSSIBLE:
                guess[step] = place[step, path[step]]
        count_draw(found, MAP, wrong_steps(guess, truth), blind, truth, mistakes)
        if decoded.status == POSSIBLE and posterior(person, observed, forward):
            _guess_places(forward, place, chance, guess)  # where this underflows the path stays the guess
        count_draw(found, MARGINAL, wrong_steps(guess, truth), blind, truth, mistakes)
    return found


# Attacks replayed on one recorded trace, which the prior may call impossible.

IMPOSSIBLE = 2
"""Third number of a replay, after the successes of MAP and MARGINAL: draws the prior excludes."""


@jit
def _nothing_fits(log_likelihood: Floats, labels: Integers32) -> bool:
    """Whether some step's observation fits none of the person's own places."""
    for step in range(labels.shape[0]):
        best = -np.inf
        for x in range(labels.shape[1]):
            best = max(best, log_likelihood[step, labels[step, x]])
        if best == -np.inf:
            return True
    return False


@jit
def replay_successes(
    person: LocalChain,
    smallest: float,
    steps: ReleasedSteps,
    labels: Integers32,
    truth: Integers32,
    outcome: Integers32,
    blind: Integers32,
    mistakes: int,
    draws: Draws,
) -> Integers:
    """Successes of MAP and marginals in draws of the noise, and how many draws were impossible; (3,).

    ``smallest`` is the smallest positive entry of the person's matrices, ``labels`` (T, K) the outcome of
    each own place, ``truth`` (T,) the recorded trace in own places (-1 for none of them) and ``outcome`` (T,)
    what it leads to. Where observations are impossible the attacks make their ``blind`` guesses (2, T).
    """
    stream = new_stream(draws)
    successes = np.zeros(3, np.int64)
    work = new_recursion(labels.shape[0], labels.shape[1])
    seen = new_trace_work(labels, steps)
    for _ in range(draws.number):
        publish_trace(steps, outcome, stream, seen.log_likelihood)
        relative_likelihoods(seen.log_likelihood, steps.outcomes, seen.observed.likelihood)
        if _nothing_fits(seen.log_likelihood, labels):
            status = 0
        else:
            status = decode_trace(person, smallest, seen.observed, work, seen.guess).status
        if status != POSSIBLE:
            successes[IMPOSSIBLE] += 1
            successes[MAP] += wrong_steps(blind[MAP], truth) <= mistakes
            successes[MARGINAL] += wrong_steps(blind[MARGINAL], truth) <= mistakes
            continue
        successes[MAP] += wrong_steps(seen.guess, truth) <= mistakes
        likeliest_places(person, seen.observed, seen.forward, seen.guess)
        successes[MARGINAL] += wrong_steps(seen.guess, truth) <= mistakes
    return successes


# Monte Carlo attacks on raw counts: between two hits the guess is looked up, nothing is decoded.


@jit
def wrong_between(guess: Integers32, a: int, b: int, begin: int, finish: int, trace: Integers32) -> int:
    """Mistakes of the guess between nodes ``a`` and ``b`` (times ``begin`` and ``finish``, both excluded)."""
    wrong = 0
    for step in range(begin + 1, finish):
        wrong += guess[a, b, step] != trace[step]
    return wrong


@jit
def mistakes_of_trace(tables: HitTables, guess: Integers32, trace: Integers32) -> int:
    """Mistakes the attack makes on one true trace (T,), whose hits it sees."""
    wrong = 0
    a = 0
    begin = -1
    for step in range(trace.size):
        b = tables.node_of[step, trace[step]]
        if b >= 0:
            wrong += wrong_between(guess, a, b, begin, step, trace)
            a, begin = b, step
    return wrong + wrong_between(guess, a, tables.nodes.time.size - 1, begin, trace.size, trace)


@jit
def raw_successes(
    walker: Walker, tables: HitTables, guesses: Integers32, blind: Integers32, mistakes: int, draws: Draws
) -> Integers:
    """How both attacks go (3, 2) in simulated trajectories.

    ``guesses[attack, a, b, t]`` as in :class:`~accounting.attacks.hit_tables_kernel.HitTables`,
    ``blind[attack, t]`` without any release.
    """
    stream = new_stream(draws)
    found = np.zeros((3, 2), np.int64)
    trace = np.empty(tables.node_of.shape[0], np.int32)
    for _ in range(draws.number):
        walk(walker, stream, trace)
        for attack in range(guesses.shape[0]):
            wrong = mistakes_of_trace(tables, guesses[attack], trace)
            count_draw(found, attack, wrong, blind, trace, mistakes)
    return found
