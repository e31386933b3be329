"""Where the person most likely was at each step, given everything observed: forward-backward, one argmax a
step.

Maximises the expected number of right steps, so it is often the stronger attack when mistakes are allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.propagation import predict, retreat
from models.numerics.jit import jit
from models.priors.chain import ChainView


@jit
def _weigh(
    labels: NDArray[np.int32], likelihood: NDArray[np.float64], step: int, vector: NDArray[np.float64]
) -> float:
    """Weigh a vector (K,) with what was observed in ``step``, scale its maximum to 1, return what it was."""
    top = 0.0
    for x in range(vector.size):
        vector[x] *= likelihood[step, labels[step, x]]
        top = max(top, vector[x])
    if top > 0.0:
        vector /= top
    return top


@jit
def likeliest_places(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    labels: NDArray[np.int32],
    likelihood: NDArray[np.float64],
    forward: NDArray[np.float64],
    guess: NDArray[np.int32],
) -> bool:
    """Posterior argmax of every step into ``guess`` (T,); ties at the lowest index.

    ``labels`` (T, K) are the own places' outcomes, ``likelihood`` (T, O), ``forward`` (T, K) scratch. False,
    with ``guess`` left alone, when the observations are impossible (or underflow made them so).
    """
    steps, places = labels.shape
    slots = chain.start.shape[0]
    forward[0] = start
    for step in range(steps):
        if step > 0:
            predict(chain, (first_slot + step - 1) % slots, forward[step - 1], forward[step])
        if _weigh(labels, likelihood, step, forward[step]) == 0.0:
            return False
    behind = np.ones(places)
    moved = np.empty(places)
    for step in range(steps - 1, -1, -1):
        guess[step] = np.argmax(forward[step] * behind)
        if step > 0:
            _weigh(labels, likelihood, step, behind)
            retreat(chain, (first_slot + step - 1) % slots, behind, moved)
            behind, moved = moved, behind
    return True
