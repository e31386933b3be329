"""What a raw history says about where the horizon starts: a mixture of beliefs, one a renewal."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from models.numerics.jit import jit
from models.priors.chain import ChainView


class Mixture(NamedTuple):
    """The posterior of the place after a raw history: ``beliefs[r]`` (K,) with probability ``weights[r]``."""

    weights: NDArray[np.float64]  # (R,)
    beliefs: NDArray[np.float64]  # (R, K)


@jit
def renewal_mixture(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
) -> Mixture:
    """The posteriors at the step after the ``n`` raw steps ``hits`` (n, K); ``marginal`` is theirs, (n, K).

    A hit reveals the place, so the posterior depends on the last hit alone: one belief for each (time,
    place) of a hit and one for no hit at all.
    """
    steps, place_count = hits.shape
    slots, column_start, row, value = chain.start.shape[0], chain.column_start, chain.row, chain.value
    capacity = 1 + hits.sum()
    vectors = np.zeros((capacity, place_count))
    moved = np.empty(place_count)
    vectors[0] = start
    count = 1
    for t in range(steps):
        for r in range(count):
            for x in range(place_count):
                if hits[t, x]:
                    vectors[r, x] = 0.0
        for x in range(place_count):
            if hits[t, x]:
                vectors[count, x] = marginal[t, x]
                count += 1
        slot = (first_slot + t) % slots
        for r in range(count):
            for y in range(place_count):
                total = 0.0
                for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                    total += vectors[r, np.uint64(row[j])] * value[j]
                moved[y] = total
            for y in range(place_count):
                vectors[r, y] = moved[y]
    weights = np.empty(count)
    for r in range(count):
        weights[r] = vectors[r].sum()
        if weights[r] > 0.0:
            vectors[r] /= weights[r]
    return Mixture(weights, vectors[:count])
