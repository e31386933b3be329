"""Where the person most likely was at each step, given everything observed: forward-backward, one argmax a
step.

Maximises the expected number of right steps, so it is often the stronger attack when mistakes are allowed.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import Observed
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.propagation import predict, retreat
from models.numerics.jit import bare_jit, jit


@bare_jit
def _weigh(observed: Observed, step: int, vector: NDArray[np.float64]) -> float:
    """Weigh a vector (K,) with what was observed in ``step``, scale its maximum to 1, return what it was."""
    top = 0.0
    for x in range(vector.size):
        vector[x] *= observed.likelihood[step, observed.labels[step, x]]
        top = max(top, vector[x])
    if top > 0.0:
        for x in range(vector.size):
            vector[x] /= top
    return top


@jit
def likeliest_places(
    person: LocalChain, observed: Observed, forward: NDArray[np.float64], guess: NDArray[np.int32]
) -> bool:
    """Posterior argmax of every step into ``guess`` (T,); ties at the lowest index.

    ``observed`` is over the own places, ``forward`` (T, K) scratch. False, with ``guess`` left alone, when
    the observations are impossible (or underflow made them so).
    """
    steps, places = observed.labels.shape
    forward[0] = person.start
    for step in range(steps):
        if step > 0:
            predict(person.chain, slot_of(person, step - 1), forward[step - 1], forward[step])
        if _weigh(observed, step, forward[step]) == 0.0:
            return False
    behind = np.ones(places)
    moved = np.empty(places)
    for step in range(steps - 1, -1, -1):
        guess[step] = np.argmax(forward[step] * behind)
        if step > 0:
            _weigh(observed, step, behind)
            retreat(person.chain, slot_of(person, step - 1), behind, moved)
            behind, moved = moved, behind
    return True
