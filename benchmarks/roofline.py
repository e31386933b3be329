"""How fast this machine reads memory: the limit of everything that looks at a matrix once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.forward_viterbi import sum_and_max_of_products
from models.numerics.jit import pjit

CHUNK = 1 << 16


@pjit(lambda values, ones, found: found.size)
def read_all(
    begin: int,
    end: int,
    values: NDArray[np.float64],
    ones: NDArray[np.float64],
    found: NDArray[np.float64],
) -> None:
    """Read every value once, in all threads; ``ones`` (CHUNK,) stays in the cache."""
    for chunk in range(begin, end):
        part = values[chunk * CHUNK : (chunk + 1) * CHUNK]
        found[chunk], _ = sum_and_max_of_products(part, ones, ones)
