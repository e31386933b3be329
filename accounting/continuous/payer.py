"""Who is refined, in which order, with which work limit: one payer for running accounts and for decisions.

Work is measured in operations that follow from a person's structure, never in seconds, and each share of the
people (:class:`~accounting.continuous.people.PeopleShares`) has an even part of it. So replays, partitions,
threads and restarts refine the same people and give the same bits. Work that one share does not use is not
given to the others, because another process may hold them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import budget_within
from accounting.continuous.accounts_kernel import NEGLIGIBLE, Accounts, HorizonState
from accounting.continuous.people import ChainPositions, PeopleShares
from accounting.continuous.refine_kernel import FEW_VECTORS
from accounting.settings import HorizonSettings, RiskBudget
from models.numerics.arrays import Flags, Floats, Integers

LEAST_GAIN = 1e-4
"""Added risk for which nobody is refined further: the ceiling is at most so much too high."""


def decided_with(vectors: int) -> int:
    """With how many vectors decisions look at people, where accounts have so many."""
    return min(FEW_VECTORS, vectors)


def with_vectors(accounts: Accounts, vectors: int) -> Accounts:
    """The accounts with other vectors for their refined bounds."""
    return accounts._replace(horizon=accounts.horizon._replace(vectors=vectors))


_AT_MOST_BY_COST = 4
"""A decision's looks cost less than a fourth of what they may (600 people of the demo's city)."""


class Due(NamedTuple):
    """Chains whose risk the refined bounds could lower, and whether each is owed that, (n,) each.

    A person is owed it if decisions under a risk budget may have counted on the refined bounds.
    """

    chains: ChainPositions
    is_owed: Flags

    def of(self, chosen: Flags) -> Due:
        """Some of them, (n,)."""
        return Due(ChainPositions(self.chains[chosen]), self.is_owed[chosen])


def find_due(accounts: Accounts, settings: HorizonSettings) -> Due:
    """The chains whose fast bound is high enough to be refined."""
    state = accounts.state
    # Where next to nothing was revealed the fast bound is the guess from the prior, which nothing lowers.
    is_raised = state.risk > np.maximum(state.baseline, state.guess * (1.0 + NEGLIGIBLE))
    chains = np.flatnonzero(is_raised & (state.risk >= accounts.horizon.refined_from))
    is_owed = np.zeros(state.risk.size, dtype=np.bool_)
    if settings.decided is not None:
        is_owed = is_above(settings.decided, settings.within_nats, state)
    return Due(ChainPositions(chains), is_owed[chains])


def is_above(limit: RiskBudget, within_nats: float, state: HorizonState) -> Flags:
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


def _level(limit: RiskBudget, state: HorizonState) -> Floats:
    """The risk that each person may have under the limit, (N,)."""
    most = 1.0 if limit.added is None else limit.added
    return np.minimum(1.0 if limit.risk is None else limit.risk, state.baseline + most)


class Payer:
    """What each share has left to spend on some of its people, or on units of people who are alike.

    ``people`` (n,) are positions in ``shares``, ``cost`` (n,) is each one's.
    """

    def __init__(self, shares: PeopleShares, operations: int | None) -> None:
        """So many ``operations`` in all, an even part for each share; None: any number."""
        self.shares = shares
        self._left: Integers | None = None
        if operations is not None:
            self._left = np.full(shares.count, operations // shares.count, dtype=np.int64)

    def charge(self, people: Integers, cost: Integers) -> None:
        """Pay for all of these, whatever that costs: less than nothing may be left. A negative cost is given
        back.
        """
        if self._left is not None:
            self._left -= self._total(people, cost)

    def of_whole_shares(self, people: Integers, cost: Integers | int) -> Flags:
        """For whom of these their share could pay together with all its others, at this cost, (n,)."""
        if self._left is None:
            return np.ones(people.size, dtype=np.bool_)
        is_whole = self._total(people, cost) <= self._left
        return np.asarray(is_whole[self.shares.share[people]])

    def spend(
        self,
        people: Integers,
        gain: NDArray[Any],
        cost_of: Callable[[Integers], Integers],
        run: Callable[[Integers], Integers],
        least: int,
        is_worth: Callable[[Flags], Flags] | None = None,
    ) -> Flags:
        """Look at these people as far as the work goes, first where most may be gained; at whom, (n,).

        Not by gain over cost: then whoever is expensive and most exposed would never be reached. Equals go by
        rank, and each share ends at the first who costs more than it has left. ``cost_of`` some positions is
        what they may cost, not less than ``least``; ``run`` looks at them and says what it did cost: what is
        left of that pays for more. ``is_worth`` may say for whom the work is spent at all, (n,), given who
        has been looked at and who could be now, (n,).
        """
        done, left = np.zeros(people.size, dtype=np.bool_), np.arange(people.size)
        while left.size:
            some = left[self._within_reach(people[left], gain[left], least)]
            cost = cost_of(some)
            is_paid = self._affordable(people[some], cost, gain[some])
            if is_worth is not None:
                could = done.copy()
                could[some[self._affordable(people[some], cost // _AT_MOST_BY_COST, gain[some])]] = True
                is_paid &= is_worth(could)[some]
            paid = some[is_paid]
            self.charge(people[paid], cost[is_paid])
            unused = cost[is_paid] - run(paid)
            self.charge(people[paid], -unused)
            done[paid] = True
            left = left[~done[left]] if unused.any() else left[:0]
        return done

    def _within_reach(self, people: Integers, gain: NDArray[Any], least: int) -> Integers:
        """Positions of those with most ``gain`` whom their shares could pay for at the ``least`` cost.

        Ties with the last one are included. For example, a share has 80 000 operations left and a person
        costs at least 35 000: only the two with most gain are within reach, and only their costs matter.
        """
        if self._left is None:
            return np.arange(people.size)
        by_share = np.argsort(self.shares.share[people], kind="stable")
        begin = np.searchsorted(self.shares.share[people[by_share]], np.arange(self._left.size + 1)).tolist()
        is_reached = np.ones(people.size, dtype=np.bool_)
        for each, most in enumerate((np.maximum(self._left, 0) // least).tolist()):
            members = by_share[begin[each] : begin[each + 1]]
            if most < members.size:
                own = gain[members]
                is_reached[members] = own >= np.partition(own, -most)[-most] if most else False
        return np.flatnonzero(is_reached)

    def _affordable(self, people: Integers, cost: Integers, gain: NDArray[Any]) -> Flags:
        """Whom of these their shares can pay for until one costs more than is left, (n,)."""
        found = np.ones(people.size, dtype=np.bool_)
        if self._left is not None:
            by_share = np.lexsort((self.shares.rank[people], -gain, self.shares.share[people]))
            share, spent = self.shares.share[people[by_share]], np.cumsum(cost[by_share])
            before = np.concatenate((np.zeros(1, dtype=np.int64), spent))[np.searchsorted(share, share)]
            found[by_share] = spent - before <= self._left[share]
        return found

    def _total(self, people: Integers, cost: Integers | int) -> Integers:
        """The summed cost in each share; one number is the cost of each of these people."""
        total = np.zeros(self.shares.count, dtype=np.int64)
        np.add.at(total, self.shares.share[people], cost)
        return total
