"""The decision for one step: how many people candidates would put over the limit, and which is released."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import chain, islice, product
from math import inf, lcm, prod
from typing import TypeAlias

from accounting.exceptions import SettingsError
from accounting.settings import RiskBudget
from models.mechanisms import Mechanism, Suppressed
from models.releases import OpenWindow, Sensor, SensorRelease, StepSchedule

# The search for the least costly assignment that keeps the budget, in rounds of questions.
#
# A round is a list of candidate assignments. The processes that hold people's accounts answer how many people
# each candidate would put over the limit. The search asks nothing else, so the answers of partitions can be
# added, and every process that gets the sums finds the same decision.
#
# - Few assignments (always so for one sensor): all of them are asked in one round, and the result is exact.
# - Many: first all sensors get the same error, and a ternary search over this "ladder" of errors finds the
#   least admissible one. Then sensors are improved from there, alone and together, starting with those that
#   put the fewest people over the limit for what they gain. The ladder need not be monotone: every accepted
#   assignment was itself answered for, so the result keeps the budget in any case.
#
# A round names at most :data:`OPTIONS_A_ROUND` options, so that a question does not grow with the square of
# the number of sensors: beyond about 500 sensors not every sensor is tried alone, but sets of growing size.
#
# For example two sensors, each raw (loses 0), noised (1) or silent (3), and a budget that allows one of them
# to be raw. Where the nine assignments are too many for one round, the questions are::
#
#     both raw, both noised          # the ladder: the second keeps the budget, and nothing is between them
#     (raw, noised), (noised, raw)   # each sensor improved alone: both keep it, the first one is taken
#     both raw                       # the other one improved too: over the budget, nothing is left to improve

Assignment: TypeAlias = tuple[int, ...]
"""One option for each sensor, by index."""


@dataclass(frozen=True, slots=True)
class SensorChoice:
    """A sensor's options, the most useful first; the last one publishes nothing.

    ``costs`` are what each option loses: the sensor's weight times the expected absolute error, in people.
    Publishing nothing costs as much as the largest error that is still considered better than no value.
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
        """The choice among these mechanisms, in order of their errors, and publishing nothing."""
        errors = sorted((option.expected_absolute_error(), k) for k, option in enumerate(released))
        costs = [weight * error for error, _ in errors]
        options = (*(released[k] for _, k in errors), Suppressed())
        return cls(sensor, options, (*costs, max([weight * cost_of_silence, *costs])))


def schedule_of(
    step: int, choices: Sequence[SensorChoice], assignment: Assignment, windows: WindowsAtHand | None = None
) -> StepSchedule:
    """The step with each sensor's chosen option; of a sensor with windows it is that of the one it begins.

    Windows that end with the step are published as was decided when they began.
    """
    chosen = tuple(
        SensorRelease(choice.sensor, choice.options[k]) for choice, k in zip(choices, assignment, strict=True)
    )
    if windows is None:
        return StepSchedule(step, chosen)
    plain = tuple(each for each in chosen if each.sensor.window is None)
    open_windows = (*windows.open, *begun_windows(step, chosen))
    ending = {each.release.sensor.name: each.release for each in open_windows if each.last == step}
    published = (ending.get(each.name, SensorRelease(each, Suppressed())) for each in windows.ending)
    return StepSchedule(step, (*plain, *published), windows=open_windows)


def begun_windows(step: int, chosen: Iterable[SensorRelease]) -> tuple[OpenWindow, ...]:
    """The windows among the choices of a step that begin with it and will be published."""
    found = []
    for each in chosen:
        last = None if each.sensor.window is None else each.sensor.window.begun_in(step)
        if last is not None and each.mechanism.is_released:
            found.append(OpenWindow(each, last))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class WindowsAtHand:
    """What a step finds of windows: those ``open`` from before, and announced sensors whose windows end."""

    open: tuple[OpenWindow, ...]
    ending: tuple[Sensor, ...]

    @classmethod
    def after(cls, before: Iterable[OpenWindow], step: int, announced: Iterable[Sensor]) -> WindowsAtHand:
        """What is left in a step of those that were open in the one before."""
        ending = tuple(each for each in announced if each.window is not None)
        return cls(tuple(each for each in before if each.last >= step), ending)


