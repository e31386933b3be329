"""What-if questions about the next step for all people of an accountant, without accounting anything.

Each person's headroom (:mod:`accounting.decisions.what_if.limits_kernel`) is computed once a step. For each
candidate, the step's information is then computed only for people whom some candidate could put over the
limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import UNITS_PER_NAT, Accounts
from accounting.continuous.crowd import ONE_LEVEL, CrowdAccount, Levels
from accounting.continuous.horizon_kernel import Transition
from accounting.decisions import OverLimit
from accounting.decisions.what_if.limits_kernel import (
    Headroom,
    Limits,
    ProposedTerms,
    count_reaches,
    find_headroom,
    find_terms,
)
from accounting.decisions.what_if.prospects import Prospects
from accounting.decisions.what_if.refined_check import RefinedCheck
from accounting.exposure.crowd import SensorCrowd, StepCrowd
from accounting.exposure.own_counts import RevealedInformation
from accounting.exposure.step_information import SensorInformation, followed_by, observe, seen_release
from accounting.exposure.step_information.observation import StepView
from accounting.settings import RiskBudget
from models.mechanisms import Mechanism, Raw, Suppressed, Tabulated
from models.noise import binary_entropy, fill_information
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.releases import (
    OpenWindow,
    RevealedAmount,
    RevealedMove,
    Sensor,
    SensorRelease,
    ShownPlaces,
    StepParts,
    StepSchedule,
    parts_of,
    revealed_of_window,
    without_coins,
)

# A quick upper bound on what a step reveals about each person: the sum over the sensors that can count the
# person.
#
# ``I(X; Y_1..Y_n) <= sum_k I(X; Y_k)`` because the noise of sensors is independent, and each summand is
# looked up in a table. For most people this already shows that they are within the limit.

_MARGIN_UNITS = 64.0  # more than the rounding of a sum of a few table values


class QuickBounds:
    """Upper bounds on what one step's sensors reveal about each person, in units."""

    def __init__(
        self, information: SensorInformation, sensors: Sequence[Sensor], slot: int, is_nonstationary: Flags
    ) -> None:
        """``slot`` is the step's; people with an initial distribution (N,) have no bound here."""
        self._unknown = np.where(is_nonstationary, np.inf, 0.0)
        self._people: dict[str, Integers] = {}  # that each sensor can count
        self._probability: dict[str, Floats] = {}  # with which it counts each of them in this slot
        for sensor in sensors:
            probability = np.minimum(information.probability(sensor, slot), 1.0)
            self._people[sensor.name] = np.flatnonzero(probability)
            self._probability[sensor.name] = probability[self._people[sensor.name]]
        self._units: dict[tuple[str, Mechanism], Floats] = {}

    def people_of(self, sensors: Sequence[str]) -> Flags:
        """The people whom one of these sensors can count, and all with an initial distribution, (N,)."""
        found = np.isinf(self._unknown)
        for name in sensors:
            found[self._people[name]] = True
        return found

    def at_most(self, step: StepSchedule) -> Floats:
        """The most that the step reveals about each person, in units, (N,)."""
        total = self._unknown.copy()
        for release in step.releases:
            if release.mechanism.is_released:
                name = release.sensor.name
                total[self._people[name]] += self._of(name, release.accounted)
        return total

    def raw(self) -> Floats:
        """The most that all sensors would reveal about each person if they were raw, in units, (N,)."""
        total = self._unknown.copy()
        for name, people in self._people.items():
            total[people] += self._of(name, Raw())
        return total

    def _of(self, name: str, mechanism: Mechanism) -> Floats:
        key = name, mechanism
        if key not in self._units:
            nats = _nats(mechanism, self._probability[name])
            self._units[key] = np.ceil(nats * UNITS_PER_NAT) + _MARGIN_UNITS
        return self._units[key]


def _nats(mechanism: Mechanism, probability: Floats) -> Floats:
    """What a count reveals to each, (n,), by the table that the accountant's kernels use."""
    if not isinstance(mechanism, Tabulated):
        return binary_entropy(probability)
    nats = np.empty(probability.size)
    fill_information(mechanism.information_table(), probability, nats)
    return nats


