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
from accounting.settings import HorizonSettings, RiskBudget

LEAST_GAIN = 1e-4
"""Added risk for which nobody is refined further: the ceiling is at most so much too high."""


class Due(NamedTuple):
    """Chains whose risk the refined bounds could lower, and whether each is owed that, (n,) each.

    A person is owed it if decisions under a risk budget may have counted on the refined bounds.
    """

    chains: ChainPositions
    is_owed: NDArray[np.bool_]

    def of(self, chosen: NDArray[np.bool_]) -> Due:
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


def is_above(limit: RiskBudget, within_nats: float, state: HorizonState) -> NDArray[np.bool_]:
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


def _level(limit: RiskBudget, state: HorizonState) -> NDArray[np.float64]:
    """The risk that each person may have under the limit, (N,)."""
    most = 1.0 if limit.added is None else limit.added
    return np.minimum(1.0 if limit.risk is None else limit.risk, state.baseline + most)


class Payer:
    """What each share has left to spend on some of its people, or on units of people who are alike.

    ``people`` (n,) are positions in ``shares``, ``cost`` (n,) is each one's. Each method says for whom the
    work is done, (n,), and takes their cost off what their shares have left.
    """

    def __init__(self, shares: PeopleShares, operations: int | None) -> None:
        """So many ``operations`` in all, an even part for each share; None: any number."""
        self.shares = shares
        self._left: NDArray[np.int64] | None = None
        if operations is not None:
            self._left = np.full(shares.count, operations // shares.count, dtype=np.int64)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self._left is not None

    def charge(self, people: NDArray[np.int64], cost: NDArray[np.int64]) -> None:
        """Pay for all of these, whatever that costs: less than nothing may be left. A negative cost is given
        back.
        """
        if self._left is not None:
            self._left -= self._total(people, cost)

    def of_whole_shares(self, people: NDArray[np.int64], cost: NDArray[np.int64] | int) -> NDArray[np.bool_]:
        """For whom of these their share could pay together with all its others, at this cost, (n,)."""
        if self._left is None:
            return np.ones(people.size, dtype=np.bool_)
        is_whole = self._total(people, cost) <= self._left
        return np.asarray(is_whole[self.shares.share[people]])

    def within_reach(
        self, people: NDArray[np.int64], gain: NDArray[np.float64], least: int
    ) -> NDArray[np.int64]:
        """Positions of those with most ``gain`` whom their shares could pay for at the ``least`` cost.

        ``people`` (n,) come share by share. Ties with the last one are included. For example, a share has
        80 000 operations left and a person costs at least 35 000: only the two with most gain are within
        reach, and only their costs matter.
        """
        if self._left is None:
            return np.arange(people.size)
        begin = np.searchsorted(self.shares.share[people], np.arange(self._left.size + 1)).tolist()
        is_reached = np.ones(people.size, dtype=np.bool_)
        for each, most in enumerate((np.maximum(self._left, 0) // least).tolist()):
            own = gain[begin[each] : begin[each + 1]]
            if most < own.size:
                least_gain = np.partition(own, -most)[-most] if most else np.inf
                is_reached[begin[each] : begin[each + 1]] = own >= least_gain
        return np.flatnonzero(is_reached)

    def pay_where_most_is_gained(
        self, people: NDArray[np.int64], cost: NDArray[np.int64], gain: NDArray[np.float64]
    ) -> NDArray[np.bool_]:
        """Pay first where most may be gained (``gain``, (n,)), as far as the work goes.

        Not by gain over cost: then whoever is expensive and most exposed would never be reached.
        """
        return self.pay_in_order(people, cost, -gain)

    def pay_owed_first(
        self,
        people: NDArray[np.int64],
        cost: NDArray[np.int64],
        is_owed: NDArray[np.bool_],
        gain: NDArray[np.float64],
    ) -> NDArray[np.bool_]:
        """Pay for all who are owed it, and for others where most may be gained."""
        chosen, others = is_owed.copy(), np.flatnonzero(~is_owed)
        self.charge(people[is_owed], cost[is_owed])
        chosen[others] = self.pay_where_most_is_gained(people[others], cost[others], gain[others])
        return chosen

    def pay_in_order(
        self,
        people: NDArray[np.int64],
        cost: NDArray[np.int64],
        order: NDArray[Any],
        is_worth: Callable[[NDArray[np.bool_]], NDArray[np.bool_]] | None = None,
    ) -> NDArray[np.bool_]:
        """Pay for the least of ``order`` (n,), equals by rank, until one costs more than is left.

        ``is_worth`` may then say for whom of these (n,) the work is spent at all.
        """
        chosen = np.ones(people.size, dtype=np.bool_)
        if self._left is not None:
            by_share = np.lexsort((self.shares.rank[people], order, self.shares.share[people]))
            share, spent = self.shares.share[people[by_share]], np.cumsum(cost[by_share])
            before = np.concatenate((np.zeros(1, dtype=np.int64), spent))[np.searchsorted(share, share)]
            chosen[by_share] = spent - before <= self._left[share]
        if is_worth is not None:
            chosen &= is_worth(chosen)
        self.charge(people[chosen], cost[chosen])
        return chosen

    def close(self, people: NDArray[np.int64]) -> None:
        """The shares of these people pay for nothing more."""
        if self._left is not None:
            self._left[self.shares.share[people]] = -1

    def _total(self, people: NDArray[np.int64], cost: NDArray[np.int64] | int) -> NDArray[np.int64]:
        """The summed cost in each share; one number is the cost of each of these people."""
        total = np.zeros(self.shares.count, dtype=np.int64)
        np.add.at(total, self.shares.share[people], cost)
        return total
