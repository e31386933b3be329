"""Certified Monte Carlo: what drawn outputs add to the best guess without any, bounded by betting.

Given the outputs ``y`` of a whole log, a horizon of it is one chain. Let ``v(y)`` bound the posterior success
of every guess, and ``z(y)`` be that of one guess fixed from the prior alone. ``E z`` is that guess's prior
success exactly, and ``v - z`` is never negative. So

    success of any adversary <= success of the guess without outputs + E[v - z],

and what is left to be estimated is what the outputs add: small, and of small variance. Beyond Koga et al.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np

from accounting.bounds.noised.posterior_kernel import (
    LogHorizon,
    OwnLog,
    fill_prior_guess,
    judge_draws,
    new_posterior_work,
    own_log,
)
from accounting.bounds.patterns import MOST_OPERATIONS, Size
from accounting.bounds.protocol import Bound, Effort, LogQuestion, Question, Scope
from accounting.exposure import Exposure
from accounting.exposure.drawing import released_steps, value_tables
from accounting.hmm.frontier.search_kernel import affordable_expansions
from accounting.numerics import upper_mean
from models.numerics.arrays import Floats
from models.priors.chain import LocalChain

_ROUNDING = 1e-12  # sums of thousands of products, each rounded


def sampled_success(
    exposure: Exposure, window: tuple[int, int], mistakes: int, effort: Effort
) -> float | None:
    """Success of any adversary who sees the whole log and guesses the steps of ``window`` (inclusive).

    It holds with the effort's confidence over its draws, for any mechanism with independent noise, sensors of
    several places and overlapping ones included, and any history and future. None without draws, where steps
    share noise (drawing them one by one would show less than is released), and where one search is too
    expensive. Draws come from a counter generator that no publisher accepts, one stream a draw: threads do
    not change a bit.
    """
    if effort.draws == 0 or not exposure.can_be_drawn:
        return None
    horizon = _horizon(exposure, window, mistakes, effort)
    if horizon.vectors == 0:
        return None
    own = np.arange(exposure.place_count, dtype=np.int32)
    person = LocalChain(exposure.chain._replace(places=own), exposure.start, exposure.first_slot)
    judged = judged_draws(drawn_log(person, exposure), horizon, effort.draws, effort.seed)
    return success_of(judged.without, judged.added, 1.0 - effort.confidence)


class JudgedDraws(NamedTuple):
    """What can be guessed given the outputs of each draw, (n,) each, and ``without`` any output."""

    without: float  # success of a guess fixed beforehand, exact
    bound: Floats
    attained: Floats
    unmoved: Floats  # by the guess fixed beforehand

    @property
    def added(self) -> Floats:
        """The most that the outputs of each draw add to the guess fixed beforehand, (n,)."""
        return np.maximum(0.0, self.bound - self.unmoved)


def drawn_log(person: LocalChain, exposure: Exposure) -> OwnLog:
    """How an exposure's log is drawn; ``person`` has its own places as the locations."""
    steps = released_steps(exposure.observations)
    return own_log(person, exposure.labels, steps, value_tables(steps.noise))


def judged_draws(log: OwnLog, horizon: LogHorizon, draws: int, seed: int) -> JudgedDraws:
    """So many trajectories and outputs, each judged."""
    without = fill_prior_guess(log.person, horizon, new_posterior_work(horizon, log.person.chain))
    found = np.empty((draws, 3))
    judge_draws(found, log, horizon, seed)
    return JudgedDraws(without, found[:, 0], found[:, 1], found[:, 2])


def success_of(without: float, added: Floats, failure_probability: float) -> float:
    """What no adversary exceeds, but with this probability over the draws that found what is ``added``."""
    return min(1.0, without + upper_mean(added, failure_probability) + _ROUNDING)


def _horizon(exposure: Exposure, window: tuple[int, int], mistakes: int, effort: Effort) -> LogHorizon:
    """The question, with the work of the moment bound divided among the draws."""
    first, last = window
    steps = last - first + 1
    size = replace(Size.of(exposure), steps=steps, hits=0, has_cycle=True)
    order = size.affordable_order(min(effort.order, steps - mistakes), 4.0 * MOST_OPERATIONS / effort.draws)
    vectors = affordable_expansions(exposure.chain, steps, mistakes, effort.vectors)
    return LogHorizon(first, last, mistakes, np.empty(steps, np.int64), vectors, order, False)


def _compute(question: Question) -> float | None:
    return sampled_success(
        question.exposure, (0, question.exposure.steps - 1), question.mistakes, question.effort
    )


def _within_log(asked: LogQuestion) -> float | None:
    """History and future of any kind enter exactly."""
    shown = asked.exposure.under(asked.exposure.observations[: asked.seen])
    return sampled_success(shown, (asked.first, asked.last), asked.mistakes, asked.effort)


SAMPLED = Bound(
    "sampled",
    idea="below, only with `--draws`; holds with the confidence stated",
    scope=Scope.ANY,
    cost="draws",
    compute=_compute,
    within_log=_within_log,
    is_certain=False,
)
