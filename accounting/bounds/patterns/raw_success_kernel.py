"""What a raw log says about a horizon from outside, and the codes of the bounds that may decide."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from accounting.exposure.history import renewal_mixture
from accounting.hmm.propagation import predict
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import jit
from models.priors.chain import LocalChain, slot_of

# Laws of the horizon's first place, likelihoods of its last one.
#
# A raw count that finds the person shows the place, so the past before the last hit, and the future after
# the next one, say nothing more. Where there are many hits the lightest are not distinguished: the place at
# the horizon's end is shown instead, which says more, and so bounds from above.


class Outside(NamedTuple):
    """What the adversary knows from before and after the horizon."""

    laws: Floats  # (R, K), mass at each first place, a law for each last hit before
    shown: Floats  # (K,), mass at each first place of those whose first place is shown
    ends: Floats  # (E, K), likelihood of each next hit after; adds up to 1 at each last place


@jit
def unobserved(start: Floats) -> Outside:
    """Nothing was released before or after; the horizon starts with the law ``start`` (K,)."""
    return Outside(start.reshape((1, start.size)), np.zeros(start.size), np.ones((1, start.size)))


@jit
def heaviest(weights: Floats, most: int) -> Flags:
    """Which ``most`` weights are the largest and above zero; ties go to the lowest index."""
    order = np.argsort(-weights, kind="mergesort")
    chosen = np.zeros(weights.size, np.bool_)
    chosen[order[:most]] = True
    return chosen & (weights > 0.0)


@jit
def history_laws(person: LocalChain, hits: Flags, marginal: Floats, most: int) -> tuple[Floats, Floats]:
    """``laws`` and ``shown`` after the raw steps ``hits`` (n, K), which start with ``person.start``.

    ``marginal`` (n, K) is ``Pr[X_t = x]``; at most ``most`` laws are distinguished.
    """
    mixture = renewal_mixture(person, hits, marginal)
    chosen = heaviest(mixture.weights, most)
    laws = np.empty((chosen.sum(), person.start.size))
    shown = np.zeros(person.start.size)
    count = 0
    for r in range(mixture.weights.size):
        if chosen[r]:
            laws[count] = mixture.weights[r] * mixture.beliefs[r]
            count += 1
        elif mixture.weights[r] > 0.0:
            shown += mixture.weights[r] * mixture.beliefs[r]
    return laws, shown


@jit
def future_ends(person: LocalChain, last: int, hits: Flags, law: Floats, most: int) -> Floats:
    """``ends`` (E, K) of a horizon with last step ``last``, behind which the raw steps ``hits`` (n, K) come.

    ``law`` (K,) is that of the last place. At most ``most`` next hits are distinguished.
    """
    places = law.size
    ends = np.zeros((hits.sum() + 1, places))
    ahead = np.empty(places)
    for x in range(places):
        here = np.zeros(places)
        here[x] = 1.0
        count = 0
        for t in range(hits.shape[0]):
            predict(person.chain, slot_of(person, last + t), here, ahead)
            here, ahead = ahead, here
            for y in range(places):
                if hits[t, y]:
                    ends[count, x] = here[y]
                    here[y] = 0.0
                    count += 1
        ends[count, x] = here.sum()
    weights = np.empty(ends.shape[0])
    for e in range(weights.size):
        weights[e] = (ends[e] * law).sum()
    chosen = heaviest(weights, most)
    if chosen.all():
        return ends
    kept = np.zeros((chosen.sum() + places, places))
    for x in range(places):
        kept[x, x] = 1.0  # shown where all that is distinguished says nothing
    count = places
    for e in range(weights.size):
        if chosen[e]:
            kept[count] = ends[e]
            for x in range(places):
                kept[x, x] = max(0.0, kept[x, x] - ends[e, x])
            count += 1
    return kept


BY_BASELINE, BY_DIVERGENCE, BY_RAW_SUCCESS, BY_LEVELS = range(4)
"""Which bound gave a person's certified value; kept in snapshots, named by ``registry.deciding_bound``.

``BY_RAW_SUCCESS`` is the optimum or the frontier bound.
"""
