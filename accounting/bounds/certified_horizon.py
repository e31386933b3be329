"""Certified success against one horizon of a longer log, at the moment or in hindsight.

What was released before and after the horizon enters every bound in a way that holds for any history:

- the information of :mod:`accounting.exposure.history` under the binary divergence;
- the bounds of the horizon on its own plus ``sqrt(I / 2)``, ``I`` what the outside says about the ends: the
  law of the trace moves by no more in total variation on average (Pinsker, Jensen), and with it any success;
- every bound of the registry that can take in history and future (``Bound.within_log``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from accounting.bounds.certified import certify, smallest
from accounting.bounds.patterns import MOST_LAWS
from accounting.bounds.patterns.outside_kernel import future_ends
from accounting.bounds.protocol import Effort, LogQuestion
from accounting.bounds.registry import BOUNDS, question
from accounting.exposure import (
    Exposure,
    baseline,
    check_mistakes,
    horizon_information,
    prior_guess,
    window_of,
)
from accounting.numerics.divergence_root_kernel import divergence_root, most_moved


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
        "shifted": min(1.0, within.value + most_moved(before + after)),
    }
    asked = log_question(exposure, (first, last), mistakes, in_hindsight, effort)
    for bound in BOUNDS:
        value = None if bound.within_log is None else bound.within_log(asked)
        if value is not None:
            bounds[bound.name] = value
    without = baseline(window, mistakes).success
    least = smallest(bounds, without, effort)
    return HorizonRisk(
        first=first,
        last=last,
        in_hindsight=in_hindsight,
        information_nats=information,
        certified=least.value,
        by=least.by,
        confidence=least.confidence,
        baseline=without,
    )


def log_question(
    exposure: Exposure, horizon: tuple[int, int], mistakes: int, in_hindsight: bool, effort: Effort
) -> LogQuestion:
    """What bounds are asked who can take in the log before and, in hindsight, after the ``horizon``."""
    first, last = horizon
    seen = exposure.steps if in_hindsight else last + 1
    after = exposure.hits[last + 1 : seen]
    ends = future_ends(exposure.person, last, after, exposure.marginal[last], MOST_LAWS)
    return LogQuestion(exposure, first, last, seen, mistakes, ends, effort)
