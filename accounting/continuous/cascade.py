"""Refined bounds for as many people as a step's work allows: few vectors first, then many.

Work is counted in operations that a person's structure alone says, never in seconds, and each share of the
people (:class:`~accounting.continuous.people_shares.PeopleShares`) has an even part of it. So replays,
partitions, threads and restarts refine the same people and give the same bits. What a share does not use is
lost: the others may be held elsewhere.

1. Who is owed it is refined with all vectors, whatever that costs.
2. A share that can pay all vectors for everybody else does so.
3. Else those to whom most was added get few vectors, as if every count were exact, as far as the work goes;
   of them, with what is left, those to whom still most was added get the bound through the noise with few
   vectors, if any count is noised; and then all vectors.

People of one share with equal priors and starts are paid for once, and computed once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import budget_within
from accounting.continuous.accounts_kernel import NEGLIGIBLE, Accounts, HorizonState
from accounting.continuous.people_shares import PeopleShares
from accounting.continuous.refine_kernel import find_operations, refine
from accounting.exposure.step_information import seen_exactly
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from accounting.settings import HorizonSettings, RiskBudget
from models.priors import Population

FEW_VECTORS = 4


class Due(NamedTuple):
    """Whom the refined bounds could lower, and who of them is owed it, (n,) each."""

    people: NDArray[np.int64]
    is_owed: NDArray[np.bool_]


def find_due(accounts: Accounts, settings: HorizonSettings) -> Due:
    """Whose fast bound is high enough to look again, and who may have counted on the refined bounds."""
    state = accounts.state
    # Where next to nothing was revealed, the fast bound is the guess from the prior: nothing to gain.
    is_raised = state.risk > np.maximum(state.baseline, state.guess * (1.0 + NEGLIGIBLE))
    people = np.flatnonzero(is_raised & (state.risk >= accounts.horizon.refined_from))
    is_owed = np.zeros(state.risk.size, dtype=np.bool_)
    if settings.decided is not None:
        is_owed = is_above(settings.decided, settings.within_nats, state)
    return Due(people, is_owed[people])


def is_above(limit: RiskBudget, within_nats: float, state: HorizonState) -> NDArray[np.bool_]:
    """Who is above the limit of decisions by the fast bound, (N,): the refined ones may have cleared them.

    But for those whom habits alone put above it, whom no bound clears. Whom ``habits_apart`` spares is
    judged by the limit as it was set, not by what a radius lowers it to.
    """
    most = 1.0 if limit.added is None else limit.added
    level = _level(budget_within(within_nats, limit), state)
    guess = state.guess * (1.0 + NEGLIGIBLE)
    most_risk = np.where(guess >= level, np.inf, level)
    if limit.habits_apart:
        most_risk = np.where(guess >= _level(limit, state), state.guess + most, most_risk)
    return state.risk > most_risk * (1.0 - 1e-9)


def _level(limit: RiskBudget, state: HorizonState) -> NDArray[np.float64]:
    """The risk that the limit leaves each person, (N,)."""
    most = 1.0 if limit.added is None else limit.added
    return np.minimum(1.0 if limit.risk is None else limit.risk, state.baseline + most)


class SeenHorizon(NamedTuple):
    """The horizon that is bounded."""

    last_step: int
    seen: SeenSteps  # (HISTORY + T rows) its steps and those before it


def alike_accounts(population: Population, since: NDArray[np.int64]) -> NDArray[np.int64]:
    """Each chain's first one with an equal prior, accounted from the same step on, (N,)."""
    steps, position = np.unique(since, return_inverse=True)
    key = population.accounted.alike * steps.size + position.reshape(-1)
    _, first, alike = np.unique(key, return_index=True, return_inverse=True)
    return first[alike.reshape(-1)].astype(np.int64)


