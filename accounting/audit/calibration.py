"""Priors compared with traces they were not fitted to: what they predict, and what really happened."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from math import log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import rel_entr

from accounting.attacks import ATTACKS, RecordedTarget, Target, own_places
from accounting.bounds import Effort, certify, question
from accounting.exceptions import HorizonError, SettingsError
from accounting.exposure import Exposure, baseline, check_mistakes
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.hmm.propagation import law_at
from accounting.numerics import clopper_pearson
from accounting.settings import HorizonSettings
from models.calendar import Calendar
from models.exceptions import PriorError
from models.numerics import elementwise
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors import ChainView, Population
from models.releases import Schedule, StepSchedule

# Which recorded steps are held against the priors: one horizon a person, chosen without looking.

NOWHERE = -1


@dataclass(frozen=True, eq=False)
class RecordedPeople:
    """Where people really were, in steps their priors were not fitted to.

    ``places[i, step]`` is the location index of person ``positions[i]`` of the population, or ``-1`` for a
    step that is not known; step 0 is in slot ``first_slot`` of the cycle. With a ``calendar`` slots follow
    its clock, and ``first_slot`` is the position of step 0 in it.
    """

    positions: Integers
    places: Integers32
    first_slot: int
    calendar: Calendar | None = None

    def hours(self, steps: Integers) -> Integers:
        """The hour of each step: the next one's is one more where people move as in the step's slot."""
        if self.calendar is None:
            return steps
        return self.calendar.hours(self.first_slot - self.calendar.first_slot + steps)

    def slots(self, cycle: int, steps: Integers) -> Integers:
        """The slot of each step in a cycle."""
        if self.calendar is None:
            return np.asarray((self.first_slot + steps) % cycle)
        return self.calendar.slots(cycle, self.hours(steps))


class ChosenHorizon(NamedTuple):
    """Consecutive known steps of one person: ``trace`` (T,) of location indices, from slot ``first_slot``.

    It is a position in the calendar, if there is one.
    """

    person: int
    first_slot: int
    trace: Integers32


def chosen_horizons(
    population: Population, recorded: RecordedPeople, steps: int, seed: int, only_slot: int | None
) -> Iterator[ChosenHorizon]:
    """One horizon a person, drawn among all with ``steps`` known steps; people without one are left out.

    One a person, because only different people are independent under the priors. ``only_slot`` keeps those
    that begin in this slot of the cycle.
    """
    if steps > recorded.places.shape[1]:
        raise HorizonError(
            f"the horizon must be at most the {recorded.places.shape[1]} recorded steps",
            steps,
            "shorten the horizon or record more steps",
        )
    random = np.random.default_rng(seed)
    for position, places in zip(recorded.positions.tolist(), recorded.places, strict=True):
        known = np.lib.stride_tricks.sliding_window_view(places != NOWHERE, steps).all(axis=1)
        slots = int(population.arrays.slots[position])
        slot = recorded.slots(slots, np.arange(known.size))
        if only_slot is not None:
            known &= slot == only_slot % slots
        starts = np.flatnonzero(known)
        # Drawn for people who are left out, too: no horizon depends on the traces of others.
        draw = random.random()
        if starts.size:
            start = int(starts[int(draw * starts.size)])
            first = int(slot[start]) if recorded.calendar is None else recorded.first_slot + start
            yield ChosenHorizon(position, first, places[start : start + steps])


# How many of several independent guesses are right, where each is right with a probability of its own.


class TailProbabilities(NamedTuple):
    """``Pr[N >= hits]`` and ``Pr[N <= hits]``: p-values for more hits than predicted, and for fewer."""

    higher: float
    lower: float


def hits_law(probabilities: Floats) -> Floats:
    """``Pr[N = k]`` for ``k = 0..n``, exactly: the Poisson binomial law, one guess after the other."""
    law = np.zeros(probabilities.size + 1)
    law[0] = 1.0
    for guesses, probability in enumerate(probabilities.tolist(), start=1):
        hit = law[:guesses] * probability
        law[:guesses] *= 1.0 - probability
        law[1 : guesses + 1] += hit
    return law


def tail_probabilities(probabilities: Floats, hits: int) -> TailProbabilities:
    """How surprising so many hits are, in both directions."""
    law = hits_law(probabilities)
    return TailProbabilities(min(1.0, float(law[hits:].sum())), min(1.0, float(law[: hits + 1].sum())))


# One group of people: predicted and realised success, how surprising that is, and what it refutes.

CONFIDENCE = 0.95
"""Confidence of the interval of a realised share, and of all groups' lower bounds on the radius together."""


