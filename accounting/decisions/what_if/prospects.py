"""What decisions look at: each person's coming horizons, with the limits that a risk budget sets on them.

Without a calendar all of it follows from the priors and is found once. With one, a stretch of time near a
change of clocks (:mod:`accounting.continuous.stretches`) has chains, constants and limits of its own, for as
many steps ahead as decisions look: a cycle of the person's, at least a day, at most a week. On holidays a
chain leaves the law of its cycle; then the limits are those of the laws that people really have.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from accounting.bounds.radius import budget_within
from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import (
    HISTORY,
    NOT_ALIKE,
    UNITS_PER_NAT,
    Accounts,
    Constants,
    Nonstationary,
    empty_constants,
    fill_constants,
    fill_horizons,
    fill_stretch,
)
from accounting.continuous.stretches import Stretch, changed_stretches
from accounting.decisions.what_if.limits_kernel import (
    UNLIMITED,
    Limits,
    Reserve,
    find_held_from,
    find_largest_guesses,
    find_reserve,
    set_limits,
)
from accounting.exceptions import SettingsError
from accounting.exposure.exposure import entropy_nats
from accounting.exposure.step_information import SensorInformation
from accounting.settings import RiskBudget
from models.calendar import DAY
from models.numerics.arrays import Flags, Floats, Integers
from models.priors import PopulationArrays
from models.priors.unrolled import carried_arrays


class Prospect(NamedTuple):
    """The chains, constants and limits of a stretch of time; ``information`` is of sensors in its slots."""

    stretch: Stretch
    population: PopulationArrays
    constants: Constants
    limits: Limits
    information: SensorInformation

    def accounts(self, running: Accounts) -> Accounts:
        """The running accounts with these chains and constants; their state is unchanged."""
        nonstationary = running.nonstationary
        if not self.population.initial.size:
            nonstationary = Nonstationary(*(np.empty(0) for _ in Nonstationary._fields))
        return running._replace(
            population=self.population,
            constants=self.constants,
            nonstationary=nonstationary,
            horizon=running.horizon._replace(first_slot=self.stretch.first_slot),
        )

    def natural(self, first: int, people: Integers) -> int:
        """How many are over the limit by habit alone in the horizon that starts with a step.

        ``people`` (A,) are those of each account.
        """
        begin = self.constants.phase_start[:-1]
        if not begin.size:
            return 0
        draws = begin.size // people.size
        rows = begin + (self.stretch.first_slot + first) % self.population.slots
        return int(np.repeat(people, draws)[self.limits.is_natural[rows]].sum()) // draws


class Prospects:
    """The prospects of an accountant's people under a risk budget, as time goes on."""

    def __init__(self, accountant: ContinuousAccountant, limit: RiskBudget) -> None:
        """:class:`~accounting.exceptions.SettingsError` for holidays under a limit in hindsight."""
        self._accountant, self._limit = accountant, limit
        calendar = accountant.settings.calendar
        has_holidays = calendar is not None and bool(calendar.holidays)
        if has_holidays and limit.in_hindsight:
            raise SettingsError(
                "a risk budget in hindsight must have no holidays",
                f"{len(calendar.holidays) if calendar else 0} dates",
                "leave hindsight out, or holidays",
            )
        self._priors = accountant.population.accounted.arrays
        starts_itself = np.flatnonzero(np.diff(self._priors.initial_start))
        self._carried = starts_itself if has_holidays else starts_itself[:0]
        self._started = starts_itself[:0] if has_holidays else starts_itself
        self._settled = self._with_settled_laws(accountant.settled_accounts())
        self._guesses = np.zeros(self._priors.slots.size)
        # Horizons that begin before the first step are held to the limits, too.
        self._held_from = np.full(self._priors.slots.size, np.iinfo(np.int64).min)
        longest = int(self._priors.slots.max(initial=1))
        self._limits = self._find_limits(
            self._settled, self._priors.slots.astype(np.int64), np.ones(longest, np.bool_), self._guesses
        )
        self._limits.is_changed[:] = False
        self._leave_out_what_was_told()
        self._reserve: Reserve | None = None
        if limit.in_hindsight:
            self._reserve = self._set_aside()
        self._keep_reserve(self._settled, self._limits)
        self._limits.later[:] = _tightest(self._settled, self._limits)
        information = SensorInformation(
            replace(accountant.population.accounted, arrays=self._settled.population)
        )
        start = Stretch(accountant.settings.first_slot)
        settled = self._settled.population, self._settled.constants, self._limits, information
        self._regular = self._now = Prospect(start, *settled)
        self.ahead = 0
        """Steps after the next one in which a prospect's slots follow the clock; meaningless without one."""
        if calendar is None:
            return
        day, week = (-(-days * DAY // calendar.step_seconds) for days in (1, 7))
        self._day = day
        self._cycle = np.maximum(np.minimum(self._priors.slots, week), day).astype(np.int64)
        self._cycle[(self._priors.slots == 1) & ~np.isin(np.arange(self._cycle.size), self._carried)] = 1
        self.ahead = HISTORY + max(day, int(self._cycle.max(initial=1))) + 1

    def of(self, step: int) -> Prospect:
        """The prospect before a step that is the accountant's next one."""
        settings = self._accountant.settings
        if settings.calendar is None:
            return self._regular
        stretch = Stretch.of(settings, step, self.ahead, is_carried=bool(self._carried.size))
        if stretch != self._now.stretch:
            is_regular = stretch.is_regular
            self._now = (
                self._regular._replace(stretch=stretch) if is_regular else self._unrolled(stretch, step)
            )
        return self._now

    def natural(self, people: Integers) -> tuple[int, ...]:
        """People over the limit by habit alone, by the horizon's first slot of the common cycle."""
        slots = self._settled.population.slots
        cycle = int(np.lcm.reduce(slots)) if slots.size else 1
        start = self._regular.stretch.first_slot
        return tuple(self._regular.natural(slot - start, people) for slot in range(cycle))

    def natural_ahead(self, step: int, people: Integers) -> tuple[int, ...]:
        """The same of the next day's horizons, if clocks are changed in one of them; else nothing."""
        calendar, horizon = self._accountant.settings.calendar, self._accountant.settings.horizon
        if calendar is None:
            return ()
        starts = range(step - horizon + 1, step + self._day)
        known = (calendar.regular_position(calendar.first_slot + first, horizon) for first in starts)
        if all(position is not None for position in known):
            return ()
        prospect = self.of(step)
        return tuple(prospect.natural(first, people) for first in starts)

    def is_unsettled(self, step: int) -> Flags:
        """Who starts from an initial distribution in a horizon that the step ends or in a later one, (N,)."""
        found = np.zeros(self._priors.slots.size, dtype=np.bool_)
        found[self._started] = True
        first = step - self._accountant.settings.horizon + 1
        found[self._carried] = self._settled.since[self._carried] > first
        # A place that was told is known to the fast bound alone, as long as refined bounds look back to it.
        return found | (self._accountant.is_told & (self._settled.since >= first - HISTORY))

    def _with_settled_laws(self, accounts: Accounts) -> Accounts:
        """The accounts without initial distributions, if laws are carried on from these."""
        if not self._carried.size:
            return accounts
        arrays = accounts.population._replace(
            initial_start=np.zeros_like(self._priors.initial_start), initial=np.empty(0)
        )
        copies: Any = (array.copy() for array in accounts.constants)
        accounts = accounts._replace(population=arrays, constants=Constants(*copies))
        fill_constants(accounts, self._carried, 0, True)
        return accounts

    def _leave_out_what_was_told(self) -> None:
        """Of people whose place was told: horizons that it alone puts over the limit, up to a cycle after."""
        people = np.flatnonzero(self._accountant.is_told)
        start, initial = self._priors.initial_start, self._priors.initial
        laws = (initial[start[person] : start[person + 1]] for person in people)
        told = np.array([entropy_nats(law) * UNITS_PER_NAT for law in laws])
        most = HISTORY + int(self._priors.slots.max(initial=1)) + 1
        if people.size:
            find_held_from(self._settled, self._limits, people, told, most)

    def _unrolled(self, stretch: Stretch, step: int) -> Prospect:
        """The prospect where each step has a slot of its own."""
        arrays, begin = stretch.arrays(self._priors), stretch.begin or 0
        like, first = np.array(stretch.like), stretch.first_start
        accounts = self._in_stretch(stretch, arrays)
        last = first + like.size
        if self._carried.size:
            running = self._accountant.view().accounts
            known = np.maximum(running.since, step - running.horizon.steps - HISTORY) - begin
            arrays = carried_arrays(arrays, running.nonstationary.earliest, known)
            accounts = accounts._replace(population=arrays)
            new = self._take_known(accounts.constants, stretch)
            fill_horizons(accounts, self._carried, new, last, begin)
        limits = self._limits_of(accounts, stretch, self._cycle)
        if self._carried.size:
            rows = accounts.constants.phase_start[self._carried, np.newaxis] + np.arange(step - begin, last)
            limits.later[self._carried] = _open_limits(accounts, limits)[rows].min(axis=1)
        information = SensorInformation(replace(self._accountant.population.accounted, arrays=arrays))
        return Prospect(stretch, arrays, accounts.constants, limits, information)

    def _take_known(self, constants: Constants, stretch: Stretch) -> int:
        """Copy what the last prospect knew of people with carried laws; returns the first slot left to find.

        A horizon's constants follow from its steps alone, so those of the last stretch are right in this one.
        """
        before, first = self._now.stretch, stretch.first_start
        shift = (stretch.begin or 0) - (before.begin or 0)
        known = before.first_start + len(before.like) - shift
        came = self._settled.since[self._carried].max()
        if before.is_regular or shift < 0 or known <= first or came >= (stretch.begin or 0) + known:
            return first
        shapes = (-1, before.steps), (-1, stretch.steps)
        for name in ("guess", "baseline", "entropy_units"):
            old = getattr(self._now.constants, name).reshape(shapes[0])
            found = getattr(constants, name).reshape(shapes[1])
            found[self._carried, first:known] = old[self._carried, first + shift : known + shift]
        return known

    def _in_stretch(self, stretch: Stretch, arrays: PopulationArrays) -> Accounts:
        """The accounts with the chains and constants of a stretch, except of people with carried laws."""
        horizon = self._settled.horizon._replace(first_slot=stretch.first_slot)
        accounts = self._settled._replace(
            population=arrays, constants=empty_constants(arrays), horizon=horizon
        )
        fill_stretch(accounts, self._settled.constants, stretch.first_start, np.array(stretch.like))
        return accounts

    def _limits_of(self, accounts: Accounts, stretch: Stretch, cycle: Integers) -> Limits:
        """The limits in a stretch where each step has a slot of its own."""
        is_changed = np.zeros(stretch.steps, dtype=np.bool_)
        is_changed[stretch.first_start : stretch.first_start + len(stretch.like)] = (
            np.array(stretch.like) == NOT_ALIKE
        )
        limits = self._find_limits(accounts, cycle, is_changed, self._guesses.copy())
        self._keep_reserve(accounts, limits)
        limits.later[:] = np.where(self._priors.slots > 1, self._limits.later, UNLIMITED)
        return limits

    def _find_limits(self, accounts: Accounts, cycle: Integers, is_changed: Flags, guesses: Floats) -> Limits:
        """Each person's limits on information under the limit on the risk within the settings' radius.

        ``guesses`` (N,) of people with an initial distribution are raised to those of the changed slots.
        """
        limit, within_nats = self._limit, self._accountant.settings.within_nats
        phases, people = accounts.constants.guess.size, accounts.since.size
        limits = Limits(
            np.zeros(phases, np.int64),
            np.zeros(phases, np.bool_),
            np.zeros(phases),
            np.zeros(people, np.int64),
            cycle,
            np.full(people, UNLIMITED),
            is_changed,
            self._held_from,
        )
        lowered = budget_within(within_nats, limit)
        risk, habitual_risk, added = (
            1.0 if level is None else float(level) for level in (lowered.risk, limit.risk, limit.added)
        )
        if self._started.size:
            find_largest_guesses(accounts.population, self._started, accounts.horizon, is_changed, guesses)
        draws = self._accountant.population.draws
        set_limits(accounts, limits, risk, habitual_risk, added, limit.habits_apart, guesses, draws)
        return limits

    def _set_aside(self) -> Reserve:
        """What a limit in hindsight keeps for later steps, whatever the clock does in them."""
        settings, people = self._accountant.settings, self._settled.since.size
        tightest, repeated = np.full(people, UNLIMITED), 0
        if settings.calendar is not None:
            repeated = settings.calendar.most_repeated
            for stretch in changed_stretches(settings, np.unique(self._priors.slots).tolist()):
                accounts = self._in_stretch(stretch, stretch.arrays(self._priors))
                limits = self._limits_of(accounts, stretch, self._limits.ahead)
                changed = limits.information.reshape(people, stretch.steps)[:, limits.is_changed]
                tightest = np.minimum(tightest, changed.min(axis=1, initial=UNLIMITED))
        reserve = Reserve(np.zeros(people, np.int64), np.zeros(people, np.int64))
        share = float(self._limit.reserve)
        find_reserve(self._settled, self._limits, tightest, repeated, share, reserve)
        return reserve

    def _keep_reserve(self, accounts: Accounts, limits: Limits) -> None:
        """Take off the limits what is set aside in hindsight."""
        if self._reserve is not None:
            phases = np.diff(accounts.constants.phase_start)
            is_limited = limits.information < UNLIMITED
            limits.information[is_limited] -= np.repeat(self._reserve.horizon, phases)[is_limited]
            limits.step[:] = self._reserve.step


def _open_limits(accounts: Accounts, limits: Limits) -> Integers:
    """The limits on information of the horizons in which as much can be revealed, (phases,)."""
    is_open = accounts.constants.entropy_units > limits.information
    return np.where(is_open, limits.information, UNLIMITED)


def _tightest(accounts: Accounts, limits: Limits) -> Integers:
    """The least of each person's :func:`_open_limits`, (N,)."""
    begin = accounts.constants.phase_start[:-1]
    return np.minimum.reduceat(_open_limits(accounts, limits), begin) if begin.size else begin
