"""MAP: the most likely path given everything released (Koga, Meehan, Chaudhuri, section 3.2)."""

from __future__ import annotations

from typing import ClassVar

from accounting.attacks.simulation.exact_law_kernel import attack_law
from accounting.attacks.simulation.noised_draws_kernel import MAP
from accounting.attacks.targets import AttackResult, RecordedResult, RecordedTarget, Target


class LikeliestPath:
    """Exact on raw counts where that is affordable, else simulated."""

    name: ClassVar[str] = "map"
    is_blind: ClassVar[bool] = False

    def success(self, target: Target) -> AttackResult:
        """How often the most likely path is within the mistakes."""
        if not target.has_exact_laws:
            return target.sampled(MAP)
        return AttackResult.exact(float(attack_law(target.path_laws).sum()))

    def replay(self, recorded: RecordedTarget) -> RecordedResult:
        """The path that is decoded from what the trace shows."""
        return recorded.seen(MAP)
