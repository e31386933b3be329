"""The lucky constant: one place guessed for every step. Its success is exact."""

from __future__ import annotations

from typing import ClassVar, NamedTuple

import numpy as np

from accounting.attacks.targets import AttackResult, RecordedResult, RecordedTarget, Target
from accounting.exposure.prior_constants_kernel import promising_constants


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
    """The own place ``c`` with the largest ``Pr[d(X, (c, ..., c)) <= s]``."""
    marginal = target.exposure.marginal
    place, success = promising_constants(*target.chain, marginal, target.mistakes, marginal.shape[1])
    return Constant(int(place), float(success))
