"""Refined bounds for as many people as a step's work allows: with few vectors first, then with many.

What the work of a step (:mod:`accounting.continuous.payer`) is spent on:

1. People who are owed it are looked at with few vectors, as decisions look at them, whatever that costs
   (:attr:`Due.is_owed`).
2. A share that can pay all vectors for all its people does so.
3. Any other share goes through four rounds, each as far as the work lasts, first where most is added: a
   first look, through the noise or as if every count were exact, whichever says more for little work; for
   these people few vectors through the noise, where the first look was not; a closer look through the noise
   with four times the work, where that did not suffice; then all vectors. The later ones leave out who has
   next to no added risk. Bounds through noise are paid for beforehand as if they took all that they may; what
   they leave pays for more people. Who is owed few vectors has had the first two rounds.

Where there are counts over windows, a last round looks at them as they are published, with what is left of
the work (:mod:`accounting.continuous.published`).

In one share, people with equal priors and starts are paid for once. Across shares, people who went through
the same rounds are computed once. For example one person of the same prior in each of two shares, of which
the first pays for few vectors and the second for all: the chain is computed twice, and the two people have
different risks.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from functools import cached_property
from math import lcm
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.own_counts_bound import BY_OWN_COUNTS
from accounting.bounds.patterns.raw_success_kernel import BY_BASELINE
from accounting.continuous.accounts_kernel import Accounts
from accounting.continuous.payer import LEAST_GAIN, Due, Payer, decided_with, with_vectors
from accounting.continuous.people import (
    CellPositions,
    ChainPositions,
    Groups,
    Holders,
    PeopleShares,
    UnitPositions,
)
from accounting.continuous.published import OWN_COUNTS_OPERATIONS, Published, ceiling_by_own_counts
from accounting.continuous.refine_kernel import (
    CLOSER_VECTORS,
    FEW_VECTORS,
    FIRST_PRODUCTS,
    KEPT,
    LEAST_OPERATIONS,
    count_hits,
    find_operations,
    refine,
)
from accounting.exposure.step_information.likelihood_levels import SeenSteps
from models.numerics.arrays import Flags, Floats, Integers
from models.priors import Population

_ALL, _FIRST, _FEW, _CLOSER, _MORE, _WHOLE = 1, 2, 4, 8, 16, 32
"""The rounds that a chain went through, as bits of one number, its *way*."""


def alike_chains(population: Population, since: Integers) -> ChainPositions:
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

    def people_of(self, units: UnitPositions) -> Integers:
        """The number of people of each account in these units, by the first of their chains, (A,)."""
        is_chosen = np.zeros(self.chain.size, dtype=np.bool_)
        is_chosen[units] = True
        cells = np.flatnonzero(is_chosen[self.of_cell[0]])
        found = np.zeros(self.alike.size // len(self.of_cell), dtype=np.int64)
        np.add.at(found, self.holders.account[cells], self.holders.people[cells])
        return found

    @cached_property
    def people(self) -> Integers:
        """The number of people of each unit, (U,), one chain a person."""
        found = np.zeros(self.chain.size, dtype=np.int64)
        np.add.at(found, self.of_cell[0], self.holders.people)
        return found


# Windows that come again, as of sensors that count all day long, are refined once: what is slow about the
# refined bounds follows from the window and the slot it falls in. Work is paid for as if it were computed, so
# that what is kept changes no figure.

_MOST_BYTES = 64 * 2**20
_MOST_WINDOWS = 1024  # a week of hours, in several ways: few people take less room than their windows do

_Step = tuple[SeenSteps, Published | None]

_Window = tuple[tuple[int, ...], int, int, int]
"""The names of the steps, the slot of the last, the vectors, and the round."""


class RepeatedWindows:
    """Refines chains, and keeps what is found in windows whose ``steps`` are known, the last used ones.

    Each of the steps has what is seen of it, and what was published, if that is another thing.
    """

    def __init__(self, accounts: Accounts, steps: tuple[_Step, ...] = ()) -> None:
        """For the chains of these accounts, as long as their moves and slots are the same."""
        self.steps = steps
        self._period = lcm(*np.unique(accounts.population.slots).tolist())
        self._shape = accounts.since.size, KEPT
        self._most = min(_MOST_WINDOWS, _MOST_BYTES // max(1, 8 * accounts.since.size * KEPT))
        self._windows: OrderedDict[_Window, tuple[tuple[_Step, ...], Floats]] = OrderedDict()

    def refine(
        self, accounts: Accounts, chains: Integers, last_step: int, seen: SeenSteps, way: int
    ) -> Floats:
        """As :func:`~accounting.continuous.refine_kernel.refine`, of the window ``steps``: the products."""
        names = tuple(id(step) for step, _ in self.steps)
        key = names, last_step % self._period, accounts.horizon.vectors, way
        known = np.empty((0, KEPT))
        if self._most and len(self.steps) == len(seen.labels):
            # The steps are kept, so that no others get their names.
            _, known = self._windows.setdefault(key, (self.steps, np.full(self._shape, np.nan)))
            self._windows.move_to_end(key)
            if len(self._windows) > self._most:
                self._windows.popitem(last=False)
        products = np.empty(chains.size)
        refine(accounts, chains, last_step, seen, way == _FIRST, known, products)
        return products


class _Refined(NamedTuple):
    """The figures of all chains after one way, (C,) each."""

    risk: Floats
    decided_by: NDArray[np.int8]
    products: Floats  # of the last bound through noise, -1 for none; not a number: not gone yet


class Cascade:
    """The refined bounds of one step for the units with a due chain.

    ``_way`` (u,) are the rounds that each due unit went through, ``_products`` (u,) what its last bound
    through noise took, -1 for none. Ways of one chain may differ between shares; then its figures are kept
    for each way.
    """

    def __init__(
        self,
        accounts: Accounts,
        last_step: int,
        seen: SeenSteps,
        published: Published,
        due: Due,
        units: Units,
        windows: RepeatedWindows,
    ) -> None:
        """``seen`` (HISTORY + T rows) are the steps of the horizon until ``last_step`` and before it.

        ``published`` are the same, or none where no count is of a window.
        """
        state = accounts.state
        is_due = np.zeros(state.risk.size, dtype=np.bool_)
        is_owed = np.zeros(state.risk.size, dtype=np.bool_)
        is_due[due.chains], is_owed[due.chains] = True, due.is_owed
        self._accounts = accounts
        self._last_step = last_step
        self._seen, self._hits = seen, count_hits(seen)
        self._published = published
        self._units = units
        self._windows = windows
        self._due = units.by_share[is_due[units.chain[units.by_share]]]
        self._chain = units.chain[self._due]
        self._is_due = is_due
        self._shares = units.shares.take(self._due)
        self._is_owed = is_owed[self._chain]
        self._way = np.zeros(self._due.size, dtype=np.int64)
        self._risk = state.risk[self._chain]
        self._products = np.full(self._due.size, -1.0)
        self._refined = {0: _Refined(state.risk, state.decided_by, np.full(state.risk.size, -1.0))}

    def refine(self, operations: int | None) -> None:
        """Lower the risks of due units with at most this much work (None: any); then :meth:`settle`."""
        payer = Payer(self._shares, operations)
        self._refine_in_steps(payer)
        if len(self._published.plain.labels):
            self._refine_whole(payer)

    def _refine_whole(self, payer: Payer) -> None:
        """The last round, for who still has added risk: windows as they were published."""
        self._run_paid(payer, self._matters, _WHOLE, self._accounts.horizon.vectors)

    @property
    def _matters(self) -> Flags:
        """Units with more than next to no added risk."""
        return np.asarray(self._risk > self._accounts.state.baseline[self._chain] + LEAST_GAIN)

    def _lower_by_own_counts(self, accounts: Accounts, chains: Integers) -> None:
        state = accounts.state
        for chain in chains.tolist():
            found = ceiling_by_own_counts(accounts, chain, self._last_step, self._published)
            if found is not None and found < state.risk[chain]:
                state.risk[chain] = max(found, state.baseline[chain])
                state.decided_by[chain] = BY_OWN_COUNTS if found > state.baseline[chain] else BY_BASELINE

    def _refine_in_steps(self, payer: Payer) -> None:
        """The rounds that look at what windows show in single steps."""
        vectors, is_noised = self._accounts.horizon.vectors, self._seen.is_noised
        owed = np.flatnonzero(self._is_owed)
        few = decided_with(vectors)
        self._run(self._among(owed), _FEW, few)
        payer.charge(owed, self._operations(owed, _FEW, few, self._products[owed]))
        all_units = np.arange(self._due.size)
        could = all_units[payer.of_whole_shares(all_units, LEAST_OPERATIONS)]
        cost = self._operations(could, _ALL, vectors)
        is_whole = payer.of_whole_shares(could, cost)
        payer.charge(could[is_whole], cost[is_whole])
        whole = self._among(could[is_whole])
        self._run(whole, _ALL, vectors)
        has_few = self._among(owed) & ~whole
        first = self._run_paid(payer, ~whole & ~has_few, _FIRST, FEW_VECTORS)
        if is_noised:
            self._run_paid(payer, first & self._matters & (self._products < 0.0), _FEW, FEW_VECTORS)
        first |= has_few
        if is_noised:
            is_open = first & self._matters & (self._products >= FIRST_PRODUCTS)
            self._run_paid(payer, is_open & (vectors > CLOSER_VECTORS), _CLOSER, CLOSER_VECTORS)
        if is_noised or self._accounts.horizon.mistakes > 0:
            self._run_paid(payer, first & self._matters, _MORE, vectors)

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
                _, apart = np.unique(apart * 2 * _WHOLE + way[units], return_inverse=True)
            groups = groups.split(cells, apart.reshape(-1))
        chains = groups.chains()
        found = of_chain[alike[chains]]
        mixed = np.flatnonzero(np.any(is_mixed[alike[chains]], axis=0))
        if mixed.size:
            cell = np.empty(groups.account.size, dtype=np.int64)
            cell[groups.of_cell] = np.arange(groups.of_cell.size)
            found[:, mixed] = way[self._units.of_cell[:, cell[mixed]]]
        return self._filled(groups, chains, found)

    def _filled(self, groups: Groups, chains: ChainPositions, way: Integers) -> Groups:
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

    def _operations(
        self, units: Integers, way: int, vectors: int, products: Floats | None = None
    ) -> Integers:
        """The cost of a round for each of these due units, (n,).

        With the ``products`` (n,) that their bounds through noise took what it was, else what it may be.
        """
        accounts, chains = self._accounts, ChainPositions(self._chain[units])
        if way == _WHOLE:
            places = np.diff(accounts.population.places_start)[chains]
            return OWN_COUNTS_OPERATIONS * places * (accounts.horizon.mistakes + 1)
        return find_operations(accounts, chains, vectors, self._hits, way == _FIRST, products)

    def _run_paid(self, payer: Payer, among: Flags, way: int, vectors: int) -> Flags:
        """Refine those ``among`` the units that their shares pay for, where most is added first; which."""
        units = np.flatnonzero(among)

        def run(paid: Integers) -> Integers:
            self._run(self._among(units[paid]), way, vectors)
            return self._operations(units[paid], way, vectors, self._products[units[paid]])

        added = (self._risk - self._accounts.state.baseline[self._chain])[units]
        cost_of = lambda some: self._operations(units[some], way, vectors)  # noqa: E731
        return self._among(units[payer.spend(units, added, cost_of, run, LEAST_OPERATIONS)])

    def _among(self, units: Integers) -> Flags:
        """Which of the due units these are, (u,)."""
        found = np.zeros(self._due.size, dtype=np.bool_)
        found[units] = True
        return found

    def _run(self, chosen: Flags, way: int, vectors: int) -> None:
        """Refine these units with this many vectors, starting from the figures that each one has."""
        accounts = with_vectors(self._accounts, vectors)
        for before in np.unique(self._way[chosen]).tolist():
            members, known = chosen & (self._way == before), self._refined[before]
            refined = self._refined.get(before | way)
            if refined is None:
                unknown = np.full(known.risk.size, np.nan)
                refined = _Refined(known.risk.copy(), known.decided_by.copy(), unknown)
            state = accounts.state._replace(risk=refined.risk, decided_by=refined.decided_by)
            accounts = accounts._replace(state=state)
            chains = np.unique(self._chain[members])
            chains = chains[np.isnan(refined.products[chains])]  # others went this way for another share
            if way == _WHOLE:
                self._lower_by_own_counts(accounts, chains)
                refined.products[chains] = -1.0
            else:
                refined.products[chains] = self._windows.refine(
                    accounts, chains, self._last_step, self._seen, way
                )
            self._refined[before | way] = refined
            self._way[members] = before | way
            self._risk[members] = refined.risk[self._chain[members]]
            self._products[members] = refined.products[self._chain[members]]
