"""The decision for one step: questions out, counts in, at the end a schedule and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from accounting.decisions.choices import Assignment, SensorChoice, schedule_of
from accounting.decisions.over_limit import OverLimit
from accounting.decisions.reason import BudgetReason
from accounting.decisions.search import Search, SearchSettings
from accounting.settings import RiskBudget
from models.releases import StepSchedule


@dataclass(frozen=True, slots=True)
class Decision:
    """What is released and why. ``over`` people are over the limit because of releases, ``natural`` by habit.

    ``over`` counts this step and the silence after it, ``allowed`` how many may be over; ``cleared`` of
    the people within the limit are there by the refined bounds only. ``cost`` is what the assignment loses
    (weighted expected absolute error).
    """

    schedule: StepSchedule
    reason: BudgetReason
    people: int
    allowed: int
    natural: int
    over: int
    cleared: int
    cost: float
    rounds: int


class StepDecider:
    """Finds the decision for one step, round by round.

    Ask whoever knows people for the counts of :attr:`question`, give it to :meth:`take`, until
    :attr:`decision` is there. ``must_be_raw`` names sensors that the settings want raw whatever comes: the
    budget goes first.
    """

    def __init__(
        self,
        step: int,
        choices: Sequence[SensorChoice],
        limit: RiskBudget,
        settings: SearchSettings | None = None,
        must_be_raw: frozenset[str] = frozenset(),
        people: int | None = None,
    ) -> None:
        """``people`` is how many there are, where that is known beforehand."""
        self._people = people
        self.step = step
        self._limit = limit
        self._search = Search(choices, settings)
        self._must_be_raw = must_be_raw
        self._last: OverLimit | None = None
        self._at_best = (0, 0)
        self.decision: Decision | None = None

    @property
    def round(self) -> int:
        """Rounds that have been answered."""
        return self._search.rounds

    @property
    def choices(self) -> tuple[SensorChoice, ...]:
        """The options of each sensor."""
        return self._search.choices

    @property
    def candidates(self) -> tuple[Assignment, ...]:
        """The assignments in question."""
        return self._search.candidates

    @property
    def question(self) -> tuple[StepSchedule, ...]:
        """The candidate steps to be counted now."""
        return tuple(schedule_of(self.step, self._search.choices, a) for a in self._search.candidates)

    @property
    def enough(self) -> int | None:
        """More people over the limit than so many need not be distinguished; None while that is not known."""
        return None if self._people is None else self._limit.allowed(self._people)

    def take(self, counts: OverLimit) -> None:
        """The counts of everybody for :attr:`question`; leads to the next question or to the decision."""
        candidates, before = self._search.candidates, self._search.best
        self._people = counts.people
        counts = counts.cut_above(self._limit.allowed(counts.people))
        self._search.take(counts.over, counts.is_admissible(self._limit))
        self._last = counts
        best = self._search.best
        if best is not None and best != before:
            k = candidates.index(best)
            self._at_best = counts.over[k], counts.cleared[k]
        elif best is None:
            self._at_best = min(counts.over, default=0), 0
        if not self._search.candidates:
            self.decision = self._decide(None)

    def give_up(self) -> Decision:
        """No answer in time: the best that everybody has answered for, or silence."""
        self.decision = self._decide(BudgetReason.NO_ANSWER)
        return self.decision

    def _decide(self, failure: BudgetReason | None) -> Decision:
        search, counts = self._search, self._last or OverLimit(0, 0, (0,), (), ())
        assignment = search.best if search.best is not None else search.silence
        schedule = schedule_of(self.step, search.choices, assignment)
        over, cleared = self._at_best
        return Decision(
            schedule=schedule,
            reason=failure or self._reason(assignment, schedule, counts),
            people=counts.people,
            allowed=self._limit.allowed(counts.people),
            natural=counts.natural_now,
            over=over,
            cleared=cleared,
            cost=search.cost(assignment),
            rounds=search.rounds,
        )

    def _reason(self, assignment: Assignment, schedule: StepSchedule, counts: OverLimit) -> BudgetReason:
        silent = {r.sensor.name for r in schedule.releases if not r.mechanism.is_released}
        if all(option == 0 for option in assignment):
            return BudgetReason.FREE
        if silent & self._must_be_raw:
            return BudgetReason.CONTRADICTION
        if counts.natural_now > self._limit.allowed(counts.people):
            return BudgetReason.HABITS
        return BudgetReason.SPENT if len(silent) == len(schedule.releases) else BudgetReason.BUDGET


Ask: TypeAlias = Callable[[Sequence[StepSchedule], int | None], OverLimit]
"""The counts of candidates by one who knows everybody; see :meth:`StepDecider.enough` for the second."""


def decide(decider: StepDecider, ask: Ask) -> Decision:
    """The decision where all people can be asked at once."""
    while decider.decision is None:
        decider.take(ask(decider.question, decider.enough))
    return decider.decision
