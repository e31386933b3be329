"""The dear bounds on a horizon with a history, for the few people whose cheap bound is not low enough.

Noised releases are treated as raw ones, which tell more. What was released before the horizon enters in one
of two ways, and the smaller bound counts:

- *told*: the adversary is told ``X_w``. Given that, the past says nothing about the horizon. This is the raw
  schedule in which every place is seen in the first step.
- *shifted*: the past moves the law of ``X_w`` by ``TV`` in total variation, and with it the success by at
  most as much. By Pinsker's and Jensen's inequalities ``E TV <= sqrt(J_w / 2)`` with ``J_w >= I(X_w; past)``.

Information adds: ``I(X_w..X_t; everything) <= J_w + H(Y_w..Y_t)``, the second exact by renewals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.erasure_kernel import raw_success
from accounting.continuous.horizon_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_SUCCESS,
    UNITS_PER_NAT,
    Constants,
    HorizonState,
    OwnStarts,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.propagation import marginals
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import jit, pjit
from models.priors.chain import ChainView, PopulationArrays, chain_view

_MOST_ENTRIES = 1 << 22  # 32 MiB a table
_LEAST_PATTERN = 1e-3  # patterns less likely are not told apart: a few hundred per person at most


class Sharpened(NamedTuple):
    """The dear bounds of one person's horizon."""

    success: float  # moment bound, or the exact optimum for s = 0
    divergence: float  # binary divergence at the exact information


@jit
def affordable_success(
    chain: ChainView,
    start: NDArray[np.float64],
    slot: int,
    hits: NDArray[np.bool_],
    mistakes: int,
    order: int,
) -> float:
    """The raw bound of a horizon, of a lower order or 1 where its tables would be too large."""
    steps, place_count = hits.shape
    nodes = hits.sum() + 2
    if nodes * max(nodes, 2 * steps * place_count) > _MOST_ENTRIES:
        return 1.0
    if (steps * place_count) ** 2 > _MOST_ENTRIES:
        order = 1
    return raw_success(chain, start, slot, hits, mistakes, min(order, steps - mistakes), _LEAST_PATTERN)


@jit
def with_history(
    chain: ChainView,
    start: NDArray[np.float64],
    slot: int,
    hits: NDArray[np.bool_],
    marginal: NDArray[np.float64],
    remembered: float,
    guess: float,
    mistakes: int,
    order: int,
) -> Sharpened:
    """Both dear bounds; ``hits`` (T, K), ``remembered`` is ``J_w`` in nats, ``guess`` the person's ``q``."""
    information = renewal_information(chain, start, slot, hits, marginal).sum() + remembered
    divergence = divergence_root(information * (1.0 + 1e-12), guess)
    shift = np.sqrt(0.5 * remembered)
    success = 1.0
    if shift < 1.0:
        success = min(1.0, affordable_success(chain, start, slot, hits, mistakes, order) + shift)
    if remembered > 0.0 and success > shift:
        told = hits.copy()
        told[0] = marginal[0] > 0.0
        success = min(success, affordable_success(chain, start, slot, told, mistakes, order))
    return Sharpened(success, divergence)


@jit
def horizon_hits(
    places: NDArray[np.int32],
    labels: NDArray[np.int32],
    marginal: NDArray[np.float64],
    first_row: int,
    since_row: int,
) -> NDArray[np.bool_]:
    """Where a sensor sees the person, (T, K).

    The horizon begins at row ``first_row`` of ``labels`` (T, M). Rows before ``since_row`` are not the
    person's; beyond the last row nothing is released yet.
    """
    hits = np.zeros(marginal.shape, np.bool_)
    for row in range(max(first_row, since_row), labels.shape[0]):
        for x in range(places.size):
            hits[row - first_row, x] = labels[row, places[x]] > 0 and marginal[row - first_row, x] > 0.0
    return hits


@jit
def sharpen_person(
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    since: int,
    first_slot: int,
    step_number: int,
    labels: NDArray[np.int32],
    mistakes: int,
    order: int,
    person: int,
) -> Sharpened:
    """The dear bounds on the horizon that ends with ``step_number``; ``labels`` (T, M) of its steps."""
    chain = chain_view(population, person)
    horizon = labels.shape[0]
    first = step_number - horizon + 1
    begin, end = population.initial_start[person], population.initial_start[person + 1]
    first_row = max(since - first, 0) if begin < end else 0
    slot = (first_slot + first + first_row) % int(population.slots[person])
    start = own.first[begin:end] if begin < end else chain.start[slot]
    marginal = marginals(chain, start, slot, horizon)
    hits = horizon_hits(chain.places, labels, marginal, first_row, since - first)
    remembered = state.remembered[first % state.remembered.shape[0], person] / UNITS_PER_NAT
    guess = constants.guess[constants.phase_start[person] + slot]
    return with_history(chain, start, slot, hits, marginal, remembered, guess, mistakes, order)


@pjit(lambda population, constants, own, state, people, *_: people.size)
def sharpen(
    begin: int,
    end: int,
    population: PopulationArrays,
    constants: Constants,
    own: OwnStarts,
    state: HorizonState,
    people: NDArray[np.int64],
    since: NDArray[np.int64],
    first_slot: int,
    step_number: int,
    labels: NDArray[np.int32],
    mistakes: int,
    order: int,
) -> None:
    """Lower each one's risk to the smallest bound, never below the baseline, and say which it was."""
    for k in range(begin, end):
        person = people[k]
        dear = sharpen_person(
            population,
            constants,
            own,
            state,
            since[person],
            first_slot,
            step_number,
            labels,
            mistakes,
            order,
            person,
        )
        lowest = min(dear.success, dear.divergence)
        if lowest < state.risk[person]:
            by = BY_SUCCESS if dear.success <= dear.divergence else BY_DIVERGENCE
            baseline = state.baseline[person]
            state.decided_by[person] = by if lowest > baseline else BY_BASELINE
            state.risk[person] = max(lowest, baseline)
