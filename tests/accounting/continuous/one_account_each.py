"""Everybody accounted alone: the cascade as it is for people one by one, without groups, units or ways.

A second implementation, for tests: each person is refined with the person's own figures, and of the people of
one share with equal priors and starts the first by rank pays for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.cascade import FEW_VECTORS, alike_chains
from accounting.continuous.payer import LEAST_GAIN, find_due
from accounting.continuous.people import Groups
from accounting.continuous.refine_kernel import KEPT, find_operations, refine
from accounting.exposure.step_information import seen_exactly
from accounting.exposure.step_information.likelihood_levels import SeenSteps


class OneAccountEach(ContinuousAccountant):
    """The accountant with everybody apart, refined person by person."""

    def _refined(self, step: int, seen: SeenSteps, published: object) -> Groups:
        accounts, settings, groups = self._accounts, self.settings, self._groups
        is_unreached = np.zeros(accounts.since.size, dtype=np.bool_)
        due = find_due(accounts, settings)
        if settings.refines and due.chains.size:
            shares = of_draws(self.people_shares, self.population.draws)
            alike = alike_chains(self.population, accounts.since)
            one_by_one = OneByOne(self, step, seen, shares, alike)
            is_unreached[one_by_one.refine(due.chains, due.is_owed, settings.operations)] = True
        chains, state = groups.chains(), accounts.state
        return groups._replace(
            figures=groups.figures._replace(
                risk=state.risk[chains],
                decided_by=state.decided_by[chains],
                is_unreached=is_unreached[chains],
            )
        )


def of_draws(shares: PeopleShares, draws: int) -> PeopleShares:
    """The same of so many chains of each person, one after the other, in the person's share."""
    share, rank = np.repeat(shares.share, draws), np.repeat(shares.rank, draws) * draws
    return PeopleShares(shares.count, share, rank + np.tile(np.arange(draws), shares.rank.size))


class OneByOne:
    """Python loops over people; of those of a share who are alike the first by rank pays for all."""

    def __init__(
        self,
        accountant: ContinuousAccountant,
        last_step: int,
        seen: SeenSteps,
        shares: PeopleShares,
        alike: NDArray[np.int64],
    ) -> None:
        self.accounts = accountant._accounts
        self.last_step, self.seen, self.shares, self.alike = last_step, seen, shares, alike

    def refine(
        self, due: NDArray[np.int64], is_owed: NDArray[np.bool_], operations: int | None
    ) -> NDArray[np.int64]:
        """Lower the risks of the accounts in place; who of ``due`` was not reached."""
        vectors, seen = self.accounts.horizon.vectors, self.seen
        units: dict[tuple[int, int], list[int]] = {}
        owed = {
            (int(self.shares.share[k]), int(self.alike[k]))
            for k, own in zip(due.tolist(), is_owed.tolist(), strict=True)
            if own
        }
        for k in sorted(due.tolist(), key=lambda k: int(self.shares.rank[k])):
            units.setdefault((int(self.shares.share[k]), int(self.alike[k])), []).append(k)
        if operations is None:
            self.run(units.values(), vectors, seen)
            return due[:0]
        missed: list[int] = []
        for share in range(self.shares.count):
            own = {key: people for key, people in units.items() if key[0] == share}
            missed += self.refine_share(own, owed, operations // self.shares.count)
        return np.array(sorted(missed), dtype=np.int64)

    def refine_share(
        self, units: dict[tuple[int, int], list[int]], owed: set[tuple[int, int]], left: int
    ) -> list[int]:
        """One share with so much work; who was not reached."""
        vectors, seen = self.accounts.horizon.vectors, self.seen
        whole = [people for key, people in units.items() if key in owed]
        others = [people for key, people in units.items() if key not in owed]
        left -= sum(self.cost(people, vectors, seen) for people in whole)
        if sum(self.cost(people, vectors, seen) for people in others) <= left:
            whole, others = whole + others, []
        self.run(whole, vectors, seen)
        exact = seen_exactly(seen.labels)
        few, left = self.paid(others, FEW_VECTORS, exact, left)
        self.run(few, FEW_VECTORS, exact)
        efforts = [FEW_VECTORS] if seen.is_noised else []
        if seen.is_noised or self.accounts.horizon.mistakes > 0:
            efforts.append(vectors)
        for effort in efforts:
            state = self.accounts.state
            matters = [
                people for people in few if state.risk[people[0]] > state.baseline[people[0]] + LEAST_GAIN
            ]
            chosen, left = self.paid(matters, effort, seen, left)
            self.run(chosen, effort, seen)
        return [k for people in others if people not in few for k in people]

    def cost(self, people: list[int], vectors: int, seen: SeenSteps) -> int:
        """Of the first of them."""
        return int(find_operations(self.accounts, np.array(people[:1]), vectors, seen)[0])

    def paid(
        self, among: list[list[int]], vectors: int, seen: SeenSteps, left: int
    ) -> tuple[list[list[int]], int]:
        """The most added first, of equals by rank, until one is too dear."""
        state, chosen = self.accounts.state, []

        def order(people: list[int]) -> tuple[float, int]:
            added = float(state.risk[people[0]] - state.baseline[people[0]])
            return -added, int(self.shares.rank[people[0]])

        for people in sorted(among, key=order):
            cost = self.cost(people, vectors, seen)
            if cost > left:
                break
            chosen.append(people)
            left -= cost
        return chosen, left

    def run(self, units: object, vectors: int, seen: SeenSteps) -> None:
        """Each of them by itself."""
        accounts = self.accounts._replace(horizon=self.accounts.horizon._replace(vectors=vectors))
        people = np.array([k for unit in units for k in unit], dtype=np.int64)  # type: ignore[attr-defined]
        if people.size:
            refine(accounts, people, self.last_step, seen, np.empty((0, KEPT)))
