"""The decision for one step: questions out, counts in, at the end a schedule and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from heapq import nlargest
from itertools import chain, islice, product
from math import inf, lcm, prod
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SettingsError
from accounting.settings import RiskBudget
from models.mechanisms import Mechanism, Suppressed
from models.releases import Sensor, SensorRelease, StepSchedule

# The search for the least costly assignment that keeps the budget, in rounds of questions.
#
# A round is a list of candidate assignments; whoever knows people answers how many each would put over the
# limit. Nothing else is asked, so answers of partitions add up and everybody finds the same decision.
#
# - Few assignments (one sensor always): all of them in one round. Exact.
# - Many: first every sensor at the same error, the least admissible one sought by cutting a ladder of
#   errors in three; then, from there, sensors are improved alone and together, those first that put the
#   fewest people over the limit for what they gain. Every accepted assignment was itself answered for, so
#   the result keeps the budget whatever the ladder's order is worth.
#
# A round names at most :data:`OPTIONS_A_ROUND` options, so that a question does not grow with the square of
# the sensors: beyond some 500 sensors not each of them is tried alone, but more and more of them together.
#
# For example two sensors, each raw (loses 0), noised (1) or silent (3), of which the budget allows one to
# be raw. Asked are, where not all nine assignments may be asked at once::
#
#     both raw, both noised          # the ladder: the second keeps the budget, and nothing is between them
#     (raw, noised), (noised, raw)   # each sensor improved alone: both keep it, the first asked stays
#     both raw                       # the other one as well: does not keep it, nothing is left to improve

# What may be decided for each sensor, in falling order of usefulness, and what each choice costs.

Assignment: TypeAlias = tuple[int, ...]
"""One option for each sensor, by index."""


@dataclass(frozen=True, slots=True)
class SensorChoice:
    """A sensor's options, the most useful first; the last one publishes nothing.

    ``costs`` are what each option loses: the sensor's weight times the expected absolute error, in people;
    suppressing costs as much as the largest error that is still thought better than nothing.
    """

    sensor: Sensor
    options: tuple[Mechanism, ...]
    costs: tuple[float, ...]

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` unless costs rise and the last option is silence."""
        if len(self.options) != len(self.costs) or list(self.costs) != sorted(self.costs):
            raise SettingsError(
                f"costs of the options of sensor {self.sensor.name!r} must rise, one for each option",
                self.costs,
                "sort the options by what they lose",
            )
        if not self.options or self.options[-1].is_released:
            raise SettingsError(
                f"the last option of sensor {self.sensor.name!r} must publish nothing",
                [option.name for option in self.options],
                "add suppression at the end",
            )

    @classmethod
    def of(
        cls, sensor: Sensor, released: Sequence[Mechanism], *, weight: float, cost_of_silence: float
    ) -> SensorChoice:
        """Choose among these mechanisms, the least error first, and silence."""
        errors = sorted((option.expected_absolute_error(), k) for k, option in enumerate(released))
        costs = [weight * error for error, _ in errors]
        options = (*(released[k] for _, k in errors), Suppressed())
        return cls(sensor, options, (*costs, max([weight * cost_of_silence, *costs])))


def schedule_of(step: int, choices: Sequence[SensorChoice], assignment: Assignment) -> StepSchedule:
    """The step with each sensor's chosen option."""
    return StepSchedule(
        step,
        tuple(
            SensorRelease(choice.sensor, choice.options[k])
            for choice, k in zip(choices, assignment, strict=True)
        ),
    )


def cost_of(choices: Sequence[SensorChoice], assignment: Assignment) -> float:
    """What an assignment loses, summed over the sensors."""
    return sum(choice.costs[k] for choice, k in zip(choices, assignment, strict=True))


def released_by(choices: Sequence[SensorChoice], assignment: Assignment) -> int:
    """How many sensors publish something."""
    return sum(choice.options[k].is_released for choice, k in zip(choices, assignment, strict=True))


OPTIONS_A_ROUND = 2**18


