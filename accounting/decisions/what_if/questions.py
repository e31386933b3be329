"""What-if questions about the next step for all people of an accountant, without accounting anything.

Each person's headroom (:mod:`accounting.decisions.what_if.limits_kernel`) is found once a step. A candidate
then costs one look at the step's information about those people whom some candidate could put over the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import budget_within
from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import UNITS_PER_NAT, Accounts
from accounting.continuous.crowd import CrowdAccount
from accounting.continuous.horizon_kernel import Transition
from accounting.decisions import OverLimit
from accounting.decisions.what_if.limits_kernel import (
    BudgetLevels,
    Headroom,
    Limits,
    Terms,
    count_reaches,
    find_headroom,
    find_largest_guesses,
    find_terms,
    reserve_for_hindsight,
    set_limits,
)
from accounting.decisions.what_if.refined_check import CrowdCheck, RefinedCheck, WorkOfStep
from accounting.exposure.crowd import SensorCrowd, StepCrowd
from accounting.exposure.step_information import SensorInformation, observe
from accounting.exposure.step_information.observation import StepView
from accounting.settings import RiskBudget
from models.mechanisms import Mechanism, Raw, Suppressed, Tabulated
from models.noise import binary_entropy, fill_information
from models.releases import Sensor, SensorRelease, StepSchedule

# A quick upper bound on what a step says of each person: the sum over the sensors that can count them.
#
# ``I(X; Y_1..Y_n) <= sum_k I(X; Y_k)``, and each summand is a look-up. Most people need nothing sharper to
# be seen within their limit.

_MARGIN_UNITS = 64.0  # rounding of sums of a few look-ups


@dataclass(frozen=True, eq=False)
class _Reach:
    """The people a sensor can count, (n,), and how likely it counts each of them in the step's slot."""

    people: NDArray[np.int64]
    probability: NDArray[np.float64]


class QuickBounds:
    """Bounds of one step's sensors on everybody's information, units."""

    def __init__(
        self,
        information: SensorInformation,
        sensors: Sequence[Sensor],
        slot: int,
        is_nonstationary: NDArray[np.bool_],
    ) -> None:
        """``slot`` is the step's; people with an initial distribution (N,) have no bound here."""
        self._unknown = np.where(is_nonstationary, np.inf, 0.0)
        self._reach = {sensor.name: _reach(information, sensor, slot) for sensor in sensors}
        self._units: dict[tuple[str, Mechanism], NDArray[np.float64]] = {}

    def people_of(self, sensors: Sequence[str]) -> NDArray[np.bool_]:
        """Whom one of these sensors can count, (N,); all with an initial distribution."""
        found = np.isinf(self._unknown)
        for name in sensors:
            found[self._reach[name].people] = True
        return found

    def at_most(self, step: StepSchedule) -> NDArray[np.float64]:
        """What the step says of each person at most, units, (N,)."""
        total = self._unknown.copy()
        for release in step.releases:
            if release.mechanism.is_released:
                name = release.sensor.name
                total[self._reach[name].people] += self._of(name, release.accounted)
        return total

    def raw(self) -> NDArray[np.float64]:
        """What all sensors, raw, say of each person at most, units, (N,)."""
        total = self._unknown.copy()
        for name, reach in self._reach.items():
            total[reach.people] += self._of(name, Raw())
        return total

    def _of(self, name: str, mechanism: Mechanism) -> NDArray[np.float64]:
        key = name, mechanism
        if key not in self._units:
            probability = self._reach[name].probability
            self._units[key] = np.ceil(_nats(mechanism, probability) * UNITS_PER_NAT) + _MARGIN_UNITS
        return self._units[key]


def _nats(mechanism: Mechanism, probability: NDArray[np.float64]) -> NDArray[np.float64]:
    """Information by the mechanism's table, as in the accountant's kernels; without a table the entropy."""
    if not isinstance(mechanism, Tabulated):
        return binary_entropy(probability)
    nats = np.empty(probability.size)
    fill_information(mechanism.information_table(), probability, nats)
    return nats


