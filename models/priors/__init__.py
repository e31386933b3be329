"""What is believed about movements: one Markov chain a person, and the packed population.

A chain has three forms: what a user writes (`MovementPrior`), the packed population (`Population`, its
numbers in `PopulationArrays`), and the view that kernels read (`ChainView`). Chains from files, messages and
simulations are all checked in one place, `Population.from_moves`.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from models.priors.chain import ChainView, PopulationArrays, chain_view
from models.priors.evidence import MOST_DRAWS, Evidence, chains_like, posterior_draws, with_draws
from models.priors.packing import Lists, Moves
from models.priors.population import (
    NOT_SAID,
    FittedWindows,
    Population,
    PopulationBuilder,
    Unchecked,
    draw_name,
    in_finer_steps,
    numbered_locations,
)
from models.priors.prior import MovementPrior, Triplets
from models.priors.question import PLACE, Question
from models.priors.states import (
    DeviceView,
    second_order,
    states_that_look_like_places,
    with_device,
    with_stays,
)
