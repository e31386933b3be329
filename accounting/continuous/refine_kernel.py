"""The refined bounds on a horizon with a history, for the few people whose fast bound is not low enough.

Noised releases are treated as raw ones, which reveal more. What was released before the horizon enters in one
of two ways, and the smaller bound counts:

- *known start*: the adversary gets ``X_w`` as side information. Given that, the past says nothing about the
  horizon. This is the raw schedule in which every place is seen in the first step.
- *shifted start*: the past moves the law of ``X_w`` by ``TV`` in total variation, and with it the success by
  at most as much. By Pinsker's and Jensen's inequalities ``E TV <= sqrt(J_w / 2)`` with
  ``J_w >= I(X_w; past)``, the carried information.

Information adds: ``I(X_w..X_t; everything) <= J_w + H(Y_w..Y_t)``, the second exact by renewals.

Success 0.30 of the raw horizon on its own, 0.37 with a known start, ``J_w = 0.02`` nat:
    shifted start: 0.30 + sqrt(0.01) = 0.40, known start: 0.37, so the success bound is 0.37.
With ``J_w = 0.002`` the shifted start gives 0.30 + 0.032, and that counts; with ``J_w = 0`` it is 0.30.
The root of the binary divergence at ``J_w + H(Y)`` may be lower still: the accountant takes the smallest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.patterns.raw_success_kernel import (
    BY_BASELINE,
    BY_DIVERGENCE,
    BY_RAW_SUCCESS,
    RawQuestion,
    raw_success,
)
from accounting.continuous.accounts_kernel import (
    UNITS_PER_NAT,
    Accounts,
    Horizon,
    has_initial_distribution,
    slot_of,
)
from accounting.exposure.step_information.renewal_kernel import renewal_information
from accounting.hmm.local_chain_kernel import LocalChain
from accounting.hmm.propagation import marginals
from accounting.numerics.divergence_root_kernel import divergence_root
from models.numerics.jit import inline, jit, pjit
from models.priors.chain import ChainView, chain_view

_MOST_ENTRIES = 1 << 22  # 32 MiB a table
_LEAST_PATTERN = 1e-3  # patterns less likely are not told apart: a few hundred per person at most


class RefinedBounds(NamedTuple):
    """The refined bounds of one person's horizon."""

    success: float  # moment bound, or the exact optimum for s = 0
    divergence: float  # binary divergence at the exact information


class RawHorizon(NamedTuple):
    """One person's horizon of ``T`` steps, every release raw."""

    chain: ChainView
    start: NDArray[np.float64]  # (K,) the law of the first place
    slot: int  # of the first step
    marginal: NDArray[np.float64]  # (T, K)
    hits: NDArray[np.bool_]  # (T, K) where a sensor sees the person


@inline
def raw_horizon(accounts: Accounts, person: int, first: int, labels: NDArray[np.int32]) -> RawHorizon:
    """The person's horizon in the steps ``first..`` of ``labels`` (T, M).

    Steps before the person's own first reveal nothing; with an initial distribution the horizon starts there.
    Beyond the last row nothing is released yet.
    """
    chain = chain_view(accounts.population, person)
    since_row = accounts.since[person] - first
    first_row = max(since_row, 0) if has_initial_distribution(accounts.population, person) else 0
    slot = slot_of(accounts, person, first + first_row)
    start = chain.start[slot]
    if has_initial_distribution(accounts.population, person):
        begin = accounts.population.initial_start[person]
        start = accounts.nonstationary.first[begin : begin + start.size]
    marginal = marginals(chain, start, slot, labels.shape[0])
    hits = np.zeros(marginal.shape, np.bool_)
    for row in range(max(first_row, since_row), labels.shape[0]):
        for x in range(start.size):
            seen = labels[row, chain.places[x]] > 0 and marginal[row - first_row, x] > 0.0
            hits[row - first_row, x] = seen
    return RawHorizon(chain, start, slot, marginal, hits)


@inline
def affordable_success(raw: RawHorizon, hits: NDArray[np.bool_], horizon: Horizon) -> float:
    """The success bound with these hits, of a lower order or 1 where its tables would be too large."""
    steps, place_count = hits.shape
    nodes = hits.sum() + 2
    success = 1.0
    if nodes * max(nodes, 2 * steps * place_count) <= _MOST_ENTRIES:
        order = 1 if (steps * place_count) ** 2 > _MOST_ENTRIES else horizon.order
        order = min(order, steps - horizon.mistakes)
        asked = RawQuestion(horizon.mistakes, order, _LEAST_PATTERN, False)
        success = raw_success(LocalChain(raw.chain, raw.start, raw.slot), hits, asked)
    return success


@jit
def refined_bounds(
    accounts: Accounts, person: int, first: int, labels: NDArray[np.int32], carried: float
) -> RefinedBounds:
    """Both refined bounds on the steps ``first..`` of ``labels`` (T, M); ``carried`` is ``J_w`` in nats."""
    raw = raw_horizon(accounts, person, first, labels)
    guess = accounts.constants.guess[accounts.constants.phase_start[person] + raw.slot]
    revealed = renewal_information(raw.chain, raw.start, raw.slot, raw.hits, raw.marginal).sum()
    information = revealed + carried
    divergence = divergence_root(information * (1.0 + 1e-12), guess)
    shift = np.sqrt(0.5 * carried)
    success = 1.0
    if shift < 1.0:
        success = min(1.0, affordable_success(raw, raw.hits, accounts.horizon) + shift)
    if carried > 0.0 and success > shift:
        known_start = raw.hits.copy()
        known_start[0] = raw.marginal[0] > 0.0
        success = min(success, affordable_success(raw, known_start, accounts.horizon))
    return RefinedBounds(success, divergence)


@pjit(lambda accounts, people, *_: people.size)
def refine(
    begin: int,
    end: int,
    accounts: Accounts,
    people: NDArray[np.int64],
    step_number: int,
    labels: NDArray[np.int32],
) -> None:
    """Lower each one's risk to the smallest bound, never below the baseline, and note which it was.

    The horizon ends with ``step_number``; ``labels`` (T, M) are the outcomes of its steps.
    """
    state = accounts.state
    first = step_number - labels.shape[0] + 1
    for k in range(begin, end):
        person = people[k]
        carried = state.carried[first % state.carried.shape[0], person] / UNITS_PER_NAT
        refined = refined_bounds(accounts, person, first, labels, carried)
        lowest = min(refined.success, refined.divergence)
        if lowest < state.risk[person]:
            by = BY_RAW_SUCCESS if refined.success <= refined.divergence else BY_DIVERGENCE
            baseline = state.baseline[person]
            state.decided_by[person] = by if lowest > baseline else BY_BASELINE
            state.risk[person] = max(lowest, baseline)
