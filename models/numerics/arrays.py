"""The arrays that everything here is made of, by what is in them; shapes are said where they are used."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Integers32 = NDArray[np.int32]
"""Positions of places and outcomes: there are as many as people have moves, so half the memory counts."""
Flags = NDArray[np.bool_]
Words = NDArray[np.uint64]
"""64 uniform bits each, or the state of a stream of them."""
