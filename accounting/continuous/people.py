"""The people behind accounts: who has which account, shares of the work, figures and their summaries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil
from typing import Any, NamedTuple, NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SettingsError
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors import Population

# The index spaces of an account. Each has its own type, so that a position in one is not used in another.
#
#     person --cell--> cell --account--> account --* draws--> chain
#                      cell --of_cell--> group (of one account), unit (of one share and one kind of chain)
#
# - The N people by name are in B cells. A cell belongs to one account and one share of the work.
# - A accounts have A * D chains, D for each account.
# - The G groups are people with the same figures. Each share refines its people with its own work, which may
#   reach further in one share than in another. An account is one group until that happens; then it is split,
#   and both parts continue with the figures they had.
# - The U units are people whose refinement is paid for together.
#
# The docstring of an array names its length: ``stands_for`` (N,), ``account`` (B,).
#
# For example people a, b, c in one share, where a and c have equal priors: cells 0, 1, 0 of accounts 0, 1.

PersonPositions = NewType("PersonPositions", Integers)
CellPositions = NewType("CellPositions", Integers)
AccountPositions = NewType("AccountPositions", Integers)
ChainPositions = NewType("ChainPositions", Integers)
GroupPositions = NewType("GroupPositions", Integers)
UnitPositions = NewType("UnitPositions", Integers)


Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_people(first: Arrays, second: Arrays) -> Arrays:
    """The arrays of the people of both, which are on the last axis of each array."""
    joined = (np.concatenate(pair, axis=-1) for pair in zip(first, second, strict=True))
    return type(first)(*joined)


def take_people(arrays: Arrays, people: Integers) -> Arrays:
    """The arrays of these people, by position."""
    return type(arrays)(*(np.ascontiguousarray(array[..., people]) for array in arrays))


class WorstMoments(NamedTuple):
    """Each person's highest ceiling so far and its step; step, risk and baseline when most was added.

    All arrays are (N,). Of equal moments the first counts, and a step is -1 before the person's first step.
    If risks hold within a radius, so does ``highest_risk``; ``risk`` is always the one under the prior, so
    that ``risk - baseline`` is what the releases added.
    """

    highest_risk: Floats
    highest_step: Integers
    step: Integers
    risk: Floats
    baseline: Floats

    @property
    def added(self) -> Floats:
        """The most that releases added for each person at any step so far; 0 before the first."""
        return self.risk - self.baseline

    @property
    def most_added(self) -> float:
        """The most that releases added for any person at any step so far."""
        return float(self.added.max(initial=0.0))

    @property
    def most_risk(self) -> float:
        """The highest ceiling of any person at any step so far."""
        return float(self.highest_risk.max(initial=0.0))

    def note(self, step: int, risk: Floats, baseline: Floats, since: Integers) -> None:
        """Take the figures of a step into account, for people whose releases count at that step."""
        counts = since <= step
        higher = counts & ((self.highest_step < 0) | (risk > self.highest_risk))
        self.highest_risk[higher], self.highest_step[higher] = risk[higher], step
        worse = counts & ((self.step < 0) | (risk - baseline > self.added))
        self.step[worse], self.risk[worse], self.baseline[worse] = step, risk[worse], baseline[worse]

    def is_most_added(self, count: int, people: Integers) -> Flags:
        """Which figures belong to the ``count`` people with most added risk, ties included.

        Each figure is that of ``people`` (N,) people.
        """
        added = self.added
        if count <= 0 or not added.size:
            return np.zeros(added.size, dtype=np.bool_)
        is_anybody = people > 0
        figures = added[is_anybody]
        # Behind each figure is somebody, so the people are among as many figures: only those are sorted.
        if 0 < count < figures.size:
            is_anybody &= added >= -np.partition(-figures, count - 1)[count - 1]
            figures = added[is_anybody]
        order = np.argsort(-figures, kind="stable")
        behind = np.cumsum(people[is_anybody][order])
        reached = int(np.searchsorted(behind, count))
        least = figures[order[reached]] if reached < order.size else 0.0
        return (added >= least) & (added > 0.0)


def no_moments(people: int) -> WorstMoments:
    """The moments before the first step."""
    return WorstMoments(
        np.zeros(people),
        np.full(people, -1, dtype=np.int64),
        np.full(people, -1, dtype=np.int64),
        np.zeros(people),
        np.zeros(people),
    )


class Figures(NamedTuple):
    """The figures of each group after the last step, and of each of the D chains that stand for a person.

    ``reached`` and ``reached_before`` are how many thresholds the risk had reached after the last step and
    after the step before it. ``is_unreached`` marks chains whose risk the refined bounds could have lowered
    in the last step, but the step's work did not suffice.
    """

    risk: Floats  # (D, G)
    decided_by: NDArray[np.int8]  # (D, G) BY_ codes
    is_unreached: Flags  # (D, G)
    reached: Integers  # (G,)
    reached_before: Integers  # (G,)


class Groups(NamedTuple):
    """Which people have the same figures: ``account`` (G,) of each group, and the group of each cell, (B,).

    Cells are those of :class:`Holders`.
    """

    account: AccountPositions
    of_cell: GroupPositions
    figures: Figures
    worst: WorstMoments

    @classmethod
    def whole(cls, accounts: int, account_of_cell: AccountPositions, draws: int) -> Groups:
        """One group for each account, before the first step; the figures are still to be filled in."""
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
    def mean_risk(self) -> Floats:
        """The mean risk over a group's chains, (G,)."""
        risk = self.figures.risk
        if len(risk) == 1:
            return risk[0]
        total = risk[0].copy()
        for number in range(1, len(risk)):  # in a fixed order: numpy's sum would depend on the array's layout
            total += risk[number]
        return total / len(risk)

    def chains(self) -> ChainPositions:
        """The positions of each group's chains among those of all accounts, (D, G)."""
        draws = len(self.figures.risk)
        return ChainPositions(self.account * draws + np.arange(draws)[:, np.newaxis])

    def split(self, cells: CellPositions, apart: Integers) -> Groups:
        """Split whole groups: of their ``cells`` (n,) only those with equal ``apart`` (n,) stay together.

        For example cells 4, 5, 6 of one group with ``apart`` 7, 9, 7: cell 5 becomes a separate group.
        """
        key = self.of_cell[cells] * (int(apart.max(initial=0)) + 1) + apart
        _, first, label = np.unique(key, return_index=True, return_inverse=True)
        of_cell = self.of_cell.copy()
        of_cell[cells] = self.account.size + label.reshape(-1)
        source = np.concatenate((np.arange(self.account.size), self.of_cell[cells[first]]))
        return self._numbered(source, of_cell)

    def take(self, cells: CellPositions, account: AccountPositions) -> Groups:
        """The groups of some cells, in this order; ``account`` (n,) are the new numbers of their accounts."""
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
        columns = (np.atleast_2d(array).T for array in (both.account, *both.figures, *both.worst))
        bytes_of = [np.ascontiguousarray(column).view(np.uint8) for column in columns]
        rows = np.concatenate(bytes_of, axis=1)  # all that is known of each group, byte by byte
        keys = np.ascontiguousarray(rows).view(np.dtype((np.void, rows.shape[1]))).reshape(-1)
        _, first, label = np.unique(keys, return_index=True, return_inverse=True)
        return both._numbered(first, label.reshape(-1)[both.of_cell])

    def merged(self, cells: CellPositions) -> Groups:
        """The groups when cells are merged; ``cells`` has one of each set of merged cells."""
        return self._numbered(np.arange(self.account.size), self.of_cell[cells])

    def _numbered(self, source: Integers, of_cell: Integers) -> Groups:
        """Groups with the figures of ``source``: those that have cells, in the order of their first cells."""
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
        """Whether the parts fit together, as they must in a snapshot of this many accounts."""
        groups = self.account.size
        if {array.shape[-1] for array in (*self.figures, *self.worst)} != {groups}:
            return False
        if {len(array) for array in self.figures if array.ndim == 2} != {draws}:
            return False
        within = (self.of_cell >= 0).all() and (self.of_cell < groups).all()
        known = (self.account >= 0).all() and (self.account < accounts).all()
        return bool(within and known and np.unique(self.of_cell).size == groups)


