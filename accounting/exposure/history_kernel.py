"""What a raw history says about where the horizon starts, and a raw future about where it ends.

A history is a mixture of beliefs, one a renewal. What somebody does better for an information ``I`` grows
like ``sqrt(I)``, so 1e-16 lost from it is 1e-8 of success: informations here are sums of terms none of which
is negative, never the difference of two entropies.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.numerics.divergence_root_kernel import relative_entropy_term
from models.numerics.jit import jit
from models.priors.chain import ChainView


class Mixture(NamedTuple):
    """The posterior of the place after a raw history: ``beliefs[r]`` (K,) with probability ``weights[r]``."""

    weights: NDArray[np.float64]  # (R,)
    beliefs: NDArray[np.float64]  # (R, K)


@jit
def renewal_mixture(
    chain: ChainView,
    start: NDArray[np.float64],
    first_slot: int,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
) -> Mixture:
    """The posteriors at the step after the ``n`` raw steps ``hits`` (n, K); ``marginal`` is theirs, (n, K).

    A hit reveals the place, so the posterior depends on the last hit alone: one belief for each (time,
    place) of a hit and one for no hit at all.
    """
    steps, place_count = hits.shape
    slots, column_start, row, value = chain.start.shape[0], chain.column_start, chain.row, chain.value
    capacity = 1 + hits.sum()
    vectors = np.zeros((capacity, place_count))
    moved = np.empty(place_count)
    vectors[0] = start
    count = 1
    for t in range(steps):
        for r in range(count):
            for x in range(place_count):
                if hits[t, x]:
                    vectors[r, x] = 0.0
        for x in range(place_count):
            if hits[t, x]:
                vectors[count, x] = marginal[t, x]
                count += 1
        slot = (first_slot + t) % slots
        for r in range(count):
            for y in range(place_count):
                total = 0.0
                for j in range(np.uint64(column_start[slot, y]), np.uint64(column_start[slot, y + 1])):
                    total += vectors[r, np.uint64(row[j])] * value[j]
                moved[y] = total
            for y in range(place_count):
                vectors[r, y] = moved[y]
    weights = np.empty(count)
    for r in range(count):
        weights[r] = vectors[r].sum()
        if weights[r] > 0.0:
            vectors[r] /= weights[r]
    return Mixture(weights, vectors[:count])


@jit
def mixture_information(mixture: Mixture, marginal: NDArray[np.float64]) -> float:
    """``I(X; which belief)``, nats: the mean relative entropy of the beliefs to their mean, ``marginal``."""
    total = 0.0
    for r in range(mixture.weights.size):
        if mixture.weights[r] > 0.0:
            for x in range(marginal.size):
                total += mixture.weights[r] * relative_entropy_term(mixture.beliefs[r, x], marginal[x])
    return total


@jit
def future_information(chain: ChainView, slot: int, hits: NDArray[np.bool_], mixture: Mixture) -> float:
    """``I(X_u; Y_{u+1}..Y_L | belief)``, nats, on average over the beliefs about the place in step ``u``.

    ``hits`` (n, K) are those of the raw steps after ``u``, which is in ``slot``. From the first hit on
    nothing more is learned about ``X_u``. Before it, with ``F[x, m] = Pr[X_t = m, no hit | X_u = x]``, a step
    adds the mean over ``x`` of the relative entropy of its outcomes given ``x`` to those given the belief.
    """
    places, slots = chain.start.shape[1], chain.start.shape[0]
    total = 0.0
    unseen = np.eye(places)
    live = np.ones(places)
    rest = np.empty(places)
    for t in range(hits.shape[0]):
        moves = (slot + t) % slots
        for x in range(places):
            moved = np.zeros(places)
            for y in range(places):
                for j in range(chain.column_start[moves, y], chain.column_start[moves, y + 1]):
                    moved[y] += unseen[x, chain.row[j]] * chain.value[j]
            unseen[x] = moved
            rest[x] = 0.0
            for y in range(places):
                if not hits[t, y]:
                    rest[x] += moved[y]
        for r in range(mixture.weights.size):
            if mixture.weights[r] > 0.0:
                own = mixture.weights[r] * _outcome_information(
                    mixture.beliefs[r], unseen, live, rest, hits[t]
                )
                total += own
        for x in range(places):
            live[x] = rest[x]
            for y in range(places):
                if hits[t, y]:
                    unseen[x, y] = 0.0
    return total


@jit
def _outcome_information(
    belief: NDArray[np.float64],
    masses: NDArray[np.float64],
    live: NDArray[np.float64],
    rest: NDArray[np.float64],
    hits: NDArray[np.bool_],
) -> float:
    """What one step's outcome says about the place ``x`` of the ``belief`` (K,), where no hit came before.

    ``live[x]`` is the probability of that given ``x``, ``masses[x, y]`` that of being at ``y`` too, and
    ``rest[x]`` that of no hit in this step either.
    """
    alive = (belief * live).sum()
    if alive <= 0.0:
        return 0.0
    unhit = (belief * rest).sum() / alive
    total = 0.0
    for x in range(belief.size):
        if belief[x] > 0.0 and live[x] > 0.0:
            total += belief[x] * live[x] * relative_entropy_term(rest[x] / live[x], unhit)
    for y in range(hits.size):
        if hits[y]:
            hit = (belief * masses[:, y]).sum() / alive
            for x in range(belief.size):
                if belief[x] > 0.0 and live[x] > 0.0:
                    total += belief[x] * live[x] * relative_entropy_term(masses[x, y] / live[x], hit)
    return total
