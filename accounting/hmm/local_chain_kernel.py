"""One person's chain over a horizon: what kernels of bounds, attacks and accounting start from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import bare_jit
from models.priors.chain import ChainView


class LocalChain(NamedTuple):
    """A chain on ``K`` own places, the law of the place in the horizon's first step, and that step's slot."""

    chain: ChainView
    start: NDArray[np.float64]  # (K,)
    first_slot: int


@bare_jit
def slot_of(person: LocalChain, step: int) -> int:
    """The slot of a step of the horizon in the chain's cycle; its matrix moves on to the next step."""
    return (person.first_slot + step) % person.chain.start.shape[0]
