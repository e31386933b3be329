"""What a named adversary achieves: a lower bound on the risk, where certified ones are upper bounds."""

# mypy: implicit-reexport
# ruff: noqa: F401

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