@dataclass(frozen=True, eq=False)
class PeopleShares:
    """How people are split into ``count`` shares, each with an even part of the work; ranks break ties.

    A person's ``share`` (N,) and ``rank`` (N,) must not depend on which process holds the person. Then
    partitions that hold whole shares together do the same as one process that holds everyone.
    """

    count: int
    share: Integers
    rank: Integers

    @classmethod
    def single(cls, people: int) -> PeopleShares:
        """One share with all people, ranked in their order."""
        return cls(1, np.zeros(people, dtype=np.int64), np.arange(people))

    def take(self, people: Integers) -> PeopleShares:
        """The shares of some of the people, by position."""
        return PeopleShares(self.count, self.share[people], self.rank[people])

    def by_chain(self, draws: int) -> PeopleShares:
        """The shares of the chains, of which so many stand for each person."""
        if draws == 1:
            return self
        rank = self.rank[:, np.newaxis] * draws + np.arange(draws)
        return PeopleShares(self.count, np.repeat(self.share, draws), rank.reshape(-1))

    def join(self, others: PeopleShares) -> PeopleShares:
        """The shares of these people and of others who are split into as many shares."""
        share, rank = np.concatenate((self.share, others.share)), np.concatenate((self.rank, others.rank))
        return PeopleShares(self.count, share, rank)


