"""Refined bounds, as far as the work of a step goes, for people whom the fast bound puts over the limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountantView, UnitPositions, Units
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.operations_kernel import LEAST_OPERATIONS, find_operations
from accounting.decisions.what_if.candidate_kernel import Terms
from accounting.decisions.what_if.limits_kernel import BEYOND_FAST, Limits
from accounting.decisions.what_if.refined_check_kernel import find_refined_headroom
from accounting.exposure.step_information import observe, seen_exactly
from accounting.numerics import packed_positions
from models.releases import StepSchedule


class _Outcome(NamedTuple):
    """An evaluation: within the limit up to these terms, or beyond it from these on.

    ``is_paid`` (n,) are those of the account's units that know it.
    """

    is_within: bool
    conditional: int
    unconditioned: int
    is_paid: NDArray[np.bool_]

    def answer(self, conditional: int, unconditioned: int) -> bool | None:
        """Less is within the limit where more was, and more beyond it."""
        if self.is_within and conditional <= self.conditional and unconditioned <= self.unconditioned:
            return True
        beyond = conditional >= self.conditional and unconditioned >= self.unconditioned
        return False if not self.is_within and beyond else None


class _Asked(NamedTuple):
    """One account for all with equal priors and starts, and the units that may pay for its evaluation."""

    at: NDArray[np.int64]  # (n,) position among the terms
    key: list[tuple[int, bytes]]
    unit: NDArray[np.int64]  # (u,)
    first: NDArray[np.int64]  # (n + 1,) units of one account stand together
    owner: NDArray[np.int64]  # (u,) position among the n


class RefinedCheck:
    """Whom the refined bounds clear of one step's candidates.

    It depends on which of a person's places are counted, not on the noise, so one evaluation serves many
    candidates. People with equal priors and starts are evaluated once, and each share that has such people
    pays for it once; people of a share that cannot pay any more stay over the limit.

    A person cleared by the refined bounds is checked again at every later step, because noise does not lower
    those bounds; what is released now may leave nothing but silence. So where a step leaves no headroom by
    the fast bound, it must be one that can go on: the horizons it is in must stay within the limit with the
    ``coming`` steps raw, too, or with more steps like it where none are known.
    """

    def __init__(
        self,
        view: AccountantView,
        limits: Limits,
        step: int,
        coming: NDArray[np.int32],
        units: Units,
        operations: int | None,
    ) -> None:
        """``coming`` (L, M) are the outcomes of the announced steps after this one; none if L = 0.

        The step may cost so many ``operations`` (None: any number), an even part for each share of the
        ``units``.
        """
        self._view = view
        self._limits = limits
        self._step = step
        self._coming = coming
        self._units = units
        self._left = None if operations is None else units.shares.even_parts(operations)
        self._known: dict[tuple[int, bytes], list[_Outcome]] = {}
        self._by_chain = np.argsort(units.chain, kind="stable")
        chains = np.arange(units.alike.size + 1)
        self._start = np.searchsorted(units.chain[self._by_chain], chains)
        least = LEAST_OPERATIONS * view.accounts.horizon.steps
        self.most_cleared = units.most_people(None if operations is None else operations // least)

    def cleared(
        self,
        step: StepSchedule,
        terms: Terms,
        excess: NDArray[np.int64],
        leaves_headroom: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """How many people of these accounts, over the limit by the fast bound, are not by refined ones, (n,).

        ``excess`` (n,) is by how much the step's terms are too large; those with the least are evaluated
        first. ``leaves_headroom`` (n,): later horizons keep to the fast bound.
        """
        labels = observe(step, self._view.labels.shape[1]).labels
        asked = self._asked(terms.people, labels)
        cost = self._operations(terms.people[asked.at], labels)
        is_within, is_known = self._known_answers(asked, terms)
        paid = self._pay(asked, cost, excess[asked.at], ~is_known)
        due = np.flatnonzero(np.bincount(asked.owner[paid], minlength=asked.at.size))
        if due.size:
            chosen = asked.at[due]
            headroom = self._evaluate(_some(terms, chosen), leaves_headroom[chosen], labels)
            for i, largest in zip(due.tolist(), headroom.tolist(), strict=True):
                own = slice(asked.first[i], asked.first[i + 1])
                most = int(terms.conditional[asked.at[i]]), int(terms.unconditioned[asked.at[i]])
                outcome = _Outcome(largest >= 0, max(most[0], largest), most[1], paid[own])
                self._known.setdefault(asked.key[i], []).append(outcome)
                is_within[own] |= paid[own] & (largest >= 0)
        return self._units.people_of(UnitPositions(asked.unit[is_within]))[terms.people]

    def _asked(self, people: NDArray[np.int64], labels: NDArray[np.int32]) -> _Asked:
        """Of these accounts the first of those that are alike."""
        chain, at = np.unique(self._units.alike[people], return_index=True)
        size = self._start[chain + 1] - self._start[chain]
        unit = self._by_chain[packed_positions(self._start, chain)]
        first = np.concatenate(([0], np.cumsum(size)))
        key = [(int(each), self._pattern(int(each), labels)) for each in chain]
        return _Asked(at, key, unit, first, np.repeat(np.arange(chain.size), size))

    def _known_answers(self, asked: _Asked, terms: Terms) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """What earlier evaluations say of the units that paid for them, (u,): within the limit, and known."""
        is_within, is_known = (np.zeros(asked.unit.size, dtype=np.bool_) for _ in range(2))
        for i, key in enumerate(asked.key):
            own, at = slice(asked.first[i], asked.first[i + 1]), asked.at[i]
            for outcome in self._known.get(key, ()):
                answer = outcome.answer(int(terms.conditional[at]), int(terms.unconditioned[at]))
                if answer is not None:
                    is_within[own] |= outcome.is_paid & ~is_known[own] & answer
                    is_known[own] |= outcome.is_paid
        return is_within, is_known

    def _pay(
        self, asked: _Asked, cost: NDArray[np.int64], excess: NDArray[np.int64], is_open: NDArray[np.bool_]
    ) -> NDArray[np.bool_]:
        """Which of the units pay that are open, (u,): once a share cannot, it pays for nobody any more."""
        if self._left is None:
            return is_open
        shares = self._units.shares
        order = np.flatnonzero(is_open)
        order = order[np.lexsort((shares.rank[asked.unit[order]], excess[asked.owner[order]]))]
        units, paid = asked.unit[order], np.zeros(is_open.size, dtype=np.bool_)
        paid[order] = shares.paid(units, cost[asked.owner[order]], self._left)
        self._left[shares.share[asked.unit[is_open & ~paid]]] = -1
        return paid

    def _pattern(self, person: int, labels: NDArray[np.int32]) -> bytes:
        """Which of the person's places are counted."""
        begin, end = self._view.accounts.population.places_start[person : person + 2]
        return (labels[self._view.accounts.population.places[begin:end]] > 0).tobytes()

    def _operations(self, people: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """What each one's evaluation costs, (n,): every horizon that contains the step."""
        rows = np.concatenate((self._view.labels[1:], labels[np.newaxis]))
        horizon = self._view.accounts.horizon
        cost = find_operations(self._view.accounts, people, horizon.vectors, seen_exactly(rows))
        return cost * horizon.steps

    def _evaluate(
        self, terms: Terms, leaves_headroom: NDArray[np.bool_], labels: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """The largest ``c`` of each person, (n,); -1 for over the limit, now or if it cannot go on."""
        silence = np.zeros((0, labels.size), dtype=np.int32)
        headroom = self._headroom(terms, labels, silence)
        last = np.flatnonzero((terms.unconditioned > 0) & ~leaves_headroom & (headroom >= 0))
        headroom[last[~self._is_sustainable(_some(terms, last), labels)]] = -1
        return headroom

    def _is_sustainable(self, terms: Terms, labels: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each person stays within the limit if later steps are raw as well, (n,)."""
        coming = self._coming
        if not len(coming):
            coming = np.repeat(labels[np.newaxis], self._view.accounts.horizon.steps - 1, axis=0)
        beyond = terms._replace(conditional=np.full(terms.people.size, BEYOND_FAST))
        return self._headroom(beyond, labels, coming) >= 0

    def _headroom(
        self, terms: Terms, labels: NDArray[np.int32], coming: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """The largest ``c`` of each person, (n,), with the last horizon, the step, what comes and silence."""
        accounts = self._view.accounts
        headroom = np.full(terms.people.size, -1)
        longest = int(accounts.population.slots[terms.people].max(initial=1))
        after = np.zeros((accounts.horizon.steps + HISTORY + longest, labels.size), dtype=np.int32)
        after[: len(coming)] = coming[: len(after)]
        rows = np.concatenate((self._view.labels[1:], labels[np.newaxis], after))
        find_refined_headroom(accounts, self._limits, terms, self._step, rows, headroom)
        return headroom


def _some(terms: Terms, chosen: NDArray[np.int64]) -> Terms:
    """The terms at these positions."""
    return Terms(*(array[chosen] for array in terms))
