"""Flat arrays in which everybody owns a run of entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def packed_positions(start: NDArray[np.int64], people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every position these people own in a flat array; person ``i`` owns ``[start[i], start[i + 1])``."""
    if people.size == 0:
        return np.empty(0, dtype=np.int64)
    return np.concatenate([np.arange(start[person], start[person + 1]) for person in people])