def equal_accounts(population: Population, since: Integers) -> PersonPositions:
    """For each person the first one with equal chains and the same ``since``, (N,).

    Priors are compared number by number. For people with priors A, A, B, A, accounted from steps 0, 0, 0, 7
    on, the result is 0, 0, 2, 3.
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


class Cells(NamedTuple):
    """The cell of each person, (N,), the account of each cell, (B,), and the people behind each name.

    ``stands_for`` (N,) is None if each name stands for one person.
    """

    cell: Integers32
    account: AccountPositions
    stands_for: Integers | None = None


@dataclass(frozen=True, eq=False)
class Holders:
    """People in cells. The people of a cell have one account, one share of the work and equal figures.

    ``cell`` (N,) is each person's cell. The arrays ``account``, ``share``, ``rank`` (the smallest of its
    people) and ``people`` (their number) are of cells, (B,). A persona counts as the number of people that it
    ``stands_for`` (N,); None if each name stands for one person. People of one account and share who joined
    at different times may be in different cells.
    """

    cell: Integers32
    account: AccountPositions
    share: Integers
    rank: Integers
    people: Integers
    stands_for: Integers | None = None

    @classmethod
    def of(
        cls, account: AccountPositions, shares: PeopleShares, stands_for: Integers | None = None
    ) -> Holders:
        """The cells of people with these accounts, (N,), and these shares."""
        _check_one_each(account.size, shares, stands_for)
        key = account * shares.count + shares.share
        _, first, cell = np.unique(key, return_index=True, return_inverse=True)
        return cls.in_cells(
            Cells(cell.reshape(-1).astype(np.int32), AccountPositions(account[first]), stands_for), shares
        )

    @classmethod
    def in_cells(cls, cells: Cells, shares: PeopleShares) -> Holders:
        """People with these ``shares`` in these cells, none of which is empty."""
        cell, account, stands_for = cells
        _check_one_each(cell.size, shares, stands_for)
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
        """The number of names."""
        return self.cell.size

    @property
    def cells(self) -> Cells:
        """The cells alone, from which :meth:`in_cells` makes the holders again."""
        return Cells(self.cell, self.account, self.stands_for)

    @property
    def people_each(self) -> Integers:
        """How many people each name stands for, (N,)."""
        return np.ones(len(self), dtype=np.int64) if self.stands_for is None else self.stands_for

    def account_of(self, people: PersonPositions) -> AccountPositions:
        """The accounts of these people, by position."""
        return AccountPositions(self.account[self.cell[people]])

    def take(self, people: PersonPositions, shares: PeopleShares) -> TakenHolders:
        """Some of the people, who have these ``shares``; accounts in the order of their first people."""
        used, cell = np.unique(self.cell[people], return_inverse=True)
        owner = self.account_of(people)
        first = np.sort(np.unique(owner, return_index=True)[1])
        accounts = AccountPositions(owner[first])
        number = np.empty(int(self.account.max(initial=-1)) + 1, dtype=np.int64)
        number[accounts] = np.arange(accounts.size)
        account = number[self.account[used]]
        order = np.lexsort((used, self.share[used], account))
        places = np.argsort(order)[cell.reshape(-1)].astype(np.int32)
        stands_for = None if self.stands_for is None else self.stands_for[people]
        some = self.in_cells(Cells(places, AccountPositions(account[order]), stands_for), shares)
        return TakenHolders(
            some, accounts, PersonPositions(people[first]), CellPositions(used[order].astype(np.int64))
        )

    def join(
        self, others: Holders, account: AccountPositions, shares: PeopleShares, group: GroupPositions
    ) -> tuple[Holders, CellPositions]:
        """These people, then the others, whose accounts have the numbers ``account`` here.

        ``shares`` are those of all of them; ``group`` is the group of each cell, of these and then of the
        others. Cells with the same account, share and group are merged. Also returns the first old cell of
        each new one.
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


