"""How far the law of one Markov path is from another's: each quantity by one pass over the steps.

``P`` is the prior's law and ``Q`` the person's, both on the same places; a pass carries the law of the place
under one of them, or a product of both. Every sum is made of terms that vanish where the two agree, so that
equal laws are at distance 0 to the last bit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.hmm.log_space import log_sum
from accounting.numerics import (
    ROOT_MARGIN,
    divergence_root,
    relative_entropy_term,
)
from models.numerics.jit import jit, pjit

_TINY = 1e-280  # below it a weight has lost digits, or all of them
_LOGARITHMS_ROUND = 1e-11  # relative, of sums of logarithms up to some thousands


class PathLaw(NamedTuple):
    """A path of ``steps`` places: ``start`` (K,) is the law of the first, ``matrices`` (C, K, K) move on.

    The move after step ``t`` is by matrix ``(first_slot + t) % C``.
    """

    start: NDArray[np.float64]
    matrices: NDArray[np.float64]
    first_slot: int
    steps: int


class RowDistances(NamedTuple):
    """Relative entropy (nats) and total variation of two paths, each a sum over start and moves."""

    relative_entropy: float
    total_variation: float


@jit
def row_distances(q: NDArray[np.float64], p: NDArray[np.float64]) -> RowDistances:
    """``KL(q || p)`` and the total variation of two laws."""
    relative_entropy, apart = 0.0, 0.0
    for x in range(q.size):
        relative_entropy += relative_entropy_term(q[x], p[x])
        apart += abs(q[x] - p[x])
    return RowDistances(relative_entropy, 0.5 * apart)


@jit
def expected_distances(law: PathLaw, other: PathLaw) -> RowDistances:
    """``KL(law || other)`` by the chain rule, and what telescoping says of the total variation.

    Both are the start's distance plus, step by step, the rows' distance expected under ``law``.
    """
    at_start = row_distances(law.start, other.start)
    relative_entropy, apart = at_start.relative_entropy, at_start.total_variation
    places = law.start.size
    here = law.start.copy()
    for t in range(law.steps - 1):
        moves = law.matrices[(law.first_slot + t) % law.matrices.shape[0]]
        others = other.matrices[(other.first_slot + t) % other.matrices.shape[0]]
        moved = np.zeros(places)
        for x in range(places):
            if here[x] > 0.0:
                rows = row_distances(moves[x], others[x])
                relative_entropy += here[x] * rows.relative_entropy
                apart += here[x] * rows.total_variation
                for y in range(places):
                    moved[y] += here[x] * moves[x, y]
        here = moved
    return RowDistances(relative_entropy, min(1.0, apart))


@jit
def _tilted(q: float, p: float, order: float) -> float:
    """``q^a p^(1 - a)``; infinite where the prior rules out what the person does and ``a > 1``."""
    if q <= 0.0:
        return 0.0
    if p <= 0.0:
        return np.inf if order > 1.0 else 0.0
    return q * np.exp((order - 1.0) * np.log(q / p))


@jit
def renyi_divergence(person: PathLaw, prior: PathLaw, order: float) -> float:
    """``D_a(Q || P)`` (nats) of order ``a``, neither 0 nor 1: one pass with ``Q^a P^(1 - a)``.

    By logarithms where a power is too small or too large a number: the rare step whose weight is lost may
    be followed by one that the prior all but rules out.
    """
    places = person.start.size
    weight = np.zeros(places)
    for x in range(places):
        weight[x] = _tilted(person.start[x], prior.start[x], order)
        if not _is_ordinary(weight[x], person.start[x], prior.start[x]):
            return _renyi_by_logarithms(person, prior, order)
    log_scale = 0.0
    for t in range(person.steps - 1):
        total = weight.sum()
        if total <= 0.0 or total == np.inf:
            return np.inf
        log_scale += np.log(total)
        moves = person.matrices[(person.first_slot + t) % person.matrices.shape[0]]
        others = prior.matrices[(prior.first_slot + t) % prior.matrices.shape[0]]
        moved = np.zeros(places)
        for x in range(places):
            if weight[x] > 0.0:
                for y in range(places):
                    tilted = _tilted(moves[x, y], others[x, y], order)
                    added = weight[x] / total * tilted
                    if not _is_ordinary(tilted, moves[x, y], others[x, y]) or 0.0 < tilted > added <= _TINY:
                        return _renyi_by_logarithms(person, prior, order)
                    moved[y] += added
        weight = moved
    total = weight.sum()
    if total <= 0.0 or total == np.inf:
        return np.inf
    rounding = 1e-15 * (person.steps + places)
    return max(0.0, (log_scale + np.log(total)) / (order - 1.0) + rounding / abs(order - 1.0))


@jit
def _is_ordinary(tilted: float, q: float, p: float) -> bool:
    """Whether a power of two possible steps has kept its digits."""
    return q <= 0.0 or p <= 0.0 or _TINY < tilted < 1.0 / _TINY


@jit
def _renyi_by_logarithms(person: PathLaw, prior: PathLaw, order: float) -> float:
    """The same pass with the logarithm of each weight."""
    places = person.start.size
    weight = np.empty(places)
    for x in range(places):
        weight[x] = _log_tilted(person.start[x], prior.start[x], order)
    for t in range(person.steps - 1):
        moves = person.matrices[(person.first_slot + t) % person.matrices.shape[0]]
        others = prior.matrices[(prior.first_slot + t) % prior.matrices.shape[0]]
        moved = np.full(places, -np.inf)
        for x in range(places):
            if weight[x] > -np.inf:
                for y in range(places):
                    added = weight[x] + _log_tilted(moves[x, y], others[x, y], order)
                    if added == np.inf:
                        return np.inf
                    if added > -np.inf:
                        moved[y] = log_sum(moved[y], added)
        weight = moved
    total = -np.inf
    for x in range(places):
        if weight[x] == np.inf:
            return np.inf
        if weight[x] > -np.inf:
            total = log_sum(total, weight[x])
    if total == -np.inf:
        return np.inf
    found = total / (order - 1.0)
    return max(0.0, found + _LOGARITHMS_ROUND * (1.0 + abs(found)))


@jit
def _log_tilted(q: float, p: float, order: float) -> float:
    """The logarithm of :func:`_tilted`."""
    if q <= 0.0:
        return -np.inf
    if p <= 0.0:
        return np.inf if order > 1.0 else -np.inf
    return order * np.log(q) + (1.0 - order) * np.log(p)


@jit
def log_largest_ratio(person: PathLaw, prior: PathLaw) -> float:
    """``D_inf = ln max Q / P`` over paths (nats): a max-product pass."""
    places = person.start.size
    best = np.full(places, -np.inf)
    for x in range(places):
        best[x] = _log_ratio(person.start[x], prior.start[x])
    for t in range(person.steps - 1):
        moves = person.matrices[(person.first_slot + t) % person.matrices.shape[0]]
        others = prior.matrices[(prior.first_slot + t) % prior.matrices.shape[0]]
        moved = np.full(places, -np.inf)
        for x in range(places):
            if best[x] > -np.inf:
                for y in range(places):
                    if moves[x, y] > 0.0:
                        moved[y] = max(moved[y], best[x] + _log_ratio(moves[x, y], others[x, y]))
        best = moved
    return max(0.0, best.max())


@jit
def _log_ratio(q: float, p: float) -> float:
    """``ln(q / p)``: minus infinity where the person never is, infinity where only the prior says so."""
    if q <= 0.0:
        return -np.inf
    return np.inf if p <= 0.0 else np.log(q / p)


# A bound on success under the prior, raised to one for people within a distance of it.
#
# The best adversary against a person is one fixed rule of decision. Used on somebody who moves as the prior
# says it succeeds at most as often as the bound ``B``; success is an event of path and noise, and by no
# event are two laws put further apart than by the paths themselves (data processing). Each root is taken at
# its upper end.

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
