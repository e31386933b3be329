"""A shadow adversary: what an attack on drawn people achieves while a run goes on, beside the ceiling."""

from accounting.continuous.shadow.adversary import Shadow, remembered_steps
from accounting.continuous.shadow.drawn_attacks import DrawnAttacks, MeanAttack, joined
from accounting.continuous.shadow.drawn_people import DrawnPeople, go_round

__all__ = ["DrawnAttacks", "DrawnPeople", "MeanAttack", "Shadow", "go_round", "joined", "remembered_steps"]
