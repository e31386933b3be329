"""Entropy of a law, and of each move of a chain."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import entr

from accounting.exposure.step_information.renewal_kernel import surprise
from models.numerics.jit import jit
from models.priors import ChainView


def entropy_nats(probabilities: NDArray[np.float64]) -> float:
    """Shannon entropy of a law, any shape, with ``0 ln 0 = 0``; never below 0, however the law rounds."""
    return max(0.0, float(entr(probabilities).sum()))


@jit
def row_entropies(chain: ChainView) -> NDArray[np.float64]:
    """``H(X_{t+1} | X_t = x)`` for each slot and place, nats, shape (C, K)."""
    entropies = np.zeros(chain.start.shape)
    for slot in range(chain.start.shape[0]):
        for j in range(chain.column_start[slot, 0], chain.column_start[slot, -1]):
            entropies[slot, chain.row[j]] += surprise(chain.value[j])
    return entropies
