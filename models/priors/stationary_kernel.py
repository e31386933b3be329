"""Stationary distributions without a single subtraction: kernels on dense matrices, arrays in, arrays out.

State reduction after Grassmann, Taksar, Heyman, "Regenerative analysis and steady state distributions for
Markov chains" (1985): every quantity is a sum of products of probabilities, so each entry of the result is
accurate to a few rounding errors however close to deterministic the chain is.
"""

from __future__ import annotations

import numpy as np

from models.numerics.arrays import Floats, Integers32
from models.numerics.jit import bare_jit, jit, pjit
from models.priors.chain import PopulationArrays, chain_view

TRANSIENT = -1
_UNSEEN = -2
_PANEL = 64  # states eliminated before the rest of the matrix is touched again
_STRIP = 512  # columns of the panel that stay in the cache while rows pass


@bare_jit
def add_scaled(target: Floats, scale: float, row: Floats) -> None:
    """``target += scale * row``, without an array in between."""
    for x in range(target.size):
        target[x] += scale * row[x]


@jit
def cycle_product(column_start: Integers32, row: Integers32, value: Floats) -> Floats:
    """The dense matrix (K, K) of one whole cycle, ``P_0 P_1 ... P_{C-1}``, of a chain in column form."""
    slots, size = column_start.shape[0], column_start.shape[1] - 1
    product = np.zeros((size, size))  # transposed while we build it: product[y, x]
    for y in range(size):
        for j in range(column_start[0, y], column_start[0, y + 1]):
            product[y, row[j]] = value[j]
    longer_product = np.empty((size, size))
    for slot in range(1, slots):
        longer_product[:] = 0.0
        for y in range(size):
            for j in range(column_start[slot, y], column_start[slot, y + 1]):
                add_scaled(longer_product[y], value[j], product[row[j]])
        product, longer_product = longer_product, product
    return np.ascontiguousarray(product.T)


@bare_jit
def push_forward(
    distribution: Floats, column_start: Integers32, row: Integers32, value: Floats, out: Floats
) -> None:
    """``out[y] = sum_x distribution[x] P[x, y]`` for one slot's matrix, scaled to sum to one."""
    total = 0.0
    for y in range(out.size):
        mass = 0.0
        for j in range(column_start[y], column_start[y + 1]):
            mass += distribution[row[j]] * value[j]
        out[y] = mass
        total += mass
    for y in range(out.size):
        out[y] /= total


@jit
def _reach(matrix: Floats, origin: int, backward: bool, queue: Integers32) -> int:
    """Fill ``queue`` with ``origin`` and the states reachable from it (or reaching it); their number."""
    size = matrix.shape[0]
    seen = np.zeros(size, dtype=np.bool_)
    seen[origin] = True
    queue[0] = origin
    found, done = 1, 0
    while done < found < size:
        state = queue[done]
        done += 1
        for other in range(size):
            probability = matrix[other, state] if backward else matrix[state, other]
            if probability > 0.0 and not seen[other]:
                seen[other] = True
                queue[found] = other
                found += 1
    return found


@jit
def _descend(matrix: Floats, origin: int, ahead: Integers32, behind: Integers32) -> tuple[int, int]:
    """Walk from ``origin`` down to a closed class: ``ahead`` becomes it, ``behind`` what reaches it."""
    state = origin
    while True:
        count = _reach(matrix, state, False, ahead)
        count_behind = _reach(matrix, state, True, behind)
        returns = np.zeros(matrix.shape[0], dtype=np.bool_)
        for j in range(count_behind):
            returns[behind[j]] = True
        lost = -1
        for j in range(count - 1, -1, -1):  # the state met last is probably the furthest down
            if not returns[ahead[j]]:
                lost = ahead[j]
                break
        if lost < 0:
            return count, count_behind
        state = lost


@jit
def closed_classes(matrix: Floats) -> tuple[Integers32, int]:
    """Label (K,) of each state's closed class, by lowest member, else ``TRANSIENT``; their number."""
    size = matrix.shape[0]
    labels = np.full(size, _UNSEEN, dtype=np.int32)
    ahead, behind = np.empty(size, dtype=np.int32), np.empty(size, dtype=np.int32)
    classes = 0
    for origin in range(size):
        if labels[origin] != _UNSEEN:
            continue
        count, count_behind = _descend(matrix, origin, ahead, behind)
        for j in range(count_behind):
            labels[behind[j]] = TRANSIENT
        for j in range(count):
            labels[ahead[j]] = classes
        classes += 1
    return _in_order(labels, classes), classes


@jit
def _in_order(labels: Integers32, classes: int) -> Integers32:
    """Renumber closed classes by their lowest member."""
    number = np.full(classes, -1, dtype=np.int32)
    met = 0
    for state in range(labels.size):
        if labels[state] >= 0:
            if number[labels[state]] < 0:
                number[labels[state]] = met
                met += 1
            labels[state] = number[labels[state]]
    return labels


