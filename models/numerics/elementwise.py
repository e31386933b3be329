"""``exp`` and ``log`` of arrays, the same bits on every machine.

numpy computes them in ways that depend on the CPU and differ in the last bit. These are the C library's, one
number at a time: use them for everything that is published or that workers compare.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from models.numerics.arrays import Floats
from models.numerics.jit import jit


def exp(values: ArrayLike) -> Floats:
    """``e^x`` of each entry, any shape; 0 at ``-inf``."""
    found = np.array(values, dtype=np.float64, order="C")
    _exp(found.reshape(-1))
    return found


def log(values: ArrayLike) -> Floats:
    """``ln x`` of each entry, any shape; ``-inf`` at 0."""
    found = np.array(values, dtype=np.float64, order="C")
    _log(found.reshape(-1))
    return found


@jit
def _exp(values: Floats) -> None:
    for i in range(values.size):
        values[i] = math.exp(values[i])


@jit
def _log(values: Floats) -> None:
    for i in range(values.size):
        values[i] = math.log(values[i]) if values[i] > 0.0 else -np.inf
