"""Certified success against one horizon of a longer log, at the moment or in hindsight.

What was released before and after the horizon enters every bound in a way that holds for any history:

- the information of :mod:`accounting.exposure.history` under the binary divergence;
- the bounds of the horizon on its own plus ``sqrt(I / 2)``, ``I`` what the outside says about the ends: the
  law of the trace moves by no more in total variation on average (Pinsker, Jensen), and with it any success;
- the raw horizon that reveals the place at the ends the outside speaks of;
- without a future, the mixture of the posteriors that a raw history leaves, each with its own bound;
- with draws, the sampled bound, into which history and future of any kind enter exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.certified import certify
from accounting.bounds.noised import SAMPLED, sampled_success
from accounting.bounds.patterns import LEAST_PATTERN, MOST_OPERATIONS, Size
from accounting.bounds.patterns.raw_success_kernel import RawQuestion, raw_success
from accounting.bounds.protocol import Effort
from accounting.bounds.registry import question
from accounting.exposure import (
    Exposure,
    baseline,
    check_mistakes,
    history_mixture,
    horizon_information,
    prior_guess,
    window_of,
)
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.numerics.divergence_root_kernel import divergence_root

_MOST_BELIEFS = 64
"""Posteriors of a history that get a bound of their own; the lightest others are charged in full."""


@dataclass(frozen=True, slots=True)
class HorizonRisk:
    """``certified`` bounds any adversary's success; ``by`` names the bound that gave it."""

    first: int
    last: int
    in_hindsight: bool
    information_nats: float
    certified: float
    by: str
    confidence: float
    baseline: float


def horizon_risk(
    exposure: Exposure,
    first: int,
    last: int,
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> HorizonRisk:
    """Risk of the steps ``first..last`` of a log whose every step is in ``exposure``.

    :class:`~accounting.exceptions.HorizonError` for a window outside the log or ``mistakes`` beyond it.
    """
    effort = effort or Effort()
    window = window_of(exposure, first, last)
    check_mistakes(mistakes, window.steps)
    released = horizon_information(exposure, first, last)
    before, after = released.carried, released.later if in_hindsight else 0.0
    information = released.in_hindsight if in_hindsight else released.at_the_moment
    within = certify(question(window, mistakes, replace(effort, draws=0)), 0.0)
    bounds = {
        "divergence": float(divergence_root(information, prior_guess(window, mistakes).best)),
        "shifted": min(1.0, within.value + sqrt(0.5 * (before + after))),
        "ends revealed": _with_ends_revealed(window, mistakes, before > 0.0, after > 0.0, effort),
    }
    if after == 0.0 and before > 0.0:
        bounds["history"] = _mixture(exposure, window, first, mistakes, effort)
    seen = exposure.observations if in_hindsight else exposure.observations[: last + 1]
    sampled = sampled_success(exposure.under(seen), (first, last), mistakes, effort)
    if sampled is not None:
        bounds[SAMPLED.name] = sampled
    by = min(bounds, key=bounds.__getitem__)
    without = baseline(window, mistakes).success
    return HorizonRisk(
        first=first,
        last=last,
        in_hindsight=in_hindsight,
        information_nats=information,
        certified=min(1.0, max(bounds[by], without)),
        by=by,
        confidence=effort.confidence if by == SAMPLED.name else 1.0,
        baseline=without,
    )


def _raw(
    window: Exposure, start: NDArray[np.float64], hits: NDArray[np.bool_], mistakes: int, effort: Effort
) -> float:
    """Success against a raw schedule from a given start."""
    size = replace(Size.of(window), hits=int(hits.sum()))
    order = size.affordable_order(min(effort.order, window.steps - mistakes), MOST_OPERATIONS)
    person = LocalChain(window.chain, start, window.first_slot)
    return float(raw_success(person, hits, RawQuestion(mistakes, order, LEAST_PATTERN, False)))


def _with_ends_revealed(window: Exposure, mistakes: int, before: bool, after: bool, effort: Effort) -> float:
    """To an adversary who is shown the place at the ends of which the outside says anything."""
    hits = window.hits.copy()
    if before:
        hits[0] = window.marginal[0] > 0.0
    if after:
        hits[-1] = window.marginal[-1] > 0.0
    return _raw(window, window.start, hits, mistakes, effort)


def _mixture(exposure: Exposure, window: Exposure, first: int, mistakes: int, effort: Effort) -> float:
    """Each posterior of the history with its own bound; light ones beyond the limit count as success."""
    mixture = history_mixture(exposure, first)
    heaviest = np.argsort(-mixture.weights, kind="stable")[:_MOST_BELIEFS]
    seen = window.labels > 0
    total = 1.0 - float(mixture.weights[heaviest].sum())
    for r in heaviest:
        if mixture.weights[r] > 0.0:
            start = mixture.beliefs[r]
            reachable = window.starting_from(start).marginal > 0.0
            total += float(mixture.weights[r]) * _raw(window, start, seen & reachable, mistakes, effort)
    return min(1.0, total)
