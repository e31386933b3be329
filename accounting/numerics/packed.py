"""Flat arrays in which everybody owns a run of entries."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def packed_positions(start: NDArray[np.int64], people: NDArray[np.int64]) -> NDArray[np.int64]:
    """Every position these people own in a flat array; person ``i`` owns ``[start[i], start[i + 1])``."""
    length = start[people + 1] - start[people]
    first = np.cumsum(length) - length
    return np.repeat(start[people] - first, length) + np.arange(length.sum())
