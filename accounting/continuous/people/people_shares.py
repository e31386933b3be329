"""How people are split into shares of the work, alike wherever and with whomever they are held."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


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