def _reach(information: SensorInformation, sensor: Sensor, slot: int) -> _Reach:
    probability = np.minimum(information.probability(sensor, slot), 1.0)
    people = np.flatnonzero(probability)
    return _Reach(people, probability[people])


@dataclass(frozen=True, eq=False)
class CandidateEffect:
    """What one candidate step does to the people whom some candidate could put over the limit.

    In units, (n,) each: ``excess`` over the limit (positive: over it) and, where it is positive, the step's
    terms. ``conditional`` and ``unconditioned`` are 0 where a quick bound showed that a person is within it.
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
"""Candidates whose effects are kept to start the next ones from: a search changes a sensor at a time."""


DECIDING_PART = 20
"""A decision may cost a twentieth of the work that accounting the step may cost: others wait for it."""

DECIDING_PART_IN_CROWD = 4
"""A quarter in the crowd: there each candidate is looked at anew, and who is not looked at counts as over."""

_PEOPLE_AT_ONCE = 2048
"""People looked at closely before counting again whether it is enough."""


class Basis(NamedTuple):
    """What questions about any step need.

    ``crowd`` is set where the limit is on ceilings against the crowd adversary. People within the limit by
    the ``informed`` questions are within it there, too. ``people`` (A,) is how many people have each account.
    """

    accountant: ContinuousAccountant
    limit: RiskBudget
    limits: Limits
    people: NDArray[np.int64]
    natural: tuple[int, ...]
    information: SensorInformation
    refines: bool
    crowd: CrowdAccount | None = None
    informed: WhatIf | None = None


class AnnouncedStep(NamedTuple):
    """The step that is asked about: its sensors, and what each hides among, where that is known.

    ``coming`` are the announced sensors of the steps after it among which each person's headroom is to be
    spread evenly; empty for first come, first served.
    """

    sensors: Sequence[Sensor]
    crowds: StepCrowd | None = None
    coming: Sequence[Sequence[Sensor]] = ()


class WhatIf:
    """Who would be over a risk limit, for the people of one accountant.

    Limits follow from the priors and are computed once. With a limit in hindsight, whoever was over once
    stays over, since later releases reach back; every step must go to :meth:`note` before it is accounted.
    Where the accountant raises risks to a radius, the limit is on those. With a ``crowd`` beside the
    accountant the limit is on risks against that adversary.
    """

    def __init__(
        self, accountant: ContinuousAccountant, limit: RiskBudget, crowd: CrowdAccount | None = None
    ) -> None:
        """Refined bounds are used only where the accounts will refine the same people, and not in hindsight.

        Nor where several chains stand for a person, because all of them would have to be refined.
        """
        settings, population, informed = accountant.settings, accountant.population, None
        if crowd is not None:
            # In hindsight whoever was over stays over, by whichever bound: there the two are not mixed. Of a
            # group that moves together the informed account of one person says nothing.
            has_informed = crowd.adversary.companions == 0 and not limit.in_hindsight
            informed = WhatIf(accountant, limit) if has_informed else None
            accountant, settings = crowd.fast, crowd.settings
        is_owed = settings.operations is None or settings.decided == limit
        refines = settings.refines and is_owed and settings.horizon > 1 and population.draws == 1
        self.limit = limit
        accounts, people = accountant.view().accounts, accountant.by_account.people
        limits = find_limits(accounts, limit, settings.within_nats, population.draws)
        self._basis = Basis(
            accountant,
            limit,
            limits,
            people,
            _count_natural(accounts, limits, people),
            SensorInformation(population.accounted),
            refines and not limit.in_hindsight,
            crowd,
            informed,
        )
        self._was_over = np.zeros(people.size, dtype=np.bool_)

    @property
    def people(self) -> int:
        """Number of people."""
        return int(self._basis.people.sum())

    @property
    def next_step_number(self) -> int:
        """The step that questions are about: the one to be accounted next."""
        return self._basis.accountant.next_step

    def next_step(self, announced: AnnouncedStep) -> NextStep:
        """Open questions about the next step, in which these sensors may be released."""
        return NextStep(self._basis, self._was_over, announced)

    def note(self, step: StepSchedule, crowds: StepCrowd | None = None) -> None:
        """The step that will be accounted next; only needed for a limit in hindsight."""
        if self.limit.in_hindsight:
            sensors = [release.sensor for release in step.releases]
            self._was_over |= self.next_step(AnnouncedStep(sensors, crowds)).is_over(step)


class NextStep:
    """Questions about one step; the accountant must not move on while they are asked.

    Arrays are of the accounts' chains; an account counts for its people. A person is over if any chain that
    stands for the person is: each may reveal so much that their mean keeps the limit.
    """

    def __init__(self, basis: Basis, was_over: NDArray[np.bool_], announced: AnnouncedStep) -> None:
        accountant, sensors = basis.accountant, announced.sensors
        self._crowd, self._crowds = basis.crowd, announced.crowds or (SensorCrowd(),) * len(sensors)
        self._view = accountant.view()
        self._settings = accountant.settings
        self._step = accountant.next_step
        self._natural = basis.natural
        self._people_of = basis.people
        self._population = accountant.population
        self._locations = self._population.location_count
        self._is_nonstationary = np.diff(self._view.accounts.population.initial_start) > 0
        self._headroom = self._find_headroom(basis.limits)
        rows = [self._labels(later) for later in announced.coming]
        self._coming = np.array(rows, dtype=np.int32).reshape(-1, self._locations)
        self._informed = None if basis.informed is None else basis.informed.next_step(announced)
        self._check = self._refined_check(basis, announced) if basis.refines else None
        slot = self._settings.first_slot + self._step
        self._quick = QuickBounds(basis.information, sensors, slot, self._is_nonstationary)
        self._shares = self._count_steps()
        self._fixed = was_over | self._population.any_draw(self._is_lost())
        self._is_fixed = np.repeat(self._fixed, self._population.draws)
        self._open = self._find_open()
        self._effects: deque[CandidateEffect] = deque(maxlen=_EFFECTS_KEPT)

    def _refined_check(self, basis: Basis, announced: AnnouncedStep) -> RefinedCheck | CrowdCheck:
        """Whoever may clear people whom the fast bound does not."""
        operations = self._settings.operations
        part = DECIDING_PART if basis.crowd is None else DECIDING_PART_IN_CROWD
        most = None if operations is None else operations // part
        if basis.crowd is not None:
            check = CrowdCheck(basis.crowd, self._crowds, basis.limits, WorkOfStep(most, basis.limit))
            silent = _silent(self._step, announced.sensors)
            is_over = self._headroom.is_quiet_over & ~self._is_nonstationary
            if self._informed is not None:
                is_over &= self._informed.is_over_by_all(silent)
            check.look_at_silence(silent, np.flatnonzero(is_over))
            return check
        units = basis.accountant.units
        return RefinedCheck(self._view, basis.limits, self._step, self._coming, units, most)

    def count_over(self, candidates: Sequence[StepSchedule], enough: int | None = None) -> OverLimit:
        """How many people each candidate would put over the limit.

        With ``enough``, more than so many are not distinguished: everybody then counts as over.
        """
        first = self._settings.first_slot + self._step - self._settings.horizon + 1
        found = [self._count(step, self.people if enough is None else enough) for step in candidates]
        return OverLimit(
            self.people,
            self._natural[first % len(self._natural)],
            self._natural,
            tuple(over for over, _ in found),
            tuple(cleared for _, cleared in found),
        )

    @property
    def people(self) -> int:
        """Number of people."""
        return int(self._people_of.sum())

    def is_over(self, step: StepSchedule) -> NDArray[np.bool_]:
        """Whose account would be over the limit by the fast bound, (A,), because of this step or anyway."""
        over = self._is_fixed.copy()
        effect = self._effect(step, self.people)
        if effect is not None:
            over[self._open[effect.excess > 0]] = True
        return self._population.any_draw(over)

    def is_over_by_all(self, step: StepSchedule) -> NDArray[np.bool_]:
        """Who would be over the limit by every bound, (A,); where everybody has an account of one chain."""
        over = self._is_fixed.copy()
        effect = self._effect(step, self.people)
        if effect is None:
            return np.ones_like(over)
        found = np.flatnonzero(effect.excess > 0)
        over[self._open[found[self._people_cleared(step, effect, found) == 0]]] = True
        return over

    def _count(self, step: StepSchedule, enough: int) -> tuple[int, int]:
        """People over the limit, and how many more other bounds than the fast one cleared."""
        fixed = int(self._people_of[self._fixed].sum())
        spare = 0 if self._check is None else self._check.most_cleared
        if self._informed is not None:
            spare = self.people
        effect = self._effect(step, enough - fixed + spare)
        if effect is None:
            return self.people, 0
        cleared = int(self._people_cleared(step, effect, np.flatnonzero(effect.excess > 0)).sum())
        return fixed + self._people_over(effect) - cleared, cleared

    def _people_over(self, effect: CandidateEffect) -> int:
        """How many people a candidate puts over the limit as far as it was looked at."""
        over = self._open[effect.excess > 0]
        draws = self._population.draws
        return int(self._people_of[over if draws == 1 else np.unique(over // draws)].sum())

    def _people_cleared(
        self, step: StepSchedule, effect: CandidateEffect, over: NDArray[np.int64]
    ) -> NDArray[np.int64]:
        """Of the positions that are ``over`` by the fast bound, how many people are not by another, (n,)."""
        found = np.zeros(over.size, dtype=np.int64)
        if self._informed is not None:
            found[~self._informed.is_over_by_all(step)[self._open[over]]] = 1
        if self._check is None:
            return found
        left = np.flatnonzero((found == 0) & ~self._is_nonstationary[self._open[over]])
        chosen = over[left]
        terms = Terms(self._open[chosen], effect.conditional[chosen], effect.unconditioned[chosen])
        leaves_headroom = terms.unconditioned <= self._headroom.unconditioned[terms.people]
        found[left] = self._check.cleared(step, terms, effect.excess[chosen], leaves_headroom)
        return found

    def _effect(self, step: StepSchedule, enough: int) -> CandidateEffect | None:
        """What a candidate does to each open person; only those are looked at whom it treats anew.

        None as soon as more than ``enough`` are over.
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

    def _look(
        self, step: StepSchedule, effect: CandidateEffect, anew: NDArray[np.int64], enough: int
    ) -> bool:
        """Fill in these positions of an effect: a quick bound where it does, the accountant's terms else.

        Those who are over first; False as soon as they are more than enough.
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

    def _look_closely(self, step: StepView, effect: CandidateEffect, chosen: NDArray[np.int64]) -> None:
        """The accountant's terms for these positions."""
        headroom, people = self._headroom, self._open[chosen]
        terms = self._terms(step, people)
        too_much = np.maximum(
            terms.conditional - headroom.conditional[people],
            terms.unconditioned - headroom.unconditioned[people],
        )
        excess = np.where(terms.unconditioned > 0, too_much, 0)
        effect.conditional[chosen], effect.unconditioned[chosen] = terms.conditional, terms.unconditioned
        effect.excess[chosen] = np.maximum(excess, headroom.is_quiet_over[people])

    def _terms(self, step: StepView, people: NDArray[np.int64]) -> Terms:
        """What the step would say of these people, times the steps that share each one's headroom."""
        view = self._view
        terms = Terms(people, np.zeros(people.size, dtype=np.int64), np.zeros(people.size, dtype=np.int64))
        find_terms(view.accounts, Transition(self._step, view.last_step, step), terms, view.most_places)
        shares = self._shares[people]
        return Terms(people, terms.conditional * shares, terms.unconditioned * shares)

    def _find_open(self) -> NDArray[np.int64]:
        """People whom some candidate could put over the limit, or only the refined bounds could clear."""
        headroom = self._headroom
        at_most = self._quick.raw() * self._shares
        least = np.minimum(headroom.conditional, headroom.unconditioned)
        is_open = headroom.is_quiet_over | ((at_most > 0) & (at_most > least))
        return np.flatnonzero(is_open & ~self._is_fixed)

    def _is_lost(self) -> NDArray[np.bool_]:
        """Over the limit in silence, and the refined bounds are not used."""
        is_over = self._headroom.is_quiet_over
        return is_over if self._check is None else is_over & self._is_nonstationary

    def _find_headroom(self, limits: Limits) -> Headroom:
        people = limits.step.size
        headroom = Headroom(
            np.empty(people, np.int64), np.empty(people, np.int64), np.empty(people, np.bool_)
        )
        find_headroom(self._view.accounts, limits, headroom, self._step)
        return headroom

    def _count_steps(self) -> NDArray[np.int64]:
        """In how many of this and the coming steps each person may be counted, (N,)."""
        steps = np.ones(self._view.accounts.since.size, dtype=np.int64)
        count_reaches(self._view.accounts.population, self._coming, steps)
        return steps

    def _labels(self, sensors: Sequence[Sensor]) -> NDArray[np.int32]:
        """Where these sensors count, (M,)."""
        raw = tuple(SensorRelease(sensor, Raw()) for sensor in sensors)
        return observe(StepSchedule(self._step, raw), self._locations).labels


