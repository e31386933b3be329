"""The decision for one step: questions out, counts in, at the end a schedule and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import nlargest
from math import lcm
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from accounting.decisions.search import Assignment, Search, SearchSettings, SensorChoice, schedule_of
from accounting.settings import RiskBudget
from models.mechanisms import Mechanism
from models.releases import StepSchedule

# Why a step is released as it is under a risk budget.


class BudgetReason(StrEnum):
    """What settled a decision; a fixed list, so that it can be a metrics label."""

    FREE = "free"  # the best option of every sensor keeps the budget
    BUDGET = "budget"  # the budget asks for more noise, or for some silence
    SPENT = "spent"  # nothing can be released any more without breaking the budget
    HABITS = "habits"  # habits alone put too many people over the limit at this hour
    CONTRADICTION = "contradiction"  # a sensor that must be raw cannot be within the budget: suppressed
    NO_ANSWER = "no_answer"  # not everybody's accounts could be asked in time, or there are none


# How many people a step would put over the limit, candidate by candidate; answers of partitions add up.


@dataclass(frozen=True, slots=True)
class OverLimit:
    """Counts of people, of one partition or of all.

    ``natural_now`` are over the limit by habit alone in the horizon of the step that is asked about,
    ``natural[k]`` in horizons that start in slot ``k`` of the common cycle.
    ``over[j]`` would be over because of releases, now or in the silence after candidate ``j``; ``cleared[j]``
    of the others are within it by the refined bounds only.
    """

    people: int
    natural_now: int
    natural: tuple[int, ...]
    over: tuple[int, ...]
    cleared: tuple[int, ...]

    def __add__(self, other: OverLimit) -> OverLimit:
        """Both partitions together."""
        cycle = lcm(len(self.natural), len(other.natural))
        return OverLimit(
            self.people + other.people,
            self.natural_now + other.natural_now,
            tuple(
                self.natural[k % len(self.natural)] + other.natural[k % len(other.natural)]
                for k in range(cycle)
            ),
            tuple(a + b for a, b in zip(self.over, other.over, strict=True)),
            tuple(a + b for a, b in zip(self.cleared, other.cleared, strict=True)),
        )

    def cut_above(self, most: int) -> OverLimit:
        """The same counts, cut at ``most + 1``: partitions do not count beyond."""
        return replace(self, over=tuple(min(count, most + 1) for count in self.over))

    def spoken_for(self, limit: RiskBudget) -> int:
        """Places in the budget that habits take, at the hour at which they take most but do not break it.

        At an hour at which habits alone break the budget, nothing is released. Such hours do not lower what
        other hours may release.
        """
        allowed = limit.allowed(self.people)
        return max((count for count in self.natural if count <= allowed), default=0)

    def is_admissible(self, limit: RiskBudget) -> tuple[bool, ...]:
        """Whether each candidate keeps the budget at every step from now on, if silence follows."""
        allowed = limit.allowed(self.people)
        if self.natural_now > allowed:
            return (False,) * len(self.over)
        free = allowed - self.spoken_for(limit)
        return tuple(count <= free for count in self.over)


# What one candidate step does to the people whom some candidate could put over the limit.


@dataclass(frozen=True, eq=False)
class CandidateEffect:
    """Units, (n,) each: ``excess`` over the limit (positive = over) and, where that is positive, the terms.

    ``conditional`` and ``unconditioned`` are 0 where a quick bound showed a person to be within the limit.
    """

    mechanisms: dict[str, Mechanism]
    conditional: NDArray[np.int64]
    unconditioned: NDArray[np.int64]
    excess: NDArray[np.int64]

    @classmethod
    def of(cls, step: StepSchedule, people: int) -> CandidateEffect:
        """An effect still to be filled in."""
        return cls(mechanisms_of(step), *(np.zeros(people, dtype=np.int64) for _ in range(3)))

    def copied_for(self, step: StepSchedule) -> CandidateEffect:
        """The same effect for another candidate, to be changed where the two differ."""
        return replace(
            self,
            mechanisms=mechanisms_of(step),
            conditional=self.conditional.copy(),
            unconditioned=self.unconditioned.copy(),
            excess=self.excess.copy(),
        )

    @property
    def is_exact(self) -> bool:
        """Whether all that is released is exact: then the terms of everybody are others than under noise."""
        return all(how.is_exact for how in self.mechanisms.values() if how.is_released)

    def differing(self, step: StepSchedule) -> list[str]:
        """Sensors that another candidate releases in another way."""
        others = mechanisms_of(step)
        return [name for name, how in self.mechanisms.items() if others[name] != how]


def mechanisms_of(step: StepSchedule) -> dict[str, Mechanism]:
    """The mechanism of each sensor of a step."""
    return {release.sensor.name: release.mechanism for release in step.releases}


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


# Which sensors to switch on: the set of most use within a risk budget, and how far it is from the best.
#
# ``use`` is what releasing saves compared with silence: weight times (cost of silence - expected error). If
# a set keeps the budget, so does each of its sensors by itself, since by the fast bound fewer sensors never
# reveal more. So the ``most`` largest single uses, added up, bound the use of every admissible set.


@dataclass(frozen=True, slots=True)
class Selection:
    """The decision, the sensors it switches on, what they are of use, and the most that any set could be."""

    decision: Decision
    sensors: tuple[str, ...]
    use: float
    bound: float


def select_sensors(
    step: int,
    choices: Sequence[SensorChoice],
    limit: RiskBudget,
    most: int,
    ask: Ask,
    settings: SearchSettings | None = None,
) -> Selection:
    """The best set of at most ``most`` sensors found; exact where all assignments can be tried.

    ``ask`` must count people over the limit by the fast bound; otherwise ``bound`` is not a bound.
    """
    chosen = replace(settings or SearchSettings(), most_released=most)
    decision = decide(StepDecider(step, choices, limit, chosen), ask)
    on = tuple(r.sensor.name for r in decision.schedule.releases if r.mechanism.is_released)
    silence = sum(choice.costs[-1] for choice in choices)
    return Selection(decision, on, silence - decision.cost, _bound(step, choices, limit, most, ask))


def _bound(step: int, choices: Sequence[SensorChoice], limit: RiskBudget, most: int, ask: Ask) -> float:
    """The best admissible use of each sensor on its own, the largest ``most`` of them added up."""
    silence: Assignment = tuple(len(choice.options) - 1 for choice in choices)
    single = [
        (k, option, (*silence[:k], option, *silence[k + 1 :]))
        for k, choice in enumerate(choices)
        for option in range(len(choice.options) - 1)
    ]
    counts = ask([schedule_of(step, choices, assignment) for _, _, assignment in single], None)
    best = [0.0] * len(choices)
    for (k, option, _), is_admissible in zip(single, counts.is_admissible(limit), strict=True):
        if is_admissible:
            best[k] = max(best[k], choices[k].costs[-1] - choices[k].costs[option])
    return sum(nlargest(most, best))