@dataclass(frozen=True, eq=False)
class CandidateEffect:
    """What one candidate step does to the people whom some candidate could put over the limit.

    In units, (n,) each: ``excess`` over the limit (positive: over it) and, where it is positive, the step's
    terms. ``conditional`` and ``unconditioned`` are 0 where a quick bound showed that a person is within it.
    """

    mechanisms: dict[str, Mechanism]
    conditional: Integers
    unconditioned: Integers
    excess: Integers

    @classmethod
    def of(cls, step: StepSchedule, people: int) -> CandidateEffect:
        """An effect still to be filled in."""
        return cls(mechanisms_of(step), *(np.zeros(people, dtype=np.int64) for _ in range(3)))

    def copied_for(self, step: StepSchedule) -> CandidateEffect:
        """The same effect for another candidate, to be changed where the two differ."""
        arrays = (self.conditional.copy(), self.unconditioned.copy(), self.excess.copy())
        return CandidateEffect(mechanisms_of(step), *arrays)

    @property
    def is_exact(self) -> bool:
        """Whether all released counts are exact: then everybody's terms differ from those under noise."""
        return all(how.is_exact for how in self.mechanisms.values() if how.is_released)

    def differing(self, step: StepSchedule) -> list[str]:
        """Sensors that another candidate releases in another way."""
        others = mechanisms_of(step)
        return [name for name, how in self.mechanisms.items() if others[name] != how]


def mechanisms_of(step: StepSchedule) -> dict[str, Mechanism]:
    """The mechanism of each sensor of a step."""
    return {release.sensor.name: release.mechanism for release in step.releases}


_EFFECTS_KEPT = 4
"""How many effects are kept to start from: a search changes few sensors at a time, so the next is similar."""


DECIDING_PART, DECIDING_PART_BESIDE = 4, 20
"""A decision may cost a quarter of the work of accounting the step, because the release waits for it.

In a crowd a twentieth more goes to whom the informed account may clear.
"""

_EXACT = Raw()

_PEOPLE_AT_ONCE = 2048
"""How many people are evaluated exactly before it is checked again whether ``enough`` are over the limit."""


class KnownStep(NamedTuple):
    """What will count in a step whatever is decided, and what each count hides among."""

    step: StepSchedule
    crowds: StepCrowd


class AnnouncedStep(NamedTuple):
    """The step in question: its sensors and, where they are known, their crowds.

    ``coming`` are the announced sensors of the steps after it, with which it shares each person's headroom
    evenly. If ``coming`` is empty, the step may use all of the headroom. Sensors with windows are those that
    begin one; ``open`` are the windows from before. ``known`` are this step and those after it as far as it
    is known what counts in them, for windows that are decided in the crowd.
    """

    sensors: Sequence[Sensor]
    crowds: StepCrowd | None = None
    coming: Sequence[Sequence[Sensor]] = ()
    open: tuple[OpenWindow, ...] = ()
    known: Sequence[KnownStep] = ()


def crowds_of_sensors(sensors: Sequence[Sensor], crowds: StepCrowd | None) -> StepCrowd | None:
    """What each of these sensors hides among in a step whose counts of presence have the first ``crowds``.

    What a window counts is in :attr:`AnnouncedStep.known`.
    """
    if crowds is None:
        return None
    if sum(sensor.window is None for sensor in sensors) > len(crowds):
        raise ValueError("the crowds of a step must be of as many sensors as it has")
    own = iter(crowds)
    return tuple(next(own) if sensor.window is None else SensorCrowd() for sensor in sensors)