OPTIONS_A_ROUND = 2**18


def most_candidates(sensors: int) -> int:
    """The largest number of candidates in a round about this many sensors."""
    return max(2, OPTIONS_A_ROUND // max(1, sensors))


@dataclass(frozen=True, slots=True)
class SearchSettings:
    """Up to ``exact_up_to`` assignments are all tried; of more, improvements for ``rounds`` rounds.

    At most ``most_released`` sensors may publish something in a step (None: any number).
    """

    exact_up_to: int = 64
    rounds: int = 6
    most_released: int | None = None


class Search:
    """Asks round by round and keeps the least costly admissible assignment, of equals the first."""

    def __init__(self, choices: Sequence[SensorChoice], settings: SearchSettings | None = None) -> None:
        self.choices = tuple(choices)
        self.rounds = 0
        self.best: Assignment | None = None
        self._settings = settings or SearchSettings()
        self._most = most_candidates(len(self.choices))
        self._over_at_best = 0
        self._burden: dict[int, float] = {}  # sensor: people over the limit per unit of gain, when last asked
        self._stuck: set[int] = set()  # sensors whose next option, alone, is known to break the budget
        self._ladder: list[Assignment] = []
        self._improvements: int | None = (
            None  # rounds of improvements so far; None where all is asked at once
        )
        assignments = prod(len(choice.options) for choice in choices)
        if assignments <= min(self._settings.exact_up_to, self._most):
            every = product(*(range(len(choice.options)) for choice in self.choices))
            self._candidates = self._one_round(sorted(every, key=self.cost))
        else:
            self._ladder, self._improvements = self._common_errors(), 0
            self._candidates = self._rungs()

    @property
    def silence(self) -> Assignment:
        """Nothing is released."""
        return tuple(len(choice.options) - 1 for choice in self.choices)

    @property
    def candidates(self) -> tuple[Assignment, ...]:
        """The assignments to be answered for; none when the search is over."""
        return self._candidates

    def cost(self, assignment: Assignment) -> float:
        """What an assignment loses, summed over the sensors."""
        return sum(choice.costs[k] for choice, k in zip(self.choices, assignment, strict=True))

    def take(self, over: Sequence[int], is_admissible: Sequence[bool]) -> None:
        """Take the answers to :attr:`candidates` and choose the next ones, or end the search."""
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
        """The next candidates; none when everything was asked or the last round improved nothing."""
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
        if len(levels) > self._most:  # keep as many, the first and the last among them
            levels = [levels[k * (len(levels) - 1) // (self._most - 1)] for k in range(self._most)]
        rungs = self._one_round(self._trimmed(self._at_level(level)) for level in levels)
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
        """The sensors that save most, as many as may publish something; the others silent."""
        most = self._settings.most_released
        if most is None:
            return assignment
        saved = [
            choice.costs[-1] - choice.costs[k] for choice, k in zip(self.choices, assignment, strict=True)
        ]
        kept = set(sorted(range(len(saved)), key=lambda i: (-saved[i], i))[:most])
        return tuple(k if i in kept else self.silence[i] for i, k in enumerate(assignment))

    def _improved_candidates(self) -> tuple[Assignment, ...]:
        """Each sensor one option better, alone; every other round the two, three, .. lightest together."""
        base = self.silence if self.best is None else self.best
        movable = [k for k in range(len(base)) if base[k] > 0 and k not in self._stuck]
        movable.sort(key=lambda k: (self._burden.get(k, 0.0), -self._gain(base, k), k))
        silence = [self.silence] if self.best is None else []
        single_improvements = (_improved(base, [k]) for k in movable)
        if len(movable) >= self._most:
            counts = [2**k for k in range(1, len(movable).bit_length()) if 2**k < len(movable)]
            growing = (_improved(base, movable[:count]) for count in [*counts, len(movable)])
            return self._one_round([*silence, *growing], single_improvements)
        together = [_improved(base, movable[:count]) for count in range(2, len(movable) + 1)]
        if self._improvements is not None and self._improvements % 2 == 0 and together:
            return self._one_round(together)
        return self._one_round(silence, single_improvements)

    def _learn(
        self, candidates: Sequence[Assignment], over: Sequence[int], is_admissible: Sequence[bool]
    ) -> None:
        """Note how many people the next option of each sensor puts over the limit per unit of gain."""
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

    def _one_round(self, *candidates: Iterable[Assignment]) -> tuple[Assignment, ...]:
        """As many of these as a round may have, without repeats and those that publish too many sensors."""
        most = self._settings.most_released
        kept = (a for a in chain(*candidates) if most is None or self._released_by(a) <= most)
        return tuple(dict.fromkeys(islice(kept, self._most)))

    def _released_by(self, assignment: Assignment) -> int:
        """How many sensors publish something."""
        return sum(choice.options[k].is_released for choice, k in zip(self.choices, assignment, strict=True))


def _improved(base: Assignment, sensors: Iterable[int]) -> Assignment:
    """These sensors one option better."""
    chosen = set(sensors)
    return tuple(option - (k in chosen) for k, option in enumerate(base))


class BudgetReason(StrEnum):
    """Why a step is released as it is under a budget; a fixed list, so that it can be a metrics label."""

    FREE = "free"  # the best option of every sensor keeps the budget
    BUDGET = "budget"  # the budget asks for more noise, or for some silence
    SPENT = "spent"  # nothing can be released any more without breaking the budget
    HABITS = "habits"  # habits alone put too many people over the limit at this hour
    CONTRADICTION = "contradiction"  # a sensor that must be raw cannot be within the budget: suppressed
    NO_ANSWER = "no_answer"  # not all accounts could be asked in time, or there are none


@dataclass(frozen=True, slots=True)
class OverLimit:
    """How many people each candidate step would put over the limit, in one partition or in all of them.

    ``natural_now`` people are over the limit by habit alone in the horizon of the step in question, and
    ``natural[k]`` in horizons that start in slot ``k`` of the common cycle. ``over[j]`` people would be over
    it because of releases, at candidate ``j`` or in the silence after it. Of the others ``cleared[j]`` are
    within the limit only by the refined bounds. ``natural_ahead`` are people over the limit by habit alone in
    the next day's horizons, if clocks are changed in one of them or it has a holiday.
    """

    people: int
    natural_now: int
    natural: tuple[int, ...]
    over: tuple[int, ...]
    cleared: tuple[int, ...]
    natural_ahead: tuple[int, ...] = ()

    def __add__(self, other: OverLimit) -> OverLimit:
        """The counts of both partitions together."""
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
            tuple(a + b for a, b in zip(self.natural_ahead, other.natural_ahead, strict=True)),
        )

    def cut_above(self, most: int) -> OverLimit:
        """The same counts, cut at ``most + 1``, because partitions do not count further."""
        return replace(self, over=tuple(min(count, most + 1) for count in self.over))

    def used_by_habits(self, limit: RiskBudget) -> int:
        """The part of the budget that habits use, at the hour at which they use most without breaking it.

        At hours at which habits alone break the budget, nothing is released. Such hours do not lower what may
        be released at other hours.
        """
        allowed = limit.allowed(self.people)
        each = (*self.natural, *self.natural_ahead)
        return max((count for count in each if count <= allowed), default=0)

    def is_admissible(self, limit: RiskBudget) -> tuple[bool, ...]:
        """Whether each candidate keeps the budget at every step from now on, if nothing more is released."""
        allowed = limit.allowed(self.people)
        if self.natural_now > allowed:
            return (False,) * len(self.over)
        free = allowed - self.used_by_habits(limit)
        return tuple(count <= free for count in self.over)


@dataclass(frozen=True, slots=True)
class Decision:
    """What is released and why.

    ``over`` people are over the limit because of releases, at this step or in the silence after it, and
    ``natural`` people by habit alone; ``allowed`` people may be. Of the people within the limit ``cleared``
    are within it only by the refined bounds. ``cost`` is what the assignment loses (weighted expected
    absolute error, in people).
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

    Have the people counted for each step of :attr:`question` and pass the counts to :meth:`take`, until
    :attr:`decision` is set. ``must_be_raw`` names sensors that the settings require to be raw. The budget
    takes precedence over them.
    """

    def __init__(
        self,
        step: int,
        choices: Sequence[SensorChoice],
        limit: RiskBudget,
        settings: SearchSettings | None = None,
        must_be_raw: frozenset[str] = frozenset(),
        people: int | None = None,
        windows: WindowsAtHand | None = None,
    ) -> None:
        """``people`` is the number of people, if it is known beforehand; ``windows`` where there are any."""
        self._people = people
        self.windows = windows
        self.step = step
        self._limit = limit
        self._search = Search(choices, settings)
        self._must_be_raw = must_be_raw
        self._last: OverLimit | None = None
        self._at_best = (0, 0)
        self.decision: Decision | None = None

    @property
    def round(self) -> int:
        """How many rounds have been answered."""
        return self._search.rounds

    @property
    def choices(self) -> tuple[SensorChoice, ...]:
        """The options of each sensor."""
        return self._search.choices

    @property
    def candidates(self) -> tuple[Assignment, ...]:
        """The assignments to be answered for."""
        return self._search.candidates

    @property
    def question(self) -> tuple[StepSchedule, ...]:
        """The candidate steps to be counted now."""
        choices, candidates = self._search.choices, self._search.candidates
        return tuple(schedule_of(self.step, choices, each, self.windows) for each in candidates)

    @property
    def enough(self) -> int | None:
        """Counts above this number need not be exact; None while it is not known."""
        return None if self._people is None else self._limit.allowed(self._people)

    def take(self, counts: OverLimit) -> None:
        """Take the counts of all people for :attr:`question`; sets the next question or the decision."""
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
        """The decision if answers are late: the best candidate that all have answered for, or silence."""
        self.decision = self._decide(BudgetReason.NO_ANSWER)
        return self.decision

    def _decide(self, failure: BudgetReason | None) -> Decision:
        search, counts = self._search, self._last or OverLimit(0, 0, (0,), (), ())
        assignment = search.best if search.best is not None else search.silence
        schedule = schedule_of(self.step, search.choices, assignment, self.windows)
        over, cleared = self._at_best
        return Decision(
            schedule=schedule,
            reason=failure or self._reason(assignment, counts),
            people=counts.people,
            allowed=self._limit.allowed(counts.people),
            natural=counts.natural_now,
            over=over,
            cleared=cleared,
            cost=search.cost(assignment),
            rounds=search.rounds,
        )

    def _reason(self, assignment: Assignment, counts: OverLimit) -> BudgetReason:
        choices = self._search.choices
        silent = {
            each.sensor.name
            for each, option in zip(choices, assignment, strict=True)
            if not each.options[option].is_released
        }
        if all(option == 0 for option in assignment):
            return BudgetReason.FREE
        if silent & self._must_be_raw:
            return BudgetReason.CONTRADICTION
        if counts.natural_now > self._limit.allowed(counts.people):
            return BudgetReason.HABITS
        return BudgetReason.SPENT if len(silent) == len(choices) else BudgetReason.BUDGET


Ask: TypeAlias = Callable[[Sequence[StepSchedule], int | None], OverLimit]
"""Counts all people for these candidates; the second argument is :attr:`StepDecider.enough`."""


def decide(decider: StepDecider, ask: Ask) -> Decision:
    """The decision where all people can be counted in one call."""
    while decider.decision is None:
        decider.take(ask(decider.question, decider.enough))
    return decider.decision