class Verdict(StrEnum):
    """What the data say of the priors, worst last."""

    NOT_REFUTED = "not refuted"
    TOO_HIGH = "ceilings too high"
    TOO_LOW = "ceilings too low"


@dataclass(frozen=True, slots=True)
class GroupCheck:
    """People with neighbouring predictions: ``predicted`` and ``realised`` are means over them.

    ``low`` and ``high`` are the interval of the realised share. ``p_higher`` is small where there are more
    hits than the priors allow, ``p_lower`` where there are fewer (None where predictions are ceilings, which
    may be undercut); both are times the number of groups. The data refute any radius below ``kappa_min``,
    nats; nothing in them bounds the radius from above.
    """

    people: int
    predicted: float
    predicted_lowest: float
    predicted_highest: float
    hits: int
    realised: float
    low: float
    high: float
    p_higher: float
    p_lower: float | None
    kappa_min: float
    refuted: Verdict

    @property
    def verdict(self) -> str:
        """The verdict with what it rests on where nothing was refuted."""
        is_open = self.refuted is Verdict.NOT_REFUTED
        return f"not refuted by {self.people:,} people" if is_open else self.refuted.value


def check_group(
    predicted: Floats, hit: Flags, groups: int, level: float, *, are_ceilings: bool
) -> GroupCheck:
    """Predicted probabilities of success (n,) against what happened (n,), n at least 1.

    The group is one of ``groups`` and is refuted where a p-value is at most ``level``.
    """
    people, hits = predicted.size, int(hit.sum())
    tails = tail_probabilities(predicted, hits)
    p_higher = min(1.0, groups * tails.higher)
    p_lower = None if are_ceilings else min(1.0, groups * tails.lower)
    interval = clopper_pearson(hits, people, CONFIDENCE)
    return GroupCheck(
        people=people,
        predicted=float(predicted.mean()),
        predicted_lowest=float(predicted.min()),
        predicted_highest=float(predicted.max()),
        hits=hits,
        realised=hits / people,
        low=interval.low,
        high=interval.high,
        p_higher=p_higher,
        p_lower=p_lower,
        kappa_min=least_radius(hits, people, float(predicted.mean()), (1.0 - CONFIDENCE) / groups),
        refuted=_refuted(p_higher, p_lower, level),
    )


def least_radius(hits: int, people: int, predicted: float, failure_probability: float) -> float:
    """``d(a_low || b)``: below it no radius is compatible with the hits, up to the given probability.

    ``a_low`` is the one-sided Clopper-Pearson limit of the share of hits; data processing of the hit and
    joint convexity give ``mean KL(Q_i || P_i) >= d(a_low || mean b_i)``. 0 unless ``a_low > b``.
    """
    low = clopper_pearson(hits, people, 1.0 - 2.0 * failure_probability).low
    if low <= predicted:
        return 0.0
    return float(rel_entr(low, predicted) + rel_entr(1.0 - low, 1.0 - predicted))


def _refuted(p_higher: float, p_lower: float | None, level: float) -> Verdict:
    """More hits than allowed are the worse of the two."""
    if p_higher <= level:
        return Verdict.TOO_LOW
    return Verdict.TOO_HIGH if p_lower is not None and p_lower <= level else Verdict.NOT_REFUTED


def worst(verdicts: list[Verdict]) -> Verdict:
    """The worst of several."""
    order = list(Verdict)
    return max(verdicts, key=order.index)


# The check while an engine runs: evidence against the priors that may be looked at after every guess.

STAKE = 0.5
"""Share of the evidence staked at each guess; from 0.3 to 1 the same faults are found a few guesses apart."""


