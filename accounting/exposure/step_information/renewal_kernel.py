"""Raw releases, exactly: a hit reveals the place, so what came before it no longer matters.

A *renewal* is the start, or a hit at some time and place. ``hits[t, x]`` says whether being at ``x`` in step
``t`` is revealed. Renewals at the same time and place merge: their weight is the marginal ``Pr[X_t = x]``.
"""

from __future__ import annotations

import numpy as np

from accounting.hmm.log_space import log_sum
from accounting.hmm.propagation import predict, predict_largest
from models.numerics.arrays import Flags, Floats
from models.numerics.jit import bare_jit, jit
from models.priors.chain import LocalChain, slot_of


@bare_jit
def surprise(probability: float) -> float:
    """``-p ln p`` with ``0 ln 0 = 0``, and 0 for a sum of shares that rounds to just above one."""
    return -probability * np.log(probability) if 0.0 < probability < 1.0 else 0.0


@bare_jit
def reveal(vector: Floats, hits: Flags) -> float:
    """``F H(f_c / F for each hit c, rest / F)`` of a vector of mass ``F``; what was hit is then zeroed."""
    rest = 0.0
    hit_mass = 0.0
    entropy = 0.0
    for x in range(vector.size):
        if hits[x]:
            hit_mass += vector[x]
            entropy += surprise(vector[x])
            vector[x] = 0.0
        else:
            rest += vector[x]
    return max(0.0, entropy + surprise(rest) - surprise(hit_mass + rest))


@jit
def renewal_information(person: LocalChain, hits: Flags, marginal: Floats) -> Floats:
    """``H(Y_t | Y_1..Y_{t-1})`` of each step, nats, shape (T,): their sum is ``I(X; Y) = H(Y)`` exactly.

    Beyond Koga et al., who bound it by ``H(Y_t | Y_{t-1})`` (section 3.3) as they call it intractable. Hits
    are zeroed in the older vectors before the new renewals are added: a hit ends what came before it.
    """
    steps, place_count = hits.shape
    capacity = 1 + hits.sum()
    vectors = np.zeros((capacity, place_count))
    weights = np.empty(capacity)
    moved = np.empty(place_count)
    vectors[0] = person.start
    weights[0] = 1.0
    count = 1
    shown = np.zeros(steps)
    for t in range(steps):
        for r in range(count):
            shown[t] += weights[r] * reveal(vectors[r], hits[t])
        for x in range(place_count):
            if hits[t, x] and marginal[t, x] > 0.0:
                vectors[count] = 0.0
                vectors[count, x] = 1.0
                weights[count] = marginal[t, x]
                count += 1
        alive = 0
        for r in range(count):
            if vectors[r].max() > 0.0:
                predict(person.chain, slot_of(person, t), vectors[r], moved)
                vectors[alive] = moved
                weights[alive] = weights[r]
                alive += 1
        count = alive
    return shown


@jit
def normalise(vector: Floats) -> float:
    """Scale a non-negative vector to maximum 1; the logarithm of what was taken out."""
    largest = vector.max()
    if largest <= 0.0:
        return -np.inf
    vector /= largest
    return np.log(largest)


@jit
def renewal_optimum(person: LocalChain, laws: Floats, hits: Flags) -> float:
    """``ln sum_y max_x Pr[x, y]``: the best success at ``s = 0`` of any adversary, raw releases.

    ``laws`` (R, K) are the mass at each first place, a row for each thing the adversary may know beforehand;
    without any history the one law ``person.start``. Each renewal carries the max-product vector since its
    hit, scaled to maximum 1 so that long horizons do not underflow, and the logarithm of the summed weight of
    all histories that end in it. Beyond Koga et al.
    """
    steps, place_count = hits.shape
    count = laws.shape[0]
    capacity = count + hits.sum()
    vectors = np.zeros((capacity, place_count))
    log_weights = np.empty(capacity)
    moved = np.empty(place_count)
    vectors[:count] = laws
    log_weights[:count] = 0.0
    for t in range(steps):
        older = count
        for x in range(place_count):
            if hits[t, x]:
                log_weight = -np.inf
                for r in range(older):
                    if vectors[r, x] > 0.0:
                        log_weight = log_sum(log_weight, log_weights[r] + np.log(vectors[r, x]))
                        vectors[r, x] = 0.0
                if log_weight > -np.inf:
                    vectors[count] = 0.0
                    vectors[count, x] = 1.0
                    log_weights[count] = log_weight
                    count += 1
        if t + 1 < steps:
            alive = 0
            for r in range(count):
                predict_largest(person.chain, slot_of(person, t), vectors[r], moved)
                taken_out = normalise(moved)
                if taken_out > -np.inf:
                    vectors[alive] = moved
                    log_weights[alive] = log_weights[r] + taken_out
                    alive += 1
            count = alive
    total = -np.inf
    for r in range(count):
        total = log_sum(total, log_weights[r] + normalise(vectors[r]))
    return total