def _silent(step: int, sensors: Sequence[Sensor]) -> StepSchedule:
    """The step with nothing released."""
    return StepSchedule(step, tuple(SensorRelease(sensor, Suppressed()) for sensor in sensors))


def find_limits(accounts: Accounts, limit: RiskBudget, within_nats: float, draws: int) -> Limits:
    """Everybody's limits on information under a limit on risk that holds within so many nats.

    ``draws`` accounted chains stand for each person.
    """
    phases, people = accounts.constants.guess.size, accounts.since.size
    limits = Limits(
        np.zeros(phases, np.int64), np.zeros(phases, np.bool_), np.zeros(phases), np.zeros(people, np.int64)
    )
    lowered = budget_within(within_nats, limit)
    levels = BudgetLevels(
        1.0 if lowered.risk is None else float(lowered.risk),
        1.0 if limit.risk is None else float(limit.risk),
        1.0 if limit.added is None else float(limit.added),
        limit.habits_apart,
    )
    guesses = np.zeros(people)
    nonstationary = np.flatnonzero(np.diff(accounts.population.initial_start))
    if nonstationary.size:
        find_largest_guesses(accounts.population, nonstationary, accounts.horizon, guesses)
    set_limits(accounts, limits, levels, guesses, draws)
    if limit.in_hindsight:
        reserve_for_hindsight(accounts, limits, float(limit.reserve))
    return limits


def _count_natural(accounts: Accounts, limits: Limits, people: NDArray[np.int64]) -> tuple[int, ...]:
    """People over the limit by habit alone, by the slot of the common cycle in which the horizon starts.

    So many ``people`` (A,) have each account.
    """
    begin, slots = accounts.constants.phase_start[:-1], accounts.population.slots
    if not begin.size:
        return (0,)
    draws, cycle = begin.size // people.size, int(np.lcm.reduce(slots))
    of_chain = np.repeat(people, draws)
    return tuple(
        int(of_chain[limits.is_natural[begin + slot % slots]].sum()) // draws for slot in range(cycle)
    )
