"""Refined bounds, as far as the work of a step goes, for people whom the fast bound puts over the limit."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountantView, PeopleShares
from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.refine_kernel import LEAST_OPERATIONS, find_operations
from accounting.decisions.what_if.candidate_kernel import Terms
from accounting.decisions.what_if.limits_kernel import Limits
from accounting.decisions.what_if.refined_check_kernel import find_refined_headroom
from accounting.exposure.step_information import observe, seen_exactly
from models.releases import StepSchedule

_BEYOND_FAST = 1 << 61
"""A ``c`` that the fast bound never clears, so that every horizon is looked at with the refined bounds."""


class _Outcome(NamedTuple):
    """An evaluation: within the limit up to these terms, or beyond it from these on."""

    is_within: bool
    conditional: int
    unconditioned: int


class RefinedCheck:
    """Whom the refined bounds clear of one step's candidates.

    It depends on which of a person's places are counted, not on the noise, so one evaluation serves many
    candidates. Who is not evaluated any more stays over the limit.

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
        shares: PeopleShares,
        operations: int | None,
    ) -> None:
        """``coming`` (L, M) are the outcomes of the announced steps after this one; none if L = 0.

        The step may cost so many ``operations`` (None: any number), an even part for each of the ``shares``.
        """
        self._view = view
        self._limits = limits
        self._step = step
        self._coming = coming
        self._shares = shares
        self._left = None if operations is None else shares.even_parts(operations)
        self._known: dict[tuple[int, bytes], list[_Outcome]] = {}
        people, least = view.accounts.since.size, LEAST_OPERATIONS * view.accounts.horizon.steps
        self.most_cleared = people if operations is None else min(people, operations // least)
        self._is_looked_at = np.zeros(people, dtype=np.bool_)  # with some of the labels

    def cleared(
        self,
        step: StepSchedule,
        terms: Terms,
        excess: NDArray[np.int64],
        leaves_headroom: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Which of these people, over the limit by the fast bound, are within it by the refined bounds, (n,).

        ``excess`` (n,) is by how much the step's terms are too large; those with the least are evaluated
        first. ``leaves_headroom`` (n,): later horizons keep to the fast bound.
        """
        labels = observe(step, self._view.labels.shape[1]).labels
        order = np.lexsort((self._shares.rank[terms.people], excess))
        order = order[self._can_be_cleared(terms.people[order])]
        cost = self._operations(terms.people, labels)
        keys = [(int(terms.people[k]), self._pattern(int(terms.people[k]), labels)) for k in order]
        sizes = [(int(terms.conditional[k]), int(terms.unconditioned[k])) for k in order]
        unknown = [
            i
            for i, key in enumerate(keys)
            if self._known_answer(key, *sizes[i]) is None and self._take(key[0], int(cost[order[i]]))
        ]
        if unknown:
            chosen = order[np.array(unknown)]
            self._is_looked_at[terms.people[chosen]] = True
            headroom = self._evaluate(_some(terms, chosen), leaves_headroom[chosen], labels)
            for i, largest in zip(unknown, headroom, strict=True):
                outcome = _Outcome(largest >= 0, max(sizes[i][0], int(largest)), sizes[i][1])
                self._known.setdefault(keys[i], []).append(outcome)
        found = np.zeros(terms.people.size, dtype=np.bool_)
        found[order] = [self._known_answer(key, *sizes[i]) is True for i, key in enumerate(keys)]
        return found

    def _can_be_cleared(self, people: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Who was looked at, or is of a share that may pay for it, (n,)."""
        if self._left is None:
            return np.ones(people.size, dtype=np.bool_)
        return self._is_looked_at[people] | (self._left[self._shares.share[people]] >= 0)

    def _known_answer(self, key: tuple[int, bytes], conditional: int, unconditioned: int) -> bool | None:
        """What earlier evaluations say: less is within the limit where more was, and more beyond it."""
        for known in self._known.get(key, ()):
            if known.is_within and conditional <= known.conditional and unconditioned <= known.unconditioned:
                return True
            beyond = conditional >= known.conditional and unconditioned >= known.unconditioned
            if not known.is_within and beyond:
                return False
        return None

    def _pattern(self, person: int, labels: NDArray[np.int32]) -> bytes:
        """Which of the person's places are counted."""
        begin, end = self._view.accounts.population.places_start[person : person + 2]
        return (labels[self._view.accounts.population.places[begin:end]] > 0).tobytes()

    def _operations(self, people: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """What each one's evaluation costs, (n,): every horizon that contains the step."""
        cost = np.empty(people.size, dtype=np.int64)
        rows = np.concatenate((self._view.labels[1:], labels[np.newaxis]))
        horizon = self._view.accounts.horizon
        find_operations(self._view.accounts, people, horizon.vectors, seen_exactly(rows), cost)
        return cost * horizon.steps

    def _take(self, person: int, cost: int) -> bool:
        """Whether the person's share can pay for one more; once it cannot, it pays for nobody any more."""
        if self._left is None:
            return True
        share = self._shares.share[person]
        self._left[share] = self._left[share] - cost if self._left[share] >= cost else -1
        return bool(self._left[share] >= 0)

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
        beyond = terms._replace(conditional=np.full(terms.people.size, _BEYOND_FAST))
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
