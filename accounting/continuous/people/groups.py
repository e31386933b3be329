"""Groups: people of one account all of whose figures are the same.

People of one account are refined with the work of their own shares, which may reach further in one share than
in another. Before that ever happens an account is one group; then it is split, and both parts go on with the
figures that they had.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NewType, TypeVar

import numpy as np
from numpy.typing import NDArray

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
