"""A bound on success under the prior, raised to one for people within a distance of it.

The best adversary against a person is one fixed rule of decision. Used on somebody who moves as the prior
says it succeeds at most as often as the bound ``B``; success is an event of path and noise, and by no event
are two laws put further apart than by the paths themselves (data processing). Each root is taken at its
upper end.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.numerics.divergence_root_kernel import (
    ROOT_MARGIN,
    divergence_root,
    relative_entropy_term,
)
from models.numerics.jit import jit, pjit

_HALVINGS = 100


@jit
def _bernoulli(p: float, q: float) -> float:
    """``d(p || q)``."""
    return relative_entropy_term(p, q) + relative_entropy_term(1.0 - p, 1.0 - q)


@jit
def _renyi_bernoulli(u: float, bound: float, order: float) -> float:
    """``d_a(u || B)``; each term is what is left of ``(q / p)^a - 1 - a (q / p - 1)``, as for ``a = 1``."""
    if u >= 1.0:
        return -np.log(bound)
    total = 0.0
    for q, p in ((u, bound), (1.0 - u, 1.0 - bound)):
        change = (q - p) / p
        total += p * (np.expm1(order * np.log1p(change)) - order * change)
    return np.log1p(total) / (order - 1.0)


@jit
def raised_by_reversed(bound: float, relative_entropy: float) -> float:
    """``sup {u : d(B || u) <= KL(P || Q)}``."""
    if bound >= 1.0 or relative_entropy <= 0.0:
        return min(1.0, bound)
    low, high = bound, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _bernoulli(bound, middle) <= relative_entropy:
            low = middle
        else:
            high = middle
    return min(1.0, high * (1.0 + ROOT_MARGIN))


@jit
def raised_by_renyi(bound: float, divergence: float, order: float) -> float:
    """``sup {u : d_a(u || B) <= D_a(Q || P)}``."""
    if bound >= 1.0 or divergence <= 0.0:
        return min(1.0, bound)
    if divergence >= -np.log(bound):
        return 1.0
    low, high = bound, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if _renyi_bernoulli(middle, bound, order) <= divergence:
            low = middle
        else:
            high = middle
    return min(1.0, high * (1.0 + ROOT_MARGIN))


@pjit(lambda _, bounds, __: bounds.size)
def raise_each(
    begin: int, end: int, relative_entropy: float, bounds: NDArray[np.float64], raised: NDArray[np.float64]
) -> None:
    """``sup {u : d(u || B) <= KL(Q || P)}`` of each bound; who cannot succeed at all stays so."""
    for k in range(begin, end):
        raised[k] = divergence_root(relative_entropy, bounds[k]) if bounds[k] > 0.0 else 0.0