class Cascade:
    """The refined bounds of one step, for some of the people.

    Those of one share whose ``alike`` (N,), the first person with an equal prior and start, is the same are
    a *unit*: ``_leader`` (u,) is its first by rank, ``_unit`` (n,) is the unit of each of the due.
    """

    def __init__(
        self,
        accounts: Accounts,
        horizon: SeenHorizon,
        due: Due,
        shares: PeopleShares,
        alike: NDArray[np.int64],
    ) -> None:
        self._accounts = accounts
        self._horizon = horizon
        self._due = due.people
        self._shares = shares
        self._alike = alike
        share, same, rank = shares.share[due.people], alike[due.people], shares.rank[due.people]
        order = np.lexsort((rank, same, share))
        begins = np.ones(order.size, dtype=np.bool_)
        begins[1:] = (np.diff(share[order]) != 0) | (np.diff(same[order]) != 0)
        self._leader = due.people[order[begins]]
        self._unit = np.empty(order.size, dtype=np.int64)
        self._unit[order] = np.cumsum(begins) - 1
        self._is_owed = np.zeros(self._leader.size, dtype=np.bool_)
        self._is_owed[self._unit[due.is_owed]] = True

    def refine(self, operations: int | None) -> NDArray[np.int64]:
        """Lower their risks within so much work (None: any); who could not be reached, by position."""
        state, vectors = self._accounts.state, self._accounts.horizon.vectors
        if operations is None:
            self._run(np.ones(self._leader.size, dtype=np.bool_), vectors, self._horizon.seen)
            return self._due[:0]
        left, seen = self._shares.even_parts(operations), self._horizon.seen
        whole = self._paid_whole(self._operations(vectors, seen), left)
        self._run(whole, vectors, seen)
        exact = seen_exactly(seen.labels)
        few = self._most_added(~whole, self._operations(FEW_VECTORS, exact), left)
        self._run(few, FEW_VECTORS, exact)
        further = []
        if seen.is_noised:
            further.append(FEW_VECTORS)
        if seen.is_noised or self._accounts.horizon.mistakes > 0:
            further.append(vectors)
        for effort in further:
            matters = few & (state.risk[self._leader] > state.baseline[self._leader])
            chosen = self._most_added(matters, self._operations(effort, seen), left)
            self._run(chosen, effort, seen)
        return self._due[~(whole | few)[self._unit]]

    def _operations(self, vectors: int, seen: SeenSteps) -> NDArray[np.int64]:
        """What so many vectors cost each unit."""
        found = np.empty(self._leader.size, dtype=np.int64)
        find_operations(self._accounts, self._leader, vectors, seen, found)
        return found

    def _paid_whole(self, cost: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Units that get all vectors at once: owed it, or of a share that can pay it for all of its own."""
        owed = self._is_owed
        left -= self._shares.total(self._leader[owed], cost[owed])
        others = self._shares.total(self._leader[~owed], cost[~owed])
        is_paid = others <= left
        left[is_paid] -= others[is_paid]
        return owed | is_paid[self._shares.share[self._leader]]

    def _most_added(
        self, among: NDArray[np.bool_], cost: NDArray[np.int64], left: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Those ``among`` the units that their shares pay for, the most added first."""
        state, chosen = self._accounts.state, np.zeros(among.size, dtype=np.bool_)
        some = np.flatnonzero(among)
        added = state.risk[self._leader[some]] - state.baseline[self._leader[some]]
        some = some[np.lexsort((self._shares.rank[self._leader[some]], -added))]
        chosen[some] = self._shares.paid(self._leader[some], cost[some], left)
        return chosen

    def _run(self, chosen: NDArray[np.bool_], vectors: int, seen: SeenSteps) -> None:
        """Refine these units with so many vectors; all of them have been through the same before."""
        accounts, leader = self._accounts, self._leader[chosen]
        if leader.size == 0:
            return
        _, first, same = np.unique(self._alike[leader], return_index=True, return_inverse=True)
        computed = leader[first]
        accounts = accounts._replace(horizon=accounts.horizon._replace(vectors=vectors))
        refine(accounts, computed, self._horizon.last_step, seen)
        source = self._leader.copy()
        source[chosen] = computed[same.reshape(-1)]
        members = chosen[self._unit]
        to, alike = self._due[members], source[self._unit[members]]
        accounts.state.risk[to] = accounts.state.risk[alike]
        accounts.state.decided_by[to] = accounts.state.decided_by[alike]
