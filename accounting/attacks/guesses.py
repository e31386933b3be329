"""Attacks that look at nothing: the most likely path and the lucky constant. Their success is exact."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.attacks.results import CONSTANT, PRIOR, AttackResult
from accounting.exposure import Exposure
from accounting.exposure.guess_success_kernel import guess_success, most_likely_path


class Constant(NamedTuple):
    """A place guessed for every step, and how likely that is good enough."""

    place: int
    success: float


def blind_attacks(exposure: Exposure, mistakes: int) -> dict[str, AttackResult]:
    """``"prior"`` (maximum a priori) and ``"constant"`` (the best single place), both exact."""
    return {
        PRIOR: AttackResult.exact(prior_success(exposure, mistakes)),
        CONSTANT: AttackResult.exact(best_constant(exposure, mistakes).success),
    }


def prior_success(exposure: Exposure, mistakes: int) -> float:
    """``Pr[d(X, xhat) <= s]`` of the most likely path of the prior."""
    path = most_likely_path(exposure.chain, exposure.start, exposure.first_slot, exposure.steps)
    return float(guess_success(exposure.chain, exposure.start, exposure.first_slot, path, mistakes))


def best_constant(exposure: Exposure, mistakes: int) -> Constant:
    """The own place ``c`` with the largest ``Pr[d(X, (c, ..., c)) <= s]``.

    Places are tried in falling order of expected visits ``v``: by Markov's inequality a place succeeds with
    at most ``v / (T - s)``, so the search ends when that is no more than what was found.
    """
    visits = exposure.marginal.sum(axis=0)
    best = Constant(int(visits.argmax()), 0.0)
    for place in np.argsort(-visits, kind="stable"):
        if visits[place] <= best.success * (exposure.steps - mistakes):
            break
        guess = np.full(exposure.steps, place)
        reached = guess_success(exposure.chain, exposure.start, exposure.first_slot, guess, mistakes)
        if reached > best.success:
            best = Constant(int(place), float(reached))
    return best
