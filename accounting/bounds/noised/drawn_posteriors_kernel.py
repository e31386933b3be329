"""Drawn trajectories and outputs of one person's log, each judged by the posterior it leads to."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.posterior_kernel import (
    LogHorizon,
    PosteriorWork,
    Success,
    new_posterior_work,
    success_given,
)
from accounting.exposure.drawing.noised_steps_kernel import ReleasedSteps
from accounting.exposure.drawing.own_releases_kernel import (
    OwnReleases,
    ValueTables,
    draw_likelihoods,
    own_releases,
)
from accounting.exposure.drawing.random_draws_kernel import Draws, Walker, begin_stream, new_walker, walk
from accounting.hmm.local_chain_kernel import LocalChain
from models.numerics.jit import jit, pjit


class OwnLog(NamedTuple):
    """One person, how to draw their trajectory, and what is released of it in ``L`` steps."""

    person: LocalChain
    walker: Walker
    releases: OwnReleases


class DrawWork(NamedTuple):
    """Scratch of one draw."""

    stream: NDArray[np.uint64]  # (1,)
    trace: NDArray[np.int32]  # (L,)
    likelihood: NDArray[np.float64]  # (L, K)
    posterior: PosteriorWork


@jit
def own_log(
    person: LocalChain, labels: NDArray[np.int32], steps: ReleasedSteps, values: ValueTables
) -> OwnLog:
    """What is released of somebody whose places have the outcomes ``labels`` (L, K)."""
    return OwnLog(person, new_walker(person), own_releases(steps, labels, values))


@jit
def new_draw_work(log: OwnLog, horizon: LogHorizon) -> DrawWork:
    """Scratch for draws of this log."""
    steps, chain = log.releases.first.size - 1, log.person.chain
    likelihood = np.empty((steps, log.person.start.size))
    stream, trace = np.empty(1, np.uint64), np.empty(steps, np.int32)
    return DrawWork(stream, trace, likelihood, new_posterior_work(horizon, chain))


@jit
def judge_draw(log: OwnLog, horizon: LogHorizon, draws: Draws, work: DrawWork) -> Success:
    """A trajectory and its outputs from the stream of ``draws``, and what can be guessed given them."""
    begin_stream(draws, work.stream)
    walk(log.walker, work.stream, work.trace)
    draw_likelihoods(log.releases, work.trace, work.stream, work.likelihood)
    return success_given(log.person, work.likelihood, horizon, work.posterior)


@pjit(lambda found, *_: len(found), least=64)
def judge_draws(
    begin: int, end: int, found: NDArray[np.float64], log: OwnLog, horizon: LogHorizon, seed: int
) -> None:
    """Fill ``found`` (n, 3) with bound, attained and unmoved success; draw ``i`` is from block ``i``."""
    work = new_draw_work(log, horizon)
    for i in range(begin, end):
        success = judge_draw(log, horizon, Draws(seed, i, 1), work)
        found[i, 0], found[i, 1], found[i, 2] = success.bound, success.attained, success.unmoved