class TakenHolders(NamedTuple):
    """Some of the people; the old positions of their accounts, each account's first person, and cells."""

    holders: Holders
    accounts: AccountPositions
    first: PersonPositions
    cells: CellPositions


def _check_one_each(people: int, shares: PeopleShares, stands_for: Integers | None) -> None:
    """:class:`~accounting.exceptions.SettingsError` unless there is one value for each of these people."""
    for name, values in (("shares", shares.share), ("ranks", shares.rank), ("stands_for", stands_for)):
        if values is not None and values.shape != (people,):
            raise SettingsError(
                f"{name} must have one value for each of {people} people by name",
                values.shape,
                "give those of the people, not of their accounts or cells",
            )


Value = TypeVar("Value", bound=np.generic)


@dataclass(frozen=True, eq=False)
class FiguresByPerson:
    """Looks up figures (G,) of groups or accounts by person; ``of_cell`` (B,) are the cells' positions."""

    holders: Holders
    of_cell: Integers
    groups: int

    def each(self, values: NDArray[Value]) -> NDArray[Value]:
        """The figure of each person, (N,)."""
        return np.take(np.take(values, self.of_cell), self.holders.cell)

    def of(self, people: Integers) -> Integers:
        """The positions of these people's figures."""
        return np.take(self.of_cell, self.holders.cell[people])

    @cached_property
    def people(self) -> Integers:
        """The number of people with each figure, (G,)."""
        found = np.zeros(self.groups, dtype=np.int64)
        np.add.at(found, self.of_cell, self.holders.people)
        return found

    def people_with(self, chosen: Flags) -> Integers:
        """The positions of the people with the ``chosen`` (G,) figures, increasing."""
        if not chosen.any():
            return np.empty(0, dtype=np.int64)
        return np.flatnonzero(self.each(chosen))


_PARTS, _HALF = 52, 26
"""Means are computed in integer parts of 2^-52, in two halves, so that sums over many people fit 64 bits."""


