"""What a named adversary achieves: a lower bound on the risk, beside the certified upper one."""

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
