"""The form in which a chain reaches the kernels: flat arrays of one person, columns first.

Column (gather) form beats row (scatter) form in every recursion of this project: predicting and
max-product both need, for each place, all the places one can come from.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class ChainView(NamedTuple):
    """One person's chain on its K own places with C slots; a view into a population, never a copy.

    ``start[k]`` is the distribution of the place when a window starts in slot ``k`` (shape (C, K));
    matrix ``k`` moves from slot ``k`` to ``k + 1 mod C``; the probability of moving from place ``row[j]`` to
    ``y`` in slot ``k`` is ``value[j]`` for ``column_start[k, y] <= j < column_start[k, y + 1]``. Rows within
    a column increase. ``places[x]`` is the location index of place ``x`` (increasing).
    """

    places: NDArray[np.int32]  # (K,)
    start: NDArray[np.float64]  # (C, K)
    column_start: NDArray[np.int32]  # (C, K + 1), offsets into row and value
    row: NDArray[np.int32]  # (nnz of all slots,)
    value: NDArray[np.float64]  # (nnz of all slots,)