class Ranked:
    """Order statistics and means of ``values`` (G,) from 0 to 1, each that of ``people`` (G,) people."""

    def __init__(self, values: Floats, people: Integers) -> None:
        self._values, self._people = values, people

    @cached_property
    def people(self) -> int:
        """The number of people."""
        return self._people.size if self._is_one_each else int(self._people.sum())

    @cached_property
    def _is_one_each(self) -> bool:
        return bool((self._people == 1).all())

    def reached(self, levels: Sequence[float]) -> dict[float, int]:
        """The number of people at or above each level."""
        if self._is_one_each:
            return {level: int(np.count_nonzero(self._values >= level)) for level in levels}
        return {level: int(np.sum(self._people, where=self._values >= level)) for level in levels}

    def quantiles(self, levels: Sequence[float]) -> dict[float, float]:
        """Order statistics without interpolation, each the value of a person; 0 if there are no people."""
        if not self.people:
            return dict.fromkeys(levels, 0.0)
        if self._is_one_each:
            found, left, begin = dict.fromkeys(levels, 0.0), self._values.copy(), 0
            for level in sorted(levels):  # each a look at what is left: a quarter of the time of all at once
                rank = ceil((self.people - 1) * level)
                left.partition(rank - begin)
                left, begin = left[rank - begin :], rank
                found[level] = float(left[0])
            return found
        return {level: self.at(ceil((self.people - 1) * level)) for level in levels}

    def mean(self) -> float:
        """The mean over people; 0 if there are none.

        It is a sum of integers, so its bits depend neither on any order nor on which people share a figure.
        For example three people at 1/4 and one at 1 have (3 * 2^50 + 2^52) / (4 * 2^52) = 7/16.
        """
        if not self.people:
            return 0.0
        parts = np.rint(self._values * 2.0**_PARTS).astype(np.int64)
        total = self._sum(parts >> _HALF) << _HALF
        total += self._sum(parts & ((1 << _HALF) - 1))
        return total / (self.people << _PARTS)

    def _sum(self, values: Integers) -> int:
        return int((values if self._is_one_each else values * self._people).sum())

    def median(self) -> float:
        """The middle value, or the mean of the two middle ones; 0 if there are no people."""
        if not self.people:
            return 0.0
        return (self.at((self.people - 1) // 2) + self.at(self.people // 2)) / 2.0

    def at(self, rank: int) -> float:
        """The value of the person at this rank, counted from 0."""
        values, behind = self._rising
        return float(values[np.searchsorted(behind, rank, side="right")])

    @cached_property
    def _rising(self) -> tuple[Floats, Integers]:
        """The values in rising order, and the number of people with at most each value."""
        order = np.argsort(self._values, kind="stable")
        return self._values[order], np.cumsum(self._people[order])


QUANTILES = (0.5, 0.9, 0.99, 1.0)


@dataclass(frozen=True, slots=True)
class RiskSummary:
    """The risks of all people at one step: counts at or above each threshold, quantiles and means.

    ``most_risk`` and ``most_added`` are the highest of any person at any step so far. ``not_reached`` people
    have a risk that the refined bounds could have lowered, but the step's work did not suffice. Risks hold
    for every law ``within_nats`` of the prior; added risks and baselines are those under the prior. All are
    means over the ``draws`` chains that stand for each person, which ``chains`` names.
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
    """Risk, baseline and added risk after a step, (G,) each, of people or of groups of people.

    ``added`` is the risk less the baseline, except where the risk is one within a radius.
    """

    risk: Floats
    baseline: Floats
    added: Floats


def summarise(
    step: int,
    figures: RiskFigures,
    thresholds: Sequence[float],
    worst: WorstMoments,
    people: Integers,
    **more: Any,
) -> RiskSummary:
    """The summary of one step, with ``more`` of its fields; ``worst`` includes the step.

    Each figure is that of ``people`` (G,) people.
    """
    risk, baseline, added = (Ranked(values, people) for values in figures)
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
        **more,
    )


@dataclass(frozen=True, slots=True)
class SharesOfPeople:
    """``sum_k w_k 1[B_k >= x]``: the share of ``people`` whose persona's ceiling ``B_k`` reaches a level."""

    people: float
    shares: Mapping[float, float]


def shares_of_people(
    population: Population, ceilings: Floats, levels: Sequence[float]
) -> SharesOfPeople | None:
    """The weighted shares of ``ceilings`` (N,); None if each name stands for one person."""
    weights = population.stands_for
    if weights is None:
        return None
    total = float(weights.sum())
    shares = {level: float(weights[ceilings >= level].sum()) / total for level in levels}
    return SharesOfPeople(total, shares)
