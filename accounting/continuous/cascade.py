"""Refined bounds for as many people as a step's work allows: with few vectors first, then with many.

Work is measured in operations that follow from a person's structure, never in seconds, and each share of the
people (:class:`~accounting.continuous.people.PeopleShares`) has an even part of it. So replays, partitions,
threads and restarts refine the same people and give the same bits. Work that one share does not use is not
given to the others, because another process may hold them.

1. People who are owed it are refined with all vectors, whatever that costs (:attr:`Due.is_owed`). 2. A share
that can pay all vectors for all its other people does so. 3. Any other share goes through three rounds. Each
goes as far as the work lasts and takes the people with most
   added risk first: few vectors as if every count were exact; for these people, few vectors through the
   noise, if any count is noised; then all vectors.

A person's exact cost is computed only if the share could pay for the person at the least possible cost.

In one share, people with equal priors and starts are paid for once. Across shares, people who went through
the same rounds are computed once. For example one person of the same prior in each of two shares, of which
the first pays for few vectors and the second for all: the chain is computed twice, and the two people have
different risks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import budget_within
from accounting.continuous.accounts_kernel import NEGLIGIBLE, Accounts, HorizonState
from accounting.continuous.people import (
    CellPositions,
    ChainPositions,
    Groups,
    Holders,
    PeopleShares,
    UnitPositions,
)
from accounting.continuous.refine_kernel import LEAST_OPERATIONS, find_operations, refine
from accounting.exposure.step_information import seen_exactly
from accounting.exposure.step_information.likelihood_levels import SeenSteps
from accounting.settings import HorizonSettings, RiskBudget
from models.priors import Population

FEW_VECTORS = 4
_ALL, _FEW, _FEW_NOISED, _MORE = 1, 2, 4, 8
"""The rounds that a chain went through, as bits of one number, its *way*."""


class Due(NamedTuple):
    """People whose risk the refined bounds could lower, and whether each is owed that, (n,) each.

    A person is owed it if decisions under a risk budget may have counted on the refined bounds.
    """

    people: NDArray[np.int64]
    is_owed: NDArray[np.bool_]

    def of(self, chosen: NDArray[np.bool_]) -> Due:
        """Some of them, (n,)."""
        return Due(self.people[chosen], self.is_owed[chosen])


def find_due(accounts: Accounts, settings: HorizonSettings) -> Due:
    """The people whose fast bound is high enough to be refined."""
    state = accounts.state
    # Where next to nothing was revealed the fast bound is the guess from the prior, which nothing lowers.
    is_raised = state.risk > np.maximum(state.baseline, state.guess * (1.0 + NEGLIGIBLE))
    people = np.flatnonzero(is_raised & (state.risk >= accounts.horizon.refined_from))
    is_owed = np.zeros(state.risk.size, dtype=np.bool_)
    if settings.decided is not None:
        is_owed = is_above(settings.decided, settings.within_nats, state)
    return Due(people, is_owed[people])


def is_above(limit: RiskBudget, within_nats: float, state: HorizonState) -> NDArray[np.bool_]:
    """Who is above the limit of decisions by the fast bound, (N,); refined bounds may have cleared them.

    People who are above the limit by habits alone are left out, because no bound clears them. Whether
    ``habits_apart`` exempts a person is decided by the limit as it was set, not by the lower one within a
    radius.
    """
    most = 1.0 if limit.added is None else limit.added
    level = _level(budget_within(within_nats, limit), state)
    guess = state.guess * (1.0 + NEGLIGIBLE)
    most_risk = np.where(guess >= level, np.inf, level)
    if limit.habits_apart:
        most_risk = np.where(guess >= _level(limit, state), state.guess + most, most_risk)
    return state.risk > most_risk * (1.0 - 1e-9)  # rounding must not leave out a person who is owed it


def _level(limit: RiskBudget, state: HorizonState) -> NDArray[np.float64]:
    """The risk that each person may have under the limit, (N,)."""
    most = 1.0 if limit.added is None else limit.added
    return np.minimum(1.0 if limit.risk is None else limit.risk, state.baseline + most)


def alike_chains(population: Population, since: NDArray[np.int64]) -> ChainPositions:
    """For each chain the first one with an equal prior that is accounted from the same step on, (C,)."""
    steps, position = np.unique(since, return_inverse=True)
    key = population.accounted.alike * steps.size + position.reshape(-1)
    _, first, alike = np.unique(key, return_index=True, return_inverse=True)
    return ChainPositions(first[alike.reshape(-1)].astype(np.int64))


@dataclass(frozen=True, eq=False)
class Units:
    """The units that a share pays for: its people with equal chains who are accounted from the same step on.

    ``chain`` (U,) is the first chain equal to theirs and ``shares`` (U,) the share of each, in rising rank.
    ``of_cell`` (D, B) is the unit of each chain of a cell. ``alike`` (C,) is the first chain equal to each.
    """

    chain: ChainPositions
    shares: PeopleShares
    of_cell: UnitPositions
    alike: ChainPositions
    holders: Holders

    @classmethod
    def of(cls, holders: Holders, count: int, alike: ChainPositions, draws: int) -> Units:
        """The units of people in ``count`` shares; ``draws`` chains stand for each person."""
        number = np.arange(draws)[:, np.newaxis]
        chain = alike[holders.account * draws + number].reshape(-1)
        rank = (holders.rank * draws + number).reshape(-1)
        key = np.tile(holders.share, draws) * alike.size + chain
        order = np.lexsort((rank, key))
        begins = np.diff(key[order], prepend=-1) != 0
        first = order[begins]
        by_rank = np.argsort(rank[first], kind="stable")
        unit = np.empty(key.size, dtype=np.int64)
        unit[order] = np.argsort(by_rank)[np.cumsum(begins) - 1]
        first, of_cell = first[by_rank], unit.reshape(draws, -1)
        shares = PeopleShares(count, np.tile(holders.share, draws)[first], rank[first])
        return cls(ChainPositions(chain[first]), shares, UnitPositions(of_cell), alike, holders)

    @cached_property
    def by_share(self) -> UnitPositions:
        """All units, share by share and in rising rank within a share, (U,)."""
        return UnitPositions(np.argsort(self.shares.share, kind="stable"))

    def people_of(self, units: UnitPositions) -> NDArray[np.int64]:
        """The number of people of each account in these units, by the first of their chains, (A,)."""
        is_chosen = np.zeros(self.chain.size, dtype=np.bool_)
        is_chosen[units] = True
        cells = np.flatnonzero(is_chosen[self.of_cell[0]])
        found = np.zeros(self.alike.size // len(self.of_cell), dtype=np.int64)
        np.add.at(found, self.holders.account[cells], self.holders.people[cells])
        return found

    def most_people(self, units: int | None) -> int:
        """The most people that this many units have, one chain a person; in all units for None."""
        people = np.zeros(self.chain.size, dtype=np.int64)
        np.add.at(people, self.of_cell[0], self.holders.people)
        return int(np.sort(people)[::-1][: people.size if units is None else min(units, people.size)].sum())


class _Refined(NamedTuple):
    """The figures of all chains after one way, (C,) each."""

    risk: NDArray[np.float64]
    decided_by: NDArray[np.int8]


class Cascade:
    """The refined bounds of one step for the units with a due chain.

    ``_way`` (u,) are the rounds that each due unit went through. Ways of one chain may differ between shares;
    then its figures are kept for each way.
    """

    def __init__(self, accounts: Accounts, last_step: int, seen: SeenSteps, due: Due, units: Units) -> None:
        """``seen`` (HISTORY + T rows) are the steps of the horizon until ``last_step`` and before it."""
        state = accounts.state
        is_due = np.zeros(state.risk.size, dtype=np.bool_)
        is_owed = np.zeros(state.risk.size, dtype=np.bool_)
        is_due[due.people], is_owed[due.people] = True, due.is_owed
        self._accounts = accounts
        self._last_step = last_step
        self._seen = seen
        self._units = units
        self._due = units.by_share[is_due[units.chain[units.by_share]]]
        self._chain = units.chain[self._due]
        self._is_due = is_due
        self._shares = units.shares.take(self._due)
        self._is_owed = is_owed[self._chain]
        self._way = np.zeros(self._due.size, dtype=np.int64)
        self._risk = state.risk[self._chain]
        self._refined = {0: _Refined(state.risk, state.decided_by)}

    def refine(self, operations: int | None) -> None:
        """Lower the risks of due units with at most this much work (None: any); then :meth:`settle`."""
        vectors, seen = self._accounts.horizon.vectors, self._seen
        if operations is None:
            self._run(np.ones(self._due.size, dtype=np.bool_), _ALL, vectors, seen)
            return
        left = self._shares.even_parts(operations)
        whole = self._paid_whole(vectors, seen, left)
        self._run(whole, _ALL, vectors, seen)
        exact = seen_exactly(seen.labels)
        few = self._most_added(~whole, FEW_VECTORS, exact, left)
        self._run(few, _FEW, FEW_VECTORS, exact)
        rounds = [(_FEW_NOISED, FEW_VECTORS)] if seen.is_noised else []
        if seen.is_noised or self._accounts.horizon.mistakes > 0:
            rounds.append((_MORE, vectors))
        for way, effort in rounds:
            matters = few & (self._risk > self._accounts.state.baseline[self._chain])
            chosen = self._most_added(matters, effort, seen, left)
            self._run(chosen, way, effort, seen)

    def settle(self, groups: Groups) -> Groups:
        """The groups with the refined figures, split where shares of an account went through other rounds."""
        alike, way = self._units.alike, np.zeros(self._units.chain.size, dtype=np.int64)
        way[self._due] = self._way
        of_chain = np.zeros(alike.size, dtype=np.int64)
        of_chain[self._chain] = self._way
        is_mixed = np.zeros(alike.size, dtype=np.bool_)
        is_mixed[self._chain[self._way != of_chain[self._chain]]] = True
        if is_mixed.any():
            is_apart = np.asarray(is_mixed[alike[groups.chains()]].any(axis=0))
            cells = CellPositions(np.flatnonzero(is_apart[groups.of_cell]))
            apart = np.zeros(cells.size, dtype=np.int64)
            for units in self._units.of_cell[:, cells]:
                _, apart = np.unique(apart * 2 * _MORE + way[units], return_inverse=True)
            groups = groups.split(cells, apart.reshape(-1))
        chains = groups.chains()
        found = of_chain[alike[chains]]
        mixed = np.flatnonzero(np.any(is_mixed[alike[chains]], axis=0))
        if mixed.size:
            cell = np.empty(groups.account.size, dtype=np.int64)
            cell[groups.of_cell] = np.arange(groups.of_cell.size)
            found[:, mixed] = way[self._units.of_cell[:, cell[mixed]]]
        return self._filled(groups, chains, found)

    def _filled(self, groups: Groups, chains: ChainPositions, way: NDArray[np.int64]) -> Groups:
        """The groups with the figures of their ``chains`` (D, G), which went this ``way`` (D, G)."""
        state, alike = self._accounts.state, self._units.alike[chains]
        risk, decided_by = state.risk[chains], state.decided_by[chains]
        for through, refined in self._refined.items():
            if through:
                went = way == through
                risk[went], decided_by[went] = refined.risk[alike[went]], refined.decided_by[alike[went]]
        figures = groups.figures._replace(
            risk=risk, decided_by=decided_by, is_unreached=self._is_due[alike] & (way == 0)
        )
        return groups._replace(figures=figures)

    def _operations(self, units: NDArray[np.int64], vectors: int, seen: SeenSteps) -> NDArray[np.int64]:
        """The cost of refining each of these due units with this many vectors, (n,)."""
        cost = np.full(self._units.alike.size, -1, dtype=np.int64)
        cost[self._chain[units]] = 0
        chains = np.flatnonzero(cost == 0)
        cost[chains] = find_operations(self._accounts, chains, vectors, seen)
        return cost[self._chain[units]]

    def _paid_whole(self, vectors: int, seen: SeenSteps, left: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Units that get all vectors at once: those owed it, and all of a share that can pay for all."""
        is_paid = self._is_owed.copy()
        owed = np.flatnonzero(is_paid)
        left -= self._shares.total(owed, self._operations(owed, vectors, seen))
        others = np.flatnonzero(~is_paid)
        people = np.bincount(self._shares.share[others], minlength=left.size)
        others = others[(people * LEAST_OPERATIONS <= left)[self._shares.share[others]]]
        total = self._shares.total(others, self._operations(others, vectors, seen))
        others = others[(total <= left)[self._shares.share[others]]]
        is_paid[others] = True
        left -= np.where(total <= left, total, 0)
        return is_paid

    def _most_added(
        self, among: NDArray[np.bool_], vectors: int, seen: SeenSteps, left: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Those ``among`` the units that their shares pay for: most added risk first, equals by rank."""
        chosen = np.zeros(among.size, dtype=np.bool_)
        added = self._risk - self._accounts.state.baseline[self._chain]
        some = self._within_reach(np.flatnonzero(among), added, left)
        some = some[np.argsort(-added[some], kind="stable")]
        chosen[some] = self._shares.paid(some, self._operations(some, vectors, seen), left)
        return chosen

    def _within_reach(
        self, units: NDArray[np.int64], added: NDArray[np.float64], left: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """The units with most added risk that each share could pay for if each had the least possible cost.

        Ties with the last one are included. For example, a share has 80 000 operations left and a unit costs
        at least 35 000: only the two units with most added risk are within reach.
        """
        most = np.maximum(left, 0) // LEAST_OPERATIONS
        bounds = np.searchsorted(self._shares.share[units], np.arange(left.size + 1))
        reached = []
        for share in range(left.size):
            own = units[bounds[share] : bounds[share + 1]]
            if 0 < most[share] < own.size:
                gain = added[own]
                own = own[gain >= np.partition(gain, -most[share])[-most[share]]]
            reached.append(own if most[share] else own[:0])
        return np.concatenate(reached)

    def _run(self, chosen: NDArray[np.bool_], way: int, vectors: int, seen: SeenSteps) -> None:
        """Refine these units with this many vectors, starting from the figures that each one has."""
        accounts = self._accounts._replace(horizon=self._accounts.horizon._replace(vectors=vectors))
        for before in np.unique(self._way[chosen]).tolist():
            members = chosen & (self._way == before)
            chains, known = np.unique(self._chain[members]), self._refined[before]
            refined = _Refined(known.risk.copy(), known.decided_by.copy())
            state = accounts.state._replace(risk=refined.risk, decided_by=refined.decided_by)
            refine(accounts._replace(state=state), chains, self._last_step, seen)
            self._refined[before | way] = refined
            self._way[members] = before | way
            self._risk[members] = refined.risk[self._chain[members]]
