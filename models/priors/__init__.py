"""What is believed about movements: one Markov chain a person, and the packed population."""

from models.priors.chain import ChainView, PopulationArrays, chain_view
from models.priors.packing import FlatChains
from models.priors.population import Population, PopulationBuilder, join_chains, numbered_locations
from models.priors.prior import MovementPrior, Triplets

__all__ = [
    "ChainView",
    "FlatChains",
    "MovementPrior",
    "Population",
    "PopulationArrays",
    "PopulationBuilder",
    "Triplets",
    "chain_view",
    "join_chains",
    "numbered_locations",
]
