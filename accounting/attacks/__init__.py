"""What a named adversary achieves: a lower bound on the risk, where certified ones are upper bounds."""

from accounting.attacks.attacks import ATTACKS, attack_person, attack_recorded, register_attack
from accounting.attacks.own_guess import Guess, Seen
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
    "Guess",
    "RecordedResult",
    "RecordedTarget",
    "Seen",
    "Target",
    "attack_person",
    "attack_recorded",
    "own_places",
    "register_attack",
]
