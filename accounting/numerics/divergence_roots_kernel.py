"""Roots of the binary divergence for many people."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit


@jit
def fill_divergence_roots(
    information_nats: NDArray[np.float64], guess: NDArray[np.float64], root: NDArray[np.float64]
) -> None:
    """:func:`divergence_root` of each; fills ``root``, all of shape (n,)."""
    for i in range(root.size):
        root[i] = divergence_root(information_nats[i], guess[i])