class RunningCheck:
    """Evidence that guesses succeed more often than ceilings say: ``M = prod(1 + stake (a_i - b_i))``.

    While every ``b_i`` bounds the probability of success given all that came before, ``M`` never grows on
    average. So the probability that it ever reaches ``1 / level`` is at most ``level``, whenever one looks
    and stops (Ville's inequality). ``b_i`` must be fixed before the guess is judged.
    """

    def __init__(self, level: float = 0.05, stake: float = STAKE, log_evidence: float = 0.0) -> None:
        """``log_evidence`` is that of an earlier check of the same people, which this one continues."""
        if not 0.0 < level < 1.0:
            raise SettingsError("the level of an alarm must lie between 0 and 1", level, "use 0.05, say")
        if not 0.0 < stake <= 1.0:
            raise SettingsError("a stake must be above 0 and at most 1", stake, f"use {STAKE}")
        self.level = level
        self.stake = stake
        self.log_evidence = log_evidence
        self.is_refuted = self._is_reached()

    def record(self, is_right: bool, ceiling: float) -> bool:
        """Take in one guess and its ceiling; whether the priors have been refuted, now or earlier."""
        if not 0.0 <= ceiling <= 1.0:
            raise SettingsError("a ceiling must lie between 0 and 1", ceiling, "pass a probability")
        growth = self.stake * (float(is_right) - ceiling)
        self.log_evidence += log1p(growth) if growth > -1.0 else float("-inf")
        self.is_refuted = self.is_refuted or self._is_reached()
        return self.is_refuted

    def _is_reached(self) -> bool:
        return self.log_evidence >= -log(self.level)


# A panel of volunteers held against the priors while an engine runs: their true places, step by step.
#
# Each volunteer's steps are cut into horizons, one after the other. Before a horizon is looked at, the
# prior and the last place known before it name a best guess and say how likely it is right; afterwards it
# was, or was not. Under the prior that probability is exact given everything that came before, since a
# chain forgets all but its last place and people move independently, so the evidence is a martingale,
# whenever one looks.


@dataclass
class _Volunteer:
    """One person's places since the present horizon began, and the last place known before it."""

    trace: list[int] = field(default_factory=list)  # location indices
    first: int = 0
    before: tuple[int, int] | None = None  # step and location

    @property
    def next_step(self) -> int:
        """The step that continues the horizon."""
        return self.first + len(self.trace)


class PanelCheck:
    """Evidence against the priors of a population, from true places in the order of steps.

    Guesses are judged over the horizon of the settings, with its mistakes. :attr:`guesses` counts them.
    """

    def __init__(self, population: Population, settings: HorizonSettings, check: RunningCheck) -> None:
        if population.shares_places:
            raise PriorError(
                "priors that a panel is held against must have one state for each place",
                "states that share a place",
                "leave the panel out: a place does not say which state its volunteer is in",
            )
        self.check = check
        self.guesses = 0
        self._population = settings.asked_of(population)
        self._settings = settings
        self._volunteers: dict[int, _Volunteer] = {}

    @property
    def people(self) -> int:
        """How many volunteers have reported a place."""
        return len(self._volunteers)

    def record(self, person: int, step: int, location: int) -> bool:
        """Record where a volunteer was; False, and nothing recorded, for a step no later than the last.

        A step that is left out ends a horizon unjudged; the next horizon begins after it.
        """
        volunteer = self._volunteers.setdefault(person, _Volunteer(first=step))
        if step < volunteer.next_step:
            return False
        if step > volunteer.next_step:
            if volunteer.trace:
                volunteer.before = volunteer.next_step - 1, volunteer.trace[-1]
            volunteer.trace, volunteer.first = [], step
        volunteer.trace.append(location)
        if len(volunteer.trace) == self._settings.horizon:
            self._judge(person, volunteer)
            volunteer.before = step, location
            volunteer.trace, volunteer.first = [], step + 1
        return True

    def _judge(self, person: int, volunteer: _Volunteer) -> None:
        """Compare the best guess with what happened."""
        settings, chain = self._settings, self._population.chain(person)
        slot = settings.first_slot + volunteer.first
        nothing = Schedule(tuple(map(StepSchedule, range(settings.horizon))), slot, settings.calendar)
        start = self._start(person, chain, volunteer)
        exposure = Exposure.of(chain, nothing, self._population.location_count, start)
        best = baseline(exposure, settings.mistakes)
        target = RecordedTarget(
            Target(exposure, settings.mistakes, draws=1, seed=0), np.array(volunteer.trace, dtype=np.int32)
        )
        is_right = target.blind(best.guess).success == 1.0
        self.guesses += 1
        self.check.record(is_right, min(1.0, best.success))

    def _start(self, person: int, chain: ChainView, volunteer: _Volunteer) -> Floats | None:
        """The law of the horizon's first place given the last place known; None for the long-run law.

        A place that the prior excludes says nothing: the long-run law again.
        """
        settings, initial, since = self._settings, self._population.initial(person), self._settings.first_step
        if volunteer.before is not None:
            since, location = volunteer.before
            here = np.flatnonzero(chain.places == location)
            if not here.size:
                return None
            initial = np.zeros(chain.places.size)
            initial[here] = 1.0
        return law_at(chain, initial, since, volunteer.first, settings.first_slot, settings.calendar)


