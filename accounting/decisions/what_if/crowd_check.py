"""The bound at levels, as far as a step's work goes, for people whom the fast bound puts over the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous.accounts_kernel import HISTORY
from accounting.continuous.crowd import CrowdAccount, Levels
from accounting.continuous.operations_kernel import LEAST_OPERATIONS, find_operations
from accounting.decisions.what_if.candidate_kernel import Terms
from accounting.decisions.what_if.crowd_check_kernel import find_within
from accounting.decisions.what_if.limits_kernel import BEYOND_FAST, Limits
from accounting.exposure.crowd import StepCrowd
from accounting.exposure.step_information import followed_by
from accounting.exposure.step_information.seen_steps_kernel import SeenSteps
from accounting.settings import RiskBudget
from models.releases import StepSchedule

_Case = tuple[int, bytes, int, int]
_Choose = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]

_LOOKED_AT = (6,)
"""Places of the levels that decisions look at: fewer make a larger bound, so nobody is cleared wrongly.

In the demo's city this one clears as many people as three do, in half the time.
"""


class WorkOfStep(NamedTuple):
    """``operations`` for all questions about one step (None: any number), which is to keep the ``limit``."""

    operations: int | None
    limit: RiskBudget


class CrowdCheck:
    """Whom the bound at levels clears of one step's candidates, against the crowd adversary.

    What a count reveals in the crowd depends on its noise, so each candidate is looked at anew; people of
    whom it reveals the same as an earlier one are not. Who is not evaluated any more stays over the limit.

    Each share of the people has an even part of the work. Where a share cannot pay for so many that no more
    than twice the limit's part of it stay over, none of it goes to the candidate: another one reveals less.

    As against the informed adversary, where a step leaves no headroom by the fast bound it must be one that
    can go on: the horizons it is in must stay within the limit with more steps like it, too. Else what is
    released now may leave nothing but silence.
    """

    def __init__(self, account: CrowdAccount, crowds: StepCrowd, limits: Limits, work: WorkOfStep) -> None:
        """Nobody is looked at yet."""
        self._account = account
        self._crowds = crowds
        self._limits = limits
        self._accounts = account.fast.view().accounts
        self._shares = account.informed.people_shares
        operations = work.operations
        self._left = None if operations is None else self._shares.even_parts(operations)
        sizes = np.bincount(self._shares.share, minlength=self._shares.count)
        self._allowed = np.array([work.limit.allowed(size) for size in sizes.tolist()])
        people, horizon = self._accounts.since.size, self._accounts.horizon.steps
        self._is_lost = np.zeros(people, dtype=np.bool_)
        least = LEAST_OPERATIONS * horizon * len(_LOOKED_AT)
        self.most_cleared = people if operations is None else min(people, operations // least)
        self._known: dict[_Case, bool] = {}
        self._shown: dict[bytes, int] = {}  # numbers of what counts reveal at all levels

    def look_at_silence(self, step: StepSchedule, people: NDArray[np.int64]) -> None:
        """Clear these people of a ``step`` that releases nothing before any work goes to candidates.

        Whoever is over the limit even so stays over it whatever is released.
        """
        nothing = np.zeros(people.size, dtype=np.int64)
        goes_on = np.ones(people.size, dtype=np.bool_)
        cases = self._look(step, Terms(people, nothing, nothing), nothing, goes_on, self._payable)
        self._is_lost[people] = [not self._known.get(case, False) for case in cases]

    def cleared(
        self,
        step: StepSchedule,
        terms: Terms,
        excess: NDArray[np.int64],
        leaves_headroom: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Which of these people, over the limit by the fast bound, are not by the bound at levels, (n,).

        ``excess`` (n,) is by how much the terms are too large; those with the least are evaluated first.
        ``leaves_headroom`` (n,): later horizons keep to the fast bound.
        """
        possible = ~self._is_lost[terms.people]
        some = Terms(*(array[possible] for array in terms))
        found = np.zeros(terms.people.size, dtype=np.bool_)
        cases = self._look(step, some, excess[possible], leaves_headroom[possible], self._worth_paying)
        found[possible] = [self._known.get(case, False) for case in cases]
        return found

    def _look(
        self,
        step: StepSchedule,
        terms: Terms,
        excess: NDArray[np.int64],
        goes_on: NDArray[np.bool_],
        choose: _Choose,
    ) -> list[_Case]:
        """Evaluate these people as far as the work goes; returns the case under which each answer is stored.

        For people whose step ``goes_on``, later steps like it are not checked. ``choose`` selects whom the
        work is spent on among people without an answer, given in order of distance to the limit.
        """
        levels = self._with_step(step)
        order = np.lexsort((self._shares.rank[terms.people], excess))
        keys = self._cases(terms, levels)
        due = np.array([k for k in order.tolist() if keys[k] not in self._known], dtype=np.int64)
        cost = self._operations(terms.people[due], levels)
        is_paid = choose(terms.people[due], 2 * cost)  # now, and if it goes on
        paid, cost = due[is_paid], cost[is_paid]
        self._charge(terms.people[paid], cost)
        if paid.size:
            some = Terms(*(array[paid] for array in terms))
            found = np.zeros(paid.size, dtype=np.bool_)
            self._find_within(some, self._followed_by_silence(levels), found)
            last = np.flatnonzero(found & ~goes_on[paid] & (some.unconditioned > 0))
            if last.size:
                self._charge(some.people[last], cost[last])
                again = Terms(*(array[last] for array in some))
                again = again._replace(conditional=np.full(last.size, BEYOND_FAST))
                is_lasting = np.zeros(last.size, dtype=np.bool_)
                self._find_within(again, self._followed_by_silence(self._repeated(levels)), is_lasting)
                found[last] = is_lasting
            answers = zip(paid.tolist(), found.tolist(), strict=True)
            self._known |= {keys[k]: is_within for k, is_within in answers}
        return keys

    def _find_within(self, terms: Terms, levels: Levels, found: NDArray[np.bool_]) -> None:
        find_within(self._accounts, self._limits, terms, self._account.next_step, levels, found)

    def _repeated(self, levels: Levels) -> Levels:
        """With the last step again and again, as long as a horizon reaches beyond it."""
        times = self._accounts.horizon.steps - 1
        return Levels(levels.probability, tuple(_with_last_repeated(seen, times) for seen in levels.seen))

    def _with_step(self, step: StepSchedule) -> Levels:
        """The last steps and this one, (HISTORY + T rows) at each level."""
        levels = self._account.levels
        probability = tuple(levels.probability[k] for k in _LOOKED_AT)
        erased = [self._account.erased(step, self._crowds, each) for each in probability]
        before = (levels.seen[k] for k in _LOOKED_AT)
        return Levels(probability, tuple(map(followed_by, before, erased)))

    def _followed_by_silence(self, levels: Levels) -> Levels:
        """With so many rows of silence as any horizon to come may reach into."""
        slots = int(self._accounts.population.slots.max(initial=1))
        silent = HISTORY + self._accounts.horizon.steps + slots
        return Levels(levels.probability, tuple(_silent_after(seen, silent) for seen in levels.seen))

    def _cases(self, terms: Terms, levels: Levels) -> list[_Case]:
        """For each person, what the last row of all levels reveals at the person's places, and the terms."""
        places, start = self._accounts.population.places, self._accounts.population.places_start
        last = self._revealed(levels)
        rows = zip(*(array.tolist() for array in terms), strict=True)
        return [
            (person, last[places[start[person] : start[person + 1]]].tobytes(), conditional, unconditioned)
            for person, conditional, unconditioned in rows
        ]

    def _revealed(self, levels: Levels) -> NDArray[np.int32]:
        """A number for what the last row's counts reveal at each location, (M,); the same for the same."""
        rows = [seen.channel[-1] for seen in levels.seen]
        found = np.full(rows[0].size, -1, dtype=np.int32)
        labels = levels.seen[0].labels[-1]
        for location in np.flatnonzero(rows[0] >= 0).tolist():
            tables = (
                array[row[location]].tobytes()
                for row, seen in zip(rows, levels.seen, strict=True)
                for array in seen.tables
            )
            what = b"".join((int(labels[location]).to_bytes(4), *tables))
            found[location] = self._shown.setdefault(what, len(self._shown))
        return found

    def _operations(self, people: NDArray[np.int64], levels: Levels) -> NDArray[np.int64]:
        """What it costs to look once at every horizon that contains the step, (n,)."""
        vectors = self._accounts.horizon.vectors
        cost = find_operations(self._accounts, people, vectors, levels.seen[0])
        return cost * self._accounts.horizon.steps * len(levels.probability)

    def _payable(self, people: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Whom their shares can pay for, in this order, (n,)."""
        if self._left is None:
            return np.ones(people.size, dtype=np.bool_)
        return self._shares.paid(people, cost, self._left.copy())

    def _worth_paying(self, people: NDArray[np.int64], cost: NDArray[np.int64]) -> NDArray[np.bool_]:
        """The same; nobody of a share that cannot pay for all and in which too many would stay over."""
        found, share = self._payable(people, cost), self._shares.share
        unpaid = np.bincount(share[people[~found]], minlength=self._shares.count)
        lost = np.bincount(share[self._is_lost], minlength=self._shares.count)
        is_worth = (unpaid == 0) | (unpaid + lost <= 2 * self._allowed)
        return np.asarray(found & is_worth[share[people]])

    def _charge(self, people: NDArray[np.int64], cost: NDArray[np.int64]) -> None:
        """Take this off what their shares have left."""
        if self._left is not None:
            self._left -= self._shares.total(people, cost)


def _with_last_repeated(seen: SeenSteps, times: int) -> SeenSteps:
    """So many rows more like the last."""
    labels, channel = (np.repeat(array[-1:], times, axis=0) for array in (seen.labels, seen.channel))
    return SeenSteps(
        np.concatenate((seen.labels, labels)), np.concatenate((seen.channel, channel)), seen.tables
    )


def _silent_after(seen: SeenSteps, rows: int) -> SeenSteps:
    """So many rows more in which nothing is counted."""
    nowhere = ((0, rows), (0, 0))
    return SeenSteps(
        np.pad(seen.labels, nowhere), np.pad(seen.channel, nowhere, constant_values=-1), seen.tables
    )
