"""Attacks replayed on one recorded trace, which the prior may call impossible."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.attacks.simulation.noised_draws_kernel import MAP, MARGINAL, new_trace_work, wrong_steps
from accounting.exposure.drawing.noised_steps_kernel import (
    ReleasedSteps,
    publish_trace,
    relative_likelihoods,
)
from accounting.exposure.drawing.random_draws_kernel import Draws, new_stream
from accounting.hmm.forward_viterbi import POSSIBLE
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.hmm.posterior import likeliest_places
from accounting.hmm.trace_decoding import decode_trace, new_decode_work
from models.numerics.jit import jit

IMPOSSIBLE = 2
"""Third number of a replay, after the successes of MAP and MARGINAL: draws the prior excludes."""


class Recording(NamedTuple):
    """One recorded trace and what is published of it; places are the person's own, ``0..K-1``."""

    person: LocalChain
    smallest: float  # positive entry of the person's matrices
    steps: ReleasedSteps
    labels: NDArray[np.int32]  # (T, K) outcome of each place
    trace: NDArray[np.int32]  # (T,), -1 where it is none of the own places
    outcome: NDArray[np.int32]  # (T,) what it leads to
    blind: NDArray[np.int32]  # (2, T) guesses of both attacks without observations


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
def replay_successes(recording: Recording, mistakes: int, draws: Draws) -> NDArray[np.int64]:
    """Successes of MAP and marginals in draws of the noise, and how many draws were impossible; (3,).

    Where observations are impossible the attacks make their guesses without any.
    """
    person, labels, truth = recording.person, recording.labels, recording.trace
    stream = new_stream(draws)
    successes = np.zeros(3, np.int64)
    work = new_decode_work(labels.shape[0], labels.shape[1])
    seen = new_trace_work(labels, recording.steps)
    for _ in range(draws.number):
        publish_trace(recording.steps, recording.outcome, stream, seen.log_likelihood)
        relative_likelihoods(seen.log_likelihood, recording.steps.outcomes, seen.observed.likelihood)
        if _nothing_fits(seen.log_likelihood, labels):
            status = 0
        else:
            status = decode_trace(person, recording.smallest, seen.observed, work, seen.guess).status
        if status != POSSIBLE:
            successes[IMPOSSIBLE] += 1
            successes[MAP] += wrong_steps(recording.blind[MAP], truth) <= mistakes
            successes[MARGINAL] += wrong_steps(recording.blind[MARGINAL], truth) <= mistakes
            continue
        successes[MAP] += wrong_steps(seen.guess, truth) <= mistakes
        likeliest_places(person, seen.observed, seen.forward, seen.guess)
        successes[MARGINAL] += wrong_steps(seen.guess, truth) <= mistakes
    return successes
