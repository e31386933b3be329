"""Maximum a priori: the most likely path before anything is released. Its success is exact."""

from __future__ import annotations

from typing import ClassVar

from accounting.attacks.targets import AttackResult, RecordedResult, RecordedTarget, Target
from accounting.exposure.guess_success_kernel import guess_success


class PriorPath:
    """Looks at nothing (Koga et al., section 3.2)."""

    name: ClassVar[str] = "prior"
    is_blind: ClassVar[bool] = True

    def success(self, target: Target) -> AttackResult:
        """``Pr[d(X, xhat) <= s]`` of the most likely path of the prior."""
        return AttackResult.exact(guess_success(*target.chain, target.prior_path, target.mistakes))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The same path, right or wrong."""
        return recorded.blind(recorded.target.prior_path)
