"""Monte Carlo attacks on noised, mixed or blurred releases: every draw is decoded.

On the graph of possible hits (:func:`graph_successes`) or, where sensors cover so many of the person's
places that the graph is larger than the chain, step by step (:func:`stepwise_successes`). Both try the same
two attacks on the same draws: the most likely path, and the most likely place of each step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.hit_graph_kernel import (
    SAFE_SWING,
    WalkTables,
    best_walk,
    likeliest_graph,
    new_graph_work,
    sum_walks,
    trace_walk,
    weigh_nodes,
)
from accounting.attacks.simulation.hit_tables_kernel import HitTables
from accounting.attacks.simulation.noised_steps_kernel import (
    ReleasedSteps,
    publish_trace,
    relative_likelihoods,
)
from accounting.attacks.simulation.random_draws_kernel import Walker, new_stream, walk
from accounting.hmm.forward_viterbi import POSSIBLE
from accounting.hmm.posterior import likeliest_places
from accounting.hmm.trace_decoding import decode_trace, new_decode_work
from models.numerics.jit import jit
from models.priors.chain import ChainView

MAP, MARGINAL = 0, 1
"""Rows of the results."""


@jit
def wrong_steps(guess: NDArray[np.int32], trace: NDArray[np.int32]) -> int:
    """Hamming distance of two traces (T,)."""
    wrong = 0
    for step in range(trace.size):
        wrong += guess[step] != trace[step]
    return wrong


@jit
def _see(
    walker: Walker,
    first_slot: int,
    steps: ReleasedSteps,
    labels: NDArray[np.int32],
    stream: NDArray[np.uint64],
    trace: NDArray[np.int32],
    outcome: NDArray[np.int32],
    log_likelihood: NDArray[np.float64],
) -> None:
    """One trajectory and what is published about it."""
    walk(walker, first_slot, stream, trace)
    for step in range(trace.size):
        outcome[step] = labels[step, trace[step]]
    publish_trace(steps, outcome, stream, log_likelihood)


@jit
def graph_successes(
    walker: Walker,
    first_slot: int,
    steps: ReleasedSteps,
    labels: NDArray[np.int32],
    tables: HitTables,
    walks: WalkTables,
    chain: ChainView,
    start: NDArray[np.float64],
    mistakes: int,
    seed: int,
    block: int,
    draws: int,
) -> NDArray[np.int64]:
    """Successes (2,) of both attacks in ``draws`` simulated traces, decoded on the graph of hits.

    Marginals of the few traces whose sums might leave the number range are taken step by step.
    """
    count, places = labels.shape
    stream = new_stream(seed, block)
    successes = np.zeros(2, np.int64)
    work = new_graph_work(tables.nodes.time.size, places)
    forward = np.empty((count, places))
    log_likelihood = np.empty((count, steps.counted.shape[1]))
    likelihood = np.empty_like(log_likelihood)
    trace, outcome, guess = np.empty((3, count), np.int32)
    for _ in range(draws):
        _see(walker, first_slot, steps, labels, stream, trace, outcome, log_likelihood)
        swing = weigh_nodes(tables, labels, log_likelihood, work)
        best_walk(tables, work)
        trace_walk(tables, work, guess)
        successes[MAP] += wrong_steps(guess, trace) <= mistakes
        if walks.is_safe and swing < SAFE_SWING:
            sum_walks(walks, work)
            likeliest_graph(tables, walks, work, guess)
        else:
            relative_likelihoods(log_likelihood, steps.outcomes, likelihood)
            likeliest_places(chain, start, first_slot, labels, likelihood, forward, guess)
        successes[MARGINAL] += wrong_steps(guess, trace) <= mistakes
    return successes


@jit
def stepwise_successes(
    walker: Walker,
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    smallest: float,
    steps: ReleasedSteps,
    labels: NDArray[np.int32],
    mistakes: int,
    seed: int,
    block: int,
    draws: int,
) -> NDArray[np.int64]:
    """Successes (2,) of both attacks in ``draws`` simulated traces, decoded step by step.

    ``chain.places`` must be ``0..K-1``: ``labels`` (T, K) are those of the own places.
    """
    count, places = labels.shape
    stream = new_stream(seed, block)
    successes = np.zeros(2, np.int64)
    work = new_decode_work(count, places)
    forward = np.empty((count, places))
    log_likelihood = np.empty((count, steps.counted.shape[1]))
    likelihood = np.empty_like(log_likelihood)
    trace, outcome, guess = np.empty((3, count), np.int32)
    for _ in range(draws):
        _see(walker, first_slot, steps, labels, stream, trace, outcome, log_likelihood)
        relative_likelihoods(log_likelihood, steps.outcomes, likelihood)
        found = decode_trace(chain, start, first_slot, smallest, labels, likelihood, work, guess)
        if found.status == POSSIBLE:
            successes[MAP] += wrong_steps(guess, trace) <= mistakes
            # Where this underflows the most likely path stays the guess.
            likeliest_places(chain, start, first_slot, labels, likelihood, forward, guess)
            successes[MARGINAL] += wrong_steps(guess, trace) <= mistakes
    return successes
