"""Attacks replayed on one recorded trace, which the prior may call impossible."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.noised_draws_kernel import MAP, MARGINAL, wrong_steps
from accounting.attacks.simulation.noised_steps_kernel import (
    ReleasedSteps,
    publish_trace,
    relative_likelihoods,
)
from accounting.attacks.simulation.random_draws_kernel import new_stream
from accounting.hmm.forward_viterbi import POSSIBLE
from accounting.hmm.posterior import likeliest_places
from accounting.hmm.trace_decoding import decode_trace, new_decode_work
from models.numerics.jit import jit
from models.priors.chain import ChainView

IMPOSSIBLE = 2
"""Third number of a replay, after the successes of MAP and MARGINAL: draws the prior excludes."""


@jit
def _nothing_fits(log_likelihood: NDArray[np.float64], labels: NDArray[np.int32]) -> bool:
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
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    smallest: float,
    steps: ReleasedSteps,
    labels: NDArray[np.int32],
    outcome: NDArray[np.int32],
    trace: NDArray[np.int32],
    blind: NDArray[np.int32],
    mistakes: int,
    seed: int,
    block: int,
    draws: int,
) -> NDArray[np.int64]:
    """Successes of MAP and marginals in ``draws`` draws of the noise, and how many draws were impossible;
    (3,).

    ``chain.places`` must be ``0..K-1`` with ``labels`` (T, K). The truth is ``trace`` (T,), -1 where it is
    none of the own places, and ``outcome`` (T,) what it leads to. ``blind`` (2, T) are the guesses of both
    attacks without observations, made where these are impossible.
    """
    count, places = labels.shape
    stream = new_stream(seed, block)
    successes = np.zeros(3, np.int64)
    work = new_decode_work(count, places)
    forward = np.empty((count, places))
    log_likelihood = np.empty((count, steps.counted.shape[1]))
    likelihood = np.empty_like(log_likelihood)
    guess = np.empty(count, np.int32)
    for _ in range(draws):
        publish_trace(steps, outcome, stream, log_likelihood)
        relative_likelihoods(log_likelihood, steps.outcomes, likelihood)
        if _nothing_fits(log_likelihood, labels):
            status = 0
        else:
            status = decode_trace(chain, start, first_slot, smallest, labels, likelihood, work, guess).status
        if status != POSSIBLE:
            successes[IMPOSSIBLE] += 1
            successes[MAP] += wrong_steps(blind[MAP], trace) <= mistakes
            successes[MARGINAL] += wrong_steps(blind[MARGINAL], trace) <= mistakes
            continue
        successes[MAP] += wrong_steps(guess, trace) <= mistakes
        likeliest_places(chain, start, first_slot, labels, likelihood, forward, guess)
        successes[MARGINAL] += wrong_steps(guess, trace) <= mistakes
    return successes
