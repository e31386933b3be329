"""Who is behind each account: all people with an equal prior and start, accounted from the same step on."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.people.groups import (
    AccountPositions,
    CellPositions,
    GroupPositions,
    PersonPositions,
)
from accounting.exceptions import SettingsError
from models.exceptions import PriorError
from models.priors import Population

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
