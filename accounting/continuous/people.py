"""The people behind accounts: who has which one, shares of the work, figures, and all of them summed up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SettingsError
from models.exceptions import PriorError
from models.priors import Population

# Groups: people of one account all of whose figures are the same.
#
# People of one account are refined with the work of their own shares, which may reach further in one share
# than in another. Before that ever happens an account is one group; then it is split, and both parts go on
# with the figures that they had.

# The index spaces of an account, each with a type of its own: what stands at one is not read at another.
#
#     person --cell--> cell --account--> account --* draws--> chain
#                      cell --of_cell--> group (of one account), unit (of one share and one kind of chain)
#
# N people by name are in B cells; a cell is of one account and one share of the work. A accounts have A * D
# chains, D for each. G groups are people with the same figures, U units those who are paid for together. An
# array with one value for each of them has its length, and says so: ``stands_for`` (N,), ``account`` (B,).
#
# For example people a, b, c, of whom a and c have one prior, in one share: cells 0, 1, 0 of accounts 0, 1.

PersonPositions = NewType("PersonPositions", NDArray[np.int64])
CellPositions = NewType("CellPositions", NDArray[np.int64])
AccountPositions = NewType("AccountPositions", NDArray[np.int64])
ChainPositions = NewType("ChainPositions", NDArray[np.int64])
GroupPositions = NewType("GroupPositions", NDArray[np.int64])
UnitPositions = NewType("UnitPositions", NDArray[np.int64])


# Named tuples of arrays that have people on their last axis: put together and taken apart.

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_people(first: Arrays, second: Arrays) -> Arrays:
    """The people of the first, then those of the second; every array has them on its last axis."""
    joined = (np.concatenate(pair, axis=-1) for pair in zip(first, second, strict=True))
    return type(first)(*joined)


def take_people(arrays: Arrays, people: NDArray[np.int64]) -> Arrays:
    """The arrays of these people, by position."""
    return type(arrays)(*(np.ascontiguousarray(array[..., people]) for array in arrays))


def bytes_of_people(arrays: Arrays) -> NDArray[np.uint8]:
    """All that the arrays say of each, byte by byte, (N, bytes)."""
    columns = (np.atleast_2d(array).T for array in arrays)
    rows = [np.ascontiguousarray(column).view(np.uint8) for column in columns]
    return np.concatenate(rows, axis=1)


# Everybody's worst moments so far: the highest ceiling, the most that releases added, and their steps.


class WorstMoments(NamedTuple):
    """For each person (N,): ``highest_risk`` and its step, and risk and baseline where releases added most.

    Of equal moments the first counts; a step is -1 before the person's first. Where risks are shown within a
    radius, ``highest_risk`` is; ``risk`` is the prior's, so that what releases added is its difference.
    """

    highest_risk: NDArray[np.float64]
    highest_step: NDArray[np.int64]
    step: NDArray[np.int64]
    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]

    def copy(self) -> WorstMoments:
        """The same figures in arrays of their own."""
        return WorstMoments(**{name: array.copy() for name, array in self._asdict().items()})

    @property
    def added(self) -> NDArray[np.float64]:
        """The most that releases added at any step; 0 before the first."""
        return self.risk - self.baseline

    @property
    def most_added(self) -> float:
        """The most that releases added to anybody at any step."""
        return float(self.added.max(initial=0.0))

    @property
    def most_risk(self) -> float:
        """The highest ceiling of anybody at any step."""
        return float(self.highest_risk.max(initial=0.0))

    def note(
        self, step: int, risk: NDArray[np.float64], baseline: NDArray[np.float64], since: NDArray[np.int64]
    ) -> None:
        """Take a step's figures for those whose releases count from ``since`` on."""
        counts = since <= step
        higher = counts & ((self.highest_step < 0) | (risk > self.highest_risk))
        self.highest_risk[higher], self.highest_step[higher] = risk[higher], step
        worse = counts & ((self.step < 0) | (risk - baseline > self.added))
        self.step[worse], self.risk[worse], self.baseline[worse] = step, risk[worse], baseline[worse]

    def is_first(self, count: int, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Of figures that so many ``people`` (N,) have: whose are among the ``count`` most added, or tie."""
        added = self.added
        order = np.argsort(-added, kind="stable")
        behind = np.cumsum(people[order])
        if count <= 0 or not behind.size:
            return np.zeros(added.size, dtype=np.bool_)
        least = added[order[min(int(np.searchsorted(behind, count)), order.size - 1)]]
        return (added >= least) & (added > 0.0)

    def first(self, count: int) -> NDArray[np.int64]:
        """Positions of the ``count`` people to whom most was added, and of who ties with the last of them."""
        added = self.added
        if count <= 0 or added.size == 0:
            return np.empty(0, dtype=np.int64)
        least = np.partition(added, -min(count, added.size))[-min(count, added.size)]
        return np.flatnonzero((added >= least) & (added > 0.0))


def no_moments(people: int) -> WorstMoments:
    """Before the first step."""
    return WorstMoments(
        np.zeros(people),
        np.full(people, -1, dtype=np.int64),
        np.full(people, -1, dtype=np.int64),
        np.zeros(people),
        np.zeros(people),
    )


class Figures(NamedTuple):
    """What the last step made of each group, and of each of the D chains that stand for a person.

    ``reached`` and ``reached_before`` are how many thresholds the risk had reached after the last step and
    after the one before it. ``is_unreached`` marks chains that the refined bounds could have lowered in the
    last step if its work had sufficed.
    """

    risk: NDArray[np.float64]  # (D, G)
    decided_by: NDArray[np.int8]  # (D, G) BY_ codes
    is_unreached: NDArray[np.bool_]  # (D, G)
    reached: NDArray[np.int64]  # (G,)
    reached_before: NDArray[np.int64]  # (G,)


class Groups(NamedTuple):
    """Who has the same figures: ``account`` (G,) of each group, and the group of each cell, (B,).

    Cells are those of :class:`~accounting.continuous.people.Holders`.
    """

    account: AccountPositions
    of_cell: GroupPositions
    figures: Figures
    worst: WorstMoments

    @classmethod
    def whole(cls, accounts: int, account_of_cell: AccountPositions, draws: int) -> Groups:
        """One group an account, before the first step; the figures are still to be filled in."""
        figures = Figures(
            np.zeros((draws, accounts)),
            np.zeros((draws, accounts), dtype=np.int8),
            np.zeros((draws, accounts), dtype=np.bool_),
            np.zeros(accounts, dtype=np.int64),
            np.zeros(accounts, dtype=np.int64),
        )
        everybody = AccountPositions(np.arange(accounts))
        return cls(everybody, GroupPositions(account_of_cell.copy()), figures, no_moments(accounts))

    @property
    def mean_risk(self) -> NDArray[np.float64]:
        """The mean risk over a group's chains, (G,)."""
        return mean_over_chains(self.figures.risk)

    def any_chain(self, said: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """What is said of each chain, (D, G), as it holds for any of a group's, (G,)."""
        return np.asarray(said.any(axis=0), dtype=np.bool_)

    def chains(self) -> ChainPositions:
        """The positions of each group's chains among those of all accounts, (D, G)."""
        draws = len(self.figures.risk)
        return ChainPositions(self.account * draws + np.arange(draws)[:, np.newaxis])

    def split(self, cells: CellPositions, apart: NDArray[np.int64]) -> Groups:
        """Split whole groups, ``cells`` (n,), so that only cells with an equal ``apart`` (n,) stay together.

        For example cells 4, 5, 6 of one group with ``apart`` 7, 9, 7: cell 5 becomes a group of its own.
        """
        key = self.of_cell[cells] * (int(apart.max(initial=0)) + 1) + apart
        _, first, label = np.unique(key, return_index=True, return_inverse=True)
        of_cell = self.of_cell.copy()
        of_cell[cells] = self.account.size + label.reshape(-1)
        source = np.concatenate((np.arange(self.account.size), self.of_cell[cells[first]]))
        return self._numbered(source, of_cell)

    def take(self, cells: CellPositions, account: AccountPositions) -> Groups:
        """Those of some of the cells, in this order; ``account`` (n,) are their accounts' new numbers."""
        found = self._numbered(np.arange(self.account.size), self.of_cell[cells])
        numbers = np.empty(found.account.size, dtype=np.int64)
        numbers[found.of_cell] = account
        return found._replace(account=AccountPositions(numbers))

    def join(self, others: Groups, account: AccountPositions) -> Groups:
        """These cells, then the others', whose accounts have the numbers ``account`` here.

        Groups of one account with equal figures become one group again.
        """
        figures = self.figures if self.account.size else take_people(others.figures, others.account[:0])
        more = others.figures if others.account.size else take_people(self.figures, self.account[:0])
        both = Groups(
            AccountPositions(np.concatenate((self.account, account[others.account]))),
            GroupPositions(np.concatenate((self.of_cell, others.of_cell + self.account.size))),
            join_people(figures, more),
            join_people(self.worst, others.worst),
        )
        rows = bytes_of_people((both.account, *both.figures, *both.worst))
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
        _, first, label = np.unique(keys, return_index=True, return_inverse=True)
        return both._numbered(first, label.reshape(-1)[both.of_cell])

    def merged(self, cells: CellPositions) -> Groups:
        """With only these cells, one of each of those that have become one."""
        return self._numbered(np.arange(self.account.size), self.of_cell[cells])

    def _numbered(self, source: NDArray[np.int64], of_cell: NDArray[np.int64]) -> Groups:
        """Groups with the figures of ``source``, those that have cells, in the order of their first cells."""
        first = np.full(source.size, of_cell.size, dtype=np.int64)
        first[of_cell[::-1]] = np.arange(of_cell.size)[::-1]
        order = np.argsort(first, kind="stable")[: np.count_nonzero(first < of_cell.size)]
        number = np.empty(source.size, dtype=np.int64)
        number[order] = np.arange(order.size)
        kept = source[order]
        return Groups(
            AccountPositions(self.account[kept]),
            GroupPositions(number[of_cell]),
            take_people(self.figures, kept),
            take_people(self.worst, kept),
        )

    def is_whole(self, accounts: int, draws: int) -> bool:
        """Whether all parts belong together, as they must in a snapshot of so many accounts."""
        groups = self.account.size
        if {array.shape[-1] for array in (*self.figures, *self.worst)} != {groups}:
            return False
        if {len(array) for array in self.figures if array.ndim == 2} != {draws}:
            return False
        within = (self.of_cell >= 0).all() and (self.of_cell < groups).all()
        known = (self.account >= 0).all() and (self.account < accounts).all()
        return bool(within and known and np.unique(self.of_cell).size == groups)


def mean_over_chains(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean over the first axis; in one order, for the same bits."""
    if len(values) == 1:
        return values[0]
    total = values[0].copy()
    for number in range(1, len(values)):
        total += values[number]
    return total / len(values)


# Who is behind each account: all people with an equal prior and start, accounted from the same step on.

# How people are split into shares of the work, alike wherever and with whomever they are held.


@dataclass(frozen=True, eq=False)
class PeopleShares:
    """Everybody's share of ``count``, each with an even part of the work, and rank, which breaks ties.

    Of ``share`` (N,) and ``rank`` (N,) each person's must be the same wherever they are held. Then partitions
    that hold whole shares do together what one process does for all.
    """

    count: int
    share: NDArray[np.int64]
    rank: NDArray[np.int64]

    @classmethod
    def single(cls, people: int) -> PeopleShares:
        """One share of everybody, in their order."""
        return cls(1, np.zeros(people, dtype=np.int64), np.arange(people))

    def take(self, people: NDArray[np.int64]) -> PeopleShares:
        """Of some of the people, by position."""
        return PeopleShares(self.count, self.share[people], self.rank[people])

    def join(self, others: PeopleShares) -> PeopleShares:
        """These people, then the others, who are split into as many."""
        share, rank = np.concatenate((self.share, others.share)), np.concatenate((self.rank, others.rank))
        return PeopleShares(self.count, share, rank)

    def even_parts(self, work: int) -> NDArray[np.int64]:
        """What of the work each share has, (count,)."""
        return np.full(self.count, work // self.count, dtype=np.int64)

    def total(self, people: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.int64]:
        """What these people, (n,) like their ``cost``, take of each share, (count,)."""
        total = np.zeros(self.count, dtype=np.int64)
        np.add.at(total, self.share[people], cost)
        return total

    def paid(
        self, people: NDArray[np.int64], cost: NDArray[np.int64], left: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Whom of ``people`` (n,) the shares pay for out of ``left``, in this order until one is too dear."""
        order = np.argsort(self.share[people], kind="stable")
        share, spent = self.share[people[order]], np.cumsum(cost[order])
        before = np.concatenate((np.zeros(1, dtype=np.int64), spent))[np.searchsorted(share, share)]
        chosen = np.empty(people.size, dtype=np.bool_)
        chosen[order] = spent - before <= left[share]
        left -= self.total(people[chosen], cost[chosen])
        return chosen


def equal_accounts(population: Population, since: NDArray[np.int64]) -> PersonPositions:
    """For each person the first one with an equal prior (or equal chains) and the same ``since``, (N,).

    Priors are compared number by number. Of people A, A, B, A accounted from 0, 0, 0 and 7: 0, 0, 2, 3.
    """
    everybody = np.arange(len(population))
    alike = population.accounted.alike.reshape(-1, population.draws)
    is_same = since.size == 0 or bool((since == since[0]).all())
    if population.draws == 1 and is_same:
        return PersonPositions(alike[:, 0])
    if len(np.unique(alike[:, 0])) == everybody.size:
        return PersonPositions(everybody)
    _, label = np.unique(since, return_inverse=True)
    for column in alike.T:
        _, label = np.unique(label.reshape(-1) * alike.size + column, return_inverse=True)
    _, first, label = np.unique(label, return_index=True, return_inverse=True)
    return PersonPositions(first[label.reshape(-1)].astype(np.int64))


def joined_names(first: tuple[str, ...], second: tuple[str, ...]) -> tuple[str, ...]:
    """The names of both; :class:`~models.exceptions.PriorError` for somebody who is in both."""
    twice = set(second).intersection(first)
    if twice:
        raise PriorError("each person must have one prior", f"{min(twice)!r} twice", "keep one of the two")
    return first + second


class Cells(NamedTuple):
    """Who is in which cell, (N,), the account of each cell, (B,), and how many people each name stands for.

    ``stands_for`` (N,) is None where everybody stands for themselves.
    """

    cell: NDArray[np.int32]
    account: AccountPositions
    stands_for: NDArray[np.int64] | None = None


@dataclass(frozen=True, eq=False)
class Holders:
    """People in cells. A cell holds people of one account and one share of the work: their figures are equal.

    ``cell`` (N,) is each person's cell. Of each cell (B,) ``account``, ``share``, the smallest ``rank`` of
    its people and the number of its ``people`` are known. A persona counts for as many people as it
    ``stands_for`` (N,); None where everybody stands for themselves. People of one account and share who came
    at different times may be in different cells.
    """

    cell: NDArray[np.int32]
    account: AccountPositions
    share: NDArray[np.int64]
    rank: NDArray[np.int64]
    people: NDArray[np.int64]
    stands_for: NDArray[np.int64] | None = None

    @classmethod
    def of(
        cls, account: AccountPositions, shares: PeopleShares, stands_for: NDArray[np.int64] | None = None
    ) -> Holders:
        """Of people with these accounts, (N,)."""
        _check_everybody(account.size, shares, stands_for)
        key = account * shares.count + shares.share
        _, first, cell = np.unique(key, return_index=True, return_inverse=True)
        return cls.in_cells(
            Cells(cell.reshape(-1).astype(np.int32), AccountPositions(account[first]), stands_for), shares
        )

    @classmethod
    def in_cells(cls, cells: Cells, shares: PeopleShares) -> Holders:
        """Of people with these ``shares``, in these cells, none of which is empty."""
        cell, account, stands_for = cells
        _check_everybody(cell.size, shares, stands_for)
        share = np.zeros(account.size, dtype=np.int64)
        share[cell] = shares.share
        rank = np.full(account.size, np.iinfo(np.int64).max)
        np.minimum.at(rank, cell, shares.rank)
        people = np.bincount(cell, minlength=account.size).astype(np.int64)
        if stands_for is not None:
            people[:] = 0
            np.add.at(people, cell, stands_for)
        return cls(cell, account, share, rank, people, stands_for)

    def __len__(self) -> int:
        """How many people there are by name."""
        return self.cell.size

    @property
    def cells(self) -> Cells:
        """Who is in which cell."""
        return Cells(self.cell, self.account, self.stands_for)

    @property
    def people_each(self) -> NDArray[np.int64]:
        """How many people each name stands for, (N,)."""
        return np.ones(len(self), dtype=np.int64) if self.stands_for is None else self.stands_for

    def account_of(self, people: PersonPositions) -> AccountPositions:
        """The accounts of these people, by position."""
        return AccountPositions(self.account[self.cell[people]])

    def take(self, people: PersonPositions, shares: PeopleShares) -> Taken:
        """Some of the people, who have these ``shares``; accounts in the order of their first people."""
        used, cell = np.unique(self.cell[people], return_inverse=True)
        owner = self.account_of(people)
        first = np.sort(np.unique(owner, return_index=True)[1])
        accounts = AccountPositions(owner[first])
        number = np.empty(int(self.account.max(initial=-1)) + 1, dtype=np.int64)
        number[accounts] = np.arange(accounts.size)
        account = number[self.account[used]]
        order = np.lexsort((used, self.share[used], account))
        places = _places(order)[cell.reshape(-1)].astype(np.int32)
        stands_for = None if self.stands_for is None else self.stands_for[people]
        some = self.in_cells(Cells(places, AccountPositions(account[order]), stands_for), shares)
        return Taken(
            some,
            accounts,
            PersonPositions(people[first]),
            CellPositions(used[order].astype(np.int64)),
        )

    def join(
        self, others: Holders, account: AccountPositions, shares: PeopleShares, group: GroupPositions
    ) -> tuple[Holders, CellPositions]:
        """These people, then the others, whose accounts have the numbers ``account`` here.

        Everybody has these ``shares``; ``group`` is that of each cell, of these and then the others'. Cells
        with the same account, share and group become one. Also returns the first old cell of each new one.
        """
        cell = np.concatenate((self.cell, others.cell + np.int32(self.account.size)))
        owner = np.concatenate((self.account, account[others.account]))
        share = np.zeros(owner.size, dtype=np.int64)
        share[cell] = shares.share
        order = np.lexsort((group, share, owner))
        begins = np.ones(order.size, dtype=np.bool_)
        begins[1:] = np.any([np.diff(each[order]) != 0 for each in (owner, share, group)], axis=0)
        number = np.empty(order.size, dtype=np.int64)
        number[order] = np.cumsum(begins) - 1
        first = order[begins]
        stands_for = None
        if self.stands_for is not None or others.stands_for is not None:
            stands_for = np.concatenate((self.people_each, others.people_each))
        cells = Cells(number[cell].astype(np.int32), AccountPositions(owner[first]), stands_for)
        return self.in_cells(cells, shares), CellPositions(first)


class Taken(NamedTuple):
    """Some of the people; by their positions before, the accounts they have, the first of each, and cells."""

    holders: Holders
    accounts: AccountPositions
    first: PersonPositions
    cells: CellPositions


def _check_everybody(people: int, shares: PeopleShares, stands_for: NDArray[np.int64] | None) -> None:
    """:class:`~accounting.exceptions.SettingsError` for values of anything else than these people."""
    for name, values in (("shares", shares.share), ("ranks", shares.rank), ("stands_for", stands_for)):
        if values is not None and values.shape != (people,):
            raise SettingsError(
                f"{name} must have one value for each of {people} people by name",
                values.shape,
                "give those of the people, not of their accounts or cells",
            )


def _places(order: NDArray[np.int64]) -> NDArray[np.int64]:
    """Where each comes in an order."""
    places = np.empty(order.size, dtype=np.int64)
    places[order] = np.arange(order.size)
    return places


# Figures that people have in common, as each person's.

Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, eq=False)
class Spread:
    """Figures (G,) of groups or accounts, ``of_cell`` (B,) those of each cell of the ``holders``."""

    holders: Holders
    of_cell: NDArray[np.int64]
    groups: int

    def each(self, values: NDArray[Value]) -> NDArray[Value]:
        """Every person's, (N,), of figures (G,)."""
        return np.take(np.take(values, self.of_cell), self.holders.cell)

    def of(self, people: NDArray[np.int64]) -> NDArray[np.int64]:
        """Whose figures these people have, by position."""
        return np.take(self.of_cell, self.holders.cell[people])

    @cached_property
    def people(self) -> NDArray[np.int64]:
        """How many people have each figure, (G,)."""
        found = np.zeros(self.groups, dtype=np.int64)
        np.add.at(found, self.of_cell, self.holders.people)
        return found

    def whose(self, chosen: NDArray[np.bool_]) -> NDArray[np.int64]:
        """The people with the ``chosen`` (G,) figures, by position, increasing."""
        if not chosen.any():
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.each(chosen))


# Everybody's risk at one step as a few numbers.

# Order statistics and means of figures that several people have, as if each stood there by itself.

_PARTS, _HALF = 52, 26
"""A mean counts values in parts of 2^-52, in two halves so that sums over many people fit their integers."""


class Ranked:
    """``values`` (G,) from 0 to 1, each of so many ``people`` (G,)."""

    def __init__(self, values: NDArray[np.float64], people: NDArray[np.int64]) -> None:
        self._values, self._people = values, people

    @cached_property
    def people(self) -> int:
        """How many there are."""
        return int(self._people.sum())

    def reached(self, levels: Sequence[float]) -> dict[float, int]:
        """How many people are at or above each level."""
        return {level: int(self._people[self._values >= level].sum()) for level in levels}

    def quantiles(self, levels: Sequence[float]) -> dict[float, float]:
        """Order statistics without interpolation, every one some person's; 0 where there is nobody."""
        if not self.people:
            return dict.fromkeys(levels, 0.0)
        if self.people == self._values.size:
            found = np.quantile(self._values, levels, method="higher")
            return {level: float(value) for level, value in zip(levels, found, strict=True)}
        return {level: self.at(int(np.ceil((self.people - 1) * level))) for level in levels}

    def mean(self) -> float:
        """The mean over people, 0 of nobody.

        Whole parts are added up, so that the bits do not depend on who has a figure in common with whom, nor
        on any order. For example 3 people at 1/4 and 1 at 1 have (3 * 2^50 + 2^52) / (4 * 2^52) = 7/16.
        """
        if not self.people:
            return 0.0
        parts = np.rint(self._values * 2.0**_PARTS).astype(np.int64)
        upper = int(((parts >> _HALF) * self._people).sum())
        lower = int(((parts & ((1 << _HALF) - 1)) * self._people).sum())
        return ((upper << _HALF) + lower) / (self.people << _PARTS)

    def median(self) -> float:
        """The middle figure, or the mean of both; 0 where there is nobody."""
        if not self.people:
            return 0.0
        return (self.at((self.people - 1) // 2) + self.at(self.people // 2)) / 2.0

    def at(self, rank: int) -> float:
        """The figure of the person at this rank, from 0 on."""
        values, behind = self._rising
        return float(values[np.searchsorted(behind, rank, side="right")])

    @cached_property
    def _rising(self) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """The figures in rising order, and how many people are behind each of them or one before it."""
        order = np.argsort(self._values, kind="stable")
        return self._values[order], np.cumsum(self._people[order])


QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class RiskSummary:
    """Counts at or above each threshold, quantiles and means of risk, added risk and baseline.

    ``most_risk`` and ``most_added`` are the highest of anybody at any step so far. ``not_reached`` are people
    whom the refined bounds could have lowered, and the work of the step did not suffice for. Risks are those
    of everybody ``within_nats`` of the prior; what was added, and baselines, are the prior's. All are means
    over the ``draws`` chains that stand for each person, which ``chains`` names.
    """

    step: int
    people: int
    at_risk: Mapping[float, int]
    at_added_risk: Mapping[float, int]
    at_baseline: Mapping[float, int]
    risk_quantiles: Mapping[float, float]
    added_quantiles: Mapping[float, float]
    baseline_quantiles: Mapping[float, float]
    mean_risk: float
    mean_added: float
    mean_baseline: float
    most_risk: float
    most_added: float
    not_reached: int = 0
    within_nats: float = 0.0
    draws: int = 1
    chains: str | None = None


class RiskFigures(NamedTuple):
    """Risk, baseline and added risk after a step, (G,) each, of people or of groups of them.

    ``added`` is risk less baseline unless risks are those within a radius.
    """

    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    added: NDArray[np.float64]


def summarise(
    step: int,
    figures: RiskFigures,
    thresholds: Sequence[float],
    worst: WorstMoments,
    people: NDArray[np.int64] | None = None,
) -> RiskSummary:
    """The summary of one step; ``worst`` includes the step.

    So many ``people`` (G,) have each figure; one by default.
    """
    each = np.ones(figures.risk.size, dtype=np.int64) if people is None else people
    risk, baseline, added = (Ranked(values, each) for values in figures)
    return RiskSummary(
        step=step,
        people=risk.people,
        at_risk=risk.reached(thresholds),
        at_added_risk=added.reached(thresholds),
        at_baseline=baseline.reached(thresholds),
        risk_quantiles=risk.quantiles(QUANTILES),
        added_quantiles=added.quantiles(QUANTILES),
        baseline_quantiles=baseline.quantiles(QUANTILES),
        mean_risk=risk.mean(),
        mean_added=added.mean(),
        mean_baseline=baseline.mean(),
        most_risk=worst.most_risk,
        most_added=worst.most_added,
    )


@dataclass(frozen=True, slots=True)
class SharesOfPeople:
    """``sum_k w_k 1[B_k >= x]``: the share of ``people`` whose persona's ceiling reaches each level.

    ``B_k`` is the ceiling of the persona after a step.
    """

    people: float
    shares: Mapping[float, float]


def shares_of_people(
    population: Population, ceilings: NDArray[np.float64], levels: Sequence[float]
) -> SharesOfPeople | None:
    """The shares of ``ceilings`` (N,) by weight; None where everybody stands for themselves."""
    weights = population.stands_for
    if weights is None:
        return None
    total = float(weights.sum())
    shares = {level: float(weights[ceilings >= level].sum()) / total for level in levels}
    return SharesOfPeople(total, shares)
