"""The bounds on raw counts. A new one is a file of its own, a line here and a line in its conformance suite.

Those that are fast enough for everybody are kernels too.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.exact import EXACT, exact_kernel
from accounting.bounds.patterns.frontier_bound import FRONTIER, frontier_kernel
from accounting.bounds.patterns.moment import MOMENT
from accounting.bounds.patterns.raw_success_kernel import Outside
from accounting.bounds.protocol import Bound
from models.numerics.jit import inline
from models.priors.chain import LocalChain

RAW_BOUNDS: tuple[Bound, ...] = (
    MOMENT,
    EXACT,
    FRONTIER,
)


@inline
def least_raw_success(
    person: LocalChain,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    outside: Outside,
    mistakes: int,
    vectors: int,
) -> float:
    """The least of the bounds that hold with whatever was released before the horizon, and after it.

    ``hits`` (T, K) say where a sensor sees the person, ``marginal`` (T, K) is ``Pr[X_t = x]``, ``vectors``
    are those of the frontier bound, 0 for none. For continuous accounts, decisions and the erasure bound.
    """
    exact = exact_kernel(person, hits, outside, mistakes)
    return min(exact, frontier_kernel(person, hits, marginal, outside, mistakes, vectors))