# Whether people's moves surprise as much as their priors say they should.


@dataclass(frozen=True, slots=True)
class Sharpness:
    """Surprise of recorded moves, ``-ln P(x'|x)``, against the entropy of the rows they left.

    ``surprise`` and ``expected`` are nats a move over ``moves``; ``z`` is their difference in standard
    deviations that follow from the rows (positive: people surprise more than the priors say, which are too
    sharp), ``z_by_person`` with the spread between people instead; None where nothing varies. ``unknown``
    moves lead to where the prior says one cannot go, or start at a place it does not know: their surprise is
    infinite, so they are counted apart.
    """

    moves: int
    unknown: int
    surprise: float
    expected: float
    z: float | None
    z_by_person: float | None


class _PersonMoves(NamedTuple):
    """Sums over the moves of one person."""

    moves: int
    unknown: int
    surprise: float
    expected: float
    variance: float


def sharpness(population: Population, recorded: RecordedPeople) -> Sharpness:
    """The sum of ``-ln P(x'|x) - H(P(.|x))`` is a martingale under the priors: its z over all moves."""
    people = [
        _moves_of(population.chain(position), places, recorded)
        for position, places in zip(recorded.positions.tolist(), recorded.places, strict=True)
    ]
    sums = np.array(people, dtype=np.float64).reshape(-1, len(_PersonMoves._fields))
    moves, unknown, surprise, expected, variance = sums.sum(axis=0).tolist()
    spread = float(((sums[:, 2] - sums[:, 3]) ** 2).sum())
    return Sharpness(
        moves=int(moves),
        unknown=int(unknown),
        surprise=surprise / moves if moves else 0.0,
        expected=expected / moves if moves else 0.0,
        z=(surprise - expected) / sqrt(variance) if variance > 0.0 else None,
        z_by_person=(surprise - expected) / sqrt(spread) if spread > 0.0 else None,
    )


def _moves_of(chain: ChainView, places: Integers32, recorded: RecordedPeople) -> _PersonMoves:
    """The moves between successive known steps, but not while a clock is changed."""
    cycle, known = chain.start.shape[0], (places[:-1] >= 0) & (places[1:] >= 0)
    if cycle > 1:
        known &= np.diff(recorded.hours(np.arange(places.size))) == 1
    if np.unique(chain.places).size < chain.places.size:
        return _moves_of_states(chain, places, known, recorded)
    own = own_places(chain, places)
    origin, target = own[:-1][known], own[1:][known]
    slot = recorded.slots(cycle, np.flatnonzero(known))
    rows = np.stack([dense_matrix(chain, k) for k in range(chain.start.shape[0])])
    probability = np.where((origin >= 0) & (target >= 0), rows[slot, origin, target], 0.0)
    possible = probability > 0.0
    left = rows[slot[possible], origin[possible]]
    nats = -elementwise.log(np.where(left > 0.0, left, 1.0))
    entropy = (left * nats).sum(axis=1)
    variance = (left * nats**2).sum(axis=1) - entropy**2
    return _PersonMoves(
        int(possible.sum()),
        int((~possible).sum()),
        float(-elementwise.log(probability[possible]).sum()),
        float(entropy.sum()),
        float(np.maximum(variance, 0.0).sum()),
    )


