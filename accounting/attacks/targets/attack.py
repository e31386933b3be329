"""What every attack answers. One attack is one file a folder above, and one line in ``registry.py`` there."""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from accounting.attacks.targets.recording import RecordedTarget
from accounting.attacks.targets.results import AttackResult, RecordedResult
from accounting.attacks.targets.target import Target


@runtime_checkable
class Attack(Protocol):
    """A named way to guess where a person was.

    What several attacks need of a person (tables, laws, simulated draws) they find in the target, which
    computes it once.
    """

    @property
    def name(self) -> str:
        """The name in results and documents."""

    @property
    def is_blind(self) -> bool:
        """Whether it looks at no release; others are not tried where steps share noise."""

    def success(self, target: Target) -> AttackResult | None:
        """``Pr[at most s steps guessed wrong]``; None where this attack is not computed for the target."""

    def replay(self, recorded: RecordedTarget) -> RecordedResult | None:
        """The same on one recorded trace; None for an attack that is not replayed."""
