"""The most likely places at the best ``k`` of ``T`` times, for a guess that may be wrong in the others.

``A_k = max over k times t_1 < .. < t_k and places of Pr[X_{t_1} = x_1, .., X_{t_k} = x_k]``. Between two
chosen times the chain is summed over, so only the products of ``g`` consecutive moves matter, ``g <= s + 1``.
The recursion runs backwards and does not know the start: one table serves every start and, without a cycle,
every time at which a horizon starts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exposure.step_information.renewal_kernel import normalise
from accounting.hmm.propagation import largest_product
from models.numerics.jit import bare_jit, jit


class SubsetTable(NamedTuple):
    """Best probability of what is still to be chosen, given the place at a chosen time.

    ``value[n, o, x] * exp(log_scale[n, o])`` with ``n`` times still to choose and ``o`` still to omit after
    it. Each row is scaled to maximum 1, so a thousand steps do not underflow.
    """

    value: NDArray[np.float64]  # (N, s + 1, K)
    log_scale: NDArray[np.float64]  # (N, s + 1)


@bare_jit
def raise_to(
    target: NDArray[np.float64], matrix: NDArray[np.float64], weight: NDArray[np.float64], scale: float
) -> None:
    """``target[x] = max(target[x], scale * max_y matrix[y, x] weight[y])``."""
    for y in range(weight.size):
        factor = scale * weight[y]
        if factor > 0.0:
            for x in range(target.size):
                candidate = matrix[y, x] * factor
                target[x] = candidate if candidate > target[x] else target[x]


@jit
def subset_table(gaps: NDArray[np.float64], steps: int, omitted: int, chosen: int) -> SubsetTable:
    """The table for up to ``chosen`` chosen times and ``omitted`` omitted ones of ``steps``.

    ``gaps`` as from :func:`accounting.hmm.propagation.gap_matrices`, from the slot the horizon starts in.
    Cost ``chosen * omitted^2 / 2`` matrix-vector maxima.
    """
    starts, _, place_count, _ = gaps.shape
    value = np.zeros((chosen, omitted + 1, place_count))
    log_scale = np.full((chosen, omitted + 1), -np.inf)
    value[0] = 1.0
    log_scale[0] = 0.0
    for n in range(1, chosen):
        for o in range(min(omitted, steps - 1 - n) + 1):
            start = (steps - 1 - n - o) % starts
            reference = log_scale[n - 1, : o + 1].max()
            if reference == -np.inf:
                continue
            for g in range(1, o + 2):
                scale = np.exp(log_scale[n - 1, o - g + 1] - reference)
                raise_to(value[n, o], gaps[start, g - 1], value[n - 1, o - g + 1], scale)
            log_scale[n, o] = reference + normalise(value[n, o])
    return SubsetTable(value, log_scale)


@jit
def log_subset_maximum(table: SubsetTable, marginal: NDArray[np.float64], steps: int, omitted: int) -> float:
    """``ln A_{T - omitted}`` for the start whose marginals ``p_f``, ``f = 0..omitted``, are given."""
    best = -np.inf
    n = steps - omitted - 1
    for f in range(omitted + 1):
        largest = largest_product(marginal[f], table.value[n, omitted - f])
        if largest > 0.0:
            best = max(best, np.log(largest) + table.log_scale[n, omitted - f])
    return best