def _moves_of_states(
    chain: ChainView, places: Integers32, known: Flags, recorded: RecordedPeople
) -> _PersonMoves:
    """The same where states share a place: the next place given all places since the last gap.

    After a gap the state has its long-run law at the place. The sum of surprise less entropy is a martingale
    again, as each place is predicted from those before it.
    """
    cycle = chain.start.shape[0]
    rows = [dense_matrix(chain, slot) for slot in range(cycle)]
    slots = recorded.slots(cycle, np.arange(places.size))
    sums, law = np.zeros(5), np.zeros(chain.places.size)
    for step in np.flatnonzero(known).tolist():
        if step == 0 or not known[step - 1] or not law.any():
            law = np.where(chain.places == places[step], chain.start[slots[step]], 0.0)
        following = (law[:, np.newaxis] * rows[slots[step]]).sum(axis=0) / (law.sum() or 1.0)
        law = np.where(chain.places == places[step + 1], following, 0.0)
        probability = float(law.sum())
        if not probability > 0.0:
            sums[1] += 1.0
            continue
        left = np.bincount(chain.places, following)
        left = left[left > 0.0]
        nats = -elementwise.log(left)
        entropy = float((left * nats).sum())
        variance = max(float((left * nats**2).sum()) - entropy**2, 0.0)
        sums += [1.0, 0.0, -log(probability), entropy, variance]
    return _PersonMoves(int(sums[0]), int(sums[1]), *sums[2:].tolist())


# Priors held against recorded traces: by a guess that needs no release, by one attack, and by surprise.

_VERDICTS_A_CHECK = 4
"""Everybody and the groups, by the guess and by the attack: they share the level."""


@dataclass(frozen=True, slots=True)
class CheckSettings:
    """How priors are checked, fixed before any trace is looked at.

    ``mistakes`` of the horizon's steps may be wrong. ``attack`` is tried under a schedule, or with nothing
    released. People are put in ``groups`` by what is predicted of them. ``level`` is the probability that
    right priors are refuted as *too low*, and as *too high*. ``seed`` chooses horizons and noise.
    """

    mistakes: int = 1
    attack: str = "marginal"
    groups: int = 4
    level: float = 0.05
    seed: int = 0

    def __post_init__(self) -> None:
        """Refuse settings out of range."""
        if self.attack not in ATTACKS:
            raise SettingsError(f"the attack must be one of {', '.join(ATTACKS)}", self.attack, "choose one")
        if self.groups < 1:
            raise SettingsError("there must be at least one group of people", self.groups, "use 4, say")
        if not 0.0 < self.level < 1.0:
            raise SettingsError("the level must lie between 0 and 1", self.level, "use 0.05, say")
        if self.seed < 0:
            raise SettingsError("a seed must be at least 0", self.seed, "use 0, say")


@dataclass(frozen=True, slots=True)
class GroupedCheck:
    """One way of guessing, for everybody and in ``groups``, those with the lowest predictions first.

    ``refuted`` is the worst of all of them.
    """

    everybody: GroupCheck
    groups: tuple[GroupCheck, ...]

    @property
    def refuted(self) -> Verdict:
        """The worst group's, or everybody's where that is worse; never a mean over groups."""
        return worst([self.everybody.refuted, *(group.refuted for group in self.groups)])


@dataclass(frozen=True, slots=True)
class PriorsCheck:
    """What recorded traces say of the priors.

    ``guess`` is the best guess from the prior alone against its exact predicted success, ``attack`` one
    attack against the certified ceilings (which it may undercut, so it refutes in one direction only).
    ``left_out`` people have no horizon of ``steps`` known steps.
    """

    steps: int
    mistakes: int
    guess: GroupedCheck
    attack_name: str
    attack: GroupedCheck
    sharpness: Sharpness
    left_out: int

    @property
    def refuted(self) -> Verdict:
        """The worst of guess and attack."""
        return worst([self.guess.refuted, self.attack.refuted])

    @property
    def verdict(self) -> str:
        """The verdict in words."""
        is_open = self.refuted is Verdict.NOT_REFUTED
        return self.guess.everybody.verdict if is_open else self.refuted.value

    @property
    def kappa_min(self) -> float:
        """The largest lower bound on the radius that a group's hits give, nats."""
        rows = [row for check in (self.guess, self.attack) for row in (check.everybody, *check.groups)]
        return max(row.kappa_min for row in rows)


