"""Groups: people of one account all of whose figures are the same.

People of one account are refined with the work of their own shares, which may reach further in one share than
in another. Before that ever happens an account is one group; then it is split, and both parts go on with the
figures that they had.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.people.arrays import bytes_of_people, join_people, take_people
from accounting.continuous.people.index_spaces import (
    AccountPositions,
    CellPositions,
    ChainPositions,
    GroupPositions,
)
from accounting.continuous.people.worst_moments import WorstMoments, no_moments


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
