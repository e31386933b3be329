"""What a named adversary achieves: a lower bound on the risk, where certified ones are upper bounds."""

from accounting.attacks.attacks import ATTACKS, attack_person, attack_recorded
from accounting.attacks.targets import (
    Attack,
    AttackResult,
    RecordedResult,
    RecordedTarget,
    Target,
    own_places,
)

__all__ = [
    "ATTACKS",
    "Attack",
    "AttackResult",
    "RecordedResult",
    "RecordedTarget",
    "Target",
    "attack_person",
    "attack_recorded",
    "own_places",
]