class _CheckedPerson(NamedTuple):
    """What was predicted of one person, and what happened."""

    guess_predicted: float
    guess_hit: bool
    ceiling: float
    attack_hit: bool


def check_priors(
    population: Population,
    recorded: RecordedPeople,
    steps_or_schedule: int | Schedule,
    settings: CheckSettings | None = None,
    progress: Callable[[int], None] | None = None,
) -> PriorsCheck:
    """Compare priors with traces they were not fitted to, over so many steps or those of a schedule.

    Without a schedule nothing is released. Everybody starts from their long-run law. ``progress`` is called
    with the number of people done.
    :class:`~accounting.exceptions.HorizonError` where nobody has enough known steps.
    """
    settings = settings or CheckSettings()
    given = None if isinstance(steps_or_schedule, int) else steps_or_schedule
    steps = steps_or_schedule if isinstance(steps_or_schedule, int) else len(steps_or_schedule.steps)
    check_mistakes(settings.mistakes, steps)
    slot = None if given is None else given.first_slot
    schedule = Schedule(tuple(map(StepSchedule, range(steps)))) if given is None else given
    outcomes: list[_CheckedPerson] = []
    for horizon in chosen_horizons(population, recorded, steps, settings.seed, slot):
        there = Schedule(schedule.steps, horizon.first_slot, recorded.calendar)
        outcomes.append(_outcome(population, horizon, there, settings))
        if progress is not None:
            progress(len(outcomes))
    if not outcomes:
        raise HorizonError(
            f"somebody must have {steps} known steps in a row, in the slots of the schedule",
            "nobody",
            "shorten the horizon, or give check-ins of people of these priors",
        )
    columns = [np.array(column) for column in zip(*outcomes, strict=True)]
    return PriorsCheck(
        steps=steps,
        mistakes=settings.mistakes,
        guess=_grouped(columns[0], columns[1], settings, are_ceilings=False),
        attack_name=settings.attack,
        attack=_grouped(columns[2], columns[3], settings, are_ceilings=True),
        sharpness=sharpness(population, recorded),
        left_out=recorded.positions.size - len(outcomes),
    )


def _outcome(
    population: Population, horizon: ChosenHorizon, schedule: Schedule, settings: CheckSettings
) -> _CheckedPerson:
    """One person: predictions from prior and schedule, hits from the trace."""
    exposure = Exposure.of(population.chain(horizon.person), schedule, population.location_count)
    target = Target(exposure, settings.mistakes, draws=1, seed=settings.seed + horizon.person)
    recorded = RecordedTarget(target, horizon.trace)
    best = baseline(exposure, settings.mistakes)
    attacked = ATTACKS[settings.attack].replay(recorded)
    if attacked is None:
        replayed = [name for name, attack in ATTACKS.items() if attack.replay(recorded) is not None]
        raise SettingsError(
            f"an attack on recorded traces must be one of {', '.join(replayed)}",
            settings.attack,
            "choose one",
        )
    return _CheckedPerson(
        min(1.0, best.success),
        recorded.blind(best.guess).success == 1.0,
        certify(question(exposure, settings.mistakes, Effort()), best.success).value,
        attacked.success == 1.0,
    )


def _grouped(predicted: Floats, hit: Flags, settings: CheckSettings, *, are_ceilings: bool) -> GroupedCheck:
    """Everybody, and groups of nearly equal size by what was predicted."""
    level = settings.level / _VERDICTS_A_CHECK
    parts: Sequence[Integers] = np.array_split(
        np.argsort(predicted, kind="stable"), min(settings.groups, predicted.size)
    )
    return GroupedCheck(
        check_group(predicted, hit, 1, level, are_ceilings=are_ceilings),
        tuple(
            check_group(predicted[part], hit[part], len(parts), level, are_ceilings=are_ceilings)
            for part in parts
        ),
    )
