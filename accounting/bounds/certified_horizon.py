"""Certified success against one horizon of a longer log, at the moment or in hindsight.

What was released before and after the horizon enters every bound in a way that holds for any history:

- the information of :mod:`accounting.exposure.history` under the binary divergence;
- the bounds of the horizon on its own plus ``sqrt(I / 2)``, ``I`` what the outside says about the ends: the
  law of the trace moves by no more in total variation on average (Pinsker, Jensen), and with it any success;
- the frontier bound, into which raw history and future enter exactly, noise as if it were none;
- the frontier bound through noise, with the levels of evidence of history and horizon, and of the future what
  exact counts would show;
- with draws, the sampled bound, into which history and future of any kind enter exactly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.certified import certify
from accounting.bounds.noised import LEVELS, SAMPLED, levels_success, sampled_success
from accounting.bounds.patterns import FRONTIER, frontier_success
from accounting.bounds.patterns.outside_kernel import Outside, future_ends, history_laws
from accounting.bounds.protocol import Effort
from accounting.bounds.registry import question
from accounting.exposure import (
    Exposure,
    baseline,
    check_mistakes,
    horizon_information,
    prior_guess,
    window_of,
)
from accounting.numerics.divergence_root_kernel import divergence_root

_MOST_LAWS = 64
"""Hits before and after the horizon that are distinguished; for the lightest others a place is shown."""


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
    }
    seen = exposure.steps if in_hindsight else last + 1
    ends = _future_ends(exposure, last, seen)
    searched = {
        FRONTIER.name: _frontier(exposure, window, first, ends, mistakes, effort),
        LEVELS.name: levels_success(exposure, (first, last), mistakes, ends, effort.vectors),
    }
    bounds |= {name: value for name, value in searched.items() if value is not None}
    shown = exposure.under(exposure.observations[:seen])
    sampled = sampled_success(shown, (first, last), mistakes, effort)
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


def _future_ends(exposure: Exposure, last: int, seen: int) -> NDArray[np.float64]:
    """What the raw log after ``last``, up to its first ``seen`` steps, says of the place in that step."""
    after = exposure.hits[last + 1 : seen]
    return future_ends(exposure.person, last, after, exposure.marginal[last], _MOST_LAWS)


def _frontier(
    exposure: Exposure,
    window: Exposure,
    first: int,
    ends: NDArray[np.float64],
    mistakes: int,
    effort: Effort,
) -> float | None:
    """The window of the raw log that begins with step ``first``."""

    def compute() -> float | None:
        before = exposure.hits[:first], exposure.marginal[:first]
        laws, shown = history_laws(exposure.person, *before, _MOST_LAWS)
        return frontier_success(window, mistakes, Outside(laws, shown, ends), effort.vectors)

    asked = first, window.steps, ends.tobytes(), mistakes, effort.vectors
    return exposure.of_raw_version((FRONTIER.name, *asked), compute)