class WhatIf:
    """Counts who would be over a risk limit, for the people of one accountant.

    Limits follow from the priors and the clock (:mod:`accounting.decisions.what_if.prospects`). With a limit
    in hindsight, a person who was over once stays over, since later releases reach back; every step must be
    passed to :meth:`note` before it is accounted. If the accountant raises risks to a radius, the limit is on
    the raised risks. With a ``crowd`` beside the accountant, it is on risks against that adversary.
    """

    def __init__(
        self,
        accountant: ContinuousAccountant,
        limit: RiskBudget,
        crowd: CrowdAccount | None = None,
        *,
        has_windows: bool = False,
        deciding_part: int | None = None,
    ) -> None:
        """Refined bounds are used only if the accounts will refine the same people, and not in hindsight.

        They are not used either if several chains stand for a person, because all of them would be refined;
        nor if the deployment ``has_windows``, whose counts reach into steps that refined bounds do not see.
        They may take the ``deciding_part``-th part of the work of accounting a step (:data:`DECIDING_PART`).
        """
        self.deciding_part = DECIDING_PART if deciding_part is None else deciding_part
        self.has_windows = has_windows
        settings, population = accountant.settings, accountant.population
        self.informed: WhatIf | None = None
        if crowd is not None:
            # A person within the limit by the informed account is within it in the crowd, with three
            # exceptions. In hindsight a person who was over stays over, whichever bound said so, so the two
            # are not mixed. If companions move together, the informed account of one person is no bound
            # for the group. And of several chains each has a limit of its own.
            if crowd.adversary.companions == 0 and not limit.in_hindsight and population.draws == 1:
                beside = DECIDING_PART_BESIDE
                self.informed = WhatIf(accountant, limit, has_windows=has_windows, deciding_part=beside)
            accountant, settings = crowd.fast, crowd.settings
        is_owed = settings.decided == limit and settings.horizon > 1 and population.draws == 1
        self.limit = limit
        self.accountant = accountant
        self.crowd = crowd
        self._may_refine = is_owed and not limit.in_hindsight and not has_windows
        self.people_each = accountant.by_account.people
        """How many people have each account, (A,)."""
        self.prospects = Prospects(accountant, limit)
        self.natural = self.prospects.natural(self.people_each)
        """People over the limit by habit alone, by the slot (of the common cycle) of the horizon's start."""
        self.was_over = np.zeros(self.people_each.size, dtype=np.bool_)
        """Accounts that were over a limit in hindsight at some step, (A,)."""

    @property
    def people(self) -> int:
        """The number of people."""
        return int(self.people_each.sum())

    @property
    def refines(self) -> bool:
        """Whether refined bounds may clear people: only if the accounts will look at them, too."""
        settings = self.accountant.settings if self.crowd is None else self.crowd.settings
        return self._may_refine and settings.refines

    @property
    def next_step_number(self) -> int:
        """The step that questions are about: the one to be accounted next."""
        return self.accountant.next_step

    def next_step(self, announced: AnnouncedStep) -> NextStep | NextStepOfWindows:
        """Questions about the next step, in which these sensors may be released."""
        return NextStepOfWindows(self, announced) if self.has_windows else NextStep(self, announced)

    def note(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """Note the step that will be accounted next; needed only for a limit in hindsight."""
        if self.limit.in_hindsight:
            sensors = [release.sensor for release in step.releases]
            own = crowds_of_sensors(sensors, crowds)
            announced = AnnouncedStep(sensors, own, open=step.windows or ())
            self.was_over |= self.next_step(announced).is_over(step)


class NextStep:
    """Questions about one step; the accountant must not be moved on while they are asked.

    Arrays (N,) are of the accounts' chains, and an account counts for all its people. A person is over the
    limit if any chain of the person is over its own, which are set so that the mean over the chains keeps the
    limit.
    """

    def __init__(self, what_if: WhatIf, announced: AnnouncedStep) -> None:
        accountant, sensors = what_if.accountant, announced.sensors
        self._crowd, self._crowds = what_if.crowd, announced.crowds or (SensorCrowd(),) * len(sensors)
        self._settings = accountant.settings
        self._step = accountant.next_step
        self._prospects, self._prospect = what_if.prospects, what_if.prospects.of(self._step)
        view = accountant.view()
        self._view = view._replace(accounts=self._prospect.accounts(view.accounts))
        self._natural = what_if.natural
        self._people_of = what_if.people_each
        self._population = accountant.population
        self._locations = self._population.location_count
        self._is_nonstationary = what_if.prospects.is_unsettled(self._step)
        self._headroom = _headroom(self._view.accounts, self._prospect.limits, self._step)
        rows = [_raw_labels(later, self._locations) for later in announced.coming]
        coming = np.array(rows, dtype=np.int32).reshape(-1, self._locations)
        self._informed = None if what_if.informed is None else NextStep(what_if.informed, announced)
        self._check = self._refined_check(what_if, announced) if what_if.refines else None
        slot = self._prospect.stretch.first_slot + self._step
        self._quick = QuickBounds(self._prospect.information, sensors, slot, self._is_nonstationary)
        self._shares = self._count_steps(coming)
        self._fixed = what_if.was_over | self._population.any_draw(self._is_lost())
        self._is_fixed = np.repeat(self._fixed, self._population.draws)
        self._open = self._find_open()
        self._effects: deque[CandidateEffect] = deque(maxlen=_EFFECTS_KEPT)

    def _refined_check(self, what_if: WhatIf, announced: AnnouncedStep) -> RefinedCheck:
        """The check that may clear people whom the fast bound does not."""
        operations = self._settings.operations
        crowd, units, seen_with = what_if.crowd, what_if.accountant.units, self._seen_with
        if crowd is not None:
            units, seen_with = crowd.units, partial(crowd.levels_with, crowds=self._crowds, at=ONE_LEVEL)
        check = RefinedCheck(
            seen_with,
            self._view.accounts,
            self._prospect.limits,
            self._step,
            units,
            what_if.limit,
            None if operations is None else int(operations / what_if.deciding_part),
            is_informed=crowd is None,
        )
        nothing = tuple(SensorRelease(sensor, Suppressed()) for sensor in announced.sensors)
        silent = StepSchedule(self._step, nothing)
        is_over = self._headroom.is_quiet_over & ~self._is_nonstationary
        if self._informed is not None:
            is_over &= self._informed.is_over_by_all(silent)
        check.look_at_silence(silent, np.flatnonzero(is_over))
        return check

    def _seen_with(self, step: StepSchedule) -> Levels:
        """The last steps and this one, as who knows where all others are sees them."""
        seen = followed_by(self._view.seen, seen_release(step.releases, self._locations))
        return Levels((0.0,), (seen,))

    def count_over(self, candidates: Sequence[StepSchedule], enough: int | None = None) -> OverLimit:
        """How many people each candidate would put over the limit.

        With ``enough``, counts above it are not exact: all people then count as over.
        """
        first = self._step - self._settings.horizon + 1
        found = [self._count(step, self.people if enough is None else enough) for step in candidates]
        return OverLimit(
            self.people,
            self._prospect.natural(first, self._people_of),
            self._natural,
            tuple(over for over, _ in found),
            tuple(cleared for _, cleared in found),
            self._prospects.natural_ahead(self._step, self._people_of),
        )

    @property
    def people(self) -> int:
        """The number of people."""
        return int(self._people_of.sum())

    def is_over(self, step: StepSchedule) -> Flags:
        """Which accounts would be over the limit by the fast bound, (A,), by this step or in any case."""
        over = self._is_fixed.copy()
        effect = self._effect(step, self.people)
        if effect is not None:
            over[self._open[effect.excess > 0]] = True
        return self._population.any_draw(over)

    def is_over_by_all(self, step: StepSchedule) -> Flags:
        """Which accounts would be over the limit by every bound, (A,); all apart, of one chain each."""
        over = self._is_fixed.copy()
        effect = self._effect(step, self.people)
        if effect is None:
            return np.ones_like(over)
        found = np.flatnonzero(effect.excess > 0)
        over[self._open[found[self._people_cleared(step, effect, found) == 0]]] = True
        return over

    def _count(self, step: StepSchedule, enough: int) -> tuple[int, int]:
        """How many people are over the limit, and how many more only the fast bound puts over it."""
        fixed = int(self._people_of[self._fixed].sum())
        # Not fewer than can be cleared, else partitions would answer otherwise than one process.
        spare = 0 if self._check is None and self._informed is None else self.people
        effect = self._effect(step, enough - fixed + spare)
        if effect is None:
            return self.people, 0
        cleared = int(self._people_cleared(step, effect, np.flatnonzero(effect.excess > 0)).sum())
        return fixed + self._people_over(effect) - cleared, cleared

    def _people_over(self, effect: CandidateEffect) -> int:
        """How many people a candidate puts over the limit, as far as they were evaluated."""
        over = self._open[effect.excess > 0]
        draws = self._population.draws
        return int(self._people_of[over if draws == 1 else np.unique(over // draws)].sum())

    def _people_cleared(self, step: StepSchedule, effect: CandidateEffect, over: Integers) -> Integers:
        """For each position ``over`` by the fast bound, how many people another bound clears, (n,)."""
        found = np.zeros(over.size, dtype=np.int64)
        if self._informed is not None:
            people = self._people_of[self._open[over]]
            found = np.where(self._informed.is_over_by_all(step)[self._open[over]], 0, people)
        if self._check is None:
            return found
        left = np.flatnonzero((found == 0) & ~self._is_nonstationary[self._open[over]])
        chosen = over[left]
        terms = ProposedTerms(self._open[chosen], effect.conditional[chosen], effect.unconditioned[chosen])
        leaves_headroom = terms.unconditioned <= self._headroom.unconditioned[terms.people]
        found[left] = self._check.cleared(step, terms, effect.excess[chosen], leaves_headroom)
        return found

    def _effect(self, step: StepSchedule, enough: int) -> CandidateEffect | None:
        """The effect of a candidate, or None if it puts more than ``enough`` people over the limit.

        It starts from the effect of the most similar earlier candidate; only people who are counted by a
        sensor that differs are evaluated again.
        """
        if self._crowd is not None:
            step = self._crowd.seen(step, self._crowds)
        like = min(self._effects, key=lambda known: len(known.differing(step)), default=None)
        effect = CandidateEffect.of(step, self._open.size) if like is None else like.copied_for(step)
        anew = np.ones(self._open.size, dtype=np.bool_)
        if like is not None and like.is_exact == effect.is_exact:
            anew = self._quick.people_of(like.differing(step))[self._open]
        if not self._look(step, effect, np.flatnonzero(anew), enough):
            return None
        self._effects.append(effect)
        return effect

    def _look(self, step: StepSchedule, effect: CandidateEffect, anew: Integers, enough: int) -> bool:
        """Fill in the effect at these positions: by the quick bound if it suffices, else by the exact terms.

        Those furthest over the limit come first. False as soon as more than ``enough`` people are over it.
        """
        headroom, people = self._headroom, self._open[anew]
        quick = self._quick.at_most(step)[people] * self._shares[people]
        beyond = quick - np.minimum(headroom.conditional[people], headroom.unconditioned[people])
        effect.conditional[anew] = effect.unconditioned[anew] = 0
        effect.excess[anew] = headroom.is_quiet_over[people]
        unclear = np.flatnonzero((quick > 0) & (beyond > 0))
        unclear = anew[unclear[np.argsort(-beyond[unclear], kind="stable")]]
        seen = observe(step, self._locations)
        for first in range(0, unclear.size, _PEOPLE_AT_ONCE):
            if self._people_over(effect) > enough:
                return False
            self._look_closely(seen.view, effect, unclear[first : first + _PEOPLE_AT_ONCE])
        return self._people_over(effect) <= enough

    def _look_closely(self, step: StepView, effect: CandidateEffect, chosen: Integers) -> None:
        """Fill in the effect at these positions by the accountant's terms."""
        headroom, people = self._headroom, self._open[chosen]
        terms = self._terms(step, people)
        too_much = np.maximum(
            terms.conditional - headroom.conditional[people],
            terms.unconditioned - headroom.unconditioned[people],
        )
        excess = np.where(terms.unconditioned > 0, too_much, 0)
        effect.conditional[chosen], effect.unconditioned[chosen] = terms.conditional, terms.unconditioned
        effect.excess[chosen] = np.maximum(excess, headroom.is_quiet_over[people])

    def _terms(self, step: StepView, people: Integers) -> ProposedTerms:
        """The step's terms for these people, times the number of steps that share each one's headroom."""
        view = self._view
        terms = ProposedTerms(
            people, np.zeros(people.size, dtype=np.int64), np.zeros(people.size, dtype=np.int64)
        )
        find_terms(view.accounts, Transition(self._step, view.last_step, step), terms, view.most_places)
        shares = self._shares[people]
        return ProposedTerms(people, terms.conditional * shares, terms.unconditioned * shares)

    def _find_open(self) -> Integers:
        """People whom a candidate could put over the limit, or whom only the refined bounds could clear."""
        headroom = self._headroom
        at_most = self._quick.raw() * self._shares
        least = np.minimum(headroom.conditional, headroom.unconditioned)
        is_open = headroom.is_quiet_over | ((at_most > 0) & (at_most > least))
        return np.flatnonzero(is_open & ~self._is_fixed)

    def _is_lost(self) -> Flags:
        """Who is over the limit whatever is released: in silence, too, and refined bounds are not used."""
        is_over = self._headroom.is_quiet_over
        return is_over if self._check is None else is_over & self._is_nonstationary

    def _count_steps(self, coming: Integers32) -> Integers:
        """In how many of this step and the coming ones each person can be counted, (N,)."""
        steps = np.ones(self._view.accounts.since.size, dtype=np.int64)
        count_reaches(self._view.accounts.population, coming, steps)
        return steps


def _headroom(accounts: Accounts, limits: Limits, step: int) -> Headroom:
    """What is left of everybody's limits before a step."""
    conditional, unconditioned, room = (np.empty(limits.step.size, np.int64) for _ in range(3))
    found = Headroom(conditional, unconditioned, np.empty(limits.step.size, np.bool_), room)
    find_headroom(accounts, limits, found, step)
    return found


def _raw_labels(sensors: Sequence[Sensor], locations: int) -> Integers32:
    """The outcome of each location if these sensors count there exactly in one step, (M,)."""
    raw = tuple(SensorRelease(Sensor(each.name, each.locations), Raw()) for each in sensors)
    return observe(StepSchedule(0, raw), locations).labels


# Questions in a deployment whose sensors have windows.
#
# A window is decided with the first step that it is accounted in, and what it reveals comes out in steps to
# come. With ``C`` what is decided, the invariant is that every horizon from now on keeps its limit with all
# of ``C``, elapsed or to come, and nothing else; time only removes conditions, so silence is always
# admissible (math3.md, 19.4). An amount that comes out later is not carried as far as one of this step, so it
# is taken as it is: together with what this step and its new windows reveal, it must fit in the room of every
# horizon (``limits_kernel.Headroom``).
#
# For a limit in hindsight a window counts whole until it has ended: a horizon that ends within it is reached
# by its elapsed parts, too. And no step may reveal more of a place than the limit allows a step.
#
# In the crowd a window hides among the others of those steps of which it is known what counts in them: the
# sums over the others then follow from priors and that alone, and are those that accounts will have, as long
# as people and sensors stay. In other steps, and in hindsight, it counts as if the others' places were known,
# so what it reveals only falls as time goes on; of a group that moves together it counts as exact there. Who
# is within the limit by the informed account stays within it, as in single steps.


Revealed: TypeAlias = RevealedMove | RevealedAmount


class NextStepOfWindows:
    """Questions about one step; the accountant must not be moved on while they are asked.

    Everything is added up by single counts, the worst law of the place being taken for people who start from
    a distribution of their own.
    """

    def __init__(self, what_if: WhatIf, announced: AnnouncedStep) -> None:
        accountant = what_if.accountant
        self._what_if, self._prospect = what_if, what_if.prospects.of(accountant.next_step)
        self._step = accountant.next_step
        self._first_slot, self._horizon = self._prospect.stretch.first_slot, accountant.settings.horizon
        accounts, population = self._prospect.accounts(accountant.view().accounts), accountant.population
        self._own_before = accounts.nonstationary.before
        self._population, locations = population, population.location_count
        self._is_nonstationary = what_if.prospects.is_unsettled(self._step)
        self._revealed = RevealedInformation(accounts.population, locations)
        people = accounts.since.size
        self._room = _headroom(accounts, self._prospect.limits, self._step).room
        self._shares = np.ones(people, dtype=np.int64)
        rows = [_raw_labels(later, locations) for later in announced.coming]
        labels = np.array(rows, dtype=np.int32).reshape(-1, locations)
        count_reaches(accounts.population, labels, self._shares)
        self._open = frozenset(announced.open)
        self._crowd = what_if.crowd
        crowds = announced.crowds or (SensorCrowd(),) * len(announced.sensors)
        self._crowds = dict(zip(announced.sensors, crowds, strict=True))
        self._informed = None if what_if.informed is None else NextStepOfWindows(what_if.informed, announced)
        is_looked_ahead = self._crowd is not None and not what_if.limit.in_hindsight
        self._known = {each.step.step: each for each in announced.known} if is_looked_ahead else {}
        self._units: dict[object, Floats] = {}
        self._decided = sum(map(self._of_window, announced.open), start=np.zeros(people))

    @property
    def people(self) -> int:
        """The number of people."""
        return self._what_if.people

    def count_over(self, candidates: Sequence[StepSchedule], enough: int | None = None) -> OverLimit:
        """How many people each candidate would put over the limit; all of them are counted."""
        first, people_each = self._step - self._horizon + 1, self._what_if.people_each
        return OverLimit(
            self.people,
            self._prospect.natural(first, people_each),
            self._what_if.natural,
            tuple(int(people_each[self.is_over(step)].sum()) for step in candidates),
            (0,) * len(candidates),
            self._what_if.prospects.natural_ahead(self._step, people_each),
        )

    def is_over(self, step: StepSchedule) -> Flags:
        """Which accounts would be over the limit, (A,), by this step or in any case."""
        begun = [window for window in step.windows or () if window not in self._open]
        plain = self._seen([each for each in step.releases if each.sensor.window is None])
        new = np.zeros(self._room.size)
        for release in plain:
            new += self._of_places(release.sensor, release.accounted, self._step)
        for window in begun:
            new += self._of_window(window)
        over = self._decided + new * self._shares > self._room
        if self._what_if.limit.in_hindsight:
            over |= self._is_too_much_in_a_step(plain, [*self._open, *begun])
        over = self._what_if.was_over | self._population.any_draw(over)
        return over if self._informed is None else over & self._informed.is_over(step)

    def _seen(self, plain: list[SensorRelease]) -> Sequence[SensorRelease]:
        """The step's counts of presence as the adversary sees them."""
        if self._crowd is None:
            return plain
        crowds = tuple(self._crowds[each.sensor] for each in plain)
        return self._crowd.seen(StepSchedule(self._step, tuple(plain)), crowds).releases

    def _is_too_much_in_a_step(self, plain: Sequence[SensorRelease], windows: Sequence[OpenWindow]) -> Flags:
        """Of whom this step or one to come reveals more than a limit in hindsight allows a step, (N,)."""
        by_step: dict[int, Floats] = {self._step: np.zeros(self._room.size)}
        for release in plain:
            by_step[self._step] += self._of_places(release.sensor, release.accounted, self._step)
        for window in windows:
            for step, units in self._parts(window):
                if step >= self._step:
                    by_step[step] = by_step.get(step, 0.0) + units
        limit = self._prospect.limits.step
        return np.any([units > limit for units in by_step.values()], axis=0)

    def _of_window(self, window: OpenWindow) -> Floats:
        """The most that a window reveals from now on, as accounts add it up, in units, (N,)."""
        if window not in self._units:
            since = window.charged_from if self._what_if.limit.in_hindsight else self._step
            total = self._as_accounted(window, since)
            if self._what_if.limit.in_hindsight:  # also a horizon that ends before the window's noise is out
                whole = sum((units for _, units in self._parts(window)), start=np.zeros(total.size))
                total = np.maximum(total, whole)
            self._units[window] = total
        return self._units[window]

    def _as_accounted(self, window: OpenWindow, since: int) -> Floats:
        """What the steps from ``since`` on add to the information of an account, in units, (N,)."""
        total = np.zeros(self._room.size)
        for step in range(max(since, window.charged_from), window.last + 1):
            at = step - window.first
            parts = tuple(each for each in parts_of(window.release) if each.places.offset == at)
            revealed = tuple(each for number, each in revealed_of_window(window.release) if number == at)
            if self._crowd is not None:
                shown, revealed = self._among_others(self._crowd, step, parts, revealed)
            else:
                plain = ((SensorRelease(each.sensor, each.mechanism),) for each in parts)
                shown = [own for each in plain for own in without_coins(each)]
            total += sum(self._of_places(each.sensor, each.mechanism, step) for each in shown)
            total += sum(self._of_revealed(each, step) for each in revealed)
        return total

    def _among_others(
        self, crowd: CrowdAccount, step: int, parts: tuple[ShownPlaces, ...], revealed: tuple[Revealed, ...]
    ) -> tuple[Sequence[SensorRelease], tuple[Revealed, ...]]:
        """What a window shows and reveals in a step, as the account in the crowd will see it."""
        among = self._known.get(step) or KnownStep(StepSchedule(step), ())
        own = replace(among.step, releases=(), revealed=revealed, among=among.step.counting)
        seen = crowd.seen(replace(own, parts=StepParts((), parts)), among.crowds)
        return (seen.releases, ()) if seen.revealed is None else (without_coins(seen.releases), seen.revealed)

    def _of_revealed(self, each: Revealed, step: int) -> Floats:
        """The most that moves, or an amount, reveal about each person in a step, in units, (N,)."""
        nats = self._revealed.nats([each], self._first_slot + step - 1, self._own_before)
        if isinstance(each, RevealedMove):
            assert isinstance(each.mechanism, Tabulated)
            most = float(each.mechanism.information_table().information_nats.max())
            nats[self._is_nonstationary | self._is_beyond(step)] = most
        return _in_units(nats)

    def _parts(self, window: OpenWindow) -> list[tuple[int, Floats]]:
        """What each step of a window reveals by the places it shows, in units, (N,)."""
        return [
            (step, self._of_places(part.sensor, _EXACT if self._is_of_groups else part.mechanism, step))
            for part in parts_of(window.release)
            for step in [window.first + part.places.offset]
        ]

    def _is_beyond(self, step: int) -> bool:
        """Whether a step comes so late that its slot is not known yet where clocks are changed."""
        ahead, stretch = self._what_if.prospects.ahead, self._prospect.stretch
        is_after = not stretch.is_regular and self._first_slot + step >= stretch.steps
        return is_after or (ahead > 0 and step > self._step + ahead)

    @property
    def _is_of_groups(self) -> bool:
        """Whether companions move with each person, of whom no noise is known to hide all."""
        return self._crowd is not None and self._crowd.adversary.companions > 0

    def _of_places(self, sensor: Sensor, mechanism: Mechanism, step: int) -> Floats:
        """The most that a count of presence reveals about each person, in units, (N,)."""
        if not mechanism.is_released:
            return np.zeros(self._room.size)
        key = sensor.locations, mechanism, step
        if key not in self._units:
            information, slot = self._prospect.information, self._first_slot + step
            people = information.people_of(sensor)
            probability = np.minimum(information.probability(sensor, slot)[people], 1.0)
            nats = np.where(probability > 0.0, _nats(mechanism, probability), 0.0)
            most = float(np.log(2.0))
            if isinstance(mechanism, Tabulated):
                most = float(mechanism.information_table().information_nats.max())
            nats[self._is_nonstationary[people] | self._is_beyond(step)] = most
            found = np.zeros(self._room.size)
            found[people] = _in_units(nats)
            self._units[key] = found
        return self._units[key]


def _in_units(nats: Floats) -> Floats:
    """Nats as whole units, none too few for the rounding of the accounts."""
    return np.where(nats > 0.0, np.ceil(nats * UNITS_PER_NAT) + _MARGIN_UNITS, 0.0)
