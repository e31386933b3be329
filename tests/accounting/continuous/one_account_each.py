"""Everybody accounted alone: the cascade as it is for people one by one, without groups, units or ways.

A second implementation, for tests: each person is refined with the person's own figures, and of the people of
one share with equal priors and starts the first by rank pays for all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.cascade import alike_chains
from accounting.continuous.payer import LEAST_GAIN, find_due
from accounting.continuous.people import Groups
from accounting.continuous.refine_kernel import (
    CLOSER_VECTORS,
    FEW_VECTORS,
    FIRST_PRODUCTS,
    KEPT,
    count_hits,
    find_operations,
    refine,
)
from accounting.exposure.step_information.likelihood_levels import SeenSteps

FIRST, FEW, CLOSER, ALL = range(4)
"""A first look, few vectors through noise, a closer look, all vectors."""


class OneAccountEach(ContinuousAccountant):
    """The accountant with everybody apart, refined person by person."""

    def _refined(self, step: int, seen: SeenSteps, published: object, among: object = None) -> Groups:
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
        self.products = np.full(alike.size, -1.0)
        self.last_step, self.seen, self.shares, self.alike = last_step, seen, shares, alike

    def refine(
        self, due: NDArray[np.int64], is_owed: NDArray[np.bool_], operations: int | None
    ) -> NDArray[np.int64]:
        """Lower the risks of the accounts in place; who of ``due`` was not reached."""
        seen = self.seen
        units: dict[tuple[int, int], list[int]] = {}
        owed = {
            (int(self.shares.share[k]), int(self.alike[k]))
            for k, own in zip(due.tolist(), is_owed.tolist(), strict=True)
            if own
        }
        for k in sorted(due.tolist(), key=lambda k: int(self.shares.rank[k])):
            units.setdefault((int(self.shares.share[k]), int(self.alike[k])), []).append(k)
        if operations is None:
            self.run([people for key, people in units.items() if key in owed], FEW, seen)
            self.run(units.values(), ALL, seen)
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
        seen = self.seen
        owed_few = [people for key, people in units.items() if key in owed]
        self.run(owed_few, FEW, seen)
        left -= sum(self.cost(people, FEW, seen, self.products[people[0]]) for people in owed_few)
        if sum(self.cost(people, ALL, seen) for people in units.values()) <= left:
            self.run(units.values(), ALL, seen)
            return []
        others = [people for people in units.values() if people not in owed_few]
        first, left = self.run_paid(others, FIRST, seen, left)
        if seen.is_noised:
            without = [people for people in first if self.products[people[0]] < 0.0]
            _, left = self.run_paid(self.matter(without), FEW, seen, left)
        looked_at = owed_few + first
        if seen.is_noised and self.accounts.horizon.vectors > CLOSER_VECTORS:
            is_open = [people for people in looked_at if self.products[people[0]] >= FIRST_PRODUCTS]
            _, left = self.run_paid(self.matter(is_open), CLOSER, seen, left)
        if seen.is_noised or self.accounts.horizon.mistakes > 0:
            self.run_paid(self.matter(looked_at), ALL, seen, left)
        return [k for people in others if people not in first for k in people]

    def matter(self, among: list[list[int]]) -> list[list[int]]:
        """Those with more than next to no added risk."""
        state = self.accounts.state
        return [each for each in among if state.risk[each[0]] > state.baseline[each[0]] + LEAST_GAIN]

    def vectors(self, look: int) -> int:
        """Of a first look, few through noise, a closer look, or all."""
        return {ALL: self.accounts.horizon.vectors, CLOSER: CLOSER_VECTORS}.get(look, FEW_VECTORS)

    def cost(self, people: list[int], look: int, seen: SeenSteps, took: float = np.nan) -> int:
        """Of the first of them; of as many products as the bound through noise ``took``, if that is known."""
        first, known = np.array(people[:1]), np.array([took])
        hits = count_hits(seen)
        return int(find_operations(self.accounts, first, self.vectors(look), hits, look == FIRST, known)[0])

    def run_paid(
        self, among: list[list[int]], look: int, seen: SeenSteps, left: int
    ) -> tuple[list[list[int]], int]:
        """Refine the most added first, of equals by rank, until one is too dear; what is left pays for more.

        Who was refined, and what is left.
        """
        state, done = self.accounts.state, []

        def order(people: list[int]) -> tuple[float, int]:
            added = float(state.risk[people[0]] - state.baseline[people[0]])
            return -added, int(self.shares.rank[people[0]])

        waiting = sorted(among, key=order)
        while waiting:
            given_back, chosen = 0, 0
            for people in waiting:
                cost = self.cost(people, look, seen)
                if cost > left:
                    break
                left -= cost
                chosen += 1
                self.run([people], look, seen)
                given_back += cost - self.cost(people, look, seen, self.products[people[0]])
            done += waiting[:chosen]
            waiting = waiting[chosen:] if given_back else []
            left += given_back
        return done, left

    def run(self, units: object, look: int, seen: SeenSteps) -> None:
        """Each of them by itself."""
        horizon = self.accounts.horizon._replace(vectors=self.vectors(look))
        accounts = self.accounts._replace(horizon=horizon)
        people = np.array([k for unit in units for k in unit], dtype=np.int64)  # type: ignore[attr-defined]
        if people.size:
            products = np.empty(people.size)
            refine(accounts, people, self.last_step, seen, look == FIRST, np.empty((0, KEPT)), products)
            self.products[people] = products
