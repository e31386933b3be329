"""What-if questions about the next step for all people of an accountant, without accounting anything.

Each person's room (:mod:`accounting.decisions.what_if.headroom_kernel`) is found once a step. A candidate
then costs one look at the step's information about those people whom some candidate could put over the limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.decisions import Opinion, Tally
from accounting.decisions.what_if.candidate_kernel import Terms, count_reaches, find_terms
from accounting.decisions.what_if.headroom_kernel import Rooms, find_rooms
from accounting.decisions.what_if.limits_kernel import Caps, cap_everybody
from accounting.decisions.what_if.quick_bounds import QuickBounds
from accounting.decisions.what_if.refined_check import Clearing, DearSettings
from accounting.exposure.step_information import SensorInformation, observe
from accounting.exposure.step_information.step_terms_kernel import StepView
from accounting.settings import RiskBudget
from models.mechanisms import Raw
from models.releases import Sensor, SensorRelease, StepSchedule

_OPINIONS_KEPT = 4
"""Candidates whose opinions are kept to start the next ones from: a search changes a sensor at a time."""


_PEOPLE_AT_ONCE = 2048
"""People looked at closely before counting again whether it is enough."""


class Basis(NamedTuple):
    """What questions about any step need."""

    accountant: ContinuousAccountant
    caps: Caps
    natural: tuple[int, ...]
    information: SensorInformation
    dear: DearSettings | None


class WhatIf:
    """Who would be over a risk limit, for the people of one accountant.

    Caps follow from the priors and are computed once. With a limit in hindsight, whoever was over once stays
    over, since later releases reach back; tell every accounted step by :meth:`note` before it is applied.
    """

    def __init__(
        self, accountant: ContinuousAccountant, limit: RiskBudget, dear: DearSettings | None = None
    ) -> None:
        """``dear`` evaluations are used where the accountant sharpens, and not for hindsight."""
        sharpens = accountant.settings.sharpen and accountant.settings.horizon > 1
        self.limit = limit
        caps = compute_caps(accountant, limit)
        self._basis = Basis(
            accountant,
            caps,
            _count_natural(accountant, caps),
            SensorInformation(accountant.population),
            dear if sharpens and not limit.in_hindsight else None,
        )
        self._was_over = np.zeros(len(accountant.population), dtype=np.bool_)

    @property
    def people(self) -> int:
        """Number of people."""
        return self._was_over.size

    @property
    def next_step_number(self) -> int:
        """The step that questions are about: the one to be accounted next."""
        return self._basis.accountant.next_step

    def next_step(self, sensors: Sequence[Sensor], coming: Sequence[Sequence[Sensor]] = ()) -> NextStep:
        """Open questions about the next step, in which these sensors may be released.

        ``coming`` are the announced sensors of the steps after it among which each person's room is to be
        spread evenly; empty for first come, first served.
        """
        return NextStep(self._basis, self._was_over, sensors, coming)

    def note(self, step: StepSchedule) -> None:
        """The step that will be accounted next; only needed for a limit in hindsight."""
        if self.limit.in_hindsight:
            sensors = [release.sensor for release in step.releases]
            self._was_over |= self.next_step(sensors).is_over(step)


class NextStep:
    """Questions about one step; the accountant must not move on while they are asked."""

    def __init__(
        self,
        basis: Basis,
        was_over: NDArray[np.bool_],
        sensors: Sequence[Sensor],
        coming: Sequence[Sequence[Sensor]],
    ) -> None:
        accountant, dear = basis.accountant, basis.dear
        self._view = accountant.view()
        self._settings = accountant.settings
        self._step = accountant.next_step
        self._natural = basis.natural
        self._locations = accountant.population.location_count
        self._has_own_start = np.diff(self._view.population.initial_start) > 0
        self._rooms = self._find_rooms(basis.caps)
        self._clearing = None
        rows = [self._labels(announced) for announced in coming]
        self._coming = np.array(rows, dtype=np.int32).reshape(-1, self._locations)
        if dear is not None:
            self._clearing = Clearing(self._view, self._settings, basis.caps, self._step, dear, self._coming)
        slot = self._settings.first_slot + self._step
        self._quick = QuickBounds(basis.information, sensors, slot, self._has_own_start)
        self._shares = self._count_steps()
        self._is_fixed = was_over | self._is_lost()
        self._asked = self._find_asked()
        self._opinions: deque[Opinion] = deque(maxlen=_OPINIONS_KEPT)

    def tally(self, candidates: Sequence[StepSchedule], enough: int | None = None) -> Tally:
        """How many people each candidate would put over the limit.

        With ``enough``, more than so many are not told apart: everybody then counts as over.
        """
        first = self._settings.first_slot + self._step - self._settings.horizon + 1
        found = [self._count(step, self.people if enough is None else enough) for step in candidates]
        return Tally(
            self.people,
            self._natural[first % len(self._natural)],
            self._natural,
            tuple(over for over, _ in found),
            tuple(dear for _, dear in found),
        )

    @property
    def people(self) -> int:
        """Number of people."""
        return self._is_fixed.size

    def is_over(self, step: StepSchedule) -> NDArray[np.bool_]:
        """Who would be over the limit by the cheap bound, (N,), because of this step or anyway."""
        over = self._is_fixed.copy()
        opinion = self._opinion(step, self.people)
        if opinion is not None:
            over[self._asked[opinion.excess > 0]] = True
        return over

    def _count(self, step: StepSchedule, enough: int) -> tuple[int, int]:
        """People over the limit, and how many more the dear bounds cleared."""
        fixed = int(np.count_nonzero(self._is_fixed))
        spare = 0 if self._clearing is None else self._clearing.evaluations
        opinion = self._opinion(step, enough - fixed + spare)
        if opinion is None:
            return self.people, 0
        over = np.flatnonzero(opinion.excess > 0)
        cleared = 0 if self._clearing is None else self._clear(step, opinion, over)
        return fixed + over.size - cleared, cleared

    def _clear(self, step: StepSchedule, opinion: Opinion, over: NDArray[np.int64]) -> int:
        """How many of those over by the cheap bound are not by the dear ones."""
        if self._clearing is None:
            return 0
        chosen = over[~self._has_own_start[self._asked[over]]]
        people = self._asked[chosen]
        terms = Terms(opinion.conditional[chosen], opinion.unconditioned[chosen])
        leaves_room = terms.unconditioned <= self._rooms.unconditioned[people]
        labels = observe(step, self._locations).labels
        return self._clearing.cleared(people, terms, opinion.excess[chosen], leaves_room, labels)

    def _opinion(self, step: StepSchedule, enough: int) -> Opinion | None:
        """What a candidate does to each person asked about; only those are looked at whom it treats anew.

        None as soon as more than ``enough`` are over.
        """
        like = min(self._opinions, key=lambda known: len(known.differing(step)), default=None)
        opinion = Opinion.of(step, self._asked.size) if like is None else like.copied_for(step)
        anew = np.ones(self._asked.size, dtype=np.bool_)
        if like is not None and like.is_exact == opinion.is_exact:
            anew = self._quick.people_of(like.differing(step))[self._asked]
        if not self._look(step, opinion, np.flatnonzero(anew), enough):
            return None
        self._opinions.append(opinion)
        return opinion

    def _look(self, step: StepSchedule, opinion: Opinion, anew: NDArray[np.int64], enough: int) -> bool:
        """Fill in these positions of an opinion: a quick bound where it does, the accountant's terms else.

        Those who are over first; False as soon as they are more than enough.
        """
        rooms, people = self._rooms, self._asked[anew]
        quick = self._quick.at_most(step)[people] * self._shares[people]
        beyond = quick - np.minimum(rooms.conditional[people], rooms.unconditioned[people])
        opinion.conditional[anew] = opinion.unconditioned[anew] = 0
        opinion.excess[anew] = rooms.is_quiet_over[people]
        unclear = np.flatnonzero((quick > 0) & (beyond > 0))
        unclear = anew[unclear[np.argsort(-beyond[unclear], kind="stable")]]
        view = observe(step, self._locations).view
        for first in range(0, unclear.size, _PEOPLE_AT_ONCE):
            if np.count_nonzero(opinion.excess > 0) > enough:
                return False
            self._look_closely(view, opinion, unclear[first : first + _PEOPLE_AT_ONCE])
        return bool(np.count_nonzero(opinion.excess > 0) <= enough)

    def _look_closely(self, step: StepView, opinion: Opinion, chosen: NDArray[np.int64]) -> None:
        """The accountant's terms for these positions."""
        rooms, people = self._rooms, self._asked[chosen]
        terms = self._terms(step, people)
        too_much = np.maximum(
            terms.conditional - rooms.conditional[people], terms.unconditioned - rooms.unconditioned[people]
        )
        told = np.where(terms.unconditioned > 0, too_much, 0)
        opinion.conditional[chosen], opinion.unconditioned[chosen] = terms
        opinion.excess[chosen] = np.maximum(told, rooms.is_quiet_over[people])

    def _terms(self, step: StepView, people: NDArray[np.int64]) -> Terms:
        """What the step would tell of these people, times the steps that share each one's room."""
        view = self._view
        terms = Terms(*(np.zeros(people.size, dtype=np.int64) for _ in Terms._fields))
        find_terms(
            view.population,
            view.own,
            view.since,
            people,
            self._settings.first_slot,
            self._step,
            view.step_before,
            step,
            view.most_places,
            terms,
        )
        shares = self._shares[people]
        return Terms(terms.conditional * shares, terms.unconditioned * shares)

    def _find_asked(self) -> NDArray[np.int64]:
        """People whom some candidate could put over the limit, or whom only the dear bounds could clear."""
        rooms = self._rooms
        at_most = self._quick.raw() * self._shares
        room = np.minimum(rooms.conditional, rooms.unconditioned)
        is_open = rooms.is_quiet_over | ((at_most > 0) & (at_most > room))
        return np.flatnonzero(is_open & ~self._is_fixed)

    def _is_lost(self) -> NDArray[np.bool_]:
        """Over the limit in silence, and the dear bounds are not asked."""
        is_over = self._rooms.is_quiet_over
        return is_over if self._clearing is None else is_over & self._has_own_start

    def _find_rooms(self, caps: Caps) -> Rooms:
        view, people = self._view, caps.step.size
        rooms = Rooms(
            np.empty(people, np.int64),
            np.empty(people, np.int64),
            np.empty(people, np.bool_),
        )
        longest = int(view.population.slots.max(initial=1))
        find_rooms(
            view.population,
            view.constants,
            caps,
            view.state,
            rooms,
            self._settings.first_slot,
            self._step,
            longest,
        )
        return rooms

    def _count_steps(self) -> NDArray[np.int64]:
        """In how many of this and the coming steps each person may be counted, (N,)."""
        steps = np.ones(self._view.since.size, dtype=np.int64)
        count_reaches(self._view.population, self._coming, steps)
        return steps

    def _labels(self, sensors: Sequence[Sensor]) -> NDArray[np.int32]:
        """Where these sensors count, (M,)."""
        raw = tuple(SensorRelease(sensor, Raw()) for sensor in sensors)
        return observe(StepSchedule(self._step, raw), self._locations).labels


def compute_caps(accountant: ContinuousAccountant, limit: RiskBudget) -> Caps:
    """Everybody's limits on information under a limit on risk."""
    view, settings = accountant.view(), accountant.settings
    phases, people = view.constants.guess.size, view.since.size
    caps = Caps(
        np.zeros(phases, np.int64), np.zeros(phases, np.bool_), np.zeros(phases), np.zeros(people, np.int64)
    )
    cap_everybody(
        view.population,
        view.constants,
        caps,
        settings.horizon,
        settings.mistakes,
        1.0 if limit.risk is None else limit.risk,
        1.0 if limit.added is None else limit.added,
        limit.habits_apart,
        limit.reserve if limit.in_hindsight else 0.0,
    )
    return caps


def _count_natural(accountant: ContinuousAccountant, caps: Caps) -> tuple[int, ...]:
    """People over the limit by habit alone, by the slot of the common cycle in which the horizon starts."""
    view = accountant.view()
    cycle = int(np.lcm.reduce(view.population.slots)) if view.since.size else 1
    begin, slots = view.constants.phase_start[:-1], view.population.slots
    return tuple(
        int(np.count_nonzero(caps.is_natural[begin + slot % slots])) if begin.size else 0
        for slot in range(cycle)
    )
