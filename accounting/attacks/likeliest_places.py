"""Posterior marginals: the most likely place of each step on its own. Beyond Koga et al."""

from __future__ import annotations

from typing import ClassVar

from accounting.attacks.simulation.exact_law_kernel import attack_law
from accounting.attacks.simulation.noised_draws_kernel import MARGINAL
from accounting.attacks.targets import AttackResult, RecordedResult, RecordedTarget, Target


class LikeliestPlaces:
    """Often the stronger attack where mistakes are allowed; exact or simulated as MAP is."""

    name: ClassVar[str] = "marginal"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult:
        """How often the most likely places are within the mistakes."""
        if not target.has_exact_laws:
            return target.sampled(MARGINAL)
        return AttackResult.exact(float(attack_law(target.place_laws).sum()))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The places that are likeliest given what the trace shows."""
        return recorded.seen(MARGINAL)
