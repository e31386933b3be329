"""The better of two: MAP's guess or the marginals', whichever is likelier to succeed for what is seen."""

from __future__ import annotations

from typing import ClassVar

from accounting.attacks.simulation.exact_law_kernel import WonByPattern, won_by_better
from accounting.attacks.targets import AttackResult, RecordedTarget, Target

MOST_PATTERNS = 1 << 16
"""Hit patterns up to which they are walked one by one: a few milliseconds."""


class EitherGuess:
    """For raw counts whose exact laws are computed, with not too many hit patterns."""

    name: ClassVar[str] = "either"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult | None:
        """The expected success of the likelier guess, over all hit patterns."""
        if not target.has_exact_laws or target.exposure.pattern_count > MOST_PATTERNS:
            return None
        return AttackResult.exact(float(won_by_pattern(target).success.sum()))

    def replay(self, recorded: RecordedTarget) -> None:
        """On one recorded trace there is nothing to choose by."""
        return


def won_by_pattern(target: Target) -> WonByPattern:
    """What the likelier guess wins for each hit pattern, of which there are ``MOST_PATTERNS`` at most."""
    laws = target.path_laws, target.place_laws
    patterns = int(target.exposure.pattern_count)
    return won_by_better(*laws, target.tables.nodes, target.exposure.steps, patterns)