@jit
def _fold(matrix: Floats, state: int, first: int, leaving: Floats) -> None:
    """Fold ``state`` into the states before it, completely for rows from ``first``, else within the panel."""
    for j in range(state):
        leaving[state] += matrix[state, j]
    if leaving[state] == 0.0:  # cannot leave in double precision: underflow, or a state that absorbs
        return
    matrix[state, :state] /= leaving[state]  # now at most 1, so nothing below can overflow
    for i in range(first, state):
        if matrix[i, state] > 0.0:
            add_scaled(matrix[i, :state], matrix[i, state], matrix[state, :state])
    for i in range(first):
        if matrix[i, state] > 0.0:
            add_scaled(matrix[i, first:state], matrix[i, state], matrix[state, first:state])


@jit
def eliminate(matrix: Floats, stop: int) -> Floats:
    """Fold states ``K-1, ..., stop`` into those before them, in place; each one's mass of leaving (K,).

    Afterwards the first ``stop`` rows are the chain watched only on the first ``stop`` states. Works panel by
    panel so that a large matrix is not fetched once a state; sums run in the same order as unblocked ones.
    """
    leaving = np.zeros(matrix.shape[0])
    high = matrix.shape[0]
    while high > stop:
        low = max(stop, high - _PANEL)
        for state in range(high - 1, low - 1, -1):
            _fold(matrix, state, low, leaving)
        for left in range(0, low, _STRIP):
            right = min(low, left + _STRIP)
            for i in range(low):
                for state in range(high - 1, low - 1, -1):
                    if matrix[i, state] > 0.0 and leaving[state] > 0.0:
                        add_scaled(matrix[i, left:right], matrix[i, state], matrix[state, left:right])
        high = low
    return leaving


@jit
def gth(matrix: Floats) -> Floats:
    """Stationary distribution (K,) of an irreducible matrix, overwritten; the diagonal is not read."""
    size = matrix.shape[0]
    leaving = eliminate(matrix, 1)
    result = np.zeros(size)
    result[0] = 1.0
    for state in range(1, size):
        entering = 0.0
        for j in range(state):
            entering += result[j] * matrix[j, state]
        if entering == 0.0:
            continue
        weight = entering / leaving[state] if leaving[state] > 0.0 else np.inf
        if weight > 1e200:  # everything before is negligible beside it: rescale rather than overflow
            result[:state] *= leaving[state] / entering
            weight = 1.0
        result[state] = weight
    result /= result.sum()
    return result


@jit
def absorption(matrix: Floats, labels: Integers32, classes: int) -> Floats:
    """Probability (R,) of ending in each closed class, started uniformly over all states."""
    size = matrix.shape[0]
    position = labels.copy()
    states = classes
    for x in range(size):
        if labels[x] == TRANSIENT:
            position[x] = states
            states += 1
    # Row 0 carries the start; folding the transient states pushes its mass into the classes before them.
    watched = np.zeros((states, states))
    for x in range(size):
        watched[0, position[x]] += 1.0 / size
        if labels[x] == TRANSIENT:
            for y in range(size):
                watched[position[x], position[y]] += matrix[x, y]
    eliminate(watched, classes)
    weights = watched[0, :classes].copy()
    weights /= weights.sum()
    return weights


@jit
def settle(matrix: Floats, labels: Integers32, weights: Floats) -> Floats:
    """The Cesàro limit (K,): each closed class in its own equilibrium, with its weight; zero elsewhere."""
    result = np.zeros(labels.size)
    for label in range(weights.size):
        members = np.flatnonzero(labels == label)
        inner = np.empty((members.size, members.size))
        for i in range(members.size):
            for j in range(members.size):
                inner[i, j] = matrix[members[i], members[j]]
        result[members] = weights[label] * gth(inner)
    return result


@jit
def cyclo_stationary(column_start: Integers32, row: Integers32, value: Floats, out: Floats) -> None:
    """Fill ``out`` (C, K): the limit from the uniform start in slot 0, then pushed on slot by slot."""
    product = cycle_product(column_start, row, value)
    labels, classes = closed_classes(product)
    if classes == 1 and labels.min() == 0:
        out[0] = gth(product)
    else:
        weights = absorption(product, labels, classes) if classes > 1 else np.ones(1)
        out[0] = settle(product, labels, weights)
    for slot in range(1, out.shape[0]):
        push_forward(out[slot - 1], column_start[slot - 1], row, value, out[slot])


@pjit(lambda population: population.slots.size, least=8)
def fill_distributions(begin: int, end: int, population: PopulationArrays) -> None:
    """Write each person's (cyclo-)stationary distribution into a population's arrays."""
    for person in range(begin, end):
        view = chain_view(population, person)
        cyclo_stationary(view.column_start, view.row, view.value, view.start)