def most_candidates(sensors: int) -> int:
    """How many candidates for a step of so many sensors a round has at most."""
    return max(2, OPTIONS_A_ROUND // max(1, sensors))


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """How hard to look: all assignments up to so many, else so many rounds; at most so many sensors on."""

    exact_up_to: int = 64
    rounds: int = 6
    most_released: int | None = None


class Search:
    """Asks round by round and remembers the best admissible assignment; the first asked among equals."""

    def __init__(self, choices: Sequence[SensorChoice], settings: SearchSettings | None = None) -> None:
        self.choices = tuple(choices)
        self.rounds = 0
        self.best: Assignment | None = None
        self._settings = settings or SearchSettings()
        self._most = most_candidates(len(self.choices))
        self._over_at_best = 0
        self._burden: dict[int, float] = {}  # sensor: people over the limit per unit of gain, when last asked
        self._stuck: set[int] = set()
        self._ladder: list[Assignment] = []
        self._improvements: int | None = (
            None  # where all assignments are asked at once there is no more to do
        )
        assignments = prod(len(choice.options) for choice in choices)
        if assignments <= min(self._settings.exact_up_to, self._most):
            every = product(*(range(len(choice.options)) for choice in self.choices))
            self._candidates = self._allowed(sorted(every, key=self.cost))
        else:
            self._ladder, self._improvements = self._common_errors(), 0
            self._candidates = self._rungs()

    @property
    def silence(self) -> Assignment:
        """Nothing is released."""
        return tuple(len(choice.options) - 1 for choice in self.choices)

    @property
    def candidates(self) -> tuple[Assignment, ...]:
        """The assignments in question; none when the search is over."""
        return self._candidates

    def cost(self, assignment: Assignment) -> float:
        """What an assignment loses."""
        return cost_of(self.choices, assignment)

    def take(self, over: Sequence[int], is_admissible: Sequence[bool]) -> None:
        """The answers to :attr:`candidates`; asks on or ends."""
        candidates = self._candidates
        self.rounds += 1
        self._learn(candidates, over, is_admissible)
        found = [(self.cost(a), k) for k, a in enumerate(candidates) if is_admissible[k]]
        cost, k = min(found, default=(inf, -1))
        is_better = bool(found) and (self.best is None or cost < self.cost(self.best))
        if is_better:
            self.best, self._over_at_best = candidates[k], over[k]
        self._candidates = self._go_on(dict(zip(candidates, is_admissible, strict=True)), is_better)

    def _go_on(self, answered: dict[Assignment, bool], is_better: bool) -> tuple[Assignment, ...]:
        """The next question; none where everything was asked, or nothing got better."""
        if self._ladder:
            self._cut(answered)
            if self._ladder:
                return self._rungs()
            is_better = True
        if self._improvements is None or not is_better:
            return ()
        self._improvements += 1
        return self._improved_candidates() if self._improvements <= self._settings.rounds else ()

    def _common_errors(self) -> list[Assignment]:
        """Every sensor at the same loss, from the best options to the worst; silence is not among them."""
        levels = sorted({cost for choice in self.choices for cost in choice.costs})
        levels = _thinned(levels, self._most)
        rungs = self._allowed(self._trimmed(self._at_level(level)) for level in levels)
        return [rung for rung in rungs if rung != self.silence]

    def _rungs(self) -> tuple[Assignment, ...]:
        """The two rungs that cut what is left of the ladder in three."""
        third = (len(self._ladder) - 1) / 3
        return tuple(dict.fromkeys(self._ladder[round(k * third)] for k in (1, 2)))

    def _cut(self, answered: dict[Assignment, bool]) -> None:
        """Keep the rungs better than the best admissible one and worse than the worst inadmissible one."""
        for rung, is_admissible in answered.items():
            if rung in self._ladder:
                at = self._ladder.index(rung)
                self._ladder = self._ladder[:at] if is_admissible else self._ladder[at + 1 :]

    def _at_level(self, level: float) -> Assignment:
        """Every sensor at its first option that loses at least so much."""
        return tuple(
            next((k for k, cost in enumerate(choice.costs) if cost >= level), len(choice.costs) - 1)
            for choice in self.choices
        )

    def _trimmed(self, assignment: Assignment) -> Assignment:
        """The sensors that save most, as many as may be on at once; the others silent."""
        most = self._settings.most_released
        if most is None:
            return assignment
        saved = [
            choice.costs[-1] - choice.costs[k] for choice, k in zip(self.choices, assignment, strict=True)
        ]
        kept = set(sorted(range(len(saved)), key=lambda i: (-saved[i], i))[:most])
        return tuple(k if i in kept else self.silence[i] for i, k in enumerate(assignment))

    def _improved_candidates(self) -> tuple[Assignment, ...]:
        """Each sensor one option better, alone; in every other round the lightest two, three, .. together."""
        base = self.silence if self.best is None else self.best
        movable = [k for k in range(len(base)) if base[k] > 0 and k not in self._stuck]
        movable.sort(key=lambda k: (self._burden.get(k, 0.0), -self._gain(base, k), k))
        silence = [self.silence] if self.best is None else []
        single_improvements = (_improved(base, [k]) for k in movable)
        if len(movable) >= self._most:
            counts = [*_doubling(2, len(movable)), len(movable)]
            return self._allowed(
                [*silence, *(_improved(base, movable[:count]) for count in counts)], single_improvements
            )
        together = [_improved(base, movable[:count]) for count in range(2, len(movable) + 1)]
        if self._improvements is not None and self._improvements % 2 == 0 and together:
            return self._allowed(together)
        return self._allowed(silence, single_improvements)

    def _learn(
        self, candidates: Sequence[Assignment], over: Sequence[int], is_admissible: Sequence[bool]
    ) -> None:
        """How many people each sensor's next option puts over the limit for what it gains."""
        base = self.silence if self.best is None else self.best
        for k, assignment in enumerate(candidates):
            moved = [i for i in range(len(base)) if assignment[i] != base[i]]
            if len(moved) == 1:
                sensor = moved[0]
                gain = max(self._gain(base, sensor), 1e-12)
                self._burden[sensor] = (over[k] - self._over_at_best) / gain
                if not is_admissible[k]:
                    self._stuck.add(sensor)

    def _gain(self, base: Assignment, sensor: int) -> float:
        costs = self.choices[sensor].costs
        return costs[base[sensor]] - costs[base[sensor] - 1]

    def _allowed(self, *candidates: Iterable[Assignment]) -> tuple[Assignment, ...]:
        """As many as a round has, without repeats and without those that switch on too many sensors."""
        most = self._settings.most_released
        kept = (a for a in chain(*candidates) if most is None or released_by(self.choices, a) <= most)
        return tuple(dict.fromkeys(islice(kept, self._most)))


def _thinned(levels: list[float], most: int) -> list[float]:
    """So many of them, the first and the last among them."""
    if len(levels) <= most:
        return levels
    return [levels[k * (len(levels) - 1) // (most - 1)] for k in range(most)]


def _doubling(first: int, end: int) -> Iterable[int]:
    """The first number, and twice the one before while that is below the end."""
    while first < end:
        yield first
        first *= 2


def _improved(base: Assignment, sensors: Iterable[int]) -> Assignment:
    """These sensors one option better."""
    chosen = set(sensors)
    return tuple(option - (k in chosen) for k, option in enumerate(base))


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
