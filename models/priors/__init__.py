"""What is believed about movements: one Markov chain a person, and the packed population.

A chain has three forms: what a person writes (`MovementPrior`), the packed population (`Population`, its
numbers in `PopulationArrays`), and what kernels see of it (`ChainView`). Whatever comes in by file, message
or simulation passes one checked door, `Population.from_moves`, which takes everybody's places and moves.
"""

from models.priors.chain import ChainView, PopulationArrays, Rows, chain_view, rows_of
from models.priors.evidence import MOST_DRAWS, Evidence, posterior_draws, with_draws
from models.priors.packing import Lists, Moves
from models.priors.population import (
    FittedWindows,
    Population,
    PopulationBuilder,
    in_finer_steps,
    numbered_locations,
)
from models.priors.prior import MovementPrior, Triplets

__all__ = [
    "MOST_DRAWS",
    "ChainView",
    "Evidence",
    "FittedWindows",
    "Lists",
    "MovementPrior",
    "Moves",
    "Population",
    "PopulationArrays",
    "PopulationBuilder",
    "Rows",
    "Triplets",
    "chain_view",
    "in_finer_steps",
    "numbered_locations",
    "posterior_draws",
    "rows_of",
    "with_draws",
]
