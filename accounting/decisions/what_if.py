"""What-if questions about the next step for all people of an accountant, without accounting anything.

Each person's room (:mod:`accounting.kernels.rooms`) is found once a step. A candidate then costs one look at
the step's information about those people whom some candidate could put over the limit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.decisions.limit import RiskLimit
from accounting.decisions.tally import Tally
from accounting.kernels.caps import Caps, cap_everybody
from accounting.kernels.rooms import Rooms, find_rooms
from accounting.kernels.step_terms import StepView
from accounting.kernels.what_if import count_reaches, find_excess
from accounting.observation import observe
from accounting.step_view import step_view
from models.mechanisms import Raw
from models.schedule import SensorRelease, StepSchedule
from models.sensors import Sensor

_MARGIN_UNITS = 64  # entropies of finer and coarser outcomes may round differently by a few units


class WhatIf:
    """Who would be over a risk limit, for the people of one accountant.

    Caps follow from the priors and are computed once. With a limit in hindsight, whoever was over once stays
    over, since later releases reach back; tell every accounted step by :meth:`note` before it is applied.
    """

    def __init__(self, accountant: ContinuousAccountant, limit: RiskLimit) -> None:
        self._accountant = accountant
        self.limit = limit
        self._caps = compute_caps(accountant, limit)
        self._natural = _count_natural(accountant, self._caps)
        self._was_over = np.zeros(len(accountant.population), dtype=np.bool_)

    @property
    def people(self) -> int:
        """Number of people."""
        return self._was_over.size

    @property
    def next_step_number(self) -> int:
        """The step that questions are about: the one to be accounted next."""
        return self._accountant.next_step

    def next_step(self, sensors: Sequence[Sensor], coming: Sequence[Sequence[Sensor]] = ()) -> NextStep:
        """Open questions about the next step, in which these sensors may be released.

        ``coming`` are the announced sensors of the steps after it among which each person's room is to be
        spread evenly; empty for first come, first served.
        """
        return NextStep(self._accountant, self._caps, self._natural, self._was_over, sensors, coming)

    def note(self, step: StepSchedule) -> None:
        """The step that will be accounted next; only needed for a limit in hindsight."""
        if self.limit.in_hindsight:
            sensors = [release.sensor for release in step.releases]
            self._was_over |= self.next_step(sensors).is_over(step)


class NextStep:
    """Questions about one step; the accountant must not move on while they are asked."""

    def __init__(
        self,
        accountant: ContinuousAccountant,
        caps: Caps,
        natural: tuple[int, ...],
        was_over: NDArray[np.bool_],
        sensors: Sequence[Sensor],
        coming: Sequence[Sequence[Sensor]],
    ) -> None:
        self._view = accountant.view()
        self._settings = accountant.settings
        self._step = accountant.next_step
        self._natural = natural
        first = self._settings.first_slot + self._step - self._settings.horizon + 1
        self._natural_now = natural[first % len(natural)]
        self._locations = accountant.population.location_count
        self._rooms = self._find_rooms(caps)
        self._over_anyway = was_over | self._rooms.is_quiet_over
        self._shares = self._count_steps(sensors, coming)
        concerned = np.flatnonzero((self._shares > 0) & ~self._over_anyway)
        at_most = self._excess(
            self._all_raw(sensors), concerned, self._view.step_before._replace(is_raw=False)
        )
        self._contested = concerned[at_most > -_MARGIN_UNITS]

    def tally(self, candidates: Sequence[StepSchedule]) -> Tally:
        """How many people each candidate would put over the limit."""
        anyway = int(np.count_nonzero(self._over_anyway))
        over = tuple(anyway + int(np.count_nonzero(self._excess_of(step) > 0)) for step in candidates)
        return Tally(self._over_anyway.size, self._natural_now, self._natural, over, (0,) * len(over))

    def is_over(self, step: StepSchedule) -> NDArray[np.bool_]:
        """Who would be over the limit, (N,), because of this step or anyway."""
        over = self._over_anyway.copy()
        over[self._contested[self._excess_of(step) > 0]] = True
        return over

    def _excess_of(self, step: StepSchedule) -> NDArray[np.int64]:
        return self._excess(self._step_view(step), self._contested, self._view.step_before)

    def _excess(self, step: StepView, people: NDArray[np.int64], step_before: StepView) -> NDArray[np.int64]:
        view, excess = self._view, np.zeros(people.size, dtype=np.int64)
        find_excess(
            view.population,
            view.own,
            self._rooms,
            view.since,
            people,
            self._shares[people],
            self._settings.first_slot,
            self._step,
            step_before,
            step,
            view.most_places,
            excess,
        )
        return excess

    def _find_rooms(self, caps: Caps) -> Rooms:
        view, people = self._view, caps.step.size
        rooms = Rooms(np.empty(people, np.int64), np.empty(people, np.int64), np.empty(people, np.bool_))
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

    def _count_steps(
        self, sensors: Sequence[Sensor], coming: Sequence[Sequence[Sensor]]
    ) -> NDArray[np.int64]:
        """In how many of the steps each person can be counted, (N,); 0 for those whom this step cannot."""
        now, later = (np.zeros(self._over_anyway.size, dtype=np.int64) for _ in range(2))
        count_reaches(self._view.population, self._all_raw(sensors).labels[np.newaxis], now)
        if coming:
            labels = np.stack([self._all_raw(announced).labels for announced in coming])
            count_reaches(self._view.population, labels, later)
        return np.where(now > 0, now + later, 0)

    def _all_raw(self, sensors: Sequence[Sensor]) -> StepView:
        raw = tuple(SensorRelease(sensor, Raw()) for sensor in sensors)
        return self._step_view(StepSchedule(self._step, raw))

    def _step_view(self, step: StepSchedule) -> StepView:
        return step_view(observe(step, self._locations))


def compute_caps(accountant: ContinuousAccountant, limit: RiskLimit) -> Caps:
    """Everybody's limits on information under a limit on risk."""
    view, settings = accountant.view(), accountant.settings
    phases, people = view.constants.guess.size, view.since.size
    caps = Caps(np.zeros(phases, np.int64), np.zeros(phases, np.bool_), np.zeros(people, np.int64))
    cap_everybody(
        view.population,
        view.constants,
        caps,
        settings.horizon,
        settings.mistakes,
        1.0 if limit.risk is None else limit.risk,
        1.0 if limit.added is None else limit.added,
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
