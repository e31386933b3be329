"""A shadow adversary: what an attack on drawn people achieves while a run goes on, beside the ceiling."""

from accounting.continuous.shadow.adversary import (
    AttackedPart,
    DrawnPart,
    MeanAttack,
    MeanCeiling,
    PriorGuesses,
    Shadow,
    drawn_parts,
    mean_attack,
    recent_step_count,
)

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
