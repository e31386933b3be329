"""A shadow adversary: what an attack on drawn people achieves while a run goes on, beside the ceiling."""

from accounting.continuous.shadow.adversary import Shadow, recent_step_count
from accounting.continuous.shadow.drawn_attacks import (
    AttackedPart,
    MeanAttack,
    MeanCeiling,
    PriorGuesses,
    mean_attack,
)
from accounting.continuous.shadow.drawn_people import DrawnPart, drawn_parts

__all__ = [
    "AttackedPart",
    "DrawnPart",
    "MeanAttack",
    "MeanCeiling",
    "PriorGuesses",
    "Shadow",
    "drawn_parts",
    "mean_attack",
    "recent_step_count",
]
