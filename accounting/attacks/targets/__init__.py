"""Who is attacked and what trying an attack gives: what all attacks are made of."""

from accounting.attacks.targets.attack import Attack
from accounting.attacks.targets.recording import RecordedTarget, own_places
from accounting.attacks.targets.results import AttackResult, RecordedResult
from accounting.attacks.targets.target import Target, draw_on_graph, draw_raw, draw_stepwise

__all__ = [
    "Attack",
    "AttackResult",
    "RecordedResult",
    "RecordedTarget",
    "Target",
    "draw_on_graph",
    "draw_raw",
    "draw_stepwise",
    "own_places",
]
