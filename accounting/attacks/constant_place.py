"""The lucky constant: one place guessed for every step. Its success is exact."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from accounting.attacks.targets import AttackResult, RecordedResult, RecordedTarget, Target
from accounting.exposure.guess_success_kernel import guess_success


class Constant(NamedTuple):
    """A place guessed for every step, and how likely that is good enough."""

    place: int
    success: float


class ConstantPlace:
    """Looks at nothing (Koga et al., section 3.2)."""

    name: ClassVar[str] = "constant"
    is_blind: ClassVar[bool] = True

    def success(self, target: Target) -> AttackResult:
        """The success of the best single place."""
        return AttackResult.exact(best_constant(target).success)

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The same place, right or wrong."""
        place = best_constant(recorded.target).place
        return recorded.blind(np.full(recorded.trace.size, place))


def best_constant(target: Target) -> Constant:
    """The own place ``c`` with the largest ``Pr[d(X, (c, ..., c)) <= s]``.

    Places are tried in falling order of expected visits ``v``: by Markov's inequality a place succeeds with
    at most ``v / (T - s)``, so the search ends when that is no more than what was found.
    """
    exposure, mistakes = target.exposure, target.mistakes
    visits = exposure.marginal.sum(axis=0)
    best = Constant(int(visits.argmax()), 0.0)
    for place in np.argsort(-visits, kind="stable"):
        if visits[place] <= best.success * (exposure.steps - mistakes):
            break
        reached = guess_success(*target.chain, np.full(exposure.steps, place), mistakes)
        if reached > best.success:
            best = Constant(int(place), float(reached))
    return best
