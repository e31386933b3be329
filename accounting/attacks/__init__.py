"""What a named adversary achieves: a lower bound on the risk, beside the certified upper one."""

from accounting.attacks.person import attack_person
from accounting.attacks.recorded import attack_recorded
from accounting.attacks.results import CONSTANT, EITHER, MAP, MARGINAL, PRIOR, AttackResult, RecordedResult

__all__ = [
    "CONSTANT",
    "EITHER",
    "MAP",
    "MARGINAL",
    "PRIOR",
    "AttackResult",
    "RecordedResult",
    "attack_person",
    "attack_recorded",
]
